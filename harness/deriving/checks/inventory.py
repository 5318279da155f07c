"""``STATE.INVENTORY``: nothing is unhashed, nothing is missing, and labels fit the bytes.

At every look: part 0 is the metadata, names are unique, the families that the scenario needs are there, sizes follow
from shapes, K and V rows have the element types that the target says. Over all looks of one session (a restart ends it)
the same parts are listed; only logits and sampler that were not there when it was opened may come and go, and sessions
opened with the same options list the same. And what is listed is what the engine works on: once
the model has been run over some tokens no part of the state has bytes of one value only, and none is the same after all
prompts, where these end in different tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from harness.deriving.checks.answers import answer
from harness.deriving.looks import options_of, sessions_of
from harness.deriving.prompts import prompt_summary
from harness.deriving.support import row_types
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.evidence import PartRow, Point
from harness.model.scenario import CheckSpec, PointRef, StepKind
from harness.model.values import Family, Outcome, Phase, Sha256
from harness.wire.sha256 import NOTHING

WIDTHS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("f64", "i64", "u64"), 8),
    **dict.fromkeys(("f32", "i32", "u32"), 4),
    **dict.fromkeys(("f16", "bf16", "i16", "u16"), 2),
    **dict.fromkeys(("u8", "i8", "bool"), 1),
}
"""Bytes of one element, where elements have whole bytes."""
_COME_AND_GO: Final = frozenset({Family.LOGITS, Family.SAMPLER})
_LEAST: Final = 2
_STATE: Final = frozenset(
    {Family.KV, Family.INDEX, Family.RECURRENT, Family.CONV, Family.WINDOW, Family.PLE, Family.LOGITS}
)
_RUN_PHASES: Final = frozenset({Phase.PREFILLED, Phase.END})
_RUN_TOKENS: Final = 64
"""Tokens behind which every part of a state has been written."""
_BEHIND: Final[Mapping[str, int]] = {Family.KV: 1, Family.INDEX: 1024}
"""Tokens behind which a stream has rows: K and V from the first one on, an index with a row for each block of tokens
once the first block is full. What is not named has bytes behind :data:`_RUN_TOKENS`."""
_LARGE: Final = 64
"""Bytes of a part that cannot be the same by chance."""
_PENDING: Final = "pending logits"


def check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer the question."""
    if not view.points:
        return answer(spec, Outcome.ERROR, "nothing_compared", observed=0)
    kinds: dict[tuple[str, int, int, str], tuple[tuple[str, str], ...]] = {}
    sessions = {arm.id: sessions_of(arm) for arm in view.cell.arms}
    told = {arm.id: row_types(view.cell, arm, view.told) for arm in view.cell.arms}
    roots = {point.root for point in view.points.values()}
    tables = {root: _Table(view.tables[root].rows, view.cell.families) for root in roots}
    for point in view.points.values():
        table = tables[point.root]
        fault = table.fault
        if not fault:
            session = (point.arm, point.rep, *sessions[point.arm][point.label])
            fault = "" if kinds.setdefault(session, table.listed) == table.listed else "parts_come_and_go:"
        if fault or (fault := table.mislabelled(point.arm, told[point.arm]) or table.unwritten(point)):
            return _failed(spec, point, fault)
    odd = _unlike_opened(view, tables) or _unchanging(view, tables)
    if odd is not None:
        return _failed(spec, *odd)
    looks, names = len(view.points), len({(arm, rep, name) for arm, rep, _, name in kinds})
    return answer(spec, Outcome.PASS, observed=looks, detail={"looks": looks, "sessions": names})


class _Table:
    """What is asked of a part table again and again: many looks name the same one."""

    def __init__(self, rows: Sequence[PartRow], families: Sequence[str]) -> None:
        self.rows = rows
        self.fault = table_fault(rows, families)
        self.listed = tuple((row.name, row.family) for row in rows if row.family not in _COME_AND_GO)
        self.names = tuple(row.name for row in rows)
        self._labels: dict[str, str] = {}
        self._unwritten: dict[tuple[Phase, int, bool], str] = {}
        self._changing: dict[bool, Sequence[tuple[str, str]]] = {}

    def mislabelled(self, arm: str, told: Mapping[str, frozenset[str]]) -> str:
        """See :func:`_mislabelled`; an arm has one way of saying it."""
        if arm not in self._labels:
            self._labels[arm] = _mislabelled(self.rows, told)
        return self._labels[arm]

    def unwritten(self, point: Point) -> str:
        """See :func:`unwritten`."""
        key = point.phase, point.position, bool(point.logits)
        if key not in self._unwritten:
            self._unwritten[key] = unwritten(point, self.rows)
        return self._unwritten[key]

    def changing(self, point: Point) -> Sequence[tuple[str, str]]:
        """See :func:`_changing`; the pending logits are the point's own."""
        key = bool(point.logits)
        if key not in self._changing:
            self._changing[key] = _changing(self.rows, point)
        return [*self._changing[key], (_PENDING, point.logits)] if point.logits else self._changing[key]


def _unlike_opened(view: CellView, tables: Mapping[Sha256, _Table]) -> tuple[Point, str] | None:
    """Find a look that lists less than its session did when it was opened, logits and sampler included.

    Sessions that are opened with the same options list the same. What a session did not list when it was opened (a
    sampler that is made by the first draw) may come and go.
    """
    options = {arm.id: options_of(view.cell, arm) for arm in view.cell.arms}
    fresh: dict[str, tuple[str, ...]] = {}
    opened: dict[tuple[str, int, int, str], tuple[str, ...]] = {}
    sessions = {arm.id: sessions_of(arm) for arm in view.cell.arms}
    for point in view.points.values():
        names = tables[point.root].names
        session = (point.arm, point.rep, *sessions[point.arm][point.label])
        if point.phase is Phase.OPENED:
            opened[session] = names
            same = fresh.setdefault(repr(sorted(options[point.arm][point.label].items())), names)
            if same != names:
                return point, f"parts_come_and_go:{_first_of(same, names)}"
        lost = "" if opened.get(session, names) == names else _first_lost(opened[session], names)
        if lost:
            return point, f"parts_come_and_go:{lost}"
    return None


