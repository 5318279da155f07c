"""Whose keys count: the allowed signers file of OpenSSH, and the list of revoked keys.

::

    lab-a namespaces="statecert/*",valid-after="20260101Z",valid-before="20270101Z" ssh-ed25519 AAAA...

A line names principals (patterns, separated by commas), options, and a key. What a line means is what
``ssh-keygen -Y verify`` makes of it; tests hold one against the other. Two things are stricter: a line that cannot be
read refuses the whole file, whomever it speaks of, and a day must exist. A time without ``Z`` is local time, as OpenSSH
has it; ``statecert trust`` always writes ``Z``.

Lines with keys of other types and certificate authorities are read and never match. A revocation list holds public
keys, one a line, as ``ssh-keygen -Y verify -r`` accepts it; binary revocation lists (KRL) are refused, not passed over.
"""

from __future__ import annotations

import base64
import re
import time
from calendar import timegm
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final, NoReturn

from harness.errors import InvalidDocumentError
from harness.wire import sshsig

MAX_BYTES: Final = 1024 * 1024
"""Of either file."""

_KRL: Final = b"SSHKRL\n\0"
_BLANK: Final = " \t"
_TYPES: Final = re.compile(
    r"(?:ssh-(?:ed25519|ed448|rsa|dss|xmss@openssh\.com)|ecdsa-sha2-nistp(?:256|384|521)"
    r"|sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com"
    r"|(?:sk-)?(?:ssh-(?:ed25519|rsa|dss)|ecdsa-sha2-nistp(?:256|384|521))-cert-v01@openssh\.com)"
)
_OPTION: Final = re.compile(r'(?i:(cert-authority)|(namespaces|valid-after|valid-before)="((?:\\"|[^"])*+)")')
_OPTION_WORD: Final = re.compile(r'(?:[^" \t]|"(?:\\"|[^"])*+")++')
_TIME: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:([0-9]{2})([0-9]{2})([0-9]{2})?)?(Z?)")


class Reason(StrEnum):
    """Why a signature does not count. One word each."""

    UNSIGNED = "unsigned"
    """The document has no signature."""
    SIGNS_NOTHING = "signs_nothing"
    """There is a signature, and no document to it."""
    UNREADABLE = "unreadable"
    """The document that was signed cannot be read."""
    MALFORMED = "malformed"
    """The file is not the one spelling of a signature."""
    WRONG_NAMESPACE = "wrong_namespace"
    """Made for another kind of document."""
    CHANGED = "changed"
    """The signature does not fit the bytes: one of them was changed."""
    REVOKED = "revoked"
    """The key is on the list of revoked keys."""
    UNKNOWN_KEY = "unknown_key"
    """No line of the allowed signers has the key."""
    UNKNOWN_PRINCIPAL = "unknown_principal"
    """The key is there, and not under the name that was asked for."""
    NAMESPACE_NOT_ALLOWED = "namespace_not_allowed"
    """The key is there, and not for this kind of document."""
    NOT_YET_VALID = "not_yet_valid"
    EXPIRED = "expired"
    DEMONSTRATION = "demonstration_key"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line that has an Ed25519 key of its own."""

    number: int
    principals: str
    """Patterns, separated by commas."""
    key: bytes
    namespaces: str = ""
    """Patterns, separated by commas; empty: any."""
    valid_after: int = 0
    """Seconds since 1970; 0: no bound."""
    valid_before: int = 0
    """The same; the second itself is still valid."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AllowedSigners:
    """All lines of an allowed signers file that can match."""

    lines: Sequence[Line]
    by_key: Mapping[bytes, Sequence[Line]] = field(default_factory=dict)

    def allowed(self, key: bytes, namespace: str, at: int, principal: str = "") -> Line | Reason:
        """Return the line that lets a key sign, or why none does.

        Args:
            key: The public key.
            namespace: The kind of document.
            at: Seconds since 1970 at which the key must be valid.
            principal: Who must have signed; empty: anybody in the file.
        """
        worst = Reason.UNKNOWN_KEY
        for line in self.by_key.get(key, ()):
            reason = _why_not(line, namespace, at, principal)
            if reason is None:
                return line
            worst = max(worst, reason, key=_CLOSENESS.index)
        return worst


