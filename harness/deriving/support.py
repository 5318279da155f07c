"""What of a cell a target can do: missing capabilities, and the controls that fall away."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from harness.deriving.questions import with_limits
from harness.model.noun import replace
from harness.model.scenario import Arm, CellPlan, CheckKind, CheckSpec, PointRef, Step, StepKind
from harness.model.values import ArmRole, Capability, Family, Guarantee, Observability

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
    StepKind.CANCEL: Capability.CANCEL,
    StepKind.SPOIL: Capability.DISK,
    StepKind.RIVAL: Capability.DISK,
    StepKind.MEANWHILE: Capability.MEANWHILE,
    StepKind.ENCODE: Capability.ARCHIVE,
    StepKind.BRING: Capability.ARCHIVE,
    StepKind.RECORD: Capability.ROLLBACK,
    StepKind.ROLLBACK: Capability.ROLLBACK,
}
DISK_OPTION: Final = "disk"
"""Engine option whose value is a label; the harness puts a folder in its place."""

BUILD_OPTION: Final = "build"
"""Engine option: ``own``, or ``other`` for another build of the engine (capability ``builds``)."""

NO_CONTROL: Final = "no_control"
"""The target can run none of the controls, so a pass would prove nothing."""
FAMILIES: Final = "families"
"""Fact of a target: the families that its state has, comma-separated. Untold: it has whatever a scenario needs."""
SESSION_OPTIONS: Final = "session_options"
"""Fact of a target: the session options that it knows, comma-separated. Untold: it knows whatever is asked."""
IMAGE_OPTIONS: Final = "image_options"
"""Fact of a target: the engine options that its images are bound to, comma-separated. Untold: none."""
REORDERED: Final = "reordered_families"
"""Fact of a target: families, comma-separated, over which it sums in another order after a restore. Untold: none."""
PROMPTS: Final = "prompts"
"""Fact of a target: ``templated`` where it puts more around a prompt than was given. Untold: it does not."""
TEMPLATED: Final = "templated"
TEMPLATED_PROMPT: Final = "templated_prompt"
"""Reason of a cell that asks how many tokens of a prompt were reused, of a target whose prompts are templated."""
FAMILY: Final = "family"
"""Reason of a cell that works on a part of a family which the target's state does not have."""
SESSION_OPTION: Final = "session_option"
"""Reason of a cell that opens a session with an option which the target does not know."""
BOUND_IMAGE: Final = "image_option"
"""Reason of a cell that brings an image into an engine with another value of an option that it is bound to."""
TOKENIZER: Final = "tokenizer_sha256"
"""Fact of a target: SHA-256 of its vocabulary; see docs/formats/scenario.md."""
READ: Final = (FAMILIES, SESSION_OPTIONS, IMAGE_OPTIONS, REORDERED, TOKENIZER)
"""All facts of a target that what is asked of it depends on."""
OTHER_TOKENIZER: Final = "tokenizer"
"""Reason of a cell whose literal ids belong to another vocabulary than the target's."""
_OF_ROWS: Final = ("k_type", "v_type", "kv_type")
"""Facts of a target, and options: the element type of K rows, of V rows, of both."""
ELEMENT_TYPES: Final = frozenset(
    (
        *(
            "f64",
            "f32",
            "f16",
            "bf16",
            "f8_e4m3",
            "f8_e5m2",
            "i64",
            "i32",
            "i16",
            "i8",
            "i4",
            "u64",
            "u32",
            "u16",
            "u8",
        ),
        *("bool", "q8_0", "q8_1", "q5_0", "q5_1", "q4_0", "q4_1"),
    )
)
NOTHING_TOLD: Final[Mapping[str, object]] = {}


def arm_needs(arm: Arm) -> tuple[Capability, ...]:
    """Return what an arm needs: what it says, and what its steps imply."""
    implied = {need for step in arm.steps for need in _step_needs(step)}
    implied |= {Capability.DISK} if DISK_OPTION in arm.engine else set()
    implied |= {Capability.BUILDS} if BUILD_OPTION in arm.engine else set()
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
    if step.kind is StepKind.RESTART and BUILD_OPTION in step.options:
        yield Capability.BUILDS
    if step.target.get("how") == "forge":
        yield Capability.CORRUPT
    if step.sampler:
        yield Capability.SAMPLING


def for_target(cell: CellPlan, capabilities: Collection[str], told: Mapping[str, object] = NOTHING_TOLD) -> CellPlan:
    """Return the cell as the target can run it.

    Control arms whose needs are not met are left out, with their checks; of the families that must be in the
    inventory those are left that the target's state has; exact checks that state limits for it are near ones, where the
    target says that it sums over one of the cell's families in another order after a restore.

    Args:
        cell: As planned.
        capabilities: That the target declares.
        told: Facts of its identity, of which those named above are read.
    """
    able = set(capabilities)
    dropped = {
        arm.id
        for arm in cell.arms
        if arm.role is ArmRole.CONTROL and (not set(arm_needs(arm)) <= able or arm_lacks(arm, told))
    }
    if (_told(told, REORDERED) or frozenset()) & set(cell.families):
        nearer = [_near(check) if check.reordered else check for check in cell.checks]
        cell = replace(cell, checks=with_limits(nearer))
    has = _told(told, FAMILIES)
    if has is not None and not has.issuperset(cell.families):
        cell = replace(cell, families=tuple(family for family in cell.families if family in has))
    if not dropped:
        return cell
    return replace(
        cell,
        arms=tuple(arm for arm in cell.arms if arm.id not in dropped),
        checks=tuple(check for check in cell.checks if not _speaks_of(check, dropped)),
    )


