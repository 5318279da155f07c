"""What must not enter a record: paths and names of a machine, its people, its secrets.

The writer of evidence refuses such a record, and the gate looks again at what is committed. A finding names
the field and the kind of thing, never the thing itself: the message must be fit for a log.

Digests (64 hex), run ids (32 hex), versions and slugs pass. Identifiers that tell machines apart belong into
a record only as salted hashes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

_Pattern = tuple[str, tuple[str, ...], Callable[[str], bool], str]


def _rooted(text: str) -> bool:
    """Tell whether a slash stands where a path may begin."""
    return any(not before or before[-1] not in _OF_NAMES for before in text.split("/")[:-1])


def _has_domain(text: str) -> bool:
    return any("." in rest for rest in text.split("@")[1:])


def _has_colons(text: str) -> bool:
    return text.count(":") >= _COLONS


def _assigns(text: str) -> bool:
    return "=" in text or ":" in text


def _of_length(least: int) -> Callable[[str], bool]:
    return lambda text: len(text) >= least


def _any(_text: str) -> bool:
    return True


_COLONS: Final = 5
"""In a hardware address."""
_OF_NAMES: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
"""What never stands before the slash that a path begins with."""
_PATTERNS: Final[tuple[_Pattern, ...]] = (
    ("absolute path", ("/",), _rooted, r"(?<![A-Za-z0-9_.\-)\]}#/:*])/[A-Za-z0-9_.@+-]+/[A-Za-z0-9_.@+-]"),
    (
        "absolute path",
        ("/",),
        _rooted,
        r"(?<![A-Za-z0-9_.\-])/(?:home|root|Users|tmp|var|etc|usr|opt|mnt|srv|proc|sys|dev|private)\b",
    ),
    ("absolute path", (":/", ":\\"), _any, r"(?<![A-Za-z0-9])[A-Za-z]:[\\/]{1,2}[A-Za-z0-9_.]"),
    (
        "absolute path",
        ("\\\\", "file://", "~"),
        _any,
        r"\\\\[A-Za-z0-9_.-]+\\|file://|(?<![A-Za-z0-9])~[A-Za-z0-9_-]*/",
    ),
    ("e-mail address", ("@",), _has_domain, r"[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+\.[A-Za-z]{2,}"),
    ("UUID", ("-",), _of_length(36), r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    ("hardware address", (":",), _has_colons, r"(?i)(?<![0-9a-f:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![0-9a-f:])"),
    (
        "network address",
        ("192.", "169.", "127."),
        _of_length(9),
        r"\b(?:192\.168|169\.254|127\.0)\.[0-9]{1,3}\.[0-9]{1,3}\b",
    ),
    (
        "token",
        ("gho", "ghp", "ghs", "ghu", "ghr", "github_pat", "glpat", "hf_", "hf-", "sk_", "sk-", "pk_", "pk-", "xox"),
        _of_length(19),
        r"\b(?:gh[opsur]|github_pat|glpat|hf|sk|pk|xox[abprs])[_-][A-Za-z0-9_-]{16,}",
    ),
    (
        "token",
        ("akia", "eyj", "-----begin "),
        _any,
        r"\bAKIA[0-9A-Z]{16}\b|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}|-----BEGIN ",
    ),
    (
        "token",
        ("passw", "secret", "token", "api"),
        _assigns,
        r"(?i)\b(?:password|passwd|secret|token|api[_-]?key)\b\s*[=:]\s*[^\s,;]{6,}",
    ),
    ("token", ("bearer",), _of_length(19), r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{12,}"),
)
"""Kind, texts of which one must be there (small letters stand for both), what else must hold, pattern.

