"""One certificates folder, as it lies on disk: every name classified, no symlink followed, nothing kept in memory.

A folder may hold anything that somebody committed. So names are listed once, in one fixed order, and a file is read
only when a rule asks, with a limit, and never through a link. What is not one of the known kinds is
:attr:`Kind.OTHER`, which is a finding and not something to skip: a file that the gate does not understand must not
look as if it had been checked.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple, overload

from harness.errors import InvalidDocumentError

MAX_DOCUMENT_BYTES: Final = 8 * 1024 * 1024
"""Of a certificate, an event, a README or a signature."""
MAX_EVIDENCE_BYTES: Final = 8 * 1024 * 1024
MAX_DEPTH: Final = 8
"""Folders inside one another; the layout needs four."""
MAX_ENTRIES: Final = 200_000

_HEX: Final = frozenset("0123456789abcdef")
_DIGITS: Final = frozenset("0123456789")
_SLUG: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")


class Kind(StrEnum):
    """What a name in the folder stands for."""

    CERTIFICATE = "certificate"
    EVIDENCE = "evidence"
    RECORD = "record"
    """What others published, byte for byte, beside the evidence of its import."""
    PACK = "pack"
    """Evidence files in one, compressed; each is an entry of its own, of the form :attr:`Form.PACKED`."""
    EVENT = "event"
    README = "readme"
    """Generated; rendered by a forge exactly where the next reader lands."""
    SIGNATURE = "signature"
    ATTRIBUTES = "attributes"
    """``.gitattributes`` at the root: git leaves line ends alone."""
    DRAFT = "draft"
    """What a run left that may be no certificate. Never judged, never counted as passed."""
    OTHER = "other"


class Form(StrEnum):
    """What kind of thing the file system says it is."""

    REGULAR = "regular"
    EXECUTABLE = "executable"
    """A regular file with an executable bit."""
    SYMLINK = "symlink"
    SPECIAL = "special"
    """A device, a socket, a pipe."""
    PACKED = "packed"
    """A file inside a pack."""
    FOLDER = "folder"
    """Only listed where a folder is itself a finding: too deep, or unreadable."""


class Entry(NamedTuple):
    """One name in the folder."""

    root: str
    """The folder, as the caller named it."""
    path: str
    """Below the folder, with ``/``."""
    kind: Kind
    form: Form
    pack: str = ""
    """Path of the pack that holds it, where its form is packed."""

    @property
    def name(self) -> str:
        """The last step of the path."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> str:
        """The path of the folder around it, empty at the top."""
        return self.path.rpartition("/")[0]


class Listing(Sequence[Entry]):
    """Entries sorted by path: a name and one number each, since there may be very many; an entry is made when asked."""

    __slots__ = ("_codes", "_packs", "_paths", "_root")

    def __init__(
        self, root: str, found: Iterable[tuple[str, Kind, Form]] = (), packs: Mapping[str, str] | None = None
    ) -> None:
        paths, codes = [], bytearray()
        self._packs = packs or {}
        for path, kind, form in found:
            paths.append(path)
            codes.append(_KINDS.index(kind) * len(_FORMS) + _FORMS.index(form))
        order = sorted(range(len(paths)), key=paths.__getitem__)
        self._root = root
        self._paths = [paths[place] for place in order]
        self._codes = bytes(codes[place] for place in order)

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        kind, form = divmod(self._codes[place], len(_FORMS))
        path = self._paths[place]
        pack = self._packs[path] if _FORMS[form] is Form.PACKED else ""
        return Entry(self._root, path, _KINDS[kind], _FORMS[form], pack)

    def place(self, path: str) -> int:
        """The place of a path; -1: it is not there."""
        found = bisect_left(self._paths, path)
        return found if found < len(self._paths) and self._paths[found] == path else -1

    def of(self, kind: Kind) -> Iterator[Entry]:
        """Entries of one kind, of any form."""
        first = _KINDS.index(kind) * len(_FORMS)
        for place, code in enumerate(self._codes):
            if first <= code < first + len(_FORMS):
                yield self[place]


