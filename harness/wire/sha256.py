"""SHA-256, by the interpreter's own module where there is little to hash, and by OpenSSL where there is much.

``hashlib`` loads the whole of OpenSSL, which takes longer than the interpreter's module has to hash the files of one
certificate. So the first bytes of a process are hashed by that one; a process that has ``hashlib`` already uses it at
once. It is the same function either way (``tests/wire/test_sha256.py``).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hashlib import _Hash

__all__ = ["NOTHING", "Digested", "sha256"]

NOTHING: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""The digest of no bytes at all."""
_FEW: Final = 256 * 1024
"""Bytes of a process that are hashed here: OpenSSL spares a few nanoseconds a byte, and takes milliseconds to load."""
_MODULE: Final = "_sha2" if sys.version_info >= (3, 12) else "_sha256"

_state = {"left": _FEW}


def sha256(data: bytes = b"", *, size: int = 0) -> _Hash:
    """Return the hash of some bytes, to be asked for its digest or to be given more of them.

    Args:
        data: The first bytes.
        size: How many bytes come in all, where that is known and more than these.
    """
    _state["left"] -= max(size, len(data))
    if "hashlib" not in sys.modules and _state["left"] >= 0:
        try:
            own: Any = __import__(_MODULE)
        except ImportError:  # an interpreter that was built without
            _state["left"] = -1
        else:
            small: _Hash = own.sha256(data)
            return small
    import hashlib

    return hashlib.sha256(data)


class Digested:
    """Bytes and their SHA-256.

    The digest is computed here, of these very bytes, and cannot be handed in: so whoever takes one of these may rely on
    it, and need not hash again.
    """

    __slots__ = ("data", "digest")

    def __init__(self, data: bytes) -> None:
        self.data: Final = data
        self.digest: Final = sha256(data).digest()
        """32 bytes."""

    @property
    def hexdigest(self) -> str:
        """The same as 64 hex digits."""
        return self.digest.hex()
