"""Checking signatures: at most 150 microseconds each over certificates of 29 KB, and no process per file.

The goal is a time and not a ratio, so its reference is a clock: a case that waits 150 microseconds per signature.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.runner import Goal, Group, main
from harness.wire import curve, sshsig
from harness.wire.allowed_signers import parse_signers
from harness.wire.signed_documents import EVENT_NAMESPACE, Keyring, check_signature, prepare, settle

BODY_BYTES = 29_000
BODIES = 32
"""Different ones: whoever checks a signature has made the canonical bytes just before, so they lie in a cache."""
ALLOWED_S = 150e-6
AT = 1_780_315_200
ALLOWED = "150 microseconds each"


class Signatures:
    """Messages of random bytes, signed by one key, in memory and on disk."""

    def __init__(self, count: int) -> None:
        self.private = Ed25519PrivateKey.generate()
        self.public = self.private.public_key()
        bodies = [os.urandom(BODY_BYTES) for _ in range(min(count, BODIES))]
        self.messages = [bodies[number % BODIES] for number in range(count)]
        self.data = [sshsig.sign(message, EVENT_NAMESPACE, self.private) for message in self.messages]
        self.checks = [
            (
                self.public.public_bytes_raw(),
                sshsig.parse(data, "a").signature,
                sshsig.signed_blob(message, EVENT_NAMESPACE),
            )
            for message, data in zip(self.messages, self.data, strict=True)
        ]
        text = f'lab-a namespaces="statecert/*" {sshsig.key_text(self.public.public_bytes_raw())}\n'
        self.signers = text.encode()
        self.keyring = Keyring(signers=parse_signers(self.signers, "signers"), at=AT)
        self.folder = Path(tempfile.mkdtemp(prefix="statecert-bench-"))
        for number, data in enumerate(self.data):
            (self.folder / f"{number}.sig").write_bytes(data)
        (self.folder / "signers").write_bytes(self.signers)

    def clock(self) -> int:
        """The time that is allowed, as processor time: on a busy machine the others are slowed down alike."""
        until = time.thread_time() + ALLOWED_S * len(self.messages)
        while time.thread_time() < until:
            pass
        return len(self.messages)

    def one_by_one(self) -> int:
        """Parse, hash, curve, look up the key, all in this process."""
        pairs = zip(self.messages, self.data, strict=True)
        return sum(
            check_signature(message, data, EVENT_NAMESPACE, self.keyring).reason is None for message, data in pairs
        )

    def batch(self) -> int:
        """The same, with signatures read from disk, and the curve shared with helpers."""
        read = ((self.folder / f"{number}.sig").read_bytes() for number in range(len(self.messages)))
        pairs = zip(self.messages, read, strict=True)
        prepared = (prepare(message, data, EVENT_NAMESPACE) for message, data in pairs)
        return sum(one.reason is None for one in settle(prepared, self.keyring, count=len(self.messages)))

    def curve_alone(self) -> int:
        """What no program of this library can go below in one process."""
        return sum(map(curve.is_valid, self.checks))

    def processes(self) -> int:
        """ssh-keygen, once per file."""
        good = 0
        for number, message in enumerate(self.messages):
            command = ["ssh-keygen", "-Y", "verify", "-f", str(self.folder / "signers"), "-I", "lab-a"]
            command += ["-n", EVENT_NAMESPACE, "-s", str(self.folder / f"{number}.sig")]
            good += subprocess.run(command, input=message, capture_output=True, check=False).returncode == 0
        return good


def all_of(count: int) -> Callable[[Mapping[str, object]], None]:
    def check(results: Mapping[str, object]) -> None:
        for case, found in results.items():
            if found != count:
                raise AssertionError(f"{case} accepted {found} of {count}")

    return check


def groups(*, quick: bool) -> Sequence[Group]:
    count, few = (1000, 5) if quick else (5000, 40)
    many, some = Signatures(count), Signatures(few)
    return [
        Group(
            title=f"{count} signatures over {BODY_BYTES} bytes each",
            cases={
                ALLOWED: many.clock,
                "the curve alone, one process": many.curve_alone,
                "one by one, one process": many.one_by_one,
                "batch, signatures from disk": many.batch,
            },
            reference=ALLOWED,
            goals=[Goal(case="batch, signatures from disk", time_at_most=1.0)],
            size=count * BODY_BYTES,
            check=all_of(count),
        ),
        Group(
            title=f"{few} signatures",
            cases={"ssh-keygen per file": some.processes, "batch, signatures from disk": some.batch},
            reference="ssh-keygen per file",
            goals=[Goal(case="batch, signatures from disk", speed_at_least=10)],
            check=all_of(few),
        ),
    ]


if __name__ == "__main__":
    sys.exit(main(groups))