def _first_lost(once: Sequence[str], names: Sequence[str]) -> str:
    """Return the first name that a later look does not have; empty: it has them all."""
    return next((name for name in once if name not in names), "")


def _first_of(one: Sequence[str], other: Sequence[str]) -> str:
    """Return the first name that only one of two lists has; empty: they differ in their order."""
    return next(iter([name for name in one if name not in other] + [name for name in other if name not in one]), "")


def table_fault(rows: Sequence[PartRow], families: Sequence[str] = ()) -> str:
    """Return ``reason:part`` of the first thing that is wrong with a part table; empty: nothing is."""
    if len(rows) < _LEAST:
        return "too_few_parts:"
    if rows[0].name != Family.META or rows[0].family != Family.META:
        return f"no_metadata:{rows[0].name}"
    names = [row.name for row in rows]
    if len(set(names)) != len(names):
        return f"name_twice:{next(name for name in names if names.count(name) > 1)}"
    lacking = sorted(set(map(str, families)) - {row.family for row in rows})
    if lacking:
        return f"family_missing:{lacking[0]}"
    return next((f"{fault}:{row.name}" for row in rows if (fault := _row_fault(row))), "")


def _row_fault(row: PartRow) -> str:
    elements = math.prod(row.shape)
    if elements and not row.bytes:
        return "no_bytes"
    if row.element_type in WIDTHS and elements * WIDTHS[row.element_type] != row.bytes:
        return "size_does_not_fit"
    if (row.sha256 == NOTHING) != (row.bytes == 0):
        return "digest_of_nothing"
    return ""


def _mislabelled(rows: Sequence[PartRow], told: Mapping[str, frozenset[str]]) -> str:
    """Name K or V rows of another element type than the target says that they have."""
    for row in rows:
        kinds = told.get(row.name.rpartition(".")[2]) if row.family == Family.KV else None
        if kinds and row.element_type not in kinds:
            return f"other_element_type:{row.name}"
    return ""


def unwritten(point: Point, rows: Sequence[PartRow]) -> str:
    """Name a part that nobody wrote, where the model has been run, behind the reason; empty: there is none."""
    if point.phase not in _RUN_PHASES:
        return ""
    hollow = next((row for row in rows if _is_hollow(row, point)), None)
    if hollow is not None:
        return f"part_never_written:{hollow.name}"
    if point.position < _RUN_TOKENS:
        return ""
    found = next((row for row in rows if row.uniform and _is_state(row) and _is_valid(row, point)), None)
    return f"part_never_written:{found.name}" if found is not None else ""


def _is_hollow(row: PartRow, point: Point) -> bool:
    """Tell whether a part has no bytes where tokens left some; see :data:`_BEHIND`."""
    behind = _BEHIND.get(row.family, _RUN_TOKENS) if row.stream == "rows" else _RUN_TOKENS
    return not row.bytes and point.position >= behind and _is_state(row) and _is_valid(row, point)


def _unchanging(view: CellView, tables: Mapping[Sha256, _Table]) -> tuple[Point, str] | None:
    """Find a part that is the same after prompts whose last tokens differ: no part of a state can be."""
    digests: dict[str, set[str]] = {}
    lasts: dict[str, set[int]] = {}
    prompts: dict[str, set[str]] = {}
    at: dict[str, Point] = {}
    for point in view.points.values():
        ref = PointRef(arm=point.arm, label=point.label)
        turn = view.turn(ref, point.rep) if point.phase is Phase.PREFILLED else None
        step = view.step(ref) if turn is not None else None
        if turn is None or step is None or step.kind is not StepKind.RUN or point.position != turn.prompt_tokens:
            continue
        _, last, _ = prompt_summary(view.cell.prompts, step.prompt or "")
        for name, digest in tables[point.root].changing(point):
            digests.setdefault(name, set()).add(digest)
            lasts.setdefault(name, set()).add(last)
            prompts.setdefault(name, set()).add(turn.prompt_digest)
            at[name] = point
    for name, found in digests.items():
        if len(found) == 1 and min(len(lasts[name]), len(prompts[name])) > 1:
            return at[name], f"part_never_changes:{name}"
    return None


def _changing(rows: Sequence[PartRow], point: Point) -> Sequence[tuple[str, str]]:
    """Return names and digests of the parts that no prompt leaves as another one does."""
    fixed = [row for row in rows if row.stream == "fixed" and row.bytes >= _LARGE and _is_state(row)]
    return [(row.name, str(row.sha256)) for row in fixed if _is_valid(row, point)]


def _is_state(row: PartRow) -> bool:
    return row.family in _STATE


def _is_valid(row: PartRow, point: Point) -> bool:
    """Whether a part holds anything at this look: a buffer of logits may be there before there are any."""
    return row.family != Family.LOGITS or bool(point.logits)


def _failed(spec: CheckSpec, point: Point, fault: str) -> CheckResult:
    reason, _, part = fault.partition(":")
    detail: dict[str, str | int] = {
        "arm": point.arm,
        "label": point.label,
        "phase": str(point.phase),
        "rep": point.rep,
        "part": part,
    }
    return answer(spec, Outcome.FAIL, reason, observed=part, detail=detail)
