"""Valid evidence in memory: a scenario, and what a perfect engine would have left behind.

Start from :func:`recorded`, change one thing, expect one named outcome::

    changed = recorded().with_part("warm", "again", Phase.RESTORED, "layer0.recurrent")

    assert changed.result("again").reason == "parts_differ"

Every ``with_...`` and ``without_...`` returns a new record; :meth:`Recorded.data` gives the bytes of a closed file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.deriving.body import derive_body
from harness.deriving.judge import judge
from harness.deriving.product import expand
from harness.deriving.prompts import prompt_digest, prompt_ids
from harness.deriving.support import for_target
from harness.engines.locating import Located
from harness.model.decision import CellDecision, CheckResult
from harness.model.evidence import (
    CellEvent,
    Crash,
    Difference,
    Distance,
    End,
    Evidence,
    Header,
    Observation,
    PartRow,
    PartTable,
    Point,
    StepRecord,
    StoreView,
    Trust,
    Turn,
)
from harness.model.scenario import Arm, CellPlan, Scenario, Step, StepKind
from harness.model.values import ArmRole, Capability, CrashKind, Phase, Sha256
from harness.running.comparing import Comparisons, Seen, difference
from harness.wire import canonical
from harness.wire.evidence_doc import part_table, read_evidence
from harness.wire.records import record_to_mapping
from harness.wire.scenario_doc import parse_scenario
from tests.fakes.engine import FakeEngine, RefusedHereError, Session

OTHER = Sha256("0f" * 32)
"""A digest that nothing has."""

SCENARIO = b"""
schema: statecert/scenario/v1
id: T01
title: Everything once
why: A test needs one of each.
suites: {default: [16]}
procedure:
  observability: parts
  requires: [parts, logits, boundaries, prefix_cache, store, snapshot, extend]
  families: [kv, index, recurrent, conv]
  chunk: 128
  engine: {arch: hybrid}
  axes: {}
  prompts:
    A: [{seed: 1, length: {chunks: 3, tokens: 80}}]
    one: [{prefix_of: A, length: {chunks: 1, plus: 1}}]
    more: [{seed: 2, length: 6}]
    wrong: [{seed: 1, length: {chunks: 3, tokens: 80}, change_at: 2}]
  arms:
    - id: cold
      role: reference
      steps:
        - {run: {prompt: A, decode: 4, as: a}}
        - {extend: {prompt: more, decode: 2, as: more}}
    - id: unit
      role: candidate
      steps:
        - {run: {prompt: one, cache: true, as: one}}
        - {store: {as: held}}
    - id: warm
      role: candidate
      steps:
        - {run: {prompt: A, cache: true, decode: 4, as: first}}
        - {store: {as: held}}
        - {run: {prompt: A, cache: true, decode: 4, as: again}}
        - {observe: {as: before}}
        - {snapshot: {handle: h, as: taken}}
        - {restore: {handle: nowhere, may_refuse: true, as: no}}
        - {observe: {as: after}}
        - {restore: {handle: h, session: fork, as: fork}}
        - {extend: {prompt: more, decode: 2, session: fork, as: more}}
    - id: halves
      role: candidate
      steps:
        - {run: {prompt: A, cache: true, as: first}}
        - {run: {prompt: A, cache: true, until: {chunks: 3}, session: two, as: half}}
        - {resume: {decode: 4, session: two, as: rest}}
    - id: flipped
      role: control
      requires: [corrupt]
      steps:
        - {run: {prompt: A, cache: true, as: first}}
        - {corrupt: {where: store, boundary: {chunks: 3}, part: recurrent, byte: 6, mask: 4, as: flip}}
        - {run: {prompt: A, cache: true, decode: 4, as: again}}
    - id: other
      role: control
      steps: [{run: {prompt: wrong, decode: 4, as: a}}]
  checks:
    - {id: first, exact: {candidate: warm.first, reference: cold.a, witness: none}}
    - {id: again, exact: {candidate: warm.again, reference: cold.a, witness: copied}}
    - {id: rest, exact: {candidate: halves.rest, reference: cold.a, witness: copied}}
    - {id: more, exact: {candidate: warm.more, reference: cold.more, witness: live}}
    - {id: fork, exact: {candidate: warm.fork, reference: cold.a, witness: copied}}
    - {id: untouched, unchanged: {candidate: warm.after, reference: warm.before}}
    - {id: cached, cached: {at: warm.again, equals: {chunks: 3}}}
    - {id: no, refused: {at: warm.no, codes: [missing]}}
    - {id: units, stored: {at: warm.held, equals: 3, unit: unit.held}}
    - {id: sizes, sized: {at: warm.held, reference: cold.a}}
    - {id: ratio, footprint: {at: warm.held, whole: [cold.a], at_most_ppm: 700000}}
    - {id: entries, entries: {at: warm.held, equals: 3}}
    - {id: restores, counter: {at: warm.held, name: restores, equals: 0}}
    - {id: flip-seen, seen: {candidate: flipped.again, reference: cold.a, part: recurrent, phases: [restored]}}
    - {id: other-seen, seen: {candidate: other.a, reference: cold.a}}
