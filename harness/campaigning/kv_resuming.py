"""What a matrix that was broken off has measured, page by page, and whether it can go on here.

A page counts as measured in a process once all records of it are there. The file that was broken off stays as it is; a
campaign that goes on writes a file of its own, into which it takes the finished pages over, and says so in a record.
Its rounds still lie on one clock, which therefore must be that of the same start of the same machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.campaigning.campaign import facts_of
from harness.deriving.kv_figures import extent, integers
from harness.deriving.kv_plan import KV, VERSION, plan_groups, version_of
from harness.errors import UsageError
from harness.wire.campaign_doc import read_cut_off

if TYPE_CHECKING:
    from harness.pipeline import Bench

Record = Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What is taken over."""

    header: Record
    records: Sequence[Record]
    """All of the file that was broken off, but for its header."""
    done: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Pages that each process measured whole."""
    probed: bool = False
    """Every probe was tried."""

    @property
    def procedure(self) -> Record:
        """What was going to be done, and still is."""
        found = self.header["procedure"]
        return found if isinstance(found, Mapping) else {}

    def carried(self) -> Iterator[Record]:
        """Records that are taken over, and one that says so."""
        if not self.header:
            return
        for one in self.records:
            if self._is_whole(one):
                yield one
        pages = sum(len(done) for done in self.done.values())
        yield {"type": "kv_sitting", "run_id": self.header["run_id"], "pages": pages}

    def open_processes(self, procedure: Record) -> list[int]:
        """The processes that have something left to measure."""
        told = {one["process"] for one in self.records if one["type"] == "kv_oracle"}
        return [process for process in range(integers({"n": [procedure["processes"]]}, "n")[0]) if process not in told]

    def require_same(self, bench: Bench) -> None:
        """Do nothing if what is up is what was measured.

        Raises:
            UsageError: Another engine, source or machine; or the machine was started again, and its clock with it.
        """
        if not self.header:
            return
        now = facts_of(bench)
        for name in ("target", "source"):
            if now[name] != self.header[name]:
                raise UsageError(f"--resume: expected the {name} that the pages were measured on, found another one")
        if _machine(now) != _machine(self.header):
            raise UsageError("--resume: expected the machine that the pages were measured on, found another one")
        ends = [extent(one)[1] for one in self.records if one["type"] == "kv_round"]
        if ends and max(ends) > time.monotonic_ns():
            raise UsageError("--resume: the machine was started again since; its clock is another one")

    def _is_whole(self, one: Record) -> bool:
        if one["type"] in ("kv_round", "kv_memory", "kv_page"):
            return one["group"] in self.done.get(int(str(one["process"])), ())
        if one["type"] == "kv_walk":
            return one["group"] in self.done.get(0, ())
        return one["type"] != "kv_probe" or self.probed


NOTHING: Final = Kept(header={}, records=[])


def kept_of(path: Path) -> Kept:
    """Return what a file that was broken off holds.

    Raises:
        UsageError: It is no file of this campaign, is closed, or is of an older procedure.
        InvalidDocumentError: A line is not what a writer makes.
    """
    if not path.is_file():
        raise UsageError(f"no file {path}; --resume wants the observations of a campaign that was broken off")
    header, *records = read_cut_off(path.read_bytes(), path.name)
    procedure = header["procedure"]
    if header["campaign"] != KV or not isinstance(procedure, Mapping) or version_of(procedure) != VERSION:
        raise UsageError(f"--resume: expected a campaign {KV} of version {VERSION}, found another one in {path.name}")
    walks = {name for name in _groups(records, "kv_walk") if _count(records, "kv_walk", name) == _versions(procedure)}
    done: dict[int, frozenset[str]] = {}
    for process in range(integers({"n": [procedure["processes"]]}, "n")[0]):
        pages = _groups([one for one in records if one.get("process") == process], "kv_page")
        done[process] = frozenset(pages & walks if process == 0 else pages)
    planned = {group.id for group in plan_groups(procedure)}
    if any(not names <= planned for names in done.values()):
        raise UsageError(f"--resume: {path.name} holds a page that its procedure does not plan")
    measured = any(one["type"] == "kv_round" for one in records)  # of process 0, whose probes come first
    return Kept(header=header, records=records, done=done, probed=measured)


def _groups(records: Sequence[Record], kind: str) -> set[str]:
    return {str(one["group"]) for one in records if one["type"] == kind}


def _count(records: Sequence[Record], kind: str, group: str) -> int:
    return sum(one["type"] == kind and one["group"] == group for one in records)


def _versions(procedure: Record) -> int:
    return len(integers(procedure, "versions"))


def _machine(header: Record) -> object:
    environment = header["environment"]
    return environment.get("machine") if isinstance(environment, Mapping) else None
