"""Whether each check of a committed cell can fail: what it looks at is changed, one thing at a time.

``python -m tests.deriving.failable [SCENARIO...]`` lists checks that no change of what they name made anything but a pass.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from harness.deriving.checks import run_check
from harness.deriving.judge import busy_at, capabilities_of
from harness.deriving.product import expand_procedure
from harness.deriving.support import facts_of, for_target, templated
from harness.deriving.view import cell_view
from harness.errors import InvalidDocumentError
from harness.model.evidence import Evidence, Observation, PartTable, Point, StepRecord, StoreView, Turn
from harness.model.noun import replace
from harness.model.scenario import CellPlan, CheckKind, CheckSpec, PointRef
from harness.model.values import CellId, Observability, Outcome, Phase, Sha256
from harness.wire.evidence_doc import part_table
from tests.deriving.committed import committed, committed_cell

OWN: Final = (CheckKind.FINISHED, CheckKind.REPEATABLE, CheckKind.INVENTORY)
"""Checks that every cell has; tests/deriving/test_course.py makes them fail."""
_OF_NO_LOOK: Final = frozenset(CheckKind) - {
    CheckKind.EXACT,
    CheckKind.NEAR,
    CheckKind.ACROSS,
    CheckKind.UNCHANGED,
    CheckKind.ANSWERS,
}
"""Checks that ask for what is written beside the looks."""
_MOST: Final = 400
"""Changes tried for one check."""


def refs_of(spec: CheckSpec) -> set[tuple[str, str]]:
    """Return arm and label of everything that a check names."""
    named: list[PointRef | None] = [spec.candidate, spec.reference, spec.at, spec.unit, spec.restarted, *spec.whole]
    named += [ref for pair in spec.pairs for ref in pair]
    return {(ref.arm, ref.label) for ref in named if ref is not None}


def changes(one: Observation, tables: dict[Sha256, PartTable], counter: str) -> Iterator[Observation]:
    """Yield an observation with one thing changed, a counter first; new part tables are put among the others."""
    match one:
        case Point():
            for table in _tables(tables[one.root]):
                tables[table.root] = table
                yield replace(one, root=table.root)
            yield replace(one, logits=Sha256("ab" * 32))
            yield replace(one, tokens=(*one.tokens[:-1], 400) if one.tokens else (400,))
        case Turn():
            for name in ("cached", "prefilled", "restored_bytes", "decoded", "disk_bytes", "prefill_ns"):
                for by in (1, -1, 10**12):
                    yield replace(one, **{name: max(0, getattr(one, name) + by)})
            yield replace(one, cached=0, prefilled=one.prompt_tokens, restored_bytes=0)
            yield replace(one, finish="cancel" if one.finish != "cancel" else "stop")
        case StoreView():
            yield replace(one, entries=one.entries[:-1])
            yield replace(one, entries=(*one.entries, *(one.entries[:1] or ({"key": "0", "bytes": 1},))))
            for name, count in sorted(one.counters.items(), key=lambda item: item[0] != counter):
                for other in (count + 1, max(0, count - 1), 0, count + 10**12):
                    yield replace(one, counters={**one.counters, name: other})
            for at, entry in enumerate(one.entries):
                bigger = {**entry, "bytes": 3 * int(entry.get("bytes", 0)) + 1}
                yield replace(one, entries=(*one.entries[:at], bigger, *one.entries[at + 1 :]))
        case StepRecord():
            done = one.ended == "done"
            yield replace(one, ended="refused" if done else "done", code="format" if done else "")
            yield replace(one, code="missing" if one.code != "missing" else "state")
            for name, value in one.detail.items():
                changed: Any = value + 1 if isinstance(value, int) else "ab" * 32
                yield replace(one, detail={**one.detail, name: changed})
        case _:
            return


def _tables(table: PartTable) -> Iterator[PartTable]:
    seen: set[str] = set()
    for at, row in enumerate(table.rows):
        if row.family not in seen:
            seen.add(row.family)
            yield part_table([*table.rows[:at], replace(row, sha256=Sha256("cd" * 32)), *table.rows[at + 1 :]])


def asked(evidence: Evidence, cell: CellPlan, seen: Sequence[Observation], tables: Any, spec: CheckSpec) -> Outcome:
    """Return the outcome of one check of a cell."""
    header = evidence.header
    told, grade = facts_of(header.target), Observability(str(header.target["observability"]))
    view = cell_view(cell, seen, tables, grade, busy_at(header), templated=templated(told), told=told, pauses=True)
    return run_check(view, spec).outcome


def blind(evidence: Evidence, name: CellId) -> list[str]:
    """Return the checks of a cell that nothing made fail."""
    header = evidence.header
    plan = expand_procedure(header.scenario_id, header.procedure, header.scales)
    declared = next(one for one in plan.cells if one.id == name)
    cell = for_target(declared, capabilities_of(header), facts_of(header.target))
    tables = {one.root: one for one in evidence.observations if isinstance(one, PartTable)}
    seen = [one for one in evidence.observations if getattr(one, "cell", "") == name]
    return [spec.id for spec in cell.checks if spec.kind not in OWN and not _fails(evidence, cell, seen, tables, spec)]


def _fails(evidence: Evidence, cell: CellPlan, seen: Sequence[Observation], tables: Any, spec: CheckSpec) -> bool:
    named = refs_of(spec)
    first = spec.candidate or spec.at

    def unlikely(numbered: tuple[int, Observation]) -> tuple[bool, bool]:
        """Whether a change here is none of those that are tried first."""
        one = numbered[1]
        other = first is not None and (getattr(one, "arm", ""), getattr(one, "label", "")) != (first.arm, first.label)
        within = isinstance(one, Point) and one.phase in (Phase.OPENED, Phase.BOUNDARY)
        return other, within or isinstance(one, Point) == (spec.kind in _OF_NO_LOOK)

    every: Iterator[Sequence[Observation]] = (
        [*seen[:at], other, *seen[at + 1 :]]
        for at, one in sorted(enumerate(seen), key=unlikely)
        if (getattr(one, "arm", ""), getattr(one, "label", "")) in named and not getattr(one, "rep", 0)
        for other in changes(one, tables, spec.counter)
    )
    if spec.kind is CheckKind.SEEN:
        every = iter([_alike(seen, spec)])
    return any(_not_passed(evidence, cell, left, tables, spec) for left in islice(every, _MOST))


def _not_passed(evidence: Evidence, cell: CellPlan, left: Sequence[Observation], tables: Any, spec: CheckSpec) -> bool:
    wanted = Outcome.ERROR if spec.kind is CheckKind.SEEN else Outcome.FAIL
    try:
        return asked(evidence, cell, left, tables, spec) is wanted
    except InvalidDocumentError:
        return False


def _alike(seen: Sequence[Observation], spec: CheckSpec) -> Sequence[Observation]:
    """Let a control see what its reference saw, wherever that was looked at."""
    ours, theirs = spec.candidate, spec.reference
    if ours is None or theirs is None:
        return seen
    looks = [
        one for one in seen if isinstance(one, Point) and (one.arm, one.label, one.rep) == (theirs.arm, theirs.label, 0)
    ]
    image = next(
        (one for one in seen if isinstance(one, StepRecord) and (one.arm, one.label) == (theirs.arm, theirs.label)),
        None,
    )
    left: list[Observation] = []
    for one in seen:
        if image is not None and isinstance(one, StepRecord) and (one.arm, one.label) == (ours.arm, ours.label):
            one = replace(one, detail=image.detail)  # noqa: PLW2901
        if isinstance(one, Point) and (one.arm, one.label) == (ours.arm, ours.label) and one.phase != "opened":
            like = (
                [look for look in looks if look.phase == one.phase]
                or [look for look in looks if look.position == one.position]
                or looks[-1:]
            )
            one = replace(one, root=like[-1].root, logits=like[-1].logits, tokens=like[-1].tokens)  # noqa: PLW2901
        left.append(one)
    return left


def main(names: Sequence[str]) -> None:
    """List what nothing made fail."""
    checks = 0
    for scenario in sorted(committed()):
        if not names or scenario in names:
            evidence, cell = committed_cell(scenario)
            found = blind(evidence, cell)
            print(f"{scenario} {cell}: {', '.join(found) or 'all can fail'}", flush=True)
            checks += len(found)
    print(f"{checks} checks that no change made fail")


if __name__ == "__main__":
    main(sys.argv[1:])
