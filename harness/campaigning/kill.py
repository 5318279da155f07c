"""Kills: an engine's process gets SIGKILL while it publishes to its disk, and a new one opens what it left.

A round: a prompt is forwarded with a look at every boundary; all of its links are sent to the disk, by evicting them
(leaves first) or by closing the engine (roots first); after a planned share of the time that this takes the process is
killed. A new process opens the folder, is asked for the same prompt
and for an earlier one, and what it restores is compared with those looks. Lanes work side by side, each with a folder
of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Final

from harness.campaigning.campaign import Campaign, Tell, Write, conduct, require_able
from harness.deriving.kill import CLOSE, EVICT, KILL, control_seed, plan_shot, shot_ids
from harness.deriving.prompts import prompt_digest
from harness.deriving.soak import median
from harness.deriving.support import DISK_OPTION
from harness.errors import EngineError, OutOfMemoryError, ProtocolError, RefusedError, UsageError
from harness.model.values import Capability, Family
from harness.pipeline import Bench
from harness.wire.evidence_doc import part_table

if TYPE_CHECKING:
    from harness.engines.client import Look, RemoteEngine, RemoteSession
    from harness.engines.host import EngineHost

NEEDED: Final = (
    Capability.PARTS,
    Capability.BOUNDARIES,
    Capability.PREFIX_CACHE,
    Capability.STORE,
    Capability.EVICT,
    Capability.DISK,
    Capability.CORRUPT,
)
CHUNK: Final = 64
LINKS: Final = 4
_SUFFIX: Final = 12
_DECODE: Final = 4
_LATEST: Final = 1600
_CONTROLS: Final = 3
_UNFINISHED: Final = "disk_temporaries_removed"
_PUT_ASIDE: Final = "disk_quarantined"


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a caller chose."""

    kills: int
    seed: int
    lanes: int


def run_kills(bench: Bench, asked: Asked, tell: Tell | None = None) -> Campaign:
    """Run the campaign on a target that is up, and write its two files into the run folder.

    Raises:
        UsageError: Fewer kills than lanes.
        NothingToDoError: The device is absent, or the engine cannot do what this needs.
        EngineError: The engine did not go on.
    """
    if not 0 < asked.lanes <= asked.kills:
        raise UsageError(f"found {asked.kills} kills in {asked.lanes} lanes; a lane has at least one")
    require_able(bench, NEEDED)
    procedure = procedure_of(asked)
    hosts = [bench.host, *(bench.host.rival(bench.folder / f"lane-{lane}") for lane in range(1, asked.lanes))]
    lanes = [_Lane(host, procedure, lane, bench.folder / f"disk-{lane}") for lane, host in enumerate(hosts)]
    done = 0

    def work(write: Write) -> Sequence[EngineHost]:
        def counted(record: Mapping[str, object]) -> None:
            nonlocal done
            write(record)
            if record["type"] == "kill":
                done += 1
                (tell or _silent)("kills", done)

        pool = ThreadPoolExecutor(len(lanes))
        try:
            for over in [pool.submit(lane.run, counted) for lane in lanes]:
                over.result()
        finally:
            pool.shutdown(cancel_futures=True)
        return hosts

    try:
        return conduct(bench, KILL, procedure, work)
    finally:
        for host in hosts[1:]:
            host.close()
        for lane in lanes:
            shutil.rmtree(lane.folder, ignore_errors=True)


def procedure_of(asked: Asked) -> Mapping[str, object]:
    """Return what is going to be done."""
    return {
        "seed": asked.seed,
        "kills": asked.kills,
        "lanes": asked.lanes,
        "ways": [EVICT, CLOSE],
        "chunk": CHUNK,
        "links": LINKS,
        "suffix": _SUFFIX,
        "decode": _DECODE,
        "latest": _LATEST,
        "controls": _CONTROLS,
    }


