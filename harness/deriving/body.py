"""The body of a certificate: evidence and its decisions as one value of integers and strings.

Pure and total: the same evidence bytes give the same body bytes on every machine, and a gate makes it again to see
whether a committed one was touched. No prose: sentences are rendered when they are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.deriving import about
from harness.deriving.ids import certificate_id, claim_key
from harness.deriving.judge import Judged, judge
from harness.deriving.limits import limits
from harness.deriving.pairing import comparisons, pairing
from harness.deriving.view import CellView
from harness.errors import InvalidDocumentError
from harness.model.decision import CellDecision, CheckResult
from harness.model.evidence import Evidence, Trust, Turn
from harness.model.scenario import CheckKind, CheckSpec
from harness.model.values import Outcome

SCHEMA: Final = "statecert/certificate/v1"
KIND: Final = "qualification"

__all__ = ["KIND", "SCHEMA", "certificate_id", "derive_body"]

_COMPARING: Final = frozenset({CheckKind.EXACT, CheckKind.NEAR, CheckKind.UNCHANGED, CheckKind.SEEN})
_TURN_FIELDS: Final = (
    "arm",
    "label",
    "rep",
    "prompt_tokens",
    "cached",
    "prefilled",
    "decoded",
    "restored_bytes",
    "begin_ns",
    "prefill_ns",
    "commit_ns",
    "decode_ns",
    "first_token_ns",
)


def derive_body(evidence: Evidence, where: str = "evidence") -> dict[str, object]:
    """Return the body that follows from evidence.

    Raises:
        InvalidDocumentError: The evidence was cut off or contradicts itself.
    """
    judged = judge(evidence, where)
    header, target = evidence.header, evidence.header.target
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "claim_key": claim_key(
            header.scenario_id, str(target["engine"]), str(target["model"]), str(target["hw_class"])
        ),
        "scenario": {"id": header.scenario_id, "procedure_digest": header.procedure_digest},
        "run": _run(evidence, judged),
        "subject": about.subject(target, header.source),
        "environment": about.environment(header.environment, target),
        "harness": about.harness(header.source),
        "observability": target["observability"],
        "axes": [{"name": name, "values": list(labels)} for name, labels in judged.plan.axes.items()],
        "cells": [_cell(cell, judged.views.get(cell.id)) for cell in judged.decision.cells],
        "totals": _totals(judged.decision.cells),
        "decision": {
            "by_axis": {str(axis): str(verdict) for axis, verdict in judged.decision.by_axis.items()},
            "overall": str(judged.decision.overall),
            "reasons": list(judged.decision.reasons),
        },
        "limits": list(limits(judged.plan, judged.decision, header, judged.trust)),
        "trust": _trust(judged.trust),
    }


def _run(evidence: Evidence, judged: Judged) -> dict[str, object]:
    header, end = evidence.header, evidence.end
    if end is None:
        raise InvalidDocumentError("was cut off: there is no end record", where="evidence")
    return {
        "run_id": header.run_id,
        "created": header.created,
        "finished": end.finished,
        "elapsed_ns": end.elapsed_ns,
        "suite": header.suite,
        "scales": list(judged.plan.scales),
        "partial": judged.plan.partial or end.interrupted,
        "evidence": {"sha256": evidence.sha256, "bytes": evidence.bytes, "records": end.records},
    }


def _cell(cell: CellDecision, view: CellView | None) -> dict[str, object]:
    failing = [check for check in cell.checks if check.outcome is not Outcome.PASS]
    found: dict[str, object] = {
        "id": cell.id,
        "coords": dict(cell.coords),
        "outcome": str(cell.outcome),
        "checks": [_check(check) for check in cell.checks],
        "failure_reasons": [{"check": one.id, "code": one.code, "reason": one.reason} for one in failing],
        "turns": [_turn(turn) for turn in view.turns.values()] if view is not None else [],
        "comparisons": _comparisons(view) if view is not None else [],
    }
    if cell.reason:
        found["reason"] = cell.reason
    return found


def _check(check: CheckResult) -> dict[str, object]:
    found: dict[str, object] = {
        "id": check.id,
        "code": check.code,
        "axis": str(check.axis),
        "outcome": str(check.outcome),
        "observed": check.observed,
        "limit": check.limit,
        "unit": check.unit,
        "detail": dict(check.detail),
    }
    if check.reason:
        found["reason"] = check.reason
    return found


def _turn(turn: Turn) -> dict[str, object]:
    return {name: getattr(turn, name) for name in _TURN_FIELDS}


def _comparisons(view: CellView) -> list[dict[str, object]]:
    specs = [check for check in view.cell.checks if check.kind in _COMPARING]
    return [found for spec in specs for found in _roots(view, spec)]


def _roots(view: CellView, spec: CheckSpec) -> Sequence[dict[str, object]]:
    """Return one root digest per side and phase: equal roots are equal tables."""
    return [
        {
            "check": spec.id,
            "phase": str(one.pair.phase),
            "position": one.pair.candidate.position,
            "parts": one.parts,
            "differing": len(one.differing),
            "candidate": one.pair.candidate.root,
            "reference": one.pair.reference.root,
        }
        for one in comparisons(view, spec, pairing(view, spec))
    ]


def _totals(cells: Sequence[CellDecision]) -> dict[str, object]:
    counts: Mapping[str, int] = {str(outcome): sum(cell.outcome is outcome for cell in cells) for outcome in Outcome}
    return {"planned": len(cells), **counts}


def _trust(trust: Sequence[Trust]) -> dict[str, object]:
    return {
        "children": len(trust),
        "known_answers": sum(one.known_answers for one in trust),
        "spot_checks": sum(one.spot_checks for one in trust),
        "mismatches": sum(one.mismatches for one in trust),
        "hashed_by": about.one_word([one.hashed_by for one in trust]),
        "algorithm": about.one_word([one.algorithm for one in trust]),
    }
