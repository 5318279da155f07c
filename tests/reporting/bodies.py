"""Certificate bodies with chosen outcomes, for the tests of the view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.deriving.ids import certificate_id
from harness.model.certificate import Certificate, Status
from harness.model.values import CertificateState, Outcome

KEY = "A16/torch-tiny/cpu-x86_64-avx512"


def exact(outcome: str = "pass", **more: object) -> dict[str, object]:
    detail = {
        "phases": "restored prefilled end",
        "parts_compared": 54,
        "guarantee": "same_schedule",
        "witness": "copied",
    }
    found: dict[str, object] = {
        "id": "warm", "code": "EXACT.STATE@1", "axis": "exactness", "outcome": outcome, "observed": 0, "limit": 0, "unit": "",
        "detail": {**detail, "cached": 1024, "restored_bytes": 1 << 20},
    }  # fmt: skip
    return {**found, **more}


def turn(arm: str, cached: int, first_token_ns: int) -> dict[str, object]:
    return {
        "arm": arm, "label": "a", "rep": 0, "prompt_tokens": 1346, "cached": cached, "prefilled": 1346 - cached,
        "decoded": 16, "restored_bytes": cached * 1024, "begin_ns": 1000, "prefill_ns": 800_000_000, "commit_ns": 1000,
        "decode_ns": 160_000_000, "first_token_ns": first_token_ns,
    }  # fmt: skip


def seen(outcome: str = "pass") -> dict[str, object]:
    return {
        "id": "flip-seen", "code": "CTRL.SEEN@1", "axis": "exactness", "outcome": outcome, "observed": "layer0.delta",
        "limit": "recurrent", "unit": "",
        "detail": {"phase": "restored", "part": "layer0.delta", "parts_compared": 20, "parts_differing": 1},
    }  # fmt: skip


def cell(at: str, outcome: str, checks: Sequence[Mapping[str, object]] = (), reason: str = "") -> dict[str, object]:
    found: dict[str, object] = {
        "id": f"A16[scale=16,at={at}]",
        "coords": {"scale": 16, "at": at},
        "outcome": outcome,
        "checks": list(checks),
        "failure_reasons": [],
        "comparisons": [],
        "turns": [turn("cold_a", 0, 912_000_000), turn("warm", 1024, 41_000_000)] if checks else [],
    }
    return {**found, "reason": reason} if reason else found


def body(
    *cells: Mapping[str, object], overall: str = "pass", exactness: str = "pass", **more: object
) -> dict[str, object]:
    found: dict[str, object] = {
        "schema": "statecert/certificate/v1",
        "kind": "qualification",
        "claim_key": KEY,
        "scenario": {"id": "A16", "procedure_digest": "d" * 64},
        "run": {
            "run_id": "1" * 32, "created": "2026-01-02T03:04:05Z", "finished": "2026-01-02T03:05:05Z",
            "elapsed_ns": 60_000_000_000, "suite": "default", "scales": [16], "partial": False,
            "evidence": {"sha256": "f" * 64, "bytes": 100, "records": 9},
        },
        "subject": {
            "engine": {"name": "torch", "version": "0.1.0", "adapter": "torch", "group": "harness.engines"},
            "model": {"name": "tiny", "digest": "e" * 64},
            "capabilities": ["parts", "logits"],
            "identity": {"threads": 4, "dtype": "f32"},
            "path_sets": [{"name": "engine", "digest": "c" * 64, "files": 12}],
            "tree": "clean",
            "commit": "b" * 40,
        },
        "environment": {
            "machine": "a" * 64, "hw_class": "cpu-x86_64-avx512", "device": {"name": "cpu"},
            "facts": {"cores": 16, "python": "3.11.7"},
        },
        "harness": {"version": "0.1.0", "path_sets": []},
        "observability": "parts",
        "axes": [{"name": "scale", "values": [16]}, {"name": "at", "values": ["end-1", "end", "end+1"]}],
        "cells": list(cells),
        "totals": {
            "planned": len(cells),
            **{state: sum(cell["outcome"] == state for cell in cells) for state in map(str, Outcome)},
        },
        "decision": {
            "overall": overall,
            "by_axis": {
                "exactness": exactness, "quality": "not_evaluated", "latency": "not_evaluated",
                "footprint": "not_evaluated", "robustness": "pass",
            },
            "reasons": [],
        },
        "limits": ["quality_not_evaluated", "seeded_weights", "not_run:A16[scale=16,at=far]"],
        "trust": {
            "children": 1, "known_answers": 8, "spot_checks": 4, "mismatches": 0, "hashed_by": "host",
            "algorithm": "sha256-part-v1",
        },
    }  # fmt: skip
    return {**found, **more}


def certificate(made: Mapping[str, object], **status: str) -> Certificate:
    state = CertificateState(status.pop("state", "current"))
    return Certificate(id=certificate_id(made), body=made, status=Status(state=state, **status))  # type: ignore[arg-type]


PASSED = body(*(cell(at, "pass", [exact(), seen()]) for at in ("end-1", "end", "end+1")))
STOPPED = body(
    cell("end-1", "pass", [exact(), seen()]),
    cell("end", "inconclusive", [exact("inconclusive", reason="not_repeatable", detail={"phase": "end"}), seen()]),
    cell(
        "end+1",
        "fail",
        [
            exact(
                "fail", reason="parts_differ", observed=2, unit="parts",
                detail={
                    "phase": "restored", "part": "layer3.delta", "family": "recurrent", "layer": 3, "row": 0, "element": 9,
                    "reference_value": "1", "candidate_value": "1.0000001", "shape": "single_bit", "parts_differing": 2,
                    "parts_compared": 18,
                },
            ),
            seen(),
        ],
    ),
    cell("far", "not_run", reason="interrupted"),
    overall="stop",
    exactness="stop",
)  # fmt: skip
