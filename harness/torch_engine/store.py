"""The disk tier: delta snapshots that outlive the process, one file per link.

Rules:

1. the files are the truth: the index is rebuilt from their headers when a folder is opened;
2. nothing is served that does not match its digests, which are checked while the bytes are read;
3. what is damaged, or is no link of this tier, goes to ``quarantine/`` and is named; it is never
   served and never deleted;
4. a link with children on the disk is pinned; only leaves are evicted, those of other builds first;
5. own links and those of other builds together never exceed the byte budget;
6. a link that cannot be stored is skipped and counted, never an error.

A link's parent need not be on the disk as long as the process holds it elsewhere (``held``), so a
cache may demote leaves first. Links whose parent is gone are removed when the folder is opened. A
store belongs to one thread.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from harness.torch_engine.image_wire import flat
from harness.torch_engine.keys import CacheKey
from harness.torch_engine.store_files import StoreFolder
from harness.torch_engine.store_header import file_name, place
from harness.torch_engine.store_index import StoreLink
from harness.torch_engine.store_record import (
    LinkCorruptError,
    LinkMissingError,
    Loaded,
    Record,
    RecordError,
    Section,
    SectionKind,
    StoreClosedError,
    StoreError,
    check_continues,
    check_record,
)
from harness.torch_engine.store_room import Room
from harness.torch_engine.store_scan import Quarantined, Ward, rebuild

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["DiskStore", "Loaded", "Quarantined", "Record", "Section", "SectionKind"]


class DiskStore:
    """An open folder of links; made by `open`, usable as a context manager."""

    folder_class = StoreFolder

    def __init__(self, folder: StoreFolder, *, build: bytes, room: Room) -> None:
        self.build = build
        self.room = room
        self._folder: StoreFolder | None = folder
        self._counts: Counter[str] = Counter()
        self._ward = Ward(folder)
        self._index = rebuild(folder, build, self._ward, self._counts)
        self._broken: dict[CacheKey, LinkCorruptError] = {}
        while 0 < room.budget_bytes < self._index.total_bytes and self.evict():
            pass

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        build: str,
        budget_bytes: int,
        min_free_bytes: int = 0,
        free_query: Callable[[], int] | None = None,
    ) -> Self:
        """Lock a folder and rebuild the index from its files.

        Args:
            folder: made if it is not there; not a symbolic link.
            build: what wrote the state: engine, version, and whatever else changes its bytes. Links
                of another build are kept while there is room, but never planned.
            budget_bytes: most bytes of all links together; 0 turns storing off and deletes nothing.
            min_free_bytes: bytes that the file system must have left after a link is stored.
            free_query: bytes that the file system has left now; asks the system by default.

        Raises:
            StoreFolderError: the folder cannot be used.
            StoreLockedError: another store, of this or another process, has it open.
            StoreError: a negative budget.
        """
        if min(budget_bytes, min_free_bytes) < 0:
            raise StoreError("store budgets: expected numbers from 0 on, found a negative one")
        opened = cls.folder_class(Path(folder))
        try:
            room = Room(
                budget_bytes=budget_bytes, min_free_bytes=min_free_bytes, free_query=free_query or opened.free_bytes
            )
            return cls(opened, build=hashlib.sha256(build.encode()).digest(), room=room)
        except BaseException:
            opened.close()
            raise

    def close(self) -> None:
        """Release the folder; closing twice is allowed."""
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def folder(self) -> StoreFolder:
        """The open folder.

        Raises:
            StoreClosedError: the store is closed.
        """
        if self._folder is None:
            raise StoreClosedError("store: expected an open one, found a closed one")
        return self._folder

    # -- storing -------------------------------------------------------------------------------

    def put(self, record: Record, payload: Sequence[Buffer]) -> str:
        """Store a link; it appears whole or not at all.

        Args:
            record: what the link is. Its parent need not be on the disk.
            payload: the bytes of every section, in order, on the host.

        Returns:
            ``stored``, ``exists``, or why it was skipped: ``disabled``, ``exceeds_budget``,
            ``budget``, ``low_space``, ``space_query_failed``, ``io``.

        Raises:
            ShortKeyError: the key does not cover exactly the snapshot's position.
            RecordError: the record contradicts itself or its payload.
            ChainError: it does not continue its parent, or a child on the disk does not continue it.
        """
        folder = self.folder
        check_record(record)
        views = [flat(part) for part in payload]
        sizes = [section.nbytes for section in record.sections]
        if [len(view) for view in views] != sizes:
            raise RecordError(f"payload: expected {sizes} bytes, found {[len(view) for view in views]}")
        if record.key in self._index:
            self._index.touch(record.key)
            return self._counted("exists")
        self._check_neighbours(record)
        size = place(record)[2]
        name = file_name(self.build, record.key)
        try:
            with self._index.pinned(record.parent):
                refused = self._make_room(size)
            if refused is not None:
                return self._counted(f"skip_{refused}", refused)
            header = folder.publish(name, self.build, record, views)
        except OSError:
            return self._counted("skip_io", "io")
        self._index.add(name, header)
        self._broken.pop(record.key, None)
        self._counts["written_bytes"] += size
        return self._counted("stored")

    def _counted(self, counter: str, outcome: str = "") -> str:
        """Count something; the outcome, by default the counter's name."""
        self._counts[counter] += 1
        return outcome or counter

    def _check_neighbours(self, record: Record) -> None:
        """The link continues its parent and its children continue it, as far as they are here."""
        parent = self._index.get(record.parent)
        if parent is not None:
            check_continues(record, parent.header.record)
        for child in self._index.children(record.key):
            check_continues(child.header.record, record)

    def _make_room(self, size: int) -> str | None:
        """Evict until ``size`` bytes fit; the reason if they cannot."""
        refused = self.room.refusal(size)
        while refused is None and self._index.total_bytes + size > self.room.budget_bytes:
            if not self.evict():
                return "budget"
        return refused

    # -- finding -------------------------------------------------------------------------------

    def find(self, key: CacheKey) -> Record | None:
        """What a link of this build says of itself, or None; its chain may be incomplete."""
        link = self._index.get(key)
        return link.header.record if link is not None else None

    def plan(
        self, domain: bytes, fingerprints: Iterable[tuple[int, int]], *, held: Collection[CacheKey] = ()
    ) -> CacheKey | None:
        """The deepest link whose whole chain is there. Changes nothing.

        Args:
            domain: who may have made it.
            fingerprints: (boundary in tokens, fingerprint) of the prompt's cuts, in any order.
            held: keys that the caller holds elsewhere; a chain may end on one of them.
        """
        for boundary, fingerprint in sorted(set(fingerprints), reverse=True):
            key = CacheKey(domain=domain, boundary=boundary, fingerprint=fingerprint)
            if key in self._index and self._index.missing(key, held) is None:
                return key
        return None

    def chain(self, key: CacheKey, *, held: Collection[CacheKey] = ()) -> tuple[Record, ...]:
        """The links leaf → root, each header checked again; the payloads are checked by `load`.

        Args:
            key: the leaf.
            held: keys that the caller holds elsewhere; the chain ends before one of them.

        Raises:
            LinkCorruptError: a link is, or was when it was last looked at, damaged; located.
            LinkMissingError: a link is not there.
            ChainError: two links do not continue one another.
        """
        links = self._links(key, held)
        for link in links:
            with self._guarded(link):
                self.folder.check_header(link.name, link.header)
        for child, parent in pairwise(links):
            check_continues(child.header.record, parent.header.record)
        return tuple(link.header.record for link in links)

    def _links(self, key: CacheKey, held: Collection[CacheKey]) -> list[StoreLink]:
        """The links leaf → root."""
        gap = self._index.missing(key, held)
        if gap in self._broken:
            raise self._broken[gap].again()
        if gap is not None:
            raise LinkMissingError(f"link at {gap.boundary} tokens: expected it for {key.boundary}, found none")
        return list(self._index.walk(key, held))

    # -- loading -------------------------------------------------------------------------------

    def load(self, key: CacheKey, into: Sequence[Buffer] | None = None) -> Loaded:
        """Read one link and verify it while reading, one pass.

        Args:
            key: the link.
            into: a writable buffer per section, of exactly its size; memory of its own if None.
                After an error their contents must not be used, so load a whole chain into staging
                memory before a session is touched.

        Raises:
            LinkMissingError: no such link.
            LinkCorruptError: it is damaged; it is in the quarantine now, and its descendants are
                refused for the same reason.
            RecordError: the buffers are not those of its sections.
        """
        link = self._present(key)
        sections = link.header.record.sections
        sizes = [section.nbytes for section in sections]
        views = [flat(part) for part in (into if into is not None else map(bytearray, sizes))]
        if [len(view) for view in views] != sizes or any(view.readonly for view in views if len(view)):
            raise RecordError(
                f"buffers: expected writable ones of {sizes} bytes, found {[len(view) for view in views]}"
            )
        with self._guarded(link):
            self.folder.load(link.name, link.header, views)
        self._index.touch(key)
        self._counts["loads"] += 1
        self._counts["loaded_bytes"] += sum(sizes)
        return Loaded(record=link.header.record, payload=tuple(views))

    def load_chain(
        self,
        key: CacheKey,
        into: Callable[[Record], Sequence[Buffer]] | None = None,
        *,
        held: Collection[CacheKey] = (),
    ) -> tuple[Loaded, ...]:
        """Load every link leaf → root; all of them are verified when this returns.

        Args:
            key: the leaf.
            into: gives the buffers of a link; memory of its own if None.
            held: as for `chain`.

        Raises:
            As `chain` and `load`; the error names the link that is damaged, whatever the leaf.
        """
        chain = self.chain(key, held=held)
        return tuple(self.load(record.key, into(record) if into is not None else None) for record in chain)

    def verify(self, key: CacheKey) -> int:
        """Read and verify one link without keeping its bytes; the bytes of its file.

        Raises:
            As `load`.
        """
        link = self._present(key)
        with self._guarded(link):
            self.folder.load(link.name, link.header, None)
        self._counts["verified"] += 1
        return link.header.file_bytes

    def _present(self, key: CacheKey) -> StoreLink:
        link = self._index.get(key)
        if link is not None:
            return link
        if key in self._broken:
            raise self._broken[key].again()
        raise LinkMissingError(f"link at {key.boundary} tokens: expected one on the disk, found none")

    @contextmanager
    def _guarded(self, link: StoreLink) -> Iterator[None]:
        """Take a link out of the index if it turns out to be damaged or gone."""
        try:
            yield
        except LinkCorruptError as error:
            key = link.header.record.key
            self._index.drop(key)
            self._broken[key] = error
            self._counts["verify_failures"] += 1
            self._ward.admit(link.name, "digest", str(error))
            raise
        except LinkMissingError:
            self._index.drop(link.header.record.key)
            self._counts["vanished"] += 1
            raise

    # -- evicting ------------------------------------------------------------------------------

    def evict(self, count: int = 1, *, protect: Collection[CacheKey] = ()) -> tuple[str, ...]:
        """Delete links: those of other builds first, then the least recently used leaves.

        Args:
            count: most links to delete.
            protect: keys that must stay.

        Returns:
            The file names that were deleted; fewer than ``count`` where nothing else may go.
        """
        names: list[str] = []
        while len(names) < count:
            victim = self._index.victim(protect)
            if victim is None:
                break
            self.folder.remove(victim.name)
            self._index.forget(victim)
            names.append(victim.name)
            self._counts["evictions" if victim.own else "evictions_other_build"] += 1
            self._counts["evicted_bytes"] += victim.nbytes
        return tuple(names)

    def remove(self, key: CacheKey) -> bool:
        """Delete one leaf, as after a promotion; False where it is not there or has children."""
        link = self._index.get(key)
        if link is None or next(self._index.children(key), None) is not None:
            return False
        self.folder.remove(link.name)
        self._index.forget(link)
        self._counts["removed"] += 1
        return True

    # -- reporting -----------------------------------------------------------------------------

    def entries(self) -> list[dict[str, object]]:
        """One row per link, least recently used first; links of other builds have no key."""
        return self._index.rows()

    def quarantined(self) -> tuple[Quarantined, ...]:
        """What was moved to ``quarantine/`` since the store was opened, in order."""
        return tuple(self._ward.admitted)

    def counters(self) -> dict[str, int]:
        """What happened since the store was opened, and what is held now."""
        now = self._index.counters() | self._ward.counters() | self.room.counters()
        return dict.fromkeys(_COUNTERS, 0) | dict(self._counts) | now


_COUNTERS = (
    "stored", "written_bytes", "exists", "loads", "loaded_bytes", "verified", "verify_failures", "vanished",
    "evictions", "evictions_other_build", "evicted_bytes", "removed", "orphans_removed",
    "temporaries_removed", "ignored_files", "skip_disabled", "skip_exceeds_budget", "skip_budget",
    "skip_low_space", "skip_space_query_failed", "skip_io",
)  # fmt: skip
