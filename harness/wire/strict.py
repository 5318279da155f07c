"""Strict JSON: one meaning per byte string, bounded work, and an error that says where.

A document from a stranger may hold anything. Accepted is UTF-8 text without a byte order mark,
within the limits of size, depth, count, string and integer, with no key twice, no float, no null
and no lone surrogate. Everything else ends in :class:`InvalidDocumentError` and in nothing else.

Two paths give the same answer:

- **The fast one** parses (:mod:`harness.wire.json_bytes`), renders the value again and compares bytes. A file that
  equals its one rendering cannot hide a second key, another number spelling or trailing bytes, so
  one comparison replaces a dozen checks; the limits are then read off the rendering.
- **The slow one** (:mod:`harness.wire.tokens`) reads token by token, without recursion. It decides
  about text in any other spelling, and it alone words errors, since only it knows lines and paths.
"""

from __future__ import annotations

from typing import Final, Literal

from harness.errors import InvalidDocumentError
from harness.model.noun import dataclass
from harness.wire import canonical, json_bytes

Form = Literal["any", "rendered", "canonical"]
"""Which spelling is accepted: any strict JSON, the one file rendering, or one canonical line."""

_SHOWN: Final = 40
_CHEAP_BYTES: Final = 1024 * 1024
"""Up to here a parse takes little, whatever it gives."""


class OtherSpellingError(InvalidDocumentError):
    """A strict document in another spelling than the one that was asked for.

    Args:
        value: What it says.
        message: Where it is spelled otherwise.
        where: The document.
    """

    def __init__(self, value: object, message: str, *, where: str) -> None:
        super().__init__(message, where=where)
        self.value = value


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one document may hold; a byte string beyond a limit is refused, not cut."""

    max_bytes: int = 2 * 1024 * 1024
    """Bytes of the whole document."""
    max_depth: int = 24
    """Containers around a value; the top level lies at depth 0."""
    max_nodes: int = 200_000
    """Values, containers included and keys not."""
    max_string_bytes: int = 64 * 1024
    """Bytes of one string or key as it is spelled, quotes included."""
    max_integer: int = canonical.MAX_INTEGER
    """Largest magnitude of an integer; at most ``2**53 - 1``."""


DOCUMENT: Final = Limits()
"""For certificates, ledger events, plans, policies: one value per file."""

EVIDENCE_LINE: Final = Limits(max_bytes=4 * 1024 * 1024, max_depth=16, max_nodes=150_000)
"""For one line of an evidence file; a table of 10,000 parts fits."""


def loads(
    data: bytes,
    *,
    where: str,
    limits: Limits = DOCUMENT,
    form: Form = "any",
    certificate_keys: bool = False,
) -> object:
    """Return the value of a strict JSON document.

    Args:
        data: The bytes as they lie on disk or arrived.
        where: What to call the document in an error, mostly its path.
        limits: How much it may hold.
        form: ``rendered`` accepts only the bytes of :func:`canonical.render`, ``canonical`` only
            one canonical line with or without its line feed, ``any`` every strict spelling.
        certificate_keys: Also hold every key to ``[a-z][a-z0-9_]{0,63}``. A closed schema says the
            same at a fraction of the cost, so the gate's hot path leaves this off.

    Raises:
        InvalidDocumentError: Anything else, with what was found, what is allowed, line and path.
    """
    if len(data) > limits.max_bytes:
        raise InvalidDocumentError(
            f"found {len(data)} bytes; allowed are {limits.max_bytes}. Move bulk data into evidence lines",
            where=where,
        )
    if len(data) > _CHEAP_BYTES and _surely_many(data, limits):
        raise InvalidDocumentError(
            f"found more than {limits.max_nodes} values; allowed are {limits.max_nodes}. Move bulk data into evidence",
            where=where,
        )
    found = None if certificate_keys else _fast(data, limits, form)
    if found is not None:
        return found
    from harness.wire.tokens import Reader

    value = Reader(data, where, limits, certificate_keys=certificate_keys).read()
    _require_form(data, value, form, where)
    return value


def _fast(data: bytes, limits: Limits, form: Form) -> object | None:
    """Return the value if the bytes are one of the two canonical spellings and within limits."""
    if not data.isascii() or limits.max_integer != canonical.MAX_INTEGER:
        return None  # keys must be ASCII; only the slow path can tell keys from strings
    try:
        value: object = json_bytes.loads(data)
        if form == "canonical" and _is_small_line(data, value, limits):
            return value
        rendered = canonical.render_unchecked(value)
    except (json_bytes.NotJsonError, TypeError):
        return None
    if not _same_spelling(data, value, rendered, form):
        return None
    return value if _within(rendered, limits) and canonical.is_plain(rendered) else None


def _is_small_line(data: bytes, value: object, limits: Limits) -> bool:
    """Tell whether a text is the one compact spelling of its value and surely within limits; False: look closer.

    Outside of strings a comma or a bracket stands before each value, so that there are no more values than these.
    """
    if len(data) > limits.max_string_bytes or sum(map(data.count, (b",", b"[", b"{"))) >= limits.max_nodes:
        return False
    found = json_bytes.plain(value)
    if found is None or found[1] >= limits.max_depth:
        return False
    return data == found[0] or data == found[0] + b"\n"


def _surely_many(data: bytes, limits: Limits) -> bool:
    """Tell whether a text holds more values than allowed, or none that is JSON, before anything is built from it.

    Outside of strings every comma stands between two values of one container, and every bracket begins one.
    """
    quotes = data.count(b'"') - data.count(b'\\"')
    if quotes > 4 * limits.max_nodes:
        return True
    outside = b"".join(data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    return max(outside.count(b","), outside.count(b"[") + outside.count(b"{")) >= limits.max_nodes


def _same_spelling(data: bytes, value: object, rendered: bytes, form: Form) -> bool:
    if data == rendered:
        return form != "canonical"
    if form == "rendered":
        return False
    compact = canonical.canonical_trusted(value)
    return data == compact or (data[-1:] == b"\n" and data[:-1] == compact)


def _within(rendered: bytes, limits: Limits) -> bool:
    """Tell whether a rendering is surely within the limits; ``False`` means: count exactly."""
    if b"\n" + b" " * (2 * limits.max_depth + 1) in rendered:
        return False
    if len(rendered) > 2 * limits.max_nodes and rendered.count(b"\n") > limits.max_nodes:
        return False
    if len(rendered) <= limits.max_string_bytes:
        return True
    return max(map(len, rendered.split(b"\n"))) <= limits.max_string_bytes


def _require_form(data: bytes, value: object, form: Form, where: str) -> None:
    """Compare with the one allowed spelling and point at the first line that differs."""
    if form == "any":
        return
    wanted = canonical.render(value) if form == "rendered" else canonical.line(value)
    if data == wanted or (form == "canonical" and data + b"\n" == wanted):
        return
    number, found, allowed = _first_other_line(data, wanted)
    raise OtherSpellingError(
        value,
        f"line {number} is spelled {found!a}; the one allowed rendering of this value has "
        f"{allowed!a} there. Write documents with the tool, not by hand",
        where=where,
    )


def _first_other_line(data: bytes, wanted: bytes) -> tuple[int, str, str]:
    found, allowed = data.split(b"\n"), wanted.split(b"\n")
    length = min(len(found), len(allowed))
    index = next((at for at in range(length) if found[at] != allowed[at]), length)
    shown = [
        lines[index][:_SHOWN].decode("utf-8", "replace") if index < len(lines) else "(end)"
        for lines in (found, allowed)
    ]
    return index + 1, shown[0], shown[1]
