"""Every refusal of the codec, with a stable word for tables and records."""

from __future__ import annotations

from typing import ClassVar


class CodecError(ValueError):
    """Root; ``code`` is a stable word."""

    code: ClassVar[str] = "codec"


class FormatError(CodecError):
    """Bytes that are not this format: magic, version, reserved fields, a wrong total length."""

    code: ClassVar[str] = "format"


class BoundsError(CodecError):
    """A length or count is outside the limits of the format, or points outside its container."""

    code: ClassVar[str] = "bounds"


class GeometryError(CodecError):
    """Parts that contradict one another: rows, channels, ranges that overlap or leave a gap."""

    code: ClassVar[str] = "geometry"


class ValueRefusedError(CodecError):
    """A value that the format cannot carry: not finite, a symbol outside the alphabet, a symbol of frequency zero."""

    code: ClassVar[str] = "value"


class PathError(CodecError):
    """The declared path (oracle, numpy, compiled, torch) is not available here."""

    code: ClassVar[str] = "path"


class CodecIdentityError(CodecError):
    """The codec that made the bytes is unknown, stripped, newer, or of another class than was asked for."""

    code: ClassVar[str] = "identity"
