"""The declared product of a scenario: every combination of its axes, resolved and checked.

The runner and the judge both start here, so a cell means the same to both: what ran is compared with what was
declared, and not with what happened to be recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Final

from harness.deriving import axes as axis
from harness.deriving.arms import capabilities, options, parse_arm
from harness.deriving.lengths import Scaling, length, optional_length
from harness.deriving.node import Node
from harness.deriving.questions import automatic_checks, parse_check, with_limits
from harness.deriving.validity import require_valid
from harness.deriving.walk import Walk
from harness.errors import UsageError
from harness.model.scenario import Arm, CellPlan, Coords, Plan, PromptSegment, PromptSpec, Scalar, Scenario
from harness.model.values import CellId, Family, Observability
from harness.wire.scenario_doc import procedure_digest, scenario_of_procedure

CAPACITY_STEP: Final = 64
"""Capacities are multiples of this many tokens."""

MOST_CELLS: Final = 4096
"""Of one product; counted before the product is made."""
MOST_TOKENS: Final = 4_194_304
"""Of one prompt, at the scale at which it runs."""

_MOST_KEPT: Final = 64
_CELLS: Final[dict[tuple[Scalar, ...], tuple[CellPlan, ...]]] = {}
"""Resolved cells by everything that they depend on: many records share a scenario, and each is resolved twice."""


def expand(
    scenario: Scenario,
    scales: Sequence[int],
    *,
    suite: str = "adhoc",
    selected: Collection[str] | None = None,
    where: str = "",
) -> Plan:
    """Return the plan: every cell of the product, excluded ones with their reason.

    Args:
        scenario: The scenario; :func:`expand_procedure` takes its hashed part alone.
        scales: Scales to run at.
        suite: Name of the suite that the scales come from.
        selected: Ids of the cells to run; all, if not given.
        where: What to call the file in an error; the scenario's own file by default, or its id.

    Raises:
        InvalidScenarioError: With the path of what cannot be resolved.
        UsageError: No scale, a scale below 1, or a selected cell that does not exist.
    """
    if not scales or min(scales) < 1:
        raise UsageError(f"found scales {list(scales)}; allowed is at least one, each 1 or more")
    procedure = Node(value=scenario.procedure, where=f"{where or scenario.where or scenario.id}#/procedure")
    axes = axis.axes_of(procedure, sorted(set(scales)))
    key = (scenario.id, procedure_digest(scenario.procedure), *axes[axis.SCALE])
    cells = _CELLS.get(key)
    if cells is None:
        _require_bounded(procedure, axes)
        seen: dict[tuple[int, str], CellId] = {}
        cells = tuple(_cell(scenario, procedure, axes, coords, seen) for coords in axis.combinations(axes))
        if len(_CELLS) >= _MOST_KEPT:
            _CELLS.clear()
        _CELLS[key] = cells
    return Plan(
        scenario=scenario,
        suite=suite,
        scales=tuple(sorted(set(scales))),
        axes={name: tuple(labels) for name, labels in axes.items()},
        cells=cells,
        selected=_selected(cells, selected),
    )


def expand_procedure(
    scenario_id: str,
    procedure: Mapping[str, object],
    scales: Sequence[int],
    *,
    suite: str = "adhoc",
    selected: Collection[str] | None = None,
    where: str = "",
) -> Plan:
    """Return the plan of a procedure, as the header of evidence holds it.

    Raises:
        InvalidScenarioError: The procedure does not fit its schema or cannot be resolved.
        UsageError: As :func:`expand`.
    """
    scenario = scenario_of_procedure(scenario_id, procedure, where or scenario_id)
    return expand(scenario, scales, suite=suite, selected=selected, where=where)


def cell_id(scenario_id: str, coords: Coords) -> CellId:
    """Return the id of a cell, like ``A16[scale=16,at=end+1]``."""
    inside = ",".join(f"{name}={axis.label_text(label)}" for name, label in coords.items())
    return CellId(f"{scenario_id}[{inside}]")


def _selected(cells: Sequence[CellPlan], selected: Collection[str] | None) -> tuple[CellId, ...]:
    if selected is None:
        return tuple(cell.id for cell in cells)
    unknown = sorted(set(selected) - {cell.id for cell in cells})
    if unknown:
        raise UsageError(f"found no cell {', '.join(unknown[:5])}; cells are {', '.join(cell.id for cell in cells)}")
    return tuple(cell.id for cell in cells if cell.id in set(selected))


def _require_bounded(procedure: Node, axes: Mapping[str, Mapping[Scalar, object]]) -> None:
    count = prod(len(labels) for labels in axes.values())
    if count > MOST_CELLS:
        Node(value=None, where=f"{procedure.where}/axes").fail(f"found {count} cells; allowed are {MOST_CELLS}")


def _cell(
    scenario: Scenario,
    procedure: Node,
    axes: Mapping[str, Mapping[Scalar, object]],
    coords: Coords,
    seen: dict[tuple[int, str], CellId],
) -> CellPlan:
    """Resolve one cell; ``seen`` holds what the cells before it do, so that none is another under a second name."""
    identity = cell_id(scenario.id, coords)
    reason = axis.exclusion(procedure, axes, coords)
    if reason:
        return CellPlan(id=identity, coords=coords, excluded=reason)
    values = {name: axes[name][label] for name, label in coords.items()}
    whole = {key: value for key, value in procedure.items() if key not in ("axes", "exclude")}
    whole["checks"] = _asked(procedure.child("checks"), axes, coords)
    plain = {key: axis.substitute(node, values) for key, node in whole.items()}
    scenario_of_procedure(scenario.id, {"axes": {}, **plain}, f"{procedure.where.partition('#')[0]} in {identity}")
    scale = coords[axis.SCALE]
    twin = seen.setdefault((int(scale), repr(plain)), identity)
    if twin != identity:
        Node(value=None, where=f"{procedure.where}/axes").fail(
            f"found cells {twin} and {identity}, which do the same; allowed are axes that something refers to"
        )
    return _resolved(Node(value=plain, where=procedure.where), identity, coords, int(scale))


def _asked(checks: Node, axes: Mapping[str, Mapping[Scalar, object]], coords: Coords) -> Node:
    """Return the checks that a cell is asked, without the conditions under which it is."""
    asked = [
        {key: value.value for key, value in check.items() if key != "when"}
        for check in checks.elements()
        if "when" not in check or axis.fits(check.child("when"), axes, coords)
    ]
    return Node(value=asked, where=checks.where)


def _resolved(node: Node, identity: CellId, coords: Coords, scale: int) -> CellPlan:
    chunk = node.child("chunk").integer() // scale
    if chunk < 1:
        node.child("chunk").fail(f"found {node.child('chunk').integer()} tokens, which scale {scale} makes 0")
    scaling = Scaling(scale=scale, chunk=chunk)
    prompts = _prompts(node.child("prompts"), scaling)
    arms = tuple(parse_arm(arm, scaling) for arm in node.child("arms").elements())
    observability = node.child("observability").choice(Observability)
    asked = with_limits([parse_check(check, scaling) for check in node.child("checks").elements()])
    engine = options(node.child("engine"), scaling) if "engine" in node else {}
    families = node.child("families").elements() if "families" in node else ()
    cell = CellPlan(
        id=identity,
        coords=coords,
        engine={"chunk": chunk, "max_seq_len": _capacity(arms, prompts, node), **engine},
        prompts=prompts,
        arms=arms,
        checks=(*asked, *automatic_checks(arms, observability)),
        requires=capabilities(node),
        families=tuple(family.choice(Family) for family in families),
        observability=observability,
        devices=node.optional_integer("devices", 1),
        tokenizer=node.optional_text("tokenizer", ""),
    )
    require_valid(cell, node.where)
    return cell


def _capacity(arms: Sequence[Arm], prompts: Mapping[str, PromptSpec], node: Node) -> int:
    """Tokens that the longest session of any arm holds, rounded up to a whole step."""
    longest = max(Walk(arm, prompts, f"{node.where}/arms/{index}").longest for index, arm in enumerate(arms))
    return max(-(-longest // CAPACITY_STEP), 1) * CAPACITY_STEP


def _prompts(node: Node, scaling: Scaling) -> Mapping[str, PromptSpec]:
    prompts = {name: _prompt(prompt, scaling) for name, prompt in sorted(node.items())}
    for name, prompt in node.items():
        _require_sources(prompts, name, prompt)
    return prompts


def _prompt(node: Node, scaling: Scaling) -> PromptSpec:
    prompt = PromptSpec(segments=tuple(_segment(segment, scaling) for segment in node.elements()))
    if prompt.length > MOST_TOKENS:
        node.fail(f"found {prompt.length} tokens; allowed are {MOST_TOKENS}")
    return prompt


def _segment(node: Node, scaling: Scaling) -> PromptSegment:
    ids = tuple(element.integer() for element in node.child("ids").elements()) if "ids" in node else ()
    tokens = len(ids) or length(node.child("length"), scaling)
    change_at = optional_length(node, "change_at", scaling)
    if change_at is not None and change_at >= tokens:
        node.fail(f"found change_at {change_at}; the segment has {tokens} tokens")
    return PromptSegment(
        tokens=tokens,
        seed=node.child("seed").integer() if "seed" in node else None,
        prefix_of=node.child("prefix_of").text() if "prefix_of" in node else None,
        ids=ids,
        change_at=change_at,
    )


def _require_sources(prompts: Mapping[str, PromptSpec], name: str, node: Node) -> None:
    """Follow ``prefix_of`` from one prompt: the sources exist, are long enough and never lead back."""
    waiting, seen = [name], set()
    while waiting:
        user = waiting.pop()
        seen.add(user)
        for segment in prompts[user].segments:
            other = segment.prefix_of
            if other is None:
                continue
            if other not in prompts or other == name:
                node.fail(f"found prefix_of {other!r}; allowed is another prompt that is not made from this one")
            if segment.tokens > prompts[other].length:
                node.fail(f"takes {segment.tokens} tokens of {other}, which has {prompts[other].length}")
            if other not in seen:
                waiting.append(other)