"""
"""A scenario with every kind of check, small enough to read."""

CELL = "T01[scale=16]"
SOMEWHERE = Located(
    byte=0, row=0, element=0, reference="00", candidate="01", reference_value="0", candidate_value="1",
    differing_elements=1, differing_rows=1, last_row=0, shape="single_bit",
)  # fmt: skip
"""Where differences lie that nobody located."""
_NO_SESSION = (StepKind.STORE, StepKind.EVICT, StepKind.CLOSE)
"""Steps that speak of no session, or end one."""


def sized(axes: bytes) -> bytes:
    """Return the text of the scenario with an axis ``size``, which makes another prompt of each label."""
    return SCENARIO.replace(b"axes: {}", axes).replace(b"more: [{seed: 2,", b"more: [{seed: $size,")


def scenario(text: bytes = SCENARIO) -> Scenario:
    """Return the scenario of a YAML text."""
    return parse_scenario(text, "test.yaml")


def header(of: Scenario, scales: Sequence[int] = (16,), *, run: int = 1, day: int = 1, **changes: Any) -> Header:
    """Return the header of a full run.

    Args:
        of: The scenario.
        scales: Its scales.
        run: Makes the run id.
        day: Day of January 2026 on which the run began.
        changes: Other fields.
    """
    plan = expand(of, scales, suite="default")
    path_sets = [{"name": "engine", "digest": "a1" * 32, "files": 3}]
    fields: dict[str, Any] = {
        "run_id": f"{run:032x}",
        "created": f"2026-01-{day:02d}T08:00:00Z",
        "suite": "default",
        "scales": tuple(plan.scales),
        "selected": tuple(plan.selected),
        "scenario_id": of.id,
        "procedure": of.procedure,
        "procedure_digest": of.procedure_digest,
        "target": {
            "adapter": "fake",
            "group": "harness.engines",
            "engine": "fake",
            "engine_version": "1.0",
            "model": "digests",
            "model_digest": "b2" * 32,
            "hw_class": "cpu-x86_64",
            "observability": "parts",
            "capabilities": [str(capability) for capability in Capability],
            "identity": {"kv_type": "f32"},
            "device": {"name": "none"},
            "path_sets": path_sets,
        },
        "environment": {"machine": "c3" * 32, "facts": {"os": "linux", "cores": 4}},
        "source": {
            "tree": "clean",
            "commit": "d4" * 20,
            "harness_version": "0.1.0",
            "path_sets": [{"name": "harness", "digest": "e5" * 32, "files": 9}],
        },
    }
    return Header(**{**fields, **changes})


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Evidence that has not been written yet."""

    header: Header
    observations: tuple[Observation, ...]
    finished: str = "2026-01-01T09:00:00Z"
    interrupted: bool = False
    closed: bool = True
    stated: bool = False
    """Whether the end stands as it is, however wrong."""

    def with_end(self, finished: str) -> Recorded:
        """The same, ended at any time."""
        return replace(self, finished=finished, stated=True)

    def data(self) -> bytes:
        """Return the bytes of the file; part tables stand before their first use."""
        lines = [canonical.line(record_to_mapping(self.header))]
        tables = {one.root: one for one in self.observations if isinstance(one, PartTable)}
        written: set[str] = set()
        for one in self.observations:
            if isinstance(one, PartTable):
                continue
            if isinstance(one, Point) and one.root not in written and one.root in tables:
                written.add(one.root)
                lines.append(canonical.line(record_to_mapping(tables[one.root])))
            lines.append(canonical.line(record_to_mapping(one)))
        before = b"".join(lines)
        if not self.closed:
            return before
        end = End(
            records=len(lines),
            sha256=Sha256(hashlib.sha256(before).hexdigest()),
            finished=self.finished if self.stated else max(self.finished, self.header.created),
            elapsed_ns=3_600_000_000_000,
            interrupted=self.interrupted,
        )
        return before + canonical.line(record_to_mapping(end))

    def evidence(self) -> Evidence:
        """Return the evidence as a reader gives it."""
        return read_evidence(self.data(), "test.jsonl")

    def body(self) -> dict[str, object]:
        """Return the body that follows."""
        return derive_body(self.evidence())

    def cell(self, cell: str = "") -> CellDecision:
        """Return the decision of a cell; the only one if none is named."""
        cells = judge(self.evidence()).decision.cells
        return next(one for one in cells if cell in ("", one.id))

    def result(self, check: str, cell: str = "") -> CheckResult:
        """Return the answer of a check."""
        return next(one for one in self.cell(cell).checks if one.id == check)

    # -- one change at a time ------------------------------------------------------------------

    def with_header(self, **changes: Any) -> Recorded:
        """Change fields of the header."""
        return replace(self, header=replace(self.header, **changes))

    def with_target(self, **changes: Any) -> Recorded:
        """Change facts of the target."""
        return self.with_header(target={**self.header.target, **changes})

    def with_procedure(self, procedure: Mapping[str, object]) -> Recorded:
        """Change the procedure, with its digest."""
        digest = Sha256(canonical.digest(procedure))
        return self.with_header(procedure=procedure, procedure_digest=digest)

    def with_part(
        self, arm: str, label: str, phase: Phase, part: str, *, rep: int = 0, position: int = -1, **changes: Any
    ) -> Recorded:
        """Change one row of the part table of one point; by default its digest."""

        def changed(row: PartRow) -> PartRow:
            return replace(row, **(changes or {"sha256": OTHER})) if row.name == part else row

        return self.with_rows(
            arm, label, phase, lambda rows: [changed(row) for row in rows], rep=rep, position=position
        )

    def with_rows(
        self,
        arm: str,
        label: str,
        phase: Phase,
        change: Callable[[Sequence[PartRow]], Sequence[PartRow]],
        *,
        rep: int = 0,
        position: int = -1,
    ) -> Recorded:
        """Replace the part table of one point; the first one at the phase, or the one at ``position``."""
        tables = {one.root: one for one in self.observations if isinstance(one, PartTable)}
        point = self._find(Point, arm, label, rep, phase=phase, position=position)
        table = part_table(change(tables[point.root].rows))
        changed = self._replaced(point, replace(point, root=table.root))
        extra = () if table.root in tables else (table,)
        return replace(changed, observations=(*extra, *changed.observations))

    def point(self, arm: str, label: str, phase: Phase) -> Point:
        """Return one point of a first run."""
        found = self._find(Point, arm, label, 0, phase=phase)
        assert isinstance(found, Point)
        return found

    def with_point(self, arm: str, label: str, phase: Phase, *, rep: int = 0, at: int = -1, **changes: Any) -> Recorded:
        """Change fields of one point."""
        point = self._find(Point, arm, label, rep, phase=phase, position=at)
        return self._replaced(point, replace(point, **changes))

    def with_turn(self, arm: str, label: str, /, *, rep: int = 0, **changes: Any) -> Recorded:
        """Change fields of one turn."""
        turn = self._find(Turn, arm, label, rep)
        return self._replaced(turn, replace(turn, **changes))

    def with_step(self, arm: str, label: str, /, *, rep: int = 0, **changes: Any) -> Recorded:
        """Change fields of one step record."""
        step = self._find(StepRecord, arm, label, rep)
        return self._replaced(step, replace(step, **changes))

    def with_store(self, arm: str, label: str, /, *, rep: int = 0, **changes: Any) -> Recorded:
        """Change fields of one store observation."""
        store = self._find(StoreView, arm, label, rep)
        return self._replaced(store, replace(store, **changes))

    def with_crash(self, arm: str, label: str, kind: CrashKind = CrashKind.CRASH) -> Recorded:
        """Let a step crash: what came after it in the run of its arm is gone."""
        kept: list[Observation] = []
        gone = False
        for one in self.observations:
            gone = gone or (getattr(one, "arm", "") == arm and getattr(one, "label", "") == label)
            here = getattr(one, "arm", arm if isinstance(one, (Difference, Distance)) else "") == arm
            if not (gone and here):
                kept.append(one)
        crash = Crash(cell=self._cell_of(arm), arm=arm, rep=0, label=label, kind=kind, detail="SIGSEGV")
        return replace(self, observations=(*kept[:-2], crash, *kept[-2:]))

    def with_trust(self, **changes: Any) -> Recorded:
        """Change the trust records."""
        found = [replace(one, **changes) if isinstance(one, Trust) else one for one in self.observations]
        return replace(self, observations=tuple(found))

    def without(self, unwanted: Callable[[Observation], bool]) -> Recorded:
        """Leave observations out, and with a look the differences that it showed."""
        kept: list[Observation] = []
        gone = False
        for one in self.observations:
            gone = unwanted(one) or (gone and isinstance(one, (Difference, Distance)))
            kept += [] if gone else [one]
        return replace(self, observations=tuple(kept))

    def without_point(self, arm: str, label: str, phase: Phase, *, rep: int = 0, position: int = -1) -> Recorded:
        """Leave one point out."""
        point = self._find(Point, arm, label, rep, phase=phase, position=position)
        return self.without(lambda one: one is point)

    def without_controls(self) -> Recorded:
        """Leave out every check of kind ``seen``, from the procedure on."""
        found = self.header.procedure["checks"]
        checks = [check for check in found if "seen" not in check] if isinstance(found, list) else []
        return self.with_procedure({**self.header.procedure, "checks": checks})

    def _find(
        self, kind: type, arm: str, label: str, rep: int, *, phase: Phase | None = None, position: int = -1
    ) -> Any:
        for one in self.observations:
            seen: Any = one
            if not isinstance(one, kind) or (seen.arm, seen.label, seen.rep) != (arm, label, rep):
                continue
            if phase is None or (seen.phase is phase and position in (-1, seen.position)):
                return one
        raise LookupError(f"no {kind.__name__} at {arm}.{label} run {rep} {phase or ''}")

    def _replaced(self, old: Observation, new: Observation) -> Recorded:
        return replace(self, observations=tuple(new if one is old else one for one in self.observations))

    def _cell_of(self, arm: str) -> Any:
        return next(getattr(one, "cell", "") for one in self.observations if getattr(one, "arm", "") == arm)


