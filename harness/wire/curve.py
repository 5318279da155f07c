"""Ed25519 over many small messages: shared among a few helper processes once that pays.

The curve takes most of the time of a signature (about 120 of 165 microseconds over a body of 29 KB), and the library
holds the interpreter's lock meanwhile, so threads do not help. What is handed over are the 180 bytes that SSHSIG signs,
never documents. A helper that does not answer as it should is not believed: its share is computed here.

As a program this module is such a helper: checks on standard input, one byte of answer for each on standard output.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Check = tuple[bytes, bytes, bytes]
"""Public key (32 bytes), signature (64 bytes), message."""

LEAST_SHARED: Final = 1000
"""Checks from which on helpers are started; below, their start takes longer than they save."""
MOST_HELPERS: Final = 7

_CURVE, _CURVE_AND_REST = 2, 3
"""Times of the curve alone, and of the curve with what comes before it: so that all are done at once."""
_RECORD: Final = struct.Struct(">32s64sI")
_PATIENCE_S: Final = 120
_YES, _NO = b"\x01", b"\x00"


def is_valid(check: Check) -> bool:
    """Tell whether a signature fits its key and message."""
    public_key, signature, message = check
    try:
        _public_key(public_key).verify(signature, message)
    except _refusals():
        return False
    return True


def are_valid(checks: Iterable[Check], helpers: int | None = None, *, count: int) -> list[bool]:
    """Return the answer to each check, in their order.

    A helper starts as soon as its share is there. What makes the checks goes on meanwhile: reading and hashing what was
    signed takes half as long as the curve.

    Args:
        checks: What to check; better made while it is asked for than before.
        helpers: How many processes help; by default as many as there are other processors, if there is enough to do.
        count: How many checks come, about.
    """
    if helpers is None:
        helpers = min(_processors() - 1, MOST_HELPERS) if count >= LEAST_SHARED else 0
    share = -(-count * _CURVE_AND_REST // (_CURVE_AND_REST * helpers + _CURVE))
    made = iter(checks)
    started: list[tuple[subprocess.Popen[bytes], list[Check]]] = []
    try:
        parts = (list(islice(made, share)) for _ in range(helpers))
        started.extend((_start(part), part) for part in parts if part)
        own = [is_valid(check) for check in made]
    except BaseException:
        for helper, _ in started:
            helper.kill()
            helper.communicate()
        raise
    return [answer for helper, part in started for answer in _answers(helper, part)] + own


def _start(checks: Sequence[Check]) -> subprocess.Popen[bytes]:
    """Start a helper on its share. It imports nothing from the current folder, and needs nobody to feed it."""
    command = [sys.executable, "-P", "-m", "harness.wire.curve"]
    with tempfile.TemporaryFile() as share:
        share.write(b"".join(map(_record, checks)))
        share.seek(0)
        return subprocess.Popen(command, stdin=share, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _answers(helper: subprocess.Popen[bytes], checks: Sequence[Check]) -> list[bool]:
    try:
        answers, _ = helper.communicate(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        helper.kill()
        helper.communicate()
        answers = b""
    if helper.returncode or len(answers) != len(checks) or answers.strip(_YES + _NO):
        return [is_valid(check) for check in checks]
    return [answer == _YES[0] for answer in answers]


def _record(check: Check) -> bytes:
    public_key, signature, message = check
    return _RECORD.pack(public_key, signature, len(message)) + message


def _records(data: bytes) -> Iterator[Check]:
    at = 0
    while at < len(data):
        public_key, signature, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size + length
        yield public_key, signature, data[at - length : at]


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _refusals() -> tuple[type[Exception], ...]:
    from cryptography.exceptions import InvalidSignature

    return (InvalidSignature, ValueError)


@lru_cache(maxsize=256)
def _public_key(public_key: bytes) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(public_key)


if __name__ == "__main__":
    sys.stdout.buffer.write(b"".join(_YES if is_valid(one) else _NO for one in _records(sys.stdin.buffer.read())))
