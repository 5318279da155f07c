"""What of a cell a target can do: missing capabilities, and the controls that fall away."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

from harness.model.scenario import Arm, CellPlan, CheckKind, CheckSpec, PointRef, Step, StepKind
from harness.model.values import ArmRole, Capability, Observability

GRADES: Final = (Observability.TOKENS, Observability.LOGITS, Observability.IMAGE, Observability.PARTS)
"""From the weakest grade to the strongest."""

_OF_KIND: Final[Mapping[StepKind, Capability]] = {
    StepKind.EXTEND: Capability.EXTEND,
    StepKind.SNAPSHOT: Capability.SNAPSHOT,
    StepKind.RESTORE: Capability.SNAPSHOT,
    StepKind.STORE: Capability.STORE,
    StepKind.CORRUPT: Capability.CORRUPT,
    StepKind.EVICT: Capability.EVICT,
    StepKind.BUDGET: Capability.EVICT,
    StepKind.PRESSURE: Capability.EVICT,
    StepKind.EXPORT: Capability.IMAGE,
    StepKind.IMPORT: Capability.IMAGE,
    StepKind.ALTER: Capability.IMAGE,
    StepKind.CANCEL: Capability.CANCEL,
    StepKind.SPOIL: Capability.DISK,
    StepKind.RIVAL: Capability.DISK,
}
DISK_OPTION: Final = "disk"
"""Engine option whose value is a label; the harness puts a folder in its place."""

NO_CONTROL: Final = "no_control"
"""The target can run none of the controls, so a pass would prove nothing."""


def arm_needs(arm: Arm) -> tuple[Capability, ...]:
    """Return what an arm needs: what it says, and what its steps imply."""
    implied = {need for step in arm.steps for need in _step_needs(step)}
    implied |= {Capability.DISK} if DISK_OPTION in arm.engine else set()
    return tuple(capability for capability in Capability if capability in implied | set(arm.requires))


def _step_needs(step: Step) -> Iterator[Capability]:
    if step.kind in _OF_KIND:
        yield _OF_KIND[step.kind]
    if step.cache:
        yield Capability.PREFIX_CACHE
    if step.options and step.kind is not StepKind.RESTART:
        yield Capability.SESSION_OPTIONS
    if step.cancel_after:
        yield Capability.CANCEL
    if step.target.get("how") == "forge":
        yield Capability.CORRUPT
    if step.sampler:
        yield Capability.SAMPLING


def for_target(cell: CellPlan, capabilities: Collection[str]) -> CellPlan:
    """Return the cell without the control arms whose own needs are not met, and without their checks."""
    able = set(capabilities)
    dropped = {arm.id for arm in cell.arms if arm.role is ArmRole.CONTROL and not set(arm_needs(arm)) <= able}
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
    needed: set[Capability] = set(cell.requires) | ({Capability.DISK} if DISK_OPTION in cell.engine else set())
    for arm in cell.arms:
        if arm.role is not ArmRole.CONTROL:
            needed |= set(arm_needs(arm))
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
    refs: tuple[PointRef | None, ...] = (check.candidate, check.reference, check.at, check.unit, *check.whole)
    return any(ref is not None and ref.arm in arms for ref in refs)