def _near(check: CheckSpec) -> CheckSpec:
    return replace(check, kind=CheckKind.NEAR, guarantee=Guarantee.TOLERANCE, limits=check.reordered, reordered={})


def arm_lacks(arm: Arm, told: Mapping[str, object]) -> str:
    """Return why an arm cannot run for what the target tells of itself, as a reason code; empty: it can."""
    has, known, bound = _told(told, FAMILIES), _told(told, SESSION_OPTIONS), _told(told, IMAGE_OPTIONS)
    changed: set[str] = set()
    for step in arm.steps:
        changed |= set(step.options) if step.kind is StepKind.RESTART else set()
        if bound is not None and step.kind is StepKind.IMPORT and not step.may_refuse and bound & changed:
            return BOUND_IMAGE
        part = str(step.target.get("part", ""))
        if has is not None and part in frozenset(Family) - has:
            return FAMILY
        if known is not None and step.kind is not StepKind.RESTART and not known.issuperset(step.options):
            return SESSION_OPTION
    return ""


def row_types(cell: CellPlan, arm: Arm, told: Mapping[str, object]) -> Mapping[str, frozenset[str]]:
    """Return the element types that K and V rows of an arm may have, by ``k`` and ``v``.

    What the target's identity says, the cell's and the arm's options in its place, and what a session or a restart is
    told. A side of which nothing is told, or a word that is no element type, is not there.
    """
    base = {name: told[name] for name in _OF_ROWS if name in told} | dict(cell.engine) | dict(arm.engine)
    found = {}
    for side in ("k", "v"):
        names = (f"{side}_type", "kv_type")
        here = [base[name] for name in names if name in base]
        later = [step.options[name] for step in arm.steps for name in names if name in step.options]
        kinds = frozenset(map(str, (*here, *later)))
        if here and kinds <= ELEMENT_TYPES:
            found[side] = kinds
    return found


def facts_of(target: Mapping[str, object]) -> Mapping[str, object]:
    """Return the facts of identity in the target of a header."""
    found = target.get("identity")
    return found if isinstance(found, Mapping) else NOTHING_TOLD


def templated(told: Mapping[str, object]) -> bool:
    """Tell whether a target puts a template around prompts, so that their tokens are not the scenario's."""
    return told.get(PROMPTS) == TEMPLATED


def families_absent(cell: CellPlan, told: Mapping[str, object]) -> tuple[str, ...]:
    """Return the families that the scenario asks for and the target's state does not have."""
    has = _told(told, FAMILIES)
    return () if has is None else tuple(str(family) for family in cell.families if family not in has)


def _told(told: Mapping[str, object], name: str) -> frozenset[str] | None:
    found = told.get(name)
    return frozenset(found.split(",")) if isinstance(found, str) else None


def dropped_arms(
    cell: CellPlan, capabilities: Collection[str], told: Mapping[str, object] = NOTHING_TOLD
) -> tuple[str, ...]:
    """Return the ids of the control arms that :func:`for_target` leaves out."""
    kept = {arm.id for arm in for_target(cell, capabilities, told).arms}
    return tuple(arm.id for arm in cell.arms if arm.id not in kept)


def capabilities_missing(
    cell: CellPlan,
    capabilities: Collection[str],
    observability: str = Observability.PARTS,
    told: Mapping[str, object] = NOTHING_TOLD,
) -> tuple[str, ...]:
    """Return why the target cannot run the cell, as reason codes; empty: it can.

    Capabilities by their names; ``observability`` where the target shows less than the scenario needs; ``family``,
    ``session_option`` and ``image_option`` where it says that it does not have them, or binds its images to them;
    ``templated_prompt`` where it asks for counts that the target's template hides;
    ``no_control`` where an exact comparison would be left without a control.
    """
    needed: set[Capability] = set(cell.requires) | ({Capability.DISK} if DISK_OPTION in cell.engine else set())
    lacking: list[str] = []
    for arm in cell.arms:
        if arm.role is not ArmRole.CONTROL:
            needed |= set(arm_needs(arm))
            lacking += [lack] if (lack := arm_lacks(arm, told)) and lack not in lacking else []
    missing = [str(capability) for capability in Capability if capability in needed - set(capabilities)]
    if GRADES.index(Observability(observability)) < GRADES.index(cell.observability):
        missing.append("observability")
    missing += lacking
    if cell.tokenizer and told.get(TOKENIZER) != cell.tokenizer:
        missing.append(OTHER_TOKENIZER)
    if templated(told) and any(check.kind is CheckKind.CACHED for check in cell.checks):
        missing.append(TEMPLATED_PROMPT)
    if _without_control(cell, for_target(cell, capabilities, told)):
        missing.append(NO_CONTROL)
    return tuple(missing)


def _without_control(declared: CellPlan, left: CellPlan) -> bool:
    had = any(check.kind is CheckKind.SEEN for check in declared.checks)
    return had and not any(check.kind is CheckKind.SEEN for check in left.checks)


def _speaks_of(check: CheckSpec, arms: Collection[str]) -> bool:
    refs: tuple[PointRef | None, ...] = (check.candidate, check.reference, check.at, check.unit, *check.whole)
    return any(ref is not None and ref.arm in arms for ref in refs)
