"""Checking signatures: at most 150 microseconds each over certificates of 29 KB, and no process per file.

The goal is a time and not a ratio, so its reference is a clock: a case that waits 150 microseconds per signature. Asked
twice: of the check alone, from the signature's file on, and of a whole gate, with signatures and without.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.bench_many import folder_of, rules
from benchmarks.runner import Goal, Group, main
from harness.certifying.sign import Signer, sign_folder
from harness.gating.gate import gate
from harness.wire import curve, sshsig
from harness.wire.allowed_signers import parse_signers
from harness.wire.sha256 import Digested
from harness.wire.signed_documents import EVENT_NAMESPACE, Keyring, check_beside

BODY_BYTES = 29_000
BODIES = 32
"""Different ones: whoever checks a signature has made the canonical bytes just before, so they lie in a cache."""
ALLOWED_S = 150e-6
AT = 1_780_315_200
ALLOWED = "150 microseconds each"


def clock(count: int) -> None:
    """The time that is allowed, as processor time: on a busy machine the others are slowed down alike."""
    until = time.thread_time() + ALLOWED_S * count
    while time.thread_time() < until:
        pass


class Signatures:
    """Messages of random bytes, signed by one key, in memory and on disk."""

    def __init__(self, count: int) -> None:
        self.private = Ed25519PrivateKey.generate()
        self.public = self.private.public_key()
        bodies = [Digested(os.urandom(BODY_BYTES)) for _ in range(min(count, BODIES))]
        self.messages = [bodies[number % BODIES] for number in range(count)]
        self.data = [sshsig.sign(message.data, EVENT_NAMESPACE, self.private) for message in self.messages]
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
        """The time that is allowed."""
        clock(len(self.messages))
        return len(self.messages)

    def checked(self) -> int:
        """Read the signature's file, parse, curve, look up the key; the digest is the id, which is there already."""
        root = str(self.folder)
        found = (
            check_beside(root, str(number), message, EVENT_NAMESPACE, self.keyring)
            for number, message in enumerate(self.messages)
        )
        return sum(one.reason is None for one in found)

    def curve_alone(self) -> int:
        """The curve as the product has it."""
        return sum(map(curve.is_valid, self.checks))

    def openssl_alone(self) -> int:
        """The curve as OpenSSL has it, which raises where a signature does not fit."""
        for _, signature, blob in self.checks:
            self.public.verify(signature, blob)
        return len(self.checks)

    def hash_alone(self) -> int:
        """What the id's digest spares: SHA-512 of the message, which ``ssh-keygen`` takes by default."""
        return sum(len(hashlib.sha512(message.data).digest()) == 64 for message in self.messages)

    def processes(self) -> int:
        """ssh-keygen, once per file."""
        good = 0
        for number, message in enumerate(self.messages):
            command = ["ssh-keygen", "-Y", "verify", "-f", str(self.folder / "signers"), "-I", "lab-a"]
            command += ["-n", EVENT_NAMESPACE, "-s", str(self.folder / f"{number}.sig")]
            good += subprocess.run(command, input=message.data, capture_output=True, check=False).returncode == 0
        return good


def all_of(count: int) -> Callable[[Mapping[str, object]], None]:
    def check(results: Mapping[str, object]) -> None:
        for case, found in results.items():
            if found != count:
                raise AssertionError(f"{case} accepted {found} of {count}")

    return check


def gate_group(count: int) -> Group:
    """What signatures add to a gate: it may take as long as one without them and the time that is allowed."""
    folder = folder_of(count)
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    sign_folder(
        folder,
        Signer(public_key=public, sign=lambda message, namespace: sshsig.sign(message, namespace, private)),
    )
    signers = parse_signers(f"lab-a {sshsig.key_text(public)}\n".encode(), "signers")
    keyring = Keyring(signers=signers, at=AT)

    def plain() -> int:
        return _certificates(folder)

    def plain_and_clock() -> int:
        clock(count)
        return _certificates(folder)

    def signed() -> int:
        return _certificates(folder, keyring)

    return Group(
        title=f"gate of {count} certificates of 29 KB",
        cases={
            f"gate without signatures, and {ALLOWED}": plain_and_clock,
            "gate without signatures": plain,
            "gate, signatures required": signed,
        },
        reference=f"gate without signatures, and {ALLOWED}",
        goals=[Goal(case="gate, signatures required", time_at_most=1.0)],
        check=all_of(count),
    )


def _certificates(folder: Path, keyring: Keyring | None = None) -> int:
    report = gate(
        [folder],
        keyring=keyring,
        require_signatures=keyring is not None,
        rules=rules(signed=keyring is not None),
    )
    return report.certificates if int(report.exit_code) == 0 else 0


def groups(*, quick: bool) -> Sequence[Group]:
    count, few = (1000, 5) if quick else (5000, 40)
    many, some = Signatures(count), Signatures(few)
    return [
        Group(
            title=f"{count} signatures over {BODY_BYTES} bytes each",
            cases={
                ALLOWED: many.clock,
                "SHA-512 alone": many.hash_alone,
                "the curve alone": many.curve_alone,
                "the curve alone, by OpenSSL": many.openssl_alone,
                "signatures from disk, checked": many.checked,
            },
            reference=ALLOWED,
            goals=[Goal(case="signatures from disk, checked", time_at_most=1.0)],
            size=count * BODY_BYTES,
            check=all_of(count),
        ),
        gate_group(100 if quick else 1000),
        Group(
            title=f"{few} signatures",
            cases={"ssh-keygen per file": some.processes, "signatures from disk, checked": some.checked},
            reference="ssh-keygen per file",
            goals=[Goal(case="signatures from disk, checked", speed_at_least=10)],
            check=all_of(few),
        ),
    ]


if __name__ == "__main__":
    sys.exit(main(groups))
