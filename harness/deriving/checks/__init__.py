"""Questions to evidence, one file each: pure functions from a cell's view to a result.

A file is read when a scenario asks its question: most ask a few of them, and a gate of one record takes hardly longer
than to start Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from harness.deriving.view import CellView
from harness.model.decision import CheckResult
from harness.model.scenario import CheckKind, CheckSpec

Check = Callable[[CellView, CheckSpec], CheckResult]

FILES: Final[Mapping[CheckKind, str]] = {
    CheckKind.EXACT: "exact",
    CheckKind.NEAR: "near",
    CheckKind.ACROSS: "across",
    CheckKind.UNCHANGED: "unchanged",
    CheckKind.SAME_IMAGE: "same_image",
    CheckKind.ENDED: "ended",
    CheckKind.ANSWERS: "told",
    CheckKind.CACHED: "cached",
    CheckKind.REUSED: "reused",
    CheckKind.STORED: "stored",
    CheckKind.SIZED: "sized",
    CheckKind.FOOTPRINT: "footprint",
    CheckKind.ENTRIES: "entries",
    CheckKind.REFUSED: "refused",
    CheckKind.COUNTER: "counter",
    CheckKind.BALANCE: "balance",
    CheckKind.QUICKER: "quicker",
    CheckKind.SEEN: "seen",
    CheckKind.REPEATABLE: "repeatable",
    CheckKind.INVENTORY: "inventory",
    CheckKind.FINISHED: "finished",
}
"""Every kind of check and the file that answers it."""


@cache
def check_of(kind: CheckKind) -> Check:
    """Return what answers a kind of check."""
    check: Check = __import__(f"{__name__}.{FILES[kind]}", fromlist=["check"]).check
    return check


def run_check(view: CellView, spec: CheckSpec) -> CheckResult:
    """Answer one question."""
    return check_of(spec.kind)(view, spec)
