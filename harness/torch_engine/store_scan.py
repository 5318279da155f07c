"""What a folder holds when it is opened: links, links of other builds, and what is neither."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from harness.torch_engine.store_files import StoreFolder
from harness.torch_engine.store_header import file_name
from harness.torch_engine.store_index import StoreIndex
from harness.torch_engine.store_record import ChainError, Header, RecordFormatError, check_continues


@dataclass(frozen=True, kw_only=True, slots=True)
class Quarantined:
    """An entry that was moved out of the tier."""

    name: str
    """Its name in the tier."""
    moved_to: str
    """Its name in ``quarantine/``; empty if it could not be moved."""
    reason: str
    """One word, like ``digest`` or ``magic``."""
    what: str
    """What was expected and found, with the place."""


class Ward:
    """Moves entries to the quarantine and remembers which."""

    def __init__(self, folder: StoreFolder) -> None:
        self._folder = folder
        self.admitted: list[Quarantined] = []
        """In order."""

    def admit(self, name: str, reason: str, what: str) -> None:
        """Move an entry; one that cannot be moved stays where it is, named, and is not served."""
        try:
            moved = self._folder.quarantine(name, reason)
        except OSError as error:
            moved, what = "", f"{what}; could not be moved: {error.strerror}"
        self.admitted.append(Quarantined(name=name, moved_to=moved, reason=reason, what=what))

    def counters(self) -> dict[str, int]:
        """Entries admitted since the folder was opened; entries and bytes in the quarantine now."""
        entries, size = self._folder.quarantined_bytes()
        return {"quarantined": len(self.admitted), "quarantine_entries": entries, "quarantine_bytes": size}


def rebuild(folder: StoreFolder, build: bytes, ward: Ward, counts: Counter[str]) -> StoreIndex:
    """Read every header; quarantine what is no link; remove what broke off and what lost its parent.

    Args:
        folder: locked.
        build: links of another one are indexed apart.
        ward: gets what is no link, or not the one its name says.
        counts: what was removed or ignored is counted here.
    """
    names, temporaries, ignored = folder.names()
    for name in temporaries:
        folder.remove(name)
    counts["temporaries_removed"] += len(temporaries)
    counts["ignored_files"] += ignored
    index = StoreIndex()
    for _, name, header in sorted(_headers(folder, names, ward), key=lambda found: found[:2]):
        if header.build == build:
            index.add(name, header)
        else:
            index.add_other(name, header.file_bytes)
    _drop_orphans(folder, index, ward, counts)
    return index


def _headers(folder: StoreFolder, names: list[str], ward: Ward) -> list[tuple[int, str, Header]]:
    """Time of last use, name and header of every link."""
    found = []
    for name in names:
        try:
            header, used = folder.read_header(name)
            _check_name(name, header)
        except RecordFormatError as error:
            ward.admit(name, error.reason, f"{name}: {error}")
        except OSError as error:
            ward.admit(name, "not_readable", f"{name}: {error.strerror}")
        else:
            found.append((used, name, header))
    return found


def _check_name(name: str, header: Header) -> None:
    """A file has the name that its build and key give.

    Raises:
        RecordFormatError: it has another.
    """
    expected = file_name(header.build, header.record.key)
    if name != expected:
        raise RecordFormatError("name", f"file name: expected {expected}, found {name!r}")


def _drop_orphans(folder: StoreFolder, index: StoreIndex, ward: Ward, counts: Counter[str]) -> None:
    """Remove links whose parent is gone; quarantine those that do not continue theirs."""
    for link in index.by_depth():
        record = link.header.record
        if record.parent is None:
            continue
        parent = index.get(record.parent)
        if parent is None:
            folder.remove(link.name)
            index.forget(link)
            counts["orphans_removed"] += 1
            continue
        try:
            check_continues(record, parent.header.record)
        except ChainError as error:
            index.forget(link)
            ward.admit(link.name, error.code, f"{link.name}: {error}")