_CLOSENESS: Final = (
    Reason.UNKNOWN_KEY,
    Reason.UNKNOWN_PRINCIPAL,
    Reason.NAMESPACE_NOT_ALLOWED,
    Reason.NOT_YET_VALID,
    Reason.EXPIRED,
)
"""Of several lines, the one that came closest is told."""


def parse_signers(data: bytes, where: str) -> AllowedSigners:
    """Return the signers of an allowed signers file.

    Raises:
        InvalidDocumentError: It is too large, is no text, or has a line that means nothing.
    """
    lines = []
    by_key: dict[bytes, list[Line]] = {}
    for number, text in _lines(data, where):
        line = _line(text, number, where)
        if line is not None:
            lines.append(line)
            by_key.setdefault(line.key, []).append(line)
    return AllowedSigners(lines=tuple(lines), by_key=by_key)


def parse_revoked(data: bytes, where: str) -> frozenset[bytes]:
    """Return the Ed25519 keys of a list of revoked keys.

    Raises:
        InvalidDocumentError: It is a binary revocation list, too large, no text, or has a line that is no key.
    """
    if data.startswith(_KRL[:6]):
        message = "found a binary revocation list; wanted are public keys, one a line (`statecert trust revoke`)"
        raise InvalidDocumentError(message, where=where)
    found = set()
    for number, text in _lines(data, where):
        key = read_key(text, f"{where}: line {number}")
        if key:
            found.add(key)
    return frozenset(found)


def read_key(text: str, where: str) -> bytes:
    """Return the Ed25519 key that a text begins with, as in a ``.pub`` file; empty: a key of another type.

    Raises:
        InvalidDocumentError: It begins with no public key.
    """
    kind, _, rest = text.strip(_BLANK).replace("\t", " ").partition(" ")
    encoded = rest.lstrip(" ").partition(" ")[0]
    if _TYPES.fullmatch(kind) is None or not encoded:
        _refuse("no public key", where)
    try:
        blob = base64.b64decode(encoded, validate=True)
    except ValueError:
        _refuse("a public key that is not base64", where)
    if not blob.startswith(len(kind).to_bytes(4, "big") + kind.encode()):
        _refuse("a public key of another type than it says", where)
    if kind != sshsig.KEY_TYPE:
        return b""
    key = blob[-sshsig.KEY_BYTES :]
    if sshsig.key_blob(key) != blob:
        _refuse("a public key of another length", where)
    return key


@lru_cache(maxsize=256)
def matches(name: str, patterns: str) -> bool:
    """Tell whether a list of patterns takes a name in: ``*`` and ``?``, and ``!`` before one that must not match."""
    found = False
    for pattern in patterns.split(","):
        refused = pattern.startswith("!")
        if _wild(name, pattern[1:] if refused else pattern):
            if refused:
                return False
            found = True
    return found