class Packs(NamedTuple):
    """What the packs of a folder hold."""

    places: Mapping[str, str] = {}
    """Path of each evidence file that lies in a pack only, to that pack."""
    doubles: Sequence[tuple[str, str, str]] = ()
    """A pack, a file of it that also lies elsewhere, and the other pack; empty: as a plain file."""
    faults: Sequence[tuple[str, str]] = ()
    """Packs that could not be read, and why."""


class Folder(NamedTuple):
    """All names of one certificates folder, sorted by path."""

    root: str
    entries: Listing
    complete: bool
    """Whether the listing ended by itself, and not at :data:`MAX_ENTRIES`."""
    exists: bool
    """Whether there is a folder of this name at all."""
    packs: Packs

    def of(self, kind: Kind) -> Iterator[Entry]:
        """Entries of one kind that can be read: regular files only."""
        return (entry for entry in self.entries.of(kind) if entry.form in READABLE)

    def find(self, path: str) -> Entry | None:
        """The entry of a path; None where there is none."""
        place = self.entries.place(path)
        return self.entries[place] if place >= 0 else None


_KINDS: Final = tuple(Kind)
_FORMS: Final = tuple(Form)
READABLE: Final = (Form.REGULAR, Form.EXECUTABLE, Form.PACKED)
"""Forms that are read; an executable bit is a finding and no reason to look away."""


def scan(root: str | os.PathLike[str]) -> Folder:
    """List a folder. Unreadable subfolders become entries of their own; nothing raises for what is inside."""
    name = os.fspath(root)
    if not os.path.isdir(name):  # noqa: PTH112 - pathlib is most of what a quick gate would import
        return Folder(root=name, entries=Listing(name), complete=True, exists=False, packs=Packs())
    walk = _walk(name)
    found = list(islice(walk, MAX_ENTRIES))
    packs = _packed(name, found) if any(kind is Kind.PACK for _, kind, _ in found) else Packs()
    found += [(path, Kind.EVIDENCE, Form.PACKED) for path in packs.places]
    return Folder(
        root=name,
        entries=Listing(name, found, packs.places),
        complete=next(walk, None) is None,
        exists=True,
        packs=packs,
    )


def _packed(root: str, found: Sequence[tuple[str, Kind, Form]]) -> Packs:
    """Open every pack; a file that also lies beside them counts as it lies there."""
    from harness.wire.packs import MAX_FILES, opened

    plain = {path for path, kind, _ in found if kind is Kind.EVIDENCE}
    places: dict[str, str] = {}
    doubles: list[tuple[str, str, str]] = []
    faults: list[tuple[str, str]] = []
    for pack in sorted(path for path, kind, form in found if kind is Kind.PACK and form in READABLE):
        try:
            members = opened(f"{root}/{pack}", pack).members
        except InvalidDocumentError as refused:
            faults.append((pack, refused.message))
            continue
        if len(places) + len(doubles) + len(members) > MAX_FILES:
            faults.append((pack, f"is not read: the packs of the folder hold more than {MAX_FILES} files"))
            continue
        for path in members:
            if path in plain or path in places:
                doubles.append((pack, path, places.get(path, "")))
            else:
                places[path] = pack
    return Packs(places, doubles, faults)


def read(entry: Entry) -> bytes:
    """Return the bytes of a regular file, or of one in a pack.

    Raises:
        InvalidDocumentError: It is not a regular file any more, is larger than its kind may be, or cannot be read.
    """
    if entry.form is Form.PACKED:
        from harness.wire.packs import member

        data = member(f"{entry.root}/{entry.pack}", entry.pack, entry.path)
        if len(data) > MAX_EVIDENCE_BYTES:
            raise InvalidDocumentError(f"found {len(data)} bytes; allowed are {MAX_EVIDENCE_BYTES}", where=entry.path)
        return data
    limit = MAX_EVIDENCE_BYTES if entry.kind is Kind.EVIDENCE else MAX_DOCUMENT_BYTES
    flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(f"{entry.root}/{entry.path}", flags)
        try:
            return _read_open(descriptor, limit, entry.path)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise InvalidDocumentError(f"cannot be read ({reason})", where=entry.path) from None


