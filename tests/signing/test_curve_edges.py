"""Signatures that verifiers disagree about, computed here: what is accepted, ssh-keygen and OpenSSL accept too.

The reverse does not hold, and must not: they take a signature for good whose key has small order, so that it fits any
message, and ssh-keygen takes a second spelling of each signature, with the order of the curve added to its S.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from harness.wire import curve, sshsig
from harness.wire.sha256 import Digested
from tests.signing.ed25519 import BASE, ORDER, SMALL, Pair, challenge
from tests.signing.support import NAMESPACE, oracle_accepts

SECRET, NONCE = 123456789123456789, 987654321987654321


class Edge(NamedTuple):
    """One signature, and whether it should be accepted here."""

    name: str
    key: bytes
    signature: bytes
    message: bytes
    accepted: bool


def blob(message: bytes) -> bytes:
    return sshsig.signed_blob(Digested(message), NAMESPACE)


def pair(key_torsion: int = 0, r_torsion: int = 0) -> Pair:
    key = BASE.times(SECRET) + SMALL.times(key_torsion)
    r = BASE.times(NONCE) + SMALL.times(r_torsion)
    return Pair(SECRET, NONCE, key.encoded(), r.encoded())


def edge(name: str, made: Pair, message: bytes, s: int, *, accepted: bool = False) -> Edge:
    return Edge(name, made.key, made.r + s.to_bytes(32, "little"), message, accepted)


def spellings_of_s() -> Iterator[Edge]:
    made = pair()
    s = made.s(blob(b"m"))
    yield edge("honest", made, b"m", s, accepted=True)
    yield edge("another message", made, b"n", s)
    yield edge("S and the order", made, b"m", s + ORDER)
    for times in (2, 8, 15):
        yield edge(f"S and {times} orders", made, b"m", s + times * ORDER)
    for bit in (253, 254, 255):
        yield edge(f"S with bit {bit}", made, b"m", s | 1 << bit)
    yield edge("S is zero", made, b"m", 0)
    yield edge("S is the order", made, b"m", ORDER)


def something_small_added() -> Iterator[Edge]:
    for torsion in range(1, 8):
        made = pair(r_torsion=torsion)
        yield edge(f"R and small {torsion}", made, b"m", made.s(blob(b"m")))
    for torsion in (1, 2, 4):
        made = pair(key_torsion=torsion)
        for fits in (True, False):
            found = (n for n in count() if (challenge(made.r, made.key, blob(b"%d" % n)) * torsion % 8 == 0) is fits)
            message = b"%d" % next(found)
            name = f"key and small {torsion}, {'cancelled' if fits else 'left over'}"
            yield edge(name, made, message, made.s(blob(message)), accepted=fits)
    made = pair(1, 1)
    message = next(b"%d" % n for n in count() if (1 + challenge(made.r, made.key, blob(b"%d" % n))) % 8 == 0)
    yield edge("both and small 1, cancelled", made, message, made.s(blob(message)), accepted=True)


def nothing_but_small() -> Iterator[Edge]:
    neutral = BASE.times(ORDER).encoded()
    for torsion in range(8):
        for number, key in enumerate(SMALL.times(torsion).encodings()):
            for r, s in ((neutral, 0), (BASE.times(NONCE).encoded(), NONCE)):
                made = Pair(0, s, key, r)
                message = next(b"%d" % n for n in count() if challenge(r, key, blob(b"%d" % n)) * torsion % 8 == 0)
                yield edge(f"key of small {torsion}, spelling {number}, S {s and 1}", made, message, s)
        for number, r in enumerate(SMALL.times(torsion).encodings()):
            made = Pair(SECRET, 0, BASE.times(SECRET).encoded(), r)
            yield edge(f"R of small {torsion}, spelling {number}", made, b"m", made.s(blob(b"m")))
    yield edge("R of zeros", Pair(0, 0, BASE.times(SECRET).encoded(), bytes(32)), b"m", 0)
    yield edge("all zeros", Pair(0, 0, bytes(32), bytes(32)), b"m", 0)


EDGES = [*spellings_of_s(), *something_small_added(), *nothing_but_small()]


def openssl_accepts(one: Edge) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(one.key).verify(one.signature, blob(one.message))
    except (InvalidSignature, ValueError):
        return False
    return True


@pytest.mark.parametrize("one", EDGES, ids=lambda one: one.name)
def test_nobody_else_refuses_what_is_accepted(one: Edge, tmp_path: Path) -> None:
    signature = sshsig.Signature(public_key=one.key, namespace=NAMESPACE, signature=one.signature)
    signers = f"lab-a {sshsig.key_text(one.key)}\n"

    accepted = curve.is_valid((one.key, one.signature, blob(one.message)))

    assert accepted is one.accepted
    if accepted:
        assert openssl_accepts(one)
        assert oracle_accepts(tmp_path, signers, sshsig.armor(signature), one.message)


def test_the_table_holds_what_others_accept_and_ours_must_not(tmp_path: Path) -> None:
    """Else the edges would say nothing: the arithmetic that makes them could be wrong."""
    by_openssl = [one.name for one in EDGES if openssl_accepts(one) and not one.accepted]

    assert len(by_openssl) == 29
    assert all("small" in name for name in by_openssl)