def parse_time(text: str) -> int:
    """Return the seconds since 1970 of ``YYYYMMDD[Z]`` or ``YYYYMMDDHHMM[SS][Z]``; 0: it is no such time."""
    match = _TIME.fullmatch(text)
    if match is None:
        return 0
    numbers = [int(group or 0) for group in match.groups()[:6]]
    try:
        parts = time.strptime("{:04d}-{:02d}-{:02d} {:02d}:{:02d}:{:02d}".format(*numbers), "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return 0
    if match[7]:
        return max(timegm(parts), 0)
    return max(int(time.mktime((*parts[:8], 0))), 0)


def _lines(data: bytes, where: str) -> list[tuple[int, str]]:
    if len(data) > MAX_BYTES:
        raise InvalidDocumentError(f"found {len(data)} bytes; allowed are {MAX_BYTES}", where=where)
    if b"\0" in data:
        raise InvalidDocumentError("found a zero byte; wanted is text", where=where)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InvalidDocumentError("found bytes that are not UTF-8 text", where=where) from None
    stripped = ((number, line.strip(" \t\r")) for number, line in enumerate(text.split("\n"), 1))
    return [(number, line) for number, line in stripped if line and not line.startswith("#")]


def _line(text: str, number: int, where: str) -> Line | None:
    """Return what a line says; None where its key can never sign here."""
    place = f"{where}: line {number}"
    principals, rest = _first_word(text, place)
    options, key_text = "", rest
    if _TYPES.fullmatch(re.split(r"[ \t]", rest, maxsplit=1)[0]) is None:
        options, key_text = _options_and_key(rest, place)
    said = _options(options, place)
    key = read_key(key_text, place)
    if not key or said.authority:
        return None
    return Line(
        number=number,
        principals=principals,
        key=key,
        namespaces=said.namespaces,
        valid_after=said.valid_after,
        valid_before=said.valid_before,
    )


def _first_word(text: str, place: str) -> tuple[str, str]:
    if text.startswith('"'):
        word, quote, rest = text[1:].partition('"')
        if not quote:
            _refuse("a quote that does not end", place)
    else:
        word, _, rest = text.replace("\t", " ").partition(" ")
    rest = rest.lstrip(_BLANK)
    if not word or not rest:
        _refuse("no principals and key", place)
    return word, rest


def _options_and_key(text: str, place: str) -> tuple[str, str]:
    match = _OPTION_WORD.match(text)
    if match is None or match.end() == len(text):
        _refuse("no key after the options", place)
    return match[0], text[match.end() :].lstrip(_BLANK)


def _options(text: str, place: str) -> _Options:
    found = _Options()
    at = 0
    while at < len(text):
        match = _OPTION.match(text, at)
        if match is None:
            _refuse(f"the options {text[at : at + 40]!a}, which mean nothing here", place)
        found.take(match, place)
        at = match.end()
        if at < len(text):
            if text[at] != "," or at + 1 == len(text):
                _refuse("options that are not separated by one comma", place)
            at += 1
    if found.valid_after and found.valid_before and found.valid_before <= found.valid_after:
        _refuse("a key that ends before it begins to be valid", place)
    return found


@dataclass(kw_only=True, slots=True)
class _Options:
    """What the options of one line say."""

    authority: bool = False
    namespaces: str = ""
    valid_after: int = 0
    valid_before: int = 0

    def take(self, match: re.Match[str], place: str) -> None:
        """Take one option in; each may stand once."""
        if match[1]:
            self.authority = True
            return
        name, value = match[2].lower(), match[3].replace('\\"', '"')
        if getattr(self, name.replace("-", "_")):
            _refuse(f"{name} twice", place)
        if name == "namespaces":
            if not value:
                _refuse("an empty list of namespaces", place)
            self.namespaces = value
            return
        seconds = parse_time(value)
        if not seconds:
            _refuse(f"the time {value[:40]!a} in {name}; wanted is one like 20261231Z", place)
        if name == "valid-after":
            self.valid_after = seconds
        else:
            self.valid_before = seconds


def _why_not(line: Line, namespace: str, at: int, principal: str) -> Reason | None:
    if principal and not matches(principal, line.principals):
        return Reason.UNKNOWN_PRINCIPAL
    if line.namespaces and not matches(namespace, line.namespaces):
        return Reason.NAMESPACE_NOT_ALLOWED
    if line.valid_after and at < line.valid_after:
        return Reason.NOT_YET_VALID
    if line.valid_before and at > line.valid_before:
        return Reason.EXPIRED
    return None


def _wild(name: str, pattern: str) -> bool:
    """Match ``*`` and ``?`` without backtracking over more than one star at a time."""
    at = where = mark = 0
    star = -1
    while at < len(name):
        if where < len(pattern) and pattern[where] == "*":
            star, mark = where, at
            where += 1
        elif where < len(pattern) and pattern[where] in ("?", name[at]):
            at, where = at + 1, where + 1
        elif star >= 0:
            mark += 1
            at, where = mark, star + 1
        else:
            return False
    return all(letter == "*" for letter in pattern[where:])


def _refuse(found: str, where: str) -> NoReturn:
    raise InvalidDocumentError(f"found {found}", where=where)