class _Lane:
    """One host, one folder, one kill after the other.

    Args:
        host: Whose child is killed and started again.
        procedure: What to do.
        lane: Number of this lane.
        folder: Of the disk tier.
    """

    def __init__(self, host: EngineHost, procedure: Mapping[str, object], lane: int, folder: Path) -> None:
        self.folder = folder
        self._host, self._procedure, self._lane = host, procedure, lane
        self._options: Mapping[str, str | int | bool] = {
            "chunk": CHUNK,
            "max_seq_len": CHUNK * LINKS + _SUFFIX + _DECODE,
            DISK_OPTION: str(folder),
        }
        self._seen: dict[int, Mapping[str, object]] = {}

    def run(self, write: Write) -> None:
        """All rounds of this lane, and its controls."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._open()
        publish_us = {}
        for way in (EVICT, CLOSE):
            publish_us[way] = median([self._paced(way, number) for number in range(_CONTROLS)])
            write({"type": "pace", "lane": self._lane, "way": way, "publish_us": publish_us[way]})
        for number in range(self._lane, int(str(self._procedure["kills"])), int(str(self._procedure["lanes"]))):
            record = self._round(number, publish_us)
            write(record)
            if not record["reopened"]:
                raise EngineError(f"kill {number}: no new process opened the folder")
        for number in range(_CONTROLS):
            write(self._control(number))
        self._engine.close()

    def _open(self) -> None:
        self._engine: RemoteEngine = self._host.open_engine(self._options)
        self._session: RemoteSession = self._engine.open_session({})

    def _paced(self, way: str, number: int) -> int:
        """Publish a prompt in peace; the time that it takes, in microseconds."""
        first = _CONTROLS * (1 + (way == CLOSE))
        self._forwarded(shot_ids(self._procedure, control_seed(self._procedure, self._lane, first + number)))
        began = time.monotonic_ns()
        self._publish(way)
        took = time.monotonic_ns() - began
        if way == CLOSE:
            self._open()
        return took // 1000

    def _publish(self, way: str) -> None:
        """Send all that is in memory to the disk."""
        if way == CLOSE:
            self._engine.close()
        else:
            self._engine.evict(-1)

    def _round(self, number: int, publish_us: Mapping[str, int]) -> Mapping[str, object]:
        shot = plan_shot(self._procedure, number)
        prompt = shot_ids(self._procedure, shot.seed)
        reference = self._forwarded(prompt)
        files_before = self._files()
        delay_us = publish_us[shot.way] * shot.after // 1000
        links = len(self._engine.store()[0])
        answered = self._killed(shot.way, delay_us)
        record: dict[str, object] = {
            "type": "kill",
            "number": number,
            "digest": prompt_digest(prompt),
            **reference,
            "delay_us": delay_us,
            "answered": answered,
            "published": links if answered else 0,
            "files_before": files_before,
            "files_after": self._files(),
            "reopened": self._reopened(),
        }
        if not record["reopened"]:
            return record
        counters = self._engine.store()[1]
        again = self._asked_again(prompt)
        record |= {"unfinished": counters.get(_UNFINISHED, 0), "again": again}
        if shot.earlier >= 0:
            seed = plan_shot(self._procedure, shot.earlier).seed
            record["earlier"] = self._asked_again(shot_ids(self._procedure, seed))
        return {**record, "put_aside": self._engine.store()[1].get(_PUT_ASIDE, 0)}

    def _forwarded(self, prompt: Sequence[int]) -> Mapping[str, object]:
        """Forward a prompt, looking at every boundary, and publish it to memory."""
        begun = self._session.begin(prompt, cache=True).value
        roots = []
        for end in begun.schedule:
            self._session.prefill(end)
            if end < len(prompt):
                roots.append(_root(self._host.look(self._session)))
        seen = self._end()
        self._session.commit()
        return {"first_cached": begun.cached, "roots": roots, **seen}

    def _killed(self, way: str, delay_us: int) -> bool:
        """Have everything published, kill the process meanwhile; whether it got to say that it is done."""
        pid = self._host.pid
        if pid is None:
            raise ProtocolError("there is no process to kill")
        timer = Timer(delay_us / 1e6, os.kill, (pid, signal.SIGKILL))
        timer.start()
        answered = False
        with suppress(OutOfMemoryError):  # that is how a process is called that SIGKILL ended
            self._publish(way)
            answered = True
        timer.join()
        while self._host.alive:
            time.sleep(0.001)
        self._host.take_lost()
        return answered

    def _reopened(self) -> bool:
        try:
            self._open()
        except RefusedError:
            return False
        return True

    def _asked_again(self, prompt: Sequence[int]) -> Mapping[str, object]:
        """Begin a prompt once more, look at what was restored, go on to its end; nothing of it is published."""
        try:
            begun = self._session.begin(prompt, cache=True).value
        except RefusedError:  # the link is put aside now, and counted; what is left is asked for
            begun = self._session.begin(prompt, cache=True).value
        restored = {"restored": _root(self._host.look(self._session))} if begun.cached else {}
        for end in begun.schedule:
            self._session.prefill(end)
        seen = self._end()
        self._session.abandon()
        return {"cached": begun.cached, "disk_bytes": begun.disk_bytes, **restored, **seen}

    def _end(self) -> Mapping[str, object]:
        """Look at the end of the prompt, then decode."""
        end = _root(self._host.look(self._session))
        return {"end": end, "output": prompt_digest(self._session.decode(_DECODE, {}).value.tokens)}

    def _control(self, number: int) -> Mapping[str, object]:
        """Flip a bit in what is about to be published: what comes back from the disk must be seen to differ."""
        prompt = shot_ids(self._procedure, control_seed(self._procedure, self._lane, number))
        rows: list[tuple[str, str]] = []
        self._engine.evict(-1)
        begun = self._session.begin(prompt, cache=True).value
        for end in begun.schedule:
            self._session.prefill(end)
            if end == CHUNK * LINKS:
                look = self._host.look(self._session)
                rows = [(row.name, row.family) for row in look.rows if row.bytes]
                root = _root(look)
        self._session.commit()
        part, boundary = _flipped(rows)
        keys = [str(one["key"]) for one in self._engine.store()[0] if one["boundary"] == boundary]
        if len(keys) != 1:
            raise ProtocolError(f"found {len(keys)} snapshots at {boundary} tokens; expected one")
        self._engine.corrupt_store(keys[0], part, 0, 1)
        self._engine.evict(-1)
        found: dict[str, object] = {"type": "planted", "lane": self._lane, "number": number, "part": part}
        found |= {"digest": prompt_digest(prompt), "boundary": CHUNK * LINKS, "root": root, "cached": 0}
        try:
            found["cached"] = self._session.begin(prompt, cache=True).value.cached
        except RefusedError as refusal:
            return {**found, "refused": refusal.code}
        found["restored"] = _root(self._host.look(self._session))
        self._session.reset()
        self._engine.evict(-1)
        return found

    def _files(self) -> int:
        return sum(entry.is_file(follow_symlinks=False) for entry in os.scandir(self.folder))


def _flipped(rows: Sequence[tuple[str, str]]) -> tuple[str, int]:
    """Return a part to flip, and the boundary of the link that holds its first byte."""
    of_rows = next((name for name, family in rows if family == Family.KV), None)
    if of_rows is not None:
        return of_rows, CHUNK
    fixed = next((name for name, family in rows if family in (Family.RECURRENT, Family.CONV)), None)
    if fixed is None:
        raise ProtocolError("found no part to flip a bit in")
    return fixed, CHUNK * LINKS


def _root(look: Look) -> str:
    return part_table(look.rows).root


def _silent(what: str, done: int) -> None:
    """Tell nobody."""
