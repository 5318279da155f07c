"""Ed25519: whether a signature fits a key and a message, as libsodium says it (ADR 0009).

libsodium takes half as long as OpenSSL for it, and says no where a signature would prove nothing: to a key of small
order, under which one signature fits any message, and to a second spelling of a signature, whose S is not reduced.
Whatever is accepted here, ``ssh-keygen`` and OpenSSL accept too. (``tests/signing/test_curve_edges.py``)
"""

from __future__ import annotations

from typing import Final

Check = tuple[bytes, bytes, bytes]
"""Public key (32 bytes), signature (64 bytes), message."""

_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64


def is_valid(check: Check) -> bool:
    """Tell whether a signature fits its key and message; one of another length does not."""
    from nacl.bindings import crypto_sign_open
    from nacl.exceptions import BadSignatureError

    public_key, signature, message = check
    if len(public_key) != _KEY_BYTES or len(signature) != _SIGNATURE_BYTES:
        return False
    try:
        crypto_sign_open(signature + message, public_key)
    except BadSignatureError:
        return False
    return True
