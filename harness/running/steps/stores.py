"""The steps on the snapshot store: ``store``, ``evict``, ``budget`` and ``pressure``."""

from __future__ import annotations

from harness.errors import RefusedError
from harness.model.evidence import StoreView
from harness.model.scenario import Step
from harness.model.values import Capability, RefusalCode
from harness.running.arms import ArmRun


def store(arm: ArmRun, step: Step) -> None:
    """List the snapshots held, and the counters.

    Raises:
        EngineError: The engine refused or failed.
    """
    arm.require(Capability.STORE)
    entries, counters = arm.engine.store()
    cell = arm.cell
    view = StoreView(
        cell=cell.plan.id,
        arm=arm.arm.id,
        rep=arm.rep,
        label=step.label,
        entries=tuple(entries),
        counters=counters,
        t_ns=cell.recorder.now(),
    )
    cell.stores[arm.arm.id, step.label] = view
    cell.recorder.write(view)


def evict(arm: ArmRun, step: Step) -> None:
    """Evict least recently used snapshots.

    Raises:
        EngineError: The engine refused or failed.
    """
    arm.require(Capability.EVICT)
    arm.done(step, {"asked": step.count, "evicted": arm.engine.evict(step.count)})


def budget(arm: ArmRun, step: Step) -> None:
    """Change the budget, in bytes or as a multiple of what an earlier ``store`` step saw.

    Raises:
        EngineError: The engine refused or failed, or that earlier step saw nothing.
    """
    arm.require(Capability.EVICT)
    asked = wanted(arm, step)
    arm.engine.set_budget(asked)
    arm.done(step, asked)


def pressure(arm: ArmRun, step: Step) -> None:
    """Ask the store to give bytes back.

    Raises:
        EngineError: The engine refused or failed, or an earlier step that the bytes refer to saw nothing.
    """
    arm.require(Capability.EVICT)
    need = wanted(arm, step)["bytes"]
    arm.done(step, {"need": need, "freed": arm.engine.release(need)})


def wanted(arm: ArmRun, step: Step) -> dict[str, int]:
    """Return the bytes and entries that a step names, as they are or as a multiple of what was seen earlier.

    Raises:
        RefusedError: Nothing was seen at the step that they refer to (``missing``).
    """
    found = {name: int(step.budget[name]) for name in ("bytes", "entries") if name in step.budget}
    if "of" in step.budget:
        held = _held(arm, str(step.budget["of"]))
        found["bytes"] = max(0, int(step.budget["times"]) * held + int(step.budget.get("plus", 0)))
    return found


def _held(arm: ArmRun, reference: str) -> int:
    name, _, label = reference.partition(".")
    view = arm.cell.stores.get((name, label))
    if view is None:
        raise RefusedError(RefusalCode.MISSING, f"nothing was seen at {reference}")
    return view.counters.get("stored_bytes", 0)
