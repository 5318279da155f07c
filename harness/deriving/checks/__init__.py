"""Questions to evidence, one file each: pure functions from a cell's view to a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from harness.deriving.checks import (
    across,
    balance,
    cached,
    counter,
    ended,
    entries,
    exact,
    finished,
    footprint,
    inventory,
    near,
    quicker,
    refused,
    repeatable,
    reused,
    same_image,
    seen,
    sized,
    stored,
    told,
    unchanged,
)
from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.scenario import CheckKind, CheckSpec

Check = Callable[[CellView, CheckSpec], CheckResult]

CHECKS: Final[Mapping[CheckKind, Check]] = {
    CheckKind.EXACT: exact.check,
    CheckKind.NEAR: near.check,
    CheckKind.ACROSS: across.check,
    CheckKind.UNCHANGED: unchanged.check,
    CheckKind.SAME_IMAGE: same_image.check,
    CheckKind.ENDED: ended.check,
    CheckKind.ANSWERS: told.check,
    CheckKind.CACHED: cached.check,
    CheckKind.REUSED: reused.check,
    CheckKind.STORED: stored.check,
    CheckKind.SIZED: sized.check,
    CheckKind.FOOTPRINT: footprint.check,
    CheckKind.ENTRIES: entries.check,
    CheckKind.REFUSED: refused.check,
    CheckKind.COUNTER: counter.check,
    CheckKind.BALANCE: balance.check,
    CheckKind.QUICKER: quicker.check,
    CheckKind.SEEN: seen.check,
    CheckKind.REPEATABLE: repeatable.check,
    CheckKind.INVENTORY: inventory.check,
    CheckKind.FINISHED: finished.check,
}
"""Every kind of check and who answers it."""


def run_check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer one question."""
    return CHECKS[spec.kind](view, spec)