def recorded(of: Scenario | None = None, scales: Sequence[int] = (16,), **changes: Any) -> Recorded:
    """Return what a perfect engine leaves behind. Every check of a sensible scenario passes on it.

    Args:
        of: The scenario; :data:`SCENARIO` by default.
        scales: Its scales.
        changes: As :func:`header` takes them.
    """
    of = of or scenario()
    first = header(of, scales, **changes)
    observations: list[Observation] = []
    for cell in expand(of, scales).cells:
        if not cell.excluded:
            observations += run_cell(for_target(cell, [str(name) for name in _names(first)]))
    observations.append(
        Trust(child=0, hashed_by="host", algorithm="sha256-part-v1", known_answers=13, spot_checks=6, mismatches=0)
    )
    finished = first.created.replace("T08", "T09")
    timed = _timed(observations, int(first.run_id[-6:], 16))
    return Recorded(header=first, observations=timed, finished=finished)


def _timed(observations: Sequence[Observation], run: int) -> tuple[Observation, ...]:
    """Give observations times that rise, and that no other run has."""
    return tuple(
        one
        if isinstance(one, (PartTable, Trust, Difference, Distance))
        else replace(one, t_ns=10_000_000 * number + run)
        for number, one in enumerate(observations, start=1)
    )


def run_cell(cell: CellPlan) -> list[Observation]:
    """Return the observations of one cell, part tables before their points."""
    found: list[Observation] = [CellEvent(cell=cell.id, event="begin", t_ns=1)]
    for arm in sorted(cell.arms, key=lambda arm: arm.role is not ArmRole.REFERENCE):
        for rep in range(2 if arm.role is ArmRole.REFERENCE else 1):
            found += _Run(cell, arm, rep).observations()
    return [*_located(cell, found), CellEvent(cell=cell.id, event="end", t_ns=2)]


