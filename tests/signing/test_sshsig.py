"""The signature file: the same bytes as ssh-keygen's, one spelling, and nothing else accepted."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.certifying.sign import key_signer, load_private_key
from harness.errors import InvalidDocumentError
from harness.wire import sshsig
from tests.signing.support import NAMESPACE, make_key, oracle_accepts, oracle_sign, public

MESSAGE = b'{"kind":"withdraw"}'


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_key(tmp_path_factory.mktemp("key"))


@pytest.fixture(scope="module")
def signature(key: Path) -> bytes:
    return key_signer(key).sign(MESSAGE, NAMESPACE)


@pytest.mark.parametrize("message", [b"", MESSAGE, bytes(range(256)) * 300])
def test_signatures_are_those_of_ssh_keygen(key: Path, message: bytes) -> None:
    assert key_signer(key).sign(message, NAMESPACE) == oracle_sign(key, message)


def test_what_ssh_keygen_signs_is_read_and_the_reverse(key: Path, tmp_path: Path, signature: bytes) -> None:
    found = sshsig.parse(oracle_sign(key, MESSAGE), "a.sig")

    assert found.namespace == NAMESPACE
    assert sshsig.key_text(found.public_key) == public(key)
    assert sshsig.is_valid(found, MESSAGE)
    assert not sshsig.is_valid(found, MESSAGE + b" ")
    assert oracle_accepts(tmp_path, f"lab-a {public(key)}\n", signature, MESSAGE)


def test_fingerprints_are_those_of_ssh_keygen(key: Path) -> None:
    import subprocess

    shown = subprocess.run(["ssh-keygen", "-l", "-f", str(key)], check=True, capture_output=True, text=True).stdout
    assert sshsig.fingerprint(load_private_key(key).public_key().public_bytes_raw()) in shown


def test_every_changed_byte_is_refused(signature: bytes) -> None:
    """In the blob: refused while parsing, or another key, namespace or signature, under which nothing verifies."""
    blob = base64.b64decode(b"".join(signature.split(b"\n")[1:-2]))
    for at in range(len(blob)):
        changed = bytearray(blob)
        changed[at] ^= 1
        try:
            found = sshsig.parse(armored(bytes(changed)), "a.sig")
        except InvalidDocumentError:
            continue
        assert not sshsig.is_valid(found, MESSAGE)


def armored(blob: bytes) -> bytes:
    text = base64.b64encode(blob)
    lines = b"".join(text[at : at + 70] + b"\n" for at in range(0, len(text), 70))
    return b"-----BEGIN SSH SIGNATURE-----\n" + lines + b"-----END SSH SIGNATURE-----\n"


def test_another_spelling_is_refused(signature: bytes) -> None:
    for other in (
        signature[:-1],
        signature + b"\n",
        b"\n" + signature,
        signature.replace(b"\n", b"\r\n"),
        signature.replace(b"SIGNATURE-----\n", b"SIGNATURE-----\n\n", 1),
        signature.replace(b"-----BEGIN", b"----- BEGIN"),
        b"",
        signature + b"x" * 2000,
    ):
        with pytest.raises(InvalidDocumentError):
            sshsig.parse(other, "a.sig")


def test_other_hashes_key_types_reserved_bytes_and_versions_are_refused(
    key: Path, tmp_path: Path, signature: bytes
) -> None:
    with pytest.raises(InvalidDocumentError, match="sha256"):
        sshsig.parse(oracle_sign(key, MESSAGE, NAMESPACE, "-O", "hashalg=sha256"), "a.sig")
    with pytest.raises(InvalidDocumentError, match="not ssh-ed25519"):
        sshsig.parse(oracle_sign(make_key(tmp_path, "ec", kind="ecdsa"), MESSAGE), "a.sig")
    blob = base64.b64decode(b"".join(signature.split(b"\n")[1:-2]))
    hash_at = blob.index(b"\0\0\0\x06sha512")
    reserved = blob[: hash_at - 4] + b"\0\0\0\x01x" + blob[hash_at:]
    for other, message in (
        (reserved, "reserved"),
        (blob[:9] + b"\x02" + blob[10:], "version"),
        (blob + b"\0", "after the signature"),
        (blob[:-1], "too early"),
        (b"XSHSIG" + blob[6:], "SSHSIG"),
    ):
        with pytest.raises(InvalidDocumentError, match=message):
            sshsig.parse(armored(other), "a.sig")


@given(data=st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_bytes_end_in_the_named_error(data: bytes) -> None:
    for text in (data, armored(data), armored(b"SSHSIG\0\0\0\x01" + data)):
        with pytest.raises(InvalidDocumentError):
            sshsig.parse(text, "a.sig")


def test_namespaces_that_nobody_needs_are_not_written(key: Path) -> None:
    for namespace in ("", "a,b", "x" * 129, "*", "a b"):
        with pytest.raises(InvalidDocumentError, match="namespace"):
            key_signer(key).sign(MESSAGE, namespace)
