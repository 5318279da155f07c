"""The child processes of one target, from the parent's side.

One child lives at a time. It is started when it is first needed, proves that it can hash, loads the adapter, and is
replaced when it crashed, hung, ran out of memory or spoke nonsense; sessions and engines of the lost child are gone.
What was done so that a child's digests can be believed is counted per child (:class:`Trust`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from harness.deriving.support import FAMILIES
from harness.digest.parts import ALGORITHM, KNOWN_ANSWERS, KnownAnswer, known_buffer, part_digest
from harness.engines import registry
from harness.engines.ahead import Ahead
from harness.engines.channel import Message
from harness.engines.client import Look, RemoteEngine, RemoteSession, number
from harness.engines.interface import Options
from harness.engines.process import ChildProcess, Limits, Spawn, nothing, started
from harness.engines.spool import SpoolBudget
from harness.engines.subject import HARNESS_SETS
from harness.engines.told import BEST, Subject, absent_facts, facts_of, identity_of, ignored, patterns, plain
from harness.errors import EngineError, ProtocolError, StorageError, UsageError
from harness.model.evidence import PartRow, Trust
from harness.model.target import Target, TargetFacts
from harness.model.values import Capability, Family, Observability

if TYPE_CHECKING:
    from typing_extensions import Buffer

UNTOLD: Final = "family_untold"
"""First word of the error where a look has a part of a family that the target says it has not."""
CHANGED: Final = "subject_changed"
"""First word of the error where an engine is another one than the run began with."""
_DISK: Final = "disk"
"""Option that holds a folder of one arm; no part of who an engine is."""
_OF_EVERY: Final = (Family.META, Family.LOGITS, Family.SAMPLER)
"""Families that no target has to tell of."""
BUILD_FACT: Final = "build_sha256"
"""Fact of an identity: SHA-256 of what the engine has loaded."""
BUILD_OPTION: Final = "build"
"""Option of an engine that can be opened as another build of itself."""
BUILD_OWN: Final = "own"
_NOT_OF_A_MODEL: Final = frozenset({_DISK, BUILD_OPTION})
"""Options that leave the model as it is: engines that differ in these alone must have one digest of it."""
_GIVEN: Final[Mapping[str, str]] = {
    "device": "say it as the target's device (--device)",
    _DISK: "each arm gets an empty folder of its own, so that none is lent another's state",
}
"""Options of an engine that the harness gives by itself, and what to do instead of giving them."""
_PROCESSOR: Final = "cpu"
_EVERY: Final = 16
_SHIPPED_AT_MOST: Final = 64 * 1024 * 1024


_Digests = Sequence[object]
"""Name, digest and number of files of each path set, as a child tells them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ready:
    """What making a new child ready gives."""

    known: int
    """How many known buffers it hashed rightly."""
    load: Mapping[str, object]
    """What it told of its adapter."""
    files: Sequence[_Digests]
    """The files of harness and engine, each time that it digested them; none: it is the first child."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostOptions:
    """How the children of a target are treated."""

    limits: Limits = field(default_factory=Limits)
    hash_threads: int = min(4, os.cpu_count() or 1)
    """Threads that compare and hash the parts of one look; the engine waits meanwhile."""
    spool: SpoolBudget = field(default_factory=SpoolBudget)
    """Bytes of reference parts kept for one cell; without any, a difference costs another run of its reference."""
    seed: int = 0
    """Of the sample of parts that are shipped and hashed again."""
    known_answers: Sequence[KnownAnswer] = KNOWN_ANSWERS
    """Buffers that a child must hash rightly before it is used."""
    spawn: Spawn | None = None
    """How children are started; None: each as a new process."""
    beside: int = 1
    """Children that work at a time on this machine, as far as is known here."""


class EngineHost:
    """Starts, asks and replaces the child process of one target.

    Use it as a context manager: how a child ended that nobody was told of is raised on the way out.

    Args:
        target: What to run; its adapter is looked up when the host starts.
        folder: Run folder: takes ``child-<n>.log`` and, while a cell is open, the spool.
        options: Limits, spool budget, hashing threads.
    """

    def __init__(self, target: Target, folder: Path, options: HostOptions | None = None) -> None:
        self.target = target
        self.options = options or HostOptions()
        self._folder = folder
        self._child: ChildProcess | None = None
        self._ahead: Ahead[_Ready] | None = None
        self._children = 0
        self._counts = [0, 0, 0]
        self._trust: list[Trust] = []
        self._spool: Path | None = None
        self._looks = 0
        self._load: Mapping[str, object] = {}
        self._device = ""
        self._absent = ""
        self._grade = Observability.TOKENS
        self._declared: Mapping[str, Sequence[str]] = {}
        self._lost: EngineError | None = None
        self._first: Subject | None = None
        self._tree: _Digests = ()
        """Files of harness and engine, as the first child digested them."""
        self._models: dict[frozenset[tuple[str, str]], str] = {}
        self._rivals: list[EngineHost] = []
        self._files: dict[str, object] = {}
        self._interrupted = False
        self._told: Mapping[str, str | int | bool] = {}
        self._build = ""
        self.meanwhile: Callable[[], None] = nothing
        """What this process does while the child works on what it was asked."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What engines of this target declare."""
        declared = self._load.get("capabilities")
        return frozenset(Capability(str(name)) for name in declared) if isinstance(declared, list) else frozenset()

    @property
    def devices(self) -> Sequence[tuple[str, str]]:
        """Devices as the adapter sees them: name, and why it is absent (empty: it can run)."""
        told = self._load.get("devices")
        return [(str(name), str(reason)) for name, reason in told] if isinstance(told, list) else []

    @property
    def observability(self) -> Observability:
        """The grade that the engine states; that of an absent device is what its capabilities promise."""
        return self._grade

    @property
    def suggested(self) -> Sequence[tuple[str, Mapping[str, str | int | bool], str]]:
        """Targets that the adapter says a lab may name: name, options, note."""
        found = self._load.get("targets")
        rows = found if isinstance(found, list) else []
        return [(str(name), plain(options), str(note)) for name, options, note in rows]

    @property
    def told(self) -> Mapping[str, str | int | bool]:
        """Facts of the engine's identity; known once the host has started."""
        return self._told

    @property
    def build(self) -> str:
        """SHA-256 of what the engine that was opened last has loaded; empty: it does not tell."""
        return self._build

    @property
    def declared_path_sets(self) -> Mapping[str, Sequence[str]]:
        """Path sets that the engine declares, as patterns; known once the host has started."""
        return self._declared

    @property
    def device(self) -> str:
        """The device that engines are opened on; empty where it is absent."""
        return self._device

    @property
    def alike(self) -> int:
        """How many devices of this target's kind can run here, the one that engines are opened on included."""
        kind = self._device.partition(":")[0]
        able = [name for name, reason in self.devices if not reason and name.partition(":")[0] == kind]
        return max(1, sum(":" in name for name in able))

    @property
    def absent(self) -> str:
        """Why the device of this target cannot run here; empty: it can."""
        return self._absent

    @property
    def interrupted(self) -> bool:
        """Whether somebody has called :meth:`interrupt`: how a child has ended since tells nothing of the engine."""
        return self._interrupted

    @property
    def children(self) -> int:
        """Number of the present child, from 1; of the last one where none is there."""
        return self._children

    @property
    def pid(self) -> int | None:
        """Process id of the present child; None: there is none."""
        return self._child.pid if self._child is not None else None

    @property
    def alive(self) -> bool:
        """Whether a child is there to be asked."""
        return self._child is not None and self._child.alive

    def start(self) -> TargetFacts:
        """Start a child, open an engine with the target's own options, and say who it is.

        Where the device is absent no engine is opened: ``absent`` says why, and the facts hold what can be told
        without it.

        Raises:
            UsageError: The adapter or the device is unknown, or the target has an option that the harness gives.
            EngineError: The child did not start, hashed wrongly, or the engine could not be opened.
        """
        registry.find(self.target.adapter, self.target.group)
        self._require_own_options()
        self.ensure()
        if self._absent:
            return self._remember(absent_facts(self.target, self.capabilities, self._absent))
        engine, identity = self._opened({})
        self._declared = patterns(identity["path_sets"])
        self._first = self._subject(identity)
        self._tree = self.digested({**HARNESS_SETS, **self._declared})
        engine.close()
        return self._remember(facts_of(identity, self._first.path_sets, self.capabilities))

    def _require_own_options(self) -> None:
        given = next((name for name in self.target.options if name in _GIVEN), "")
        if given:
            raise UsageError(f"option {given}: the harness gives it; {_GIVEN[given]}")

    def ensure(self) -> None:
        """Start a child if none is alive.

        Raises:
            EngineError: It did not start, hashed wrongly, or is not the subject that the first one was
                (``subject_changed``); or the one before it ended unasked, and nobody was told of it yet.
            KeyboardInterrupt: Another thread has called :meth:`interrupt`.
        """
        self._go_on()
        if self.alive:
            return
        lost = self.take_lost()
        if lost is not None:
            raise lost
        ahead, self._ahead = self._ahead, None
        self._child = self._spawned() if ahead is None else ahead.child
        self._children += 1
        try:
            ready = self._made_ready(self._child) if ahead is None else ahead.ready()
            self._counts[0], self._load = ready.known, ready.load
            self._choose_device()
            self._require_same_subject(ready.files)
            self._tell_spool()
        except BaseException:
            self.discard()
            raise

    def start_ahead(self) -> None:
        """Start the next child now, so that it has imported its adapter when the present one ends.

        Only on the processor, for a child that is to be started by itself, and where no others work: beside them it
        would take their time, and gain none. One that is there already is kept; one that cannot be started is told of
        when it is needed.
        """
        alone = self.options.beside == 1 and self.options.spawn is None
        if alone and self._device == _PROCESSOR and self._ahead is None and self.alive and not self._interrupted:
            with suppress(StorageError):
                self._ahead = Ahead(self._spawned(), self._made_ready_ahead)

    def _spawned(self) -> ChildProcess:
        spawn = self.options.spawn or partial(started, beside=self.options.beside)
        return ChildProcess(self._folder / f"child-{self._children + 1}.log", spawn)

    def _made_ready(self, child: ChildProcess) -> _Ready:
        """Let a new child hash known buffers and import the adapter; return their number, and what it told of that.

        A child after the first one digests the files of harness and engine before it imports the engine, and when it
        is needed: what was changed meanwhile, and be it for that while only, is not what the run began with.

        Raises:
            ProtocolError: It hashed wrongly.
        """
        answers = self.options.known_answers
        buffers = [known_buffer(answer.seed, answer.size) for answer in answers]
        asked = {"threads": self.options.hash_threads}
        hello = child.ask("hello", asked, buffers, seconds=self.options.limits.start_s)
        if hello.body.get("digests") != [answer.sha256 for answer in answers]:
            raise ProtocolError("the child hashed a known buffer wrongly; nothing that it says can be believed")
        files: list[_Digests] = []
        if self._first is not None:
            with suppress(EngineError):  # packages that only the adapter puts on the path; a lost child is told below
                files.append(self._files_told(child))
        return _Ready(known=len(answers), load=self._loaded(child), files=files)

    def _made_ready_ahead(self, child: ChildProcess) -> _Ready:
        """Make a child ready that may have to wait: it digests the files also when it has imported the engine."""
        ready = self._made_ready(child)
        return replace(ready, files=[*ready.files, self._files_told(child)])

    def _files_told(self, child: ChildProcess) -> _Digests:
        """Let a child digest the files of the harness and of the engine."""
        asked = {"path_sets": {**HARNESS_SETS, **self._declared}}
        told = child.ask("subject", asked, seconds=self.options.limits.start_s).body.get("path_sets")
        return told if isinstance(told, list) else []

    def _loaded(self, child: ChildProcess) -> Mapping[str, object]:
        """Let a child import the target's adapter; it is told the target's options, and what files digest to.

        A large file is hashed by the first child of a run only; see :mod:`harness.engines.filedigests`.
        """
        target = self.target
        fields = {"adapter": target.adapter, "group": target.group, "options": dict(target.options)}
        return child.ask("load", {**fields, "files": dict(self._files)}, seconds=self.options.limits.start_s).body

    def discard(self) -> None:
        """End the child, if there is one; what it did for trust is kept for :meth:`take_trust`."""
        if self._child is None:
            return
        child, self._child = self._child, None
        child.close()
        self._lost = self._lost or child.lost
        self._note_trust()
        self._counts = [0, 0, 0]

    def take_lost(self) -> EngineError | None:
        """Return how a child ended unasked, or badly when asked, that no operation has told of; None: none did."""
        if self._child is not None and not self._child.alive:
            self.discard()
        lost, self._lost = self._lost, None
        return lost

    def restart(self, *, kill: bool = False) -> None:
        """End the child, in good order or by killing it, and start another one.

        Raises:
            EngineError: The old one did not end in good order, or as :meth:`ensure`.
        """
        if kill and self._child is not None:
            self._child.kill()
        self.discard()
        self.ensure()

    def rival(self, folder: Path) -> EngineHost:
        """Return another host of the same target, with a child of its own and without a spool.

        What the first child has told holds for it at once; its own child must say the same when it starts.
        """
        other = EngineHost(self.target, folder, self.options)
        other._first, other._models, other._load = self._first, self._models, self._load
        other._device, other._absent = self._device, self._absent
        other._grade, other._told = self._grade, self._told
        other._declared, other._files, other._tree = self._declared, self._files, self._tree
        self._rivals.append(other)
        other._interrupted = self._interrupted
        return other

    def spawn_by(self, spawn: Spawn) -> None:
        """Start every further child in another way, those of rivals that are yet to be made too."""
        self.options = replace(self.options, spawn=spawn)

    def interrupt(self) -> None:
        """Break off from another thread, for good: who asks this host or a rival of it for something is interrupted."""
        self._interrupted = True
        for child in (self._child, self._ahead.child if self._ahead is not None else None):
            if child is not None:
                child.interrupt()
        for other in self._rivals:
            other.interrupt()

    def settle(self) -> None:
        """Note what was done for trust so far, and leave the child running for the next plan."""
        if self._child is not None:
            self._note_trust()
            self._counts = [self._counts[0], 0, 0]

    def _note_trust(self) -> None:
        known, checks, mismatches = self._counts
        self._trust.append(
            Trust(
                child=self._children,
                hashed_by="host",
                algorithm=ALGORITHM,
                known_answers=known,
                spot_checks=checks,
                mismatches=mismatches,
            )
        )

    def take_trust(self) -> Sequence[Trust]:
        """Return one record for each child that ended since the last call."""
        taken, self._trust = self._trust, []
        return taken

    def engine_options(self, options: Options) -> dict[str, str | int | bool]:
        """Return the options that an engine is opened with: the target's, then ``options``, on the chosen device."""
        return {**self.target.options, **options, "device": self._device}

    def open_engine(self, options: Options) -> RemoteEngine:
        """Open an engine; ``options`` win over the target's.

        Raises:
            EngineError: As :meth:`ChildProcess.ask` and :meth:`ensure`; or the engine says that it has another
                option than it was given (``option_ignored``), or is not the one that was started (``subject_changed``).
        """
        self.ensure()
        return self._opened(options)[0]

    def look(self, session: RemoteSession, *, spool: bool = False) -> Look:
        """Look at a session, and hash a seeded sample of its parts again on this side.

        Args:
            session: What to look at.
            spool: Keep the bytes of every part for comparisons.

        Raises:
            EngineError: As :meth:`ChildProcess.ask`; or a part is of a family that the target says it has not
                (``family_untold``): what is asked of a target depends on what it tells.
        """
        found = session.look(spool=spool)
        hidden = self._hidden(found.rows)
        if hidden is not None:
            raise EngineError(f"{UNTOLD}: {hidden.name} is of family {hidden.family}, which the identity does not have")
        self._looks += 1
        draw = self._draw()
        parts = [row for row in found.rows if 0 < row.bytes <= _SHIPPED_AT_MOST]
        if parts and (draw % _EVERY == 0 or not self._counts[1]):
            row = parts[(draw // _EVERY) % len(parts)]
            self._counts[1] += 1
            self._counts[2] += part_digest(session.ship(row.name)) != row.sha256
        return found

    def _hidden(self, rows: Sequence[PartRow]) -> PartRow | None:
        """Return a part of a family that the target tells nothing of; a target that tells of none has all."""
        told = self._told.get(FAMILIES)
        if not isinstance(told, str):
            return None
        known = {*told.split(","), *_OF_EVERY}
        return next((row for row in rows if row.family not in known), None)

    def open_spool(self, folder: Path) -> None:
        """Keep reference bytes in ``folder`` from here on, also in children to come."""
        self._spool = folder
        if self.alive:
            with self._noting():
                self._tell_spool()

    def close_spool(self) -> None:
        """Stop keeping bytes; the folder is the caller's to remove.

        A child that does not answer is let go of; :meth:`take_lost` tells.
        """
        self._spool = None
        if self.alive:
            with self._noting():
                self._ask("spool", {"folder": "", "memory": 0, "disk": 0})

    def plan(self, options: Options, *, memory: int, context: int) -> Mapping[str, int]:
        """Return how memory would be divided; empty where the adapter does not say.

        Raises:
            EngineError: As :meth:`ChildProcess.ask` and :meth:`ensure`.
        """
        self.ensure()
        asked = {"options": self.engine_options(options), "memory": memory, "context": context}
        body = self._ask("plan", asked).body
        return {name: value for name, value in body.items() if isinstance(value, int) and not isinstance(value, bool)}

    def times(self) -> Mapping[str, int]:
        """Return where the time of the present child went so far (``forward_ns``, ``look_ns``, …)."""
        return {name: int(str(value)) for name, value in self._ask("times", {}).body.items()}

    def close(self) -> None:
        """End the child, and one that was started ahead and not needed."""
        self.discard()
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            self._lost = self._lost or _left(ahead)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        lost = self.take_lost()
        if lost is not None and error is None:
            raise lost

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Let go of a child that fails between arms, and leave the error for whoever asks next."""
        try:
            yield
        except EngineError as error:
            self._lost = self._lost or error
            self.discard()

    def _opened(self, options: Options) -> tuple[RemoteEngine, Mapping[str, object]]:
        """Open an engine and hold what it says of itself to what it was given."""
        asked = self.engine_options(options)
        answer = self._ask("open_engine", {"options": asked})
        engine, identity = RemoteEngine(self._ask, number(answer, "engine")), identity_of(answer)
        files = answer.body.get("files")
        self._files.update(files if isinstance(files, dict) else {})
        fault = ignored(asked, plain(identity["facts"])) or self._changed(asked, identity)
        if fault:
            with suppress(EngineError):
                engine.close()
            raise EngineError(fault)
        self._build = str(plain(identity["facts"]).get(BUILD_FACT, ""))
        return engine, identity

    def _changed(self, asked: Options, identity: Mapping[str, object]) -> str:
        """Say what an engine has otherwise than the one that was started, or than an earlier one of equal options."""
        if self._first is not None:
            other = asked.get(BUILD_OPTION, BUILD_OWN) != BUILD_OWN
            for name in ("engine",) if other else ("engine", "version"):
                if identity[name] != self._first.identity[name]:
                    return f"{CHANGED}: {name} {identity[name]!r}; it was {self._first.identity[name]!r}"
        given = frozenset((name, repr(value)) for name, value in asked.items() if name not in _NOT_OF_A_MODEL)
        digest = str(identity["model_digest"])
        if self._models.setdefault(given, digest) != digest:
            return f"{CHANGED}: another model than an engine with the same options had"
        return ""

    def _subject(self, identity: Mapping[str, object]) -> Subject:
        return Subject(
            identity={name: fact for name, fact in identity.items() if name != "device"},
            path_sets=self.digested(patterns(identity["path_sets"])),
            capabilities=self.capabilities,
            device=self._device,
        )

    def digested(self, declared: Mapping[str, Sequence[str]]) -> Sequence[Sequence[object]]:
        """Let the child digest the files of path sets; return name, digest and number of files of each."""
        told = self._ask("subject", {"path_sets": declared}).body.get("path_sets")
        return told if isinstance(told, list) else []

    def _require_same_subject(self, files: Sequence[_Digests]) -> None:
        """Ask a new child who it is, and compare with what the first one said.

        Args:
            files: What it digested while it was made ready.
        """
        if self._first is None or self._child is None:
            return
        if any(told != self._tree for told in (*files, self._files_told(self._child))):
            raise EngineError(f"{CHANGED}: files of the harness or the engine are others than those of the first child")
        if self._device != self._first.device:
            raise EngineError(f"{CHANGED}: the device is {self._device!r}; it was {self._first.device!r}")
        engine, identity = self._opened({})
        again = self._subject(identity)
        engine.close()
        if again != self._first:
            raise EngineError(f"{CHANGED}: a new child is another subject than the first one was")

    def _ask(self, operation: str, fields: Mapping[str, object], frames: Sequence[Buffer] = ()) -> Message:
        self._go_on()
        if self._child is None:
            raise ProtocolError(f"{operation}: the child that this object lived in is gone")
        limits = self.options.limits
        seconds = limits.open_s if operation == "open_engine" else limits.call_s
        return self._child.ask(operation, fields, frames, seconds=seconds, meanwhile=self.meanwhile)

    def _go_on(self) -> None:
        if self._interrupted:
            raise KeyboardInterrupt

    def _choose_device(self) -> None:
        there = [name for name, reason in self.devices if not reason]
        known = dict(self.devices)
        asked = self.target.device
        if asked == BEST:
            self._device, self._absent = (there[0], "") if there else ("", "no device of this engine is there")
        elif asked in known:
            self._device, self._absent = ("", known[asked]) if known[asked] else (asked, "")
        else:
            raise UsageError(f"no device {asked!r} for {self.target.adapter}; known are: best, {', '.join(known)}")

    def _tell_spool(self) -> None:
        budget = self.options.spool
        if self._spool is not None:
            self._ask("spool", {"folder": str(self._spool), "memory": budget.memory, "disk": budget.disk})

    def _draw(self) -> int:
        """Return the next number of the seeded sample."""
        text = f"{self.options.seed}:{self._children}:{self._looks}"
        return int.from_bytes(sha256(text.encode()).digest()[:8], "big")

    def _remember(self, facts: TargetFacts) -> TargetFacts:
        self._grade, self._told = facts.observability, facts.identity
        return facts


def _left(ahead: Ahead[_Ready]) -> EngineError | None:
    """Let a child leave that was never needed; return how it ended otherwise than asked.

    One that was broken off with its host has nothing to tell: whoever broke off the host knows.
    """
    try:
        failure = ahead.failure()
    finally:
        ahead.child.close()
    if failure is None or isinstance(failure, KeyboardInterrupt):
        return ahead.child.lost
    if isinstance(failure, EngineError):
        return failure
    raise failure
