"""The step ``corrupt``: flip bits where a control wants them flipped."""

from __future__ import annotations

from harness.errors import RefusedError
from harness.model.evidence import Facts
from harness.model.scenario import Step
from harness.model.values import Capability, RefusalCode
from harness.running.arms import ArmRun, ArmSession
from harness.running.steps.snapshots import handle_of


def corrupt(arm: ArmRun, step: Step) -> None:
    """Flip bits in a live part, in an explicit snapshot or in a stored one.

    Raises:
        EngineError: The engine refused or failed, or there is no such place.
    """
    arm.require(Capability.CORRUPT)
    target = step.target
    if "damage" in target:
        _damage(arm, step)
        return
    part = _part_name(arm.session(step), str(target["part"]))
    byte, mask = int(target["byte"]), int(target["mask"])
    place: Facts = {"where": target["where"], "part": part, "byte": byte, "mask": mask}
    match target["where"]:
        case "live":
            arm.sessions[step.session].remote.corrupt(part, byte, mask)
        case "handle":
            arm.engine.corrupt_handle(handle_of(arm, step.handle or ""), part, byte, mask)
        case _:
            key = _stored_key(arm, step)
            arm.engine.corrupt_store(key, part, byte, mask)
            place = {**place, "key": key, "boundary": target["boundary"]}
    arm.done(step, place)


def _damage(arm: ArmRun, step: Step) -> None:
    """Break the geometry of the snapshot at a boundary."""
    key, kind = _stored_key(arm, step), str(step.target["damage"])
    arm.engine.damage_store(key, kind)
    arm.done(step, {"where": "store", "damage": kind, "key": key, "boundary": step.target["boundary"]})


def _part_name(session: ArmSession, wanted: str) -> str:
    """Return the part of a name, or the first non-empty one of a family, by the last look at the session."""
    if any(row.name == wanted for row in session.rows):
        return wanted
    of_family = [row for row in session.rows if row.family == wanted]
    first = next((row for row in of_family if row.bytes), None)
    if first is None:
        raise RefusedError(RefusalCode.MISSING, f"no part and no family {wanted!r} with bytes in it")
    return first.name


def _stored_key(arm: ArmRun, step: Step) -> str:
    """Return the key of the snapshot at a boundary.

    Raises:
        RefusedError: There is none, or there are several and the step gives no ``index``.
    """
    arm.require(Capability.STORE)
    boundary, index = int(step.target["boundary"]), step.target.get("index")
    keys = [str(entry["key"]) for entry in arm.engine.store()[0] if entry.get("boundary") == boundary]
    if index is not None and 0 <= int(index) < len(keys):
        return sorted(keys)[int(index)]
    if len(keys) != 1:
        raise RefusedError(
            RefusalCode.MISSING,
            f"{len(keys)} snapshots are held at {boundary} tokens; one, or an index, is needed",
        )
    return keys[0]