def _located(cell: CellPlan, found: Sequence[Observation]) -> Iterator[Observation]:
    """Yield the observations, each look followed by the differences that it shows."""
    comparisons = Comparisons(cell)
    tables = {one.root: {row.name: row for row in one.rows} for one in found if isinstance(one, PartTable)}
    for one in found:
        yield one
        if isinstance(one, Point):
            seen = Seen(
                arm=one.arm, rep=one.rep, label=one.label, phase=one.phase, position=one.position,
                rows=tables[one.root], logits=one.logits,
            )  # fmt: skip
            yield from (difference(cell.id, pair, SOMEWHERE) for pair in comparisons.add(seen) if not pair.measured)


def _names(of: Header) -> Sequence[object]:
    found = of.target["capabilities"]
    return found if isinstance(found, list) else []


class _Run:
    """One run of one arm on a fake engine."""

    def __init__(self, cell: CellPlan, arm: Arm, rep: int) -> None:
        self._cell = cell
        self._arm = arm
        self._place: dict[str, Any] = {"cell": cell.id, "arm": arm.id, "rep": rep}
        self._engine = FakeEngine({**cell.engine, **arm.engine})
        self._found: list[Observation] = []
        self._clock = 0
        self._cached: dict[str, bool] = {}
        self._looked: set[str] = set()

    def observations(self) -> list[Observation]:
        for step in self._arm.steps:
            try:
                self._step(step)
            except RefusedHereError as no:
                self._record(step, ended="refused", code=no.code)
                if not step.may_refuse:
                    break
        return self._found

    def _step(self, step: Step) -> None:
        session = self._opened(step)
        match step.kind:
            case StepKind.RUN:
                self._run(step, session)
            case StepKind.RESUME:
                self._finish(step, session, 0, 0)
            case StepKind.EXTEND:
                self._extend(step, session)
            case StepKind.DECODE:
                self._look(step, session, Phase.END, self._engine.decode(session, step.decode))
                self._record(step)
            case StepKind.OBSERVE:
                self._look(step, session, Phase.SEEN)
                self._record(step)
            case StepKind.SNAPSHOT:
                self._engine.handles[step.handle or ""] = session.state
                self._record(step)
            case StepKind.EXPORT:
                self._engine.handles[f"image {step.image}"] = session.state
                self._record(step)
            case StepKind.RESTORE | StepKind.IMPORT:
                cached, copied = self._engine.restore(session, step.handle or f"image {step.image}")
                self._look(step, session, Phase.RESTORED)
                self._record(step, cached=cached, restored_bytes=copied)
            case StepKind.STORE:
                entries, counters = self._engine.listing()
                self._found.append(
                    StoreView(**self._place, label=step.label, entries=entries, counters=counters, t_ns=self._now())
                )
            case _:
                self._change(step)

    def _opened(self, step: Step) -> Session:
        """The session of a step; looked at where it is new and the step is one that opens it."""
        if step.kind in _NO_SESSION:
            return self._engine.session(step)
        new = step.session not in self._looked
        session = self._engine.session(step)
        if new:
            self._looked.add(step.session)
            self._look(step, session, Phase.OPENED)
        return session

    def _change(self, step: Step) -> None:
        if step.kind is StepKind.CORRUPT:
            self._engine.corrupt(step)
        elif step.kind is StepKind.EVICT:
            self._engine.store.clear()
        elif step.kind in (StepKind.RESET, StepKind.CLOSE):
            self._engine.sessions.pop(step.session)
            self._looked -= {step.session} if step.kind is StepKind.CLOSE else set()
        self._record(step)

    def _run(self, step: Step, session: Session) -> None:
        prompt = prompt_ids(self._cell.prompts, step.prompt or "")
        cached, copied = self._engine.begin(session, prompt, cache=step.cache)
        if cached:
            self._look(step, session, Phase.RESTORED)
        if step.until is None:
            self._finish(step, session, cached, copied)
            return
        forwarded = self._prefill(step, session, step.until)
        self._turn(step, session, cached=cached, prefilled=forwarded, restored_bytes=copied)

    def _extend(self, step: Step, session: Session) -> None:
        new = prompt_ids(self._cell.prompts, step.prompt or "")
        cached = len(session.state.tokens)
        session.prompt, session.cache = (*session.state.tokens, *new), False
        self._finish(step, session, cached, 0, new)

    def _finish(
        self, step: Step, session: Session, cached: int, copied: int, new: tuple[int, ...] | None = None
    ) -> None:
        forwarded = self._prefill(step, session, len(session.prompt))
        self._engine.settle(session, step.end)
        self._look(step, session, Phase.PREFILLED)
        tokens = self._engine.decode(session, step.decode) if step.decode else ()
        if step.decode:
            self._look(step, session, Phase.END, tokens)
        self._turn(
            step, session, cached=cached, prefilled=forwarded, restored_bytes=copied, decoded=len(tokens), new=new
        )

    def _prefill(self, step: Step, session: Session, upto: int) -> int:
        forwarded = 0
        inside = [end for end in self._engine.boundaries(session) if len(session.state.tokens) < end < upto]
        for end in (*inside, upto):
            forwarded += self._engine.forward(session, end)
            if self._arm.role is ArmRole.REFERENCE and end < len(session.prompt):
                self._look(step, session, Phase.BOUNDARY)
        return forwarded

    def _look(self, step: Step, session: Session, phase: Phase, tokens: tuple[int, ...] = ()) -> None:
        table = session.state.table()
        point = Point(
            **self._place,
            label=step.label,
            phase=phase,
            position=len(session.state.tokens),
            root=table.root,
            logits=session.state.logits_digest(),
            tokens=tokens,
            t_ns=self._now(),
        )
        self._found += [table, point]

    def _turn(self, step: Step, session: Session, *, new: tuple[int, ...] | None = None, **counts: int) -> None:
        times: dict[str, Any] = {
            "begin_ns": 10,
            "prefill_ns": 1000,
            "commit_ns": 5,
            "decode_ns": 400 if step.decode else 0,
        }
        first = {"first_token_ns": 1100} if step.decode else {}
        turn = Turn(
            **self._place,
            label=step.label,
            prompt_tokens=len(session.prompt),
            prompt_digest=prompt_digest(session.prompt if new is None else new),
            t_ns=self._now(),
            **{"decoded": 0, **counts, **times, **first},
        )
        self._found.append(turn)

    def _record(self, step: Step, ended: str = "done", code: str = "", **detail: int) -> None:
        self._found.append(
            StepRecord(
                **self._place,
                label=step.label,
                kind=str(step.kind),
                ended=ended,
                code=code,
                detail=detail,
                t_ns=self._now(),
            )
        )

    def _now(self) -> int:
        self._clock += 100
        return self._clock
