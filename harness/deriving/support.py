"""What of a cell a target can do: missing capabilities, and the controls that fall away."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from harness.model.scenario import CellPlan, CheckKind, CheckSpec, PointRef
from harness.model.values import ArmRole, Capability, Observability

GRADES: Final = (Observability.TOKENS, Observability.LOGITS, Observability.IMAGE, Observability.PARTS)
"""From the weakest grade to the strongest."""

NO_CONTROL: Final = "no_control"
"""The target can run none of the controls, so a pass would prove nothing."""


def for_target(cell: CellPlan, capabilities: Collection[str]) -> CellPlan:
    """Return the cell without the control arms whose own needs are not met, and without their checks."""
    dropped = {
        arm.id for arm in cell.arms if arm.role is ArmRole.CONTROL and not set(arm.requires) <= set(capabilities)
    }
    if not dropped:
        return cell
    return replace(
        cell,
        arms=tuple(arm for arm in cell.arms if arm.id not in dropped),
        checks=tuple(check for check in cell.checks if not _speaks_of(check, dropped)),
    )


def dropped_arms(cell: CellPlan, capabilities: Collection[str]) -> tuple[str, ...]:
    """Return the ids of the control arms that :func:`for_target` leaves out."""
    kept = {arm.id for arm in for_target(cell, capabilities).arms}
    return tuple(arm.id for arm in cell.arms if arm.id not in kept)


def capabilities_missing(
    cell: CellPlan, capabilities: Collection[str], observability: str = Observability.PARTS
) -> tuple[str, ...]:
    """Return why the target cannot run the cell, as reason codes; empty: it can.

    Capabilities by their names; ``observability`` where the target shows less than the scenario needs;
    ``no_control`` where an exact comparison would be left without a control.
    """
    needed: set[Capability] = set(cell.requires)
    for arm in cell.arms:
        if arm.role is not ArmRole.CONTROL:
            needed |= set(arm.requires)
    missing = [str(capability) for capability in Capability if capability in needed - set(capabilities)]
    if GRADES.index(Observability(observability)) < GRADES.index(cell.observability):
        missing.append("observability")
    if _without_control(cell, for_target(cell, capabilities)):
        missing.append(NO_CONTROL)
    return tuple(missing)


def _without_control(declared: CellPlan, left: CellPlan) -> bool:
    had = any(check.kind is CheckKind.SEEN for check in declared.checks)
    return had and not any(check.kind is CheckKind.SEEN for check in left.checks)


def _speaks_of(check: CheckSpec, arms: Collection[str]) -> bool:
    refs: tuple[PointRef | None, ...] = (check.candidate, check.reference, check.at, check.unit)
    return any(ref is not None and ref.arm in arms for ref in refs)
