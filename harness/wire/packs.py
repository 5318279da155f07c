"""Packs: many evidence files in one, solid and compressed, so that a folder of certificates stays small.

A pack is an xz stream under the name ``packs/<sha256>.xz``, by the SHA-256 of what it holds uncompressed
(``xz -dc packs/X.xz | sha256sum`` says the same). Inside, one canonical line lists paths and sizes, and then their
bytes follow without a gap. So what a compressor does is of no account: identity lies in the bytes before it, and each
evidence file inside still has the name that is its own digest.

What a stranger packs is bounded before anything is built from it: size before, size after, and the decoder's memory.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from harness.errors import InvalidDocumentError
from harness.wire import canonical, strict

FOLDER: Final = "packs"
SUFFIX: Final = ".xz"
SCHEMA: Final = "statecert/pack/v1"
MAX_PACKED_BYTES: Final = 8 * 1024 * 1024
MAX_BYTES: Final = 9 * 1024 * 1024
"""Uncompressed: one evidence file of the largest size, and the list."""
WANTED_BYTES: Final = 2 * 1024 * 1024
"""Of the files of one pack: larger ones hardly get smaller, and whoever wants one file unpacks all of its pack."""
MAX_GROWTH: Final = 64
"""Uncompressed bytes for each compressed one, above :data:`_FREE_BYTES`: evidence, full of digests, has 20 at most."""
MAX_MEMBERS: Final = 10_000
MAX_FILES: Final = 20_000
"""In all packs of a folder."""

_FREE_BYTES: Final = 64 * 1024
_DICTIONARY: Final = 2 * 1024 * 1024
_DECODER_BYTES: Final = 16 * 1024 * 1024
_OPEN: Final = 2
"""Packs held unpacked in memory."""
_SPOOLED_BYTES: Final = 256 * 1024 * 1024
"""Of packs that lie unpacked in a nameless file of this process; those beyond are unpacked whenever they are asked."""
_HEX: Final = frozenset("0123456789abcdef")


class Pack(NamedTuple):
    """One pack, read and checked."""

    data: bytes
    """Uncompressed."""
    members: Mapping[str, tuple[int, int]]
    """Path below the certificates folder to first byte and end."""

    def read(self, path: str) -> bytes:
        """Return the bytes of one member."""
        first, end = self.members[path]
        return self.data[first:end]


def pack(members: Sequence[tuple[str, bytes]]) -> tuple[str, bytes]:
    """Return the name (below the certificates folder) and the bytes of a pack of these files.

    Args:
        members: Path and bytes of evidence files; their order is kept. Files that resemble one another should be near.
    """
    import lzma

    listed = [{"bytes": len(data), "path": path} for path, data in members]
    whole = canonical.canonical({"files": listed, "schema": SCHEMA}) + b"\n" + b"".join(data for _, data in members)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": _DICTIONARY}]
    packed = lzma.compress(whole, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, filters=filters)
    name = f"{FOLDER}/{hashlib.sha256(whole).hexdigest()}{SUFFIX}"
    unpack(packed, name)  # what a reader would refuse is never written
    return name, packed


def unpack(packed: bytes, name: str) -> Pack:
    """Return a pack that is whole and is what its name says.

    Raises:
        InvalidDocumentError: It is not: another digest, cut off, too large, bytes that belong to no file, a file twice,
            a path that is no evidence file's.
    """
    whole = _unpacked(packed, name)
    digest = hashlib.sha256(whole).hexdigest()
    if name.rpartition("/")[2] != digest + SUFFIX:
        raise InvalidDocumentError(f"holds bytes with the digest {digest}", where=name)
    head, found, _ = whole.partition(b"\n")
    if not found:
        raise InvalidDocumentError("has no list of files", where=name)
    value = strict.loads(head, where=name, limits=strict.EVIDENCE_LINE, form="canonical")
    members: dict[str, tuple[int, int]] = {}
    first = len(head) + 1
    for path, size in _listed(value, name):
        if path in members:
            raise InvalidDocumentError(f"lists {path} twice", where=name)
        members[path] = (first, first + size)
        first += size
    if first != len(whole):
        raise InvalidDocumentError(f"lists {first} bytes and holds {len(whole)}", where=name)
    return Pack(data=whole, members=members)


def _unpacked(packed: bytes, name: str) -> bytes:
    import lzma

    if len(packed) > MAX_PACKED_BYTES:
        raise InvalidDocumentError(f"found {len(packed)} bytes; allowed are {MAX_PACKED_BYTES}", where=name)
    most = min(MAX_BYTES, _FREE_BYTES + MAX_GROWTH * len(packed))
    try:
        stream = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_DECODER_BYTES)
        whole = stream.decompress(packed, max_length=most + 1)
    except lzma.LZMAError as error:
        raise InvalidDocumentError(f"is no xz stream that may be read ({error})", where=name) from None
    if len(whole) > most:
        raise InvalidDocumentError(f"of {len(packed)} bytes unpacks to more than {most}", where=name)
    if not stream.eof or stream.unused_data:
        raise InvalidDocumentError("is cut off, or something follows its end", where=name)
    return whole


def _listed(value: object, name: str) -> Sequence[tuple[str, int]]:
    fields = value if isinstance(value, dict) else {}
    rows = fields.get("files")
    if set(fields) != {"files", "schema"} or fields["schema"] != SCHEMA or not isinstance(rows, list):
        raise InvalidDocumentError(f"has no list of files of {SCHEMA}", where=name)
    if not 0 < len(rows) <= MAX_MEMBERS:
        raise InvalidDocumentError(f"lists {len(rows)} files; allowed are 1 to {MAX_MEMBERS}", where=name)
    found = []
    for row in rows:
        if not isinstance(row, dict) or set(row) != {"bytes", "path"}:
            raise InvalidDocumentError("lists a file without its path and bytes", where=name)
        path, size = row["path"], row["bytes"]
        if not isinstance(path, str) or not is_evidence(path):
            raise InvalidDocumentError(f"lists {str(path)[:80]!a}, which is no evidence file", where=name)
        if type(size) is not int or not 0 <= size <= MAX_BYTES:
            raise InvalidDocumentError(f"lists {path} without its size", where=name)
        found.append((path, size))
    return found


def is_evidence(path: str) -> bool:
    """Tell whether a path below a certificates folder is that of an evidence file."""
    return path.startswith("evidence/") and is_digest(path[len("evidence/") :], ".jsonl")


def is_digest(name: str, suffix: str) -> bool:
    """Tell whether a file name is 64 hex digits and an ending."""
    return len(name) == 64 + len(suffix) and name.endswith(suffix) and _HEX.issuperset(name[:64])


def opened(path: str, name: str) -> Pack:
    """Return the pack of a file; the last ones are held.

    Raises:
        InvalidDocumentError: It is not whole, or cannot be read; see :func:`unpack`.
    """
    return _opened(path, name, _facts(path, name))


def member(path: str, name: str, wanted: str) -> bytes:
    """Return the bytes of one file of a pack; a pack is unpacked and checked once, whatever the order.

    Raises:
        InvalidDocumentError: The pack is not whole, or cannot be read; see :func:`unpack`.
        KeyError: It has no such file.
    """
    return _SPOOL.member(path, name, _facts(path, name), wanted)


_Key = tuple[str, str, tuple[int, ...]]


class _Spool:
    """Unpacked packs in a file that has no name, so that nobody else can write what was checked; it goes with us."""

    def __init__(self) -> None:
        self._file = -1
        self._end = 0
        self._held: dict[_Key, tuple[int, Mapping[str, tuple[int, int]]]] = {}
        """First byte of each pack, and its members."""

    def member(self, path: str, name: str, facts: tuple[int, ...], wanted: str) -> bytes:
        """Return the bytes of one member, from where the pack lies."""
        held = self._held.get((path, name, facts))
        if held is None:
            opened = _opened(path, name, facts)
            self._keep((path, name, facts), opened)
            return opened.read(wanted)
        first, members = held
        begin, end = members[wanted]
        data = os.pread(self._file, end - begin, first + begin)
        return data if len(data) == end - begin else _opened(path, name, facts).read(wanted)

    def _keep(self, key: _Key, opened: Pack) -> None:
        if self._end + len(opened.data) > _SPOOLED_BYTES:
            return
        try:
            if self._file < 0:
                self._file = _nameless()
            if os.pwrite(self._file, opened.data, self._end) != len(opened.data):
                return
        except OSError:
            return  # no room: packs are unpacked again instead
        self._held[key] = (self._end, opened.members)
        self._end += len(opened.data)


def _nameless() -> int:
    import tempfile

    descriptor, name = tempfile.mkstemp(prefix="statecert-")
    os.unlink(name)  # noqa: PTH108 - a quick gate imports no pathlib
    return descriptor


_SPOOL: Final = _Spool()


def _facts(path: str, name: str) -> tuple[int, ...]:
    """What changes with a file, and tells whether it is the one that was opened."""
    try:
        facts = os.lstat(path)
    except OSError as error:
        raise InvalidDocumentError(f"cannot be read ({error.strerror})", where=name) from None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_mode


@lru_cache(maxsize=256)
def _listing(path: str, name: str, facts: tuple[int, ...]) -> Sequence[str]:
    return tuple(_opened(path, name, facts).members)


@lru_cache(maxsize=_OPEN)
def _opened(path: str, name: str, _facts: tuple[int, ...]) -> Pack:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_PACKED_BYTES + 1)
    except OSError as error:
        raise InvalidDocumentError(f"cannot be read ({error.strerror})", where=name) from None
    return unpack(data, name)


def places(folder: str) -> Mapping[str, str]:
    """Return the path of every packed evidence file of a folder, to the name of its pack.

    Raises:
        InvalidDocumentError: A pack is not whole.
    """
    found: dict[str, str] = {}
    below = os.path.join(folder, FOLDER)  # noqa: PTH118 - a quick gate imports no pathlib
    names = sorted(os.listdir(below)) if os.path.isdir(below) else ()  # noqa: PTH112, PTH208
    for file in names:
        if is_digest(file, SUFFIX):
            name = f"{FOLDER}/{file}"
            whole = f"{folder}/{name}"
            for path in _listing(whole, name, _facts(whole, name)):
                found.setdefault(path, name)
    return found
