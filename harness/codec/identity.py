"""Who coded some stored bytes. A lossy entry never answers an exact request, whatever its key says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from harness.codec.errors import CodecIdentityError

Class = Literal["exact", "lossy"]
KNOWN: Final[Mapping[str, tuple[Class, tuple[int, ...]]]] = {
    "raw": ("exact", (1,)),
    "lmcache-cachegen": ("lossy", (1, 2)),
    "cgv1": ("lossy", (1,)),
}
"""Codec to its class and the versions that are read here."""
_FIELDS: Final = frozenset({"name", "version", "class", "decoded_length", "calibration"})


@dataclass(frozen=True, kw_only=True, slots=True)
class CodecIdentity:
    """What a store writes beside a coded segment."""

    name: str
    version: int
    kind: Class
    decoded_length: int
    """Bytes after decoding."""
    calibration: str
    """SHA-256 of what the coder was fitted to, 64 hex digits; of nothing, if each segment carries its own tables."""

    def record(self) -> dict[str, str | int]:
        """The stored form."""
        return {
            "name": self.name, "version": self.version, "class": self.kind,
            "decoded_length": self.decoded_length, "calibration": self.calibration,
        }  # fmt: skip


def require_payload(identity: CodecIdentity, payload: bytes | memoryview) -> None:
    """Do nothing if a stored payload promises what its identity says; it is not decoded here.

    Raises:
        CodecIdentityError: another decoded length, or bytes of another codec.
    """
    data = bytes(memoryview(payload)[:12])
    if identity.name == "raw":
        found = len(payload)
    elif identity.name == "lmcache-cachegen" and data[:4] == b"CKG1" and len(data) == len(b"CKG1") + 8:
        found = int.from_bytes(data[4:], "little")
    elif identity.name == "cgv1" and data[:4] == b"CGv1":
        return  # a tile; its length is that of its own head
    else:
        raise CodecIdentityError(f"codec {identity.name}: expected its own bytes, found {data[:4]!r}")
    if found != identity.decoded_length:
        raise CodecIdentityError(
            f"codec {identity.name}: expected a decoded length of {identity.decoded_length}, the bytes have {found}"
        )


def read_identity(
    record: Mapping[str, object], *, wanted: Class | None = None, length: int | None = None
) -> CodecIdentity:
    """A stored identity, checked field by field.

    Args:
        record: the stored form.
        wanted: the class that the lookup asks for; ``exact`` is never served by ``lossy``.
        length: the decoded length that the caller has room for, if it is known.

    Raises:
        CodecIdentityError: a field that is missing, unknown or of the wrong kind; an unknown codec; a newer version; a
            class other than the codec's own or than wanted; another length.
    """
    if set(record) != _FIELDS:
        missing, strange = sorted(_FIELDS - set(record)), sorted(set(record) - _FIELDS)
        raise CodecIdentityError(f"codec identity: missing {missing or 'nothing'}, unknown {strange or 'nothing'}")
    name, version, kind = record["name"], record["version"], record["class"]
    decoded, calibration = record["decoded_length"], record["calibration"]
    if not isinstance(name, str) or name not in KNOWN:
        raise CodecIdentityError(f"codec name: expected one of {sorted(KNOWN)}, found {name!r}")
    own, versions = KNOWN[name]
    if type(version) is not int or version not in versions:
        newer = " (newer than this build)" if type(version) is int and version > max(versions) else ""
        raise CodecIdentityError(f"codec {name}: expected a version of {versions}, found {version!r}{newer}")
    if kind != own:
        raise CodecIdentityError(f"codec {name}: expected class {own}, found {kind!r}")
    if wanted == "exact" and own != "exact":
        raise CodecIdentityError(f"codec {name}: a lossy entry was found for an exact lookup")
    if type(decoded) is not int or decoded < 0 or (length is not None and decoded != length):
        raise CodecIdentityError(
            f"codec {name}: expected a decoded length of {length or 'at least 0'}, found {decoded!r}"
        )
    if not isinstance(calibration, str) or not re.fullmatch(r"[0-9a-f]{64}", calibration):
        raise CodecIdentityError(f"codec {name}: expected a calibration digest of 64 hex digits, found {calibration!r}")
    return CodecIdentity(name=name, version=version, kind=own, decoded_length=decoded, calibration=calibration)
