"""Folders with waivers and signatures: valid ones, and ones with exactly one thing wrong.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules. Keys are fixed, and used nowhere else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness.certifying.sign import Signer, sign_folder
from harness.wire import sshsig
from harness.wire.allowed_signers import parse_signers, parse_time
from harness.wire.sha256 import Digested
from harness.wire.signed_documents import Keyring, signed_bytes
from tests.gating.fixtures import (
    VALID,
    add_event,
    fixture,
    ids,
    only,
    rewrite,
    the_event,
    valid,
    valid_ledger,
    valid_stop,
)

DAY = "2026-06-01"
LAST = "2026-12-31"


def signer(number: int = 1) -> Signer:
    private = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)

    def sign(message: bytes, namespace: str) -> bytes:
        return sshsig.sign(message, namespace, private)

    return Signer(public_key=private.public_key().public_bytes_raw(), sign=sign)


def keyring(options: str = "", *, revoked: frozenset[bytes] = frozenset()) -> Keyring:
    """One allowed signer: the first key."""
    line = f"lab-a {options} {sshsig.key_text(signer().public_key)}\n"
    return Keyring(
        signers=parse_signers(line.encode(), "allowed_signers"), at=parse_time("20260601000000Z"), revoked=revoked
    )


def signed() -> dict[str, Any]:
    return {"keyring": keyring()}


def all_signed() -> dict[str, Any]:
    return {"keyring": keyring(), "require_signatures": True}


def revoked() -> dict[str, Any]:
    return {"keyring": keyring(revoked=frozenset({signer().public_key}))}


def demonstrated() -> dict[str, Any]:
    line = f"demonstration {sshsig.key_text(signer().public_key)}\n"
    signers = parse_signers(line.encode(), "allowed_signers")
    return {"keyring": Keyring(signers=signers, at=parse_time("20260601000000Z"), demonstration=False)}


def expired() -> dict[str, Any]:
    return {"keyring": keyring('valid-before="20260501000000Z"')}


def on_a_day() -> dict[str, Any]:
    return {"day": DAY}


def waive(folder: Path, rule: str = "CG010", **fields: Any) -> None:
    add_event(folder, kind="waive", target=ids(folder)[0], rule=rule, **fields)


# -- valid folders -----------------------------------------------------------------------------


def valid_signed(folder: Path) -> None:
    """Certificates and events, each with a signature that counts."""
    valid_ledger(folder)
    sign_folder(folder, signer())


def valid_waived(folder: Path) -> None:
    """A stop that is accepted for a while."""
    valid_stop(folder)
    waive(folder, until=LAST)


VALID.update(valid_signed=valid_signed, valid_waived=valid_waived)


# -- CG003 -------------------------------------------------------------------------------------


@fixture("CG003", "CG010", require_pass=True, options=on_a_day)
def waiver_ended(folder: Path) -> None:
    valid_stop(folder)
    waive(folder, until="2026-05-31")


# -- CG901 -------------------------------------------------------------------------------------


@fixture("CG901", options=signed)
def signature_of_changed_bytes(folder: Path) -> None:
    """The signature of another certificate."""
    valid_signed(folder)
    first, second, *_ = sorted(folder.glob("T*/*/*/*.json.sig"))
    first.write_bytes(second.read_bytes())


@fixture("CG901", "CG201", "CG301", "CG502", options=signed)
def signature_of_the_id_in_the_name(folder: Path) -> None:
    """Over the digest that the file's name still tells, which is not that of its body any more."""
    valid(folder)
    sign_folder(folder, signer())
    rewrite(only(folder), b'"version": "1.0"', b'"version": "1.1"')


@fixture("CG901", "CG201", "CG501", "CG502", options=signed)
def signature_of_the_event_in_the_name(folder: Path) -> None:
    valid_signed(folder)
    rewrite(the_event(folder), b"rerun_same_inputs", b"measurement_invalid")


@fixture("CG901", options=signed)
def signature_over_another_hash(folder: Path) -> None:
    """It says sha256, and the key signed the digest of SHA-512."""
    valid(folder)
    sign_folder(folder, signer())
    private = Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32)
    message, namespace = signed_bytes(only(folder).relative_to(folder).as_posix(), only(folder).read_bytes())
    made = sshsig.Signature(
        public_key=signer().public_key,
        namespace=namespace,
        signature=private.sign(sshsig.signed_blob(Digested(message), namespace, "sha512")),
        algorithm="sha256",
    )
    only(folder).with_name(only(folder).name + ".sig").write_bytes(sshsig.armor(made))


@fixture("CG901", options=signed)
def signature_of_unknown_key(folder: Path) -> None:
    valid(folder)
    sign_folder(folder, signer(2))


@fixture("CG901", options=revoked)
def signature_revoked(folder: Path) -> None:
    valid(folder)
    sign_folder(folder, signer())


@fixture("CG901", options=expired)
def signature_expired(folder: Path) -> None:
    valid(folder)
    sign_folder(folder, signer())


@fixture("CG901", options=all_signed)
def signature_missing(folder: Path) -> None:
    valid_signed(folder)
    path = sorted(folder.glob("ledger/*/*.sig"))[0]
    path.unlink()


@fixture("CG901", options=demonstrated)
def signature_of_a_demonstration(folder: Path) -> None:
    """By a key that vouches for nobody, where the policy refuses such keys."""
    valid_signed(folder)


def the_only(folder: Path) -> str:
    """Place of the only certificate, as findings have it."""
    return str(only(folder))
