"""One signature: it fits or it does not, and nonsense does not."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness.wire import curve


def test_a_signature_fits_its_key_and_message_and_no_other() -> None:
    private, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    key, signature = private.public_key().public_bytes_raw(), private.sign(b"message")

    assert curve.is_valid((key, signature, b"message"))
    assert not curve.is_valid((key, signature, b"message!"))
    assert not curve.is_valid((key, signature, b""))
    assert not curve.is_valid((other.public_key().public_bytes_raw(), signature, b"message"))


def test_each_changed_bit_of_a_signature_is_seen() -> None:
    private = Ed25519PrivateKey.generate()
    key, signature = private.public_key().public_bytes_raw(), private.sign(b"")

    for bit in range(512):
        changed = (int.from_bytes(signature, "big") ^ 1 << bit).to_bytes(64, "big")
        assert not curve.is_valid((key, changed, b"")), bit


@pytest.mark.parametrize("check", [(bytes(32), bytes(64), b""), (b"", b"", b""), (bytes(31), bytes(65), b"")])
def test_nonsense_fits_nothing(check: curve.Check) -> None:
    assert not curve.is_valid(check)


@pytest.mark.parametrize("cut", [slice(31), slice(0)])
def test_a_key_or_signature_of_another_length_fits_nothing(cut: slice) -> None:
    private = Ed25519PrivateKey.generate()
    key, signature = private.public_key().public_bytes_raw(), private.sign(b"a")

    assert not curve.is_valid((key[cut], signature, b"a"))
    assert not curve.is_valid((key, signature[cut], b"a"))
    assert not curve.is_valid((key + b"\0", signature, b"a"))
    assert not curve.is_valid((key, signature + b"a", b""))