def _read_open(descriptor: int, limit: int, where: str) -> bytes:
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        raise InvalidDocumentError("is not a regular file", where=where)
    if facts.st_size > limit:
        raise InvalidDocumentError(f"found {facts.st_size} bytes; allowed are {limit}", where=where)
    data = os.read(descriptor, facts.st_size + 1)
    while len(data) < facts.st_size and (piece := os.read(descriptor, facts.st_size + 1 - len(data))):
        data += piece
    if len(data) != facts.st_size:
        raise InvalidDocumentError("grew or shrank while it was read", where=where)
    return data


def _walk(root: str) -> Iterator[tuple[str, Kind, Form]]:
    """Path, kind and form of every name that is not a plain folder, without following a link."""
    waiting = [("", 0)]
    while waiting:
        below, depth = waiting.pop()
        try:
            with os.scandir(f"{root}/{below}" if below else root) as listing:
                found = list(listing)
        except OSError:
            yield below or ".", Kind.OTHER, Form.FOLDER
            continue
        for item in found:
            path = f"{below}/{item.name}" if below else item.name
            if not item.is_dir(follow_symlinks=False):
                yield path, classify(path), _form_of(item)
            elif depth + 1 > MAX_DEPTH:
                yield path, Kind.OTHER, Form.FOLDER
            else:
                waiting.append((path, depth + 1))


def _form_of(item: os.DirEntry[str]) -> Form:
    try:
        return _form(item.stat(follow_symlinks=False).st_mode)
    except OSError:
        return Form.SPECIAL


def _form(mode: int) -> Form:
    if stat.S_ISLNK(mode):
        return Form.SYMLINK
    if not stat.S_ISREG(mode):
        return Form.SPECIAL
    return Form.EXECUTABLE if mode & 0o111 else Form.REGULAR


def classify(path: str) -> Kind:
    """Say what a path stands for, by its shape alone. Whether the content agrees is a rule's question."""
    steps = path.split("/")
    name = steps[-1]
    if _is_draft(name):
        return Kind.DRAFT
    if path == ".gitattributes":
        return Kind.ATTRIBUTES
    if name == "README.md":
        return Kind.README
    if name.endswith(".sig"):
        signed = classify(path[: -len(".sig")])
        return Kind.SIGNATURE if signed in (Kind.CERTIFICATE, Kind.EVENT) else Kind.OTHER
    if steps[0] == "evidence":
        if len(steps) == 2 and _is_digest(name, ".json"):
            return Kind.RECORD
        return Kind.EVIDENCE if len(steps) == 2 and _is_digest(name, ".jsonl") else Kind.OTHER
    if steps[0] == "packs":
        return Kind.PACK if len(steps) == 2 and _is_digest(name, ".xz") else Kind.OTHER
    if steps[0] == "ledger":
        return Kind.EVENT if len(steps) == 3 and _is_year(steps[1]) and _is_digest(name, ".json") else Kind.OTHER
    if len(steps) == 4 and all(_is_slug(step) for step in steps[:3]) and _is_certificate_name(name):
        return Kind.CERTIFICATE
    return Kind.OTHER


def _is_digest(name: str, suffix: str) -> bool:
    return len(name) == 64 + len(suffix) and name.endswith(suffix) and _HEX.issuperset(name[:64])


def _is_draft(name: str) -> bool:
    """``draft-A01-<32 hex digits>.json``."""
    head, _, run = name.removesuffix(".json").rpartition("-")
    return name.endswith(".json") and head.startswith("draft-") and len(run) == 32 and _HEX.issuperset(run)


def _is_year(step: str) -> bool:
    return len(step) == 4 and _DIGITS.issuperset(step)


def _is_slug(step: str) -> bool:
    return bool(step) and len(step) <= 128 and _SLUG.issuperset(step.lower()) and step[0] not in ".-"


def _is_certificate_name(name: str) -> bool:
    """``2026-01-31-0123456789ab.json``."""
    if len(name) != 28 or not name.endswith(".json") or name[4] + name[7] + name[10] != "---":
        return False
    digits = name[:4] + name[5:7] + name[8:10]
    return _DIGITS.issuperset(digits) and _HEX.issuperset(name[11:23])
