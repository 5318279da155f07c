"""Faults of the disk tier, of several kinds: what is read, what it is taken for, and how much is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.disk_tier import Fetched
from harness.torch_engine.store import DiskStore, Record
from harness.torch_engine.store_files import StoreFolder
from harness.torch_engine.store_header import (
    DIGEST_AT,
    PREFIX,
    file_name,
    header_length,
    parse_header,
    whole_digest,
)
from harness.torch_engine.store_record import Header, RecordFormatError
from harness.torch_engine.store_room import Room

if TYPE_CHECKING:
    from typing_extensions import Buffer

_BOUNDARY, _POSITION = 11, 13


class _FollowsLinks(StoreFolder):
    def read_header(self, name: str) -> tuple[Header, int]:
        with (self.path / name).open("rb") as file:
            facts = os.fstat(file.fileno())
            size = header_length(os.pread(file.fileno(), PREFIX.size, 0), facts.st_size)
            return parse_header(os.pread(file.fileno(), size, 0)), facts.st_mtime_ns

    @contextmanager
    def _opened(self, name: str, header: Header) -> Iterator[int]:  # noqa: ARG002 - the seam's name
        with (self.path / name).open("rb") as file:
            yield file.fileno()


class _FollowingStore(DiskStore):
    folder_class = _FollowsLinks


class SymlinksFollowed(Mutant):
    """A symbolic link in the folder of the disk tier is followed, wherever it leads."""

    mutant_id = "K06.symlinks-followed"
    stopped_by = Stop(scenario="G06", cell={"what": "symlink"}, check="one-aside", reason="other_count")
    disk_class = _FollowingStore


class _TakesNames(StoreFolder):
    def names(self) -> tuple[list[str], list[str], int]:
        entries, temporaries, ignored = super().names()
        return [self._adopted(name) for name in entries], temporaries, ignored

    def _adopted(self, name: str) -> str:
        header, _ = self.read_header(name)
        own = file_name(header.build, header.record.key)
        if own != name:
            (self.path / name).rename(self.path / own)
        return own


class _TakingStore(DiskStore):
    folder_class = _TakesNames


class FileNamesUnchecked(Mutant):
    """A file of the disk tier is taken for the link that it says it is, whatever name it lies under."""

    mutant_id = "K08.file-names-unchecked"
    stopped_by = Stop(scenario="G06", cell={"what": "rename"}, check="one-aside", reason="other_count")
    disk_class = _TakingStore


class _TakesShortKeys(StoreFolder):
    def read_header(self, name: str) -> tuple[Header, int]:
        try:
            return super().read_header(name)
        except RecordFormatError as error:
            if error.reason != "key":
                raise
        raw = bytearray((self.path / name).read_bytes())
        used = (self.path / name).stat().st_mtime_ns
        size = header_length(bytes(raw[: PREFIX.size]), len(raw))
        fields = list(PREFIX.unpack_from(raw))
        real = bytes(raw[DIGEST_AT : DIGEST_AT + 32])
        fields[_POSITION] = fields[_BOUNDARY]
        PREFIX.pack_into(raw, 0, *fields)
        raw[DIGEST_AT : DIGEST_AT + 32] = whole_digest(memoryview(raw)[:size])
        return replace(parse_header(bytes(raw[:size])), sha256=real), used


class _TakingShortKeys(DiskStore):
    folder_class = _TakesShortKeys


class ShortKeysTaken(Mutant):
    """A snapshot that has seen more tokens than its key covers is taken for those of the key."""

    mutant_id = "K02.short-keys-taken"
    stopped_by = Stop(scenario="G07", cell={"link": "leaf"}, check="one-aside", reason="other_count")
    disk_class = _TakingShortKeys


class _SpaceIgnored(DiskStore):
    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        build: str,
        budget_bytes: int,
        min_free_bytes: int = 0,  # noqa: ARG003 - that is the fault
        free_query: Callable[[], int] | None = None,
    ) -> Self:
        return super().open(folder, build=build, budget_bytes=budget_bytes, free_query=free_query)


class FreeSpaceIgnored(Mutant):
    """The disk is written to the last byte, whatever must be left free."""

    mutant_id = "K15.free-space-ignored"
    stopped_by = Stop(scenario="E12", check="read-only", reason="other_count")
    disk_class = _SpaceIgnored


class _KeepsAll(DiskStore):
    def __init__(self, folder: StoreFolder, *, build: bytes, room: Room) -> None:
        super().__init__(folder, build=build, room=replace(room, budget_bytes=1 << 40))
        self.room = room


class ShrunkenBudgetIgnored(Mutant):
    """A folder that is opened with a smaller budget keeps all that it held."""

    mutant_id = "K15.shrunken-budget-ignored"
    stopped_by = Stop(scenario="E12", check="shrunken", reason="other_count")
    disk_class = _KeepsAll


class _WritesAgain(DiskStore):
    def put(self, record: Record, payload: Sequence[Buffer]) -> str:
        if self.find(record.key) is not None:
            self.remove(record.key)
        return super().put(record, payload)


class WrittenAgain(Mutant):
    """A link that lies on the disk is written again whenever it leaves memory."""

    mutant_id = "K15.written-again"
    stopped_by = Stop(scenario="G10", check="written-once")
    disk_class = _WritesAgain


class _UnreadDigests(StoreFolder):
    def load(self, name: str, header: Header, into: Sequence[memoryview] | None) -> None:
        with self._opened(name, header) as file:
            for placed, view in zip(header.placed, into or (), strict=False):
                view[:] = os.pread(file, placed.section.nbytes, placed.offset)


class _UnreadStore(DiskStore):
    folder_class = _UnreadDigests


class DigestsUnread(Mutant):
    """What comes from the disk is taken as it is: the digests are written, and nobody compares them."""

    mutant_id = "K06.disk-digests-unread"
    stopped_by = Stop(scenario="G04", cell={"link": "leaf", "damage": "payload"}, check="refused", reason="not_refused")
    disk_class = _UnreadStore


class _AnyBuild(DiskStore):
    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        build: str,  # noqa: ARG003 - that is the fault
        budget_bytes: int,
        min_free_bytes: int = 0,
        free_query: Callable[[], int] | None = None,
    ) -> Self:
        return super().open(
            folder, build="any", budget_bytes=budget_bytes, min_free_bytes=min_free_bytes, free_query=free_query
        )


class OtherBuildPlanned(Mutant):
    """What another build wrote is planned and served like what this one wrote."""

    mutant_id = "K08.other-build-planned"
    stopped_by = Stop(scenario="G03", check="passed-over", reason="other_count")
    disk_class = _AnyBuild


class _Unlocked(StoreFolder):
    def _acquire(self) -> int:
        return os.open(self.path / "lock.other", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


class _UnlockedStore(DiskStore):
    folder_class = _Unlocked


class FolderNotLocked(Mutant):
    """Two processes have one folder open at a time, and each removes what the other writes."""

    mutant_id = "K07.folder-not-locked"
    stopped_by = Stop(scenario="G02", cell={"how": "stop"}, check="rival-refused", reason="not_refused")
    disk_class = _UnlockedStore


class _AppearsAtTheEnd(StoreFolder):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._waiting: list[tuple[Path, Path]] = []

    def rename(self, temporary: Path, final: Path) -> None:
        self._waiting.append((temporary, final))

    def close(self) -> None:
        for temporary, final in self._waiting:
            super().rename(temporary, final)
        super().close()


class _WritesBehind(DiskStore):
    folder_class = _AppearsAtTheEnd


class WrittenBehind(Mutant):
    """A link is said to be on the disk while it waits for its name; a process that is killed takes it along."""

    mutant_id = "K04.written-behind"
    stopped_by = Stop(scenario="G05", cell={"written": "all"}, check="left", reason="other_count")
    disk_class = _WritesBehind


class _NeverPromotes(SessionCache):
    def promote(self, links: list[Fetched]) -> None:
        """Serve what came from the disk, and let it go."""


class NeverPromoted(Mutant):
    """What came from the disk serves one turn and is let go, so that every turn reads the disk again."""

    mutant_id = "K15.never-promoted"
    stopped_by = Stop(scenario="G09", check="all-back", reason="other_size")
    store = _NeverPromotes


class _KeepsPending(SessionCache):
    def _drop_deepest_pending(self) -> bool:
        return False


class PressureSparesPending(Mutant):
    """Captures of an open turn are held on to, whatever a growing context needs."""

    mutant_id = "K15.pressure-spares-pending"
    stopped_by = Stop(scenario="E09", check="nothing-pending", reason="other_count")
    store = _KeepsPending
