"""One file for each group of step kinds. A step runs, observes, and raises a refusal if the engine refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from harness.model.scenario import Step, StepKind
from harness.running.arms import ArmRun
from harness.running.steps import archives, corrupting, images, looking, restarts, rolling, snapshots, stores, turns

RUNNERS: Final[Mapping[StepKind, Callable[[ArmRun, Step], None]]] = {
    StepKind.RUN: turns.run,
    StepKind.RESUME: turns.resume,
    StepKind.EXTEND: turns.extend,
    StepKind.DECODE: turns.decode,
    StepKind.OBSERVE: looking.observe,
    StepKind.SNAPSHOT: snapshots.snapshot,
    StepKind.RESTORE: snapshots.restore,
    StepKind.RESET: snapshots.reset,
    StepKind.CLOSE: snapshots.close,
    StepKind.STORE: stores.store,
    StepKind.EVICT: stores.evict,
    StepKind.BUDGET: stores.budget,
    StepKind.PRESSURE: stores.pressure,
    StepKind.CORRUPT: corrupting.corrupt,
    StepKind.CANCEL: turns.cancel,
    StepKind.MEANWHILE: turns.meanwhile,
    StepKind.RECORD: rolling.record,
    StepKind.ROLLBACK: rolling.rollback,
    StepKind.EXPORT: images.export_image,
    StepKind.IMPORT: images.import_image,
    StepKind.ALTER: images.alter,
    StepKind.RESTART: restarts.restart,
    StepKind.RIVAL: restarts.rival,
    StepKind.SPOIL: restarts.spoil,
    StepKind.ENCODE: archives.encode,
    StepKind.BRING: archives.bring,
}
"""Every step kind to the function that runs it."""