A pattern is compiled when an ASCII text may fit by both: to compile them all takes longer than to read a record.
"""
_KEYS: Final = (
    "serial", "serialnumber", "serial_number", "uuid", "hostname", "host_name", "fqdn", "user", "username", "user_name",
    "login", "home", "cwd", "ip", "ip_address", "mac_address", "machine_id", "boot_id",
)  # fmt: skip
"""Last words of a key whose value identifies a machine or a person."""
_BEFORE_KEYS: Final = ("", "_", ".", "-")
"""What may stand before such a word."""
_GENERIC: Final = frozenset({"root", "user", "admin", "ubuntu", "debian", "runner", "localhost", "linux", "build"})
_LEAST: Final = 3
_DIGESTS: Final = (32, 40, 64)
"""Digits of run ids, commits and SHA-256: no pattern of a private thing fits them."""
_HEX: Final = b"0123456789abcdef"
_MOST_CLEAN: Final = 50_000
_CUT: Final = b"},{"
_MOST_PIECES: Final = 4096
_LONGEST_PIECE: Final = 512
WITHHELD: Final = "withheld"
"""Stands for the value of an option that no record may hold."""


def findings(value: object, names: Iterable[str] = ()) -> list[str]:
    """Return every private thing in a document value as ``/path/inside: kind``, in document order.

    Args:
        value: Mappings, lists and scalars.
        names: Names of this host and user. Ones that name nobody, like ``root``, are not looked for.
    """
    wanted = _names_pattern(names)
    known: dict[str, str] = {}

    def kind_of(text: str) -> str:
        if text not in known:  # keys and words repeat
            known[text] = _kind(text, wanted)
        return known[text]

    return [f"{path}: {kind}" for path, kind in _walk(value, "", kind_of)]


class Watch:
    """Looks at one document after another: what many of them share is looked at once.

    In canonical bytes without a backslash every text, key or value, stands between two quotes. So the texts of a
    document are a split away, and only those that no document had before are looked at. Pieces between two objects of
    a list come first: one that was clean before need not be split. A piece has whole texts only, unless a text holds
    the mark that they are cut at; then some piece that is new has an odd quote, and the document is walked.

    Args:
        names: Names of this host and user; see :func:`findings`.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = tuple(names)
        self._wanted = _names_pattern(self._names)
        self._clean: set[bytes] = set()
        """Texts in which nothing private was found, digests left out: those are never the same twice."""
        self._clean_pieces: set[bytes] = set()
        """Pieces of documents in which nothing private was found, each with whole texts only."""

    def findings(self, value: object, data: bytes) -> Sequence[str]:
        """Return what :func:`findings` returns.

        Args:
            value: The document.
            data: Its canonical bytes, or other JSON of it in which no text is escaped that need not be.
        """
        fresh = {*data.split(_CUT)} - self._clean_pieces
        if not fresh:
            return ()
        if b"\\" in data or any(piece.count(b'"') % 2 for piece in fresh) or self._is_doubtful(_CUT.join(fresh), data):
            return findings(value, self._names)
        if len(self._clean_pieces) > _MOST_PIECES:
            self._clean_pieces.clear()
        self._clean_pieces.update(piece for piece in fresh if len(piece) <= _LONGEST_PIECE)
        return ()

    def _is_doubtful(self, pieces: bytes, data: bytes) -> bool:
        """Tell whether a text of pieces of a document may be private."""
        fresh = {*pieces.split(b'"')[1::2]} - self._clean
        keys = set()
        likely = _likely(pieces)
        for one in fresh:
            if len(one) in _DIGESTS and not one.strip(_HEX):
                if self._wanted is not None and self._wanted.search(one.decode()):
                    return True
                continue
            text = one.decode()
            if _kind(text, self._wanted, likely):
                return True
            if names_somebody(text):
                keys.add(one)
        if any(re.search(rb'"%b"\s*:\s*"' % re.escape(key), data) for key in keys):
            return True
        if len(self._clean) > _MOST_CLEAN:
            self._clean.clear()
        self._clean.update(one for one in fresh - keys if len(one) not in _DIGESTS)
        return False


def text_kind(text: str, names: Iterable[str] = ()) -> str:
    """Return what private thing a text holds; empty: none."""
    return _kind(text, _names_pattern(names))


def told(options: Mapping[str, str | int | bool], names: Iterable[str] = ()) -> dict[str, str | int | bool]:
    """Return options as a record may tell them: in the place of a value that is private stands `WITHHELD`.

    Args:
        options: As the user gave them; a path of a model is one.
        names: Names of this host and user.
    """
    wanted = _names_pattern(names)
    return {key: WITHHELD if isinstance(one, str) and _kind(one, wanted) else one for key, one in options.items()}


def _names_pattern(names: Iterable[str]) -> re.Pattern[str] | None:
    telling = sorted({name for name in names if len(name) >= _LEAST and name.lower() not in _GENERIC})
    if not telling:
        return None
    joined = "|".join(re.escape(name) for name in telling)
    return re.compile(rf"(?i)(?<![a-z0-9])(?:{joined})(?![a-z0-9])")


def _walk(value: object, path: str, kind_of: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        kind = kind_of(value)
        if kind:
            yield path or "/", kind
    elif isinstance(value, Mapping):
        yield from _walk_mapping(value, path, kind_of)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}/{index}", kind_of)


def _walk_mapping(
    value: Mapping[object, object], path: str, kind_of: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    for key, item in value.items():
        text = str(key)
        kind = kind_of(text)
        # a key that is private itself is not repeated in the finding
        inside = f"{path}/(a key)" if kind else f"{path}/{text}"
        if kind:
            yield inside, kind
        if isinstance(item, str) and item and names_somebody(text):
            yield inside, "field that identifies a machine or person"
        else:
            yield from _walk(item, inside, kind_of)


def names_somebody(key: str) -> bool:
    """Tell whether the value of a key identifies a machine or a person."""
    if not key.isascii():
        return re.search(rf"(?i)(?:^|[_.-])(?:{'|'.join(_KEYS)})$", key) is not None
    small = key.lower().removesuffix("\n")
    return small.endswith(_KEYS) and any(
        small.endswith(one) and small[-len(one) - 1 : -len(one)] in _BEFORE_KEYS for one in _KEYS
    )


def _likely(texts: bytes) -> Sequence[_Pattern]:
    """Return the patterns that some of these texts may fit: what none of them holds need not be looked for in each."""
    if not texts.isascii():
        return _PATTERNS
    small = texts.decode().lower()
    return [pattern for pattern in _PATTERNS if any(one in small for one in pattern[1])]


def _kind(text: str, names: re.Pattern[str] | None, patterns: Sequence[_Pattern] = _PATTERNS) -> str:
    small, ascii_only = text.lower(), text.isascii()
    for kind, telling, holds, pattern in patterns:
        likely = not ascii_only or (any(one in small for one in telling) and holds(text))
        if likely and re.search(pattern, text):
            return kind
    return "host or user name" if names is not None and names.search(text) else ""
