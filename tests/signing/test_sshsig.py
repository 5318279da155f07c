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
from harness.wire.sha256 import Digested
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
    assert key_signer(key).sign(message, NAMESPACE) == oracle_sign(key, message, NAMESPACE, "-O", "hashalg=sha256")


@pytest.mark.parametrize(("options", "algorithm"), [((), "sha512"), (("-O", "hashalg=sha256"), "sha256")])
def test_what_ssh_keygen_signs_is_read_whichever_hash_it_takes(
    key: Path, options: tuple[str, ...], algorithm: str
) -> None:
    found = sshsig.parse(oracle_sign(key, MESSAGE, NAMESPACE, *options), "a.sig")

    assert found.algorithm == algorithm
    assert found.namespace == NAMESPACE
    assert sshsig.key_text(found.public_key) == public(key)
    assert sshsig.is_valid(found, Digested(MESSAGE))
    assert not sshsig.is_valid(found, Digested(MESSAGE + b" "))


@pytest.mark.parametrize("algorithm", sshsig.HASHES)
def test_ssh_keygen_accepts_either_hash_of_ours(key: Path, tmp_path: Path, algorithm: str) -> None:
    signature = signed_over(key, told=algorithm, taken=algorithm)

    assert oracle_accepts(tmp_path, f"lab-a {public(key)}\n", sshsig.armor(signature), MESSAGE)
    assert not oracle_accepts(tmp_path, f"lab-a {public(key)}\n", sshsig.armor(signature), MESSAGE + b" ")
    assert sshsig.is_valid(signature, Digested(MESSAGE))


@pytest.mark.parametrize(("told", "taken"), [("sha256", "sha512"), ("sha512", "sha256")])
def test_a_signature_that_tells_another_hash_than_it_was_made_over_is_refused_by_both(
    key: Path, tmp_path: Path, told: str, taken: str
) -> None:
    signature = signed_over(key, told=told, taken=taken)

    assert not sshsig.is_valid(signature, Digested(MESSAGE))
    assert not oracle_accepts(tmp_path, f"lab-a {public(key)}\n", sshsig.armor(signature), MESSAGE)


def test_a_digest_of_the_other_algorithm_under_the_word_of_this_one_fits_nothing(key: Path) -> None:
    """The word is signed too: a key that signed the digest of SHA-512 said so."""
    private = load_private_key(key)
    mixed = sshsig.signed_blob(Digested(MESSAGE), NAMESPACE, "sha512").replace(b"sha512", b"sha256")
    signature = sshsig.Signature(
        public_key=private.public_key().public_bytes_raw(), namespace=NAMESPACE, signature=private.sign(mixed)
    )

    assert not sshsig.is_valid(signature, Digested(MESSAGE))


def signed_over(key: Path, *, told: str, taken: str) -> sshsig.Signature:
    """A signature by the key over the message's hash of one algorithm, in a file that tells one."""
    private = load_private_key(key)
    return sshsig.Signature(
        public_key=private.public_key().public_bytes_raw(),
        namespace=NAMESPACE,
        signature=private.sign(sshsig.signed_blob(Digested(MESSAGE), NAMESPACE, taken)),
        algorithm=told,
    )


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
        assert not sshsig.is_valid(found, Digested(MESSAGE))


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


def test_other_key_types_reserved_bytes_and_versions_are_refused(key: Path, tmp_path: Path, signature: bytes) -> None:
    with pytest.raises(InvalidDocumentError, match="not ssh-ed25519"):
        sshsig.parse(oracle_sign(make_key(tmp_path, "ec", kind="ecdsa"), MESSAGE), "a.sig")
    blob = base64.b64decode(b"".join(signature.split(b"\n")[1:-2]))
    hash_at = blob.index(b"\0\0\0\x06sha256")
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


@pytest.mark.parametrize("name", ["sha384", "SHA256", "sha256 ", "sha25", "md5", "", "none", "sha512-256", "sha1\0\0"])
def test_another_hash_is_refused_by_its_name(signature: bytes, name: str) -> None:
    blob = base64.b64decode(b"".join(signature.split(b"\n")[1:-2]))
    other = blob.replace(b"\0\0\0\x06sha256", len(name).to_bytes(4, "big") + name.encode())

    with pytest.raises(InvalidDocumentError, match=r"hash algorithm .*; allowed are sha256 and sha512"):
        sshsig.parse(armored(other), "a.sig")


def test_another_hash_is_not_written(key: Path) -> None:
    with pytest.raises(InvalidDocumentError, match="sha384"):
        sshsig.armor(signed_over(key, told="sha384", taken="sha384"))


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
