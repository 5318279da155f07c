"""Records that others published: what they say, what of it adds up, and what it comes to by our rules. Pure.

A certificate of kind ``foreign`` vouches for one thing: that this record was published and what follows from its
text. Nothing here was measured by the harness.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final

from harness.deriving.campaign_body import mapping_of
from harness.deriving.foreign.arithmetic import width_of
from harness.deriving.foreign.facts import UNKNOWN, created_of, machine_of, target_of
from harness.deriving.foreign.judging import MIN_PAIRS, MIN_STEPS_OF_P99, judge_case
from harness.deriving.foreign.nouns import Check, Finding, Record, Row
from harness.deriving.foreign.shapes import read_record
from harness.errors import InvalidDocumentError
from harness.model.campaign import CampaignRecords
from harness.model.values import Outcome, Verdict
from harness.wire.published import read_published

FOREIGN: Final = "foreign"
SCHEMA: Final = "statecert/foreign/v1"
KIND: Final = "foreign"
PROCEDURE: Final = {"min_pairs": MIN_PAIRS, "min_steps_of_p99": MIN_STEPS_OF_P99, "alpha_ppm": 50_000, "version": 1}
"""By which rules a record is judged; part of every header."""
DECISIONS: Final = frozenset({"pass", "stop", "inconclusive", "error", "pass_with_limits"})
"""Words that a decision may be; any other is a sentence in one word."""
_LIMITS: Final = ("nothing_measured_here", "no_raw_samples", "order_of_arms_not_told")
_WORST: Final = ("error", "fail", "inconclusive", "pass")
_AXES: Final = ("exactness", "quality", "latency", "footprint", "robustness")


def text_of(found: CampaignRecords) -> bytes:
    """Return the record as it was published, from the pieces that an import wrote.

    Raises:
        InvalidDocumentError: A piece is missing or out of order, or their digest is not the one that was promised.
    """
    pieces = [one for one in found.records if one["type"] == "text"]
    if [one["number"] for one in pieces] != list(range(len(pieces))):
        raise InvalidDocumentError("found pieces out of order", where=KIND)
    data = "".join(str(one["text"]) for one in pieces).encode("utf-8", "surrogatepass")
    promised = mapping_of(found.header, "record")
    if hashlib.sha256(data).hexdigest() != promised["sha256"] or len(data) != promised["bytes"]:
        raise InvalidDocumentError("holds another text than the one that was imported", where=KIND)
    return data


def derive_foreign(found: CampaignRecords, where: str) -> dict[str, object]:
    """Return rows, findings and decision of an imported record.

    Raises:
        InvalidDocumentError: The record is of no known shape, or its header says what the record does not.
    """
    strange = {str(one["type"]) for one in found.records} - {"header", "text", "end"}
    if strange:
        raise InvalidDocumentError(f"found records of type {', '.join(sorted(strange))}", where=where)
    record = read_record(read_published(text_of(found), "record"), "record")
    _hold_header(found, record, where)
    width = width_of(record.cases, record.workload)
    rows = [*(judge_case(case, record.gates, record.workload, width) for case in record.cases), *record.others]
    findings = [*_of_record(found, record, rows), *(one for row in rows for one in row.findings)]
    by_axis = {axis: _axis(axis, rows) for axis in _AXES}
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "record": {**mapping_of(found.header, "record"), "shape": record.shape, "commits": _commits(record)},
        "matrix": _matrix(record),
        "results": [_row(row) for row in rows],
        "totals": _totals(record, rows),
        "findings": [{"code": one.code, "where": one.where, "detail": dict(one.detail)} for one in findings],
        "limits": [*_LIMITS, *_limits(record, width)],
        "decision": {**_decision(rows), "by_axis": by_axis, "recorded": record.decision[:200] or "not_said"},
    }


def _hold_header(found: CampaignRecords, record: Record, where: str) -> None:
    header = found.header
    told = {str(name): str(value) for name, value in mapping_of(header, "told").items()}
    target = dict(mapping_of(header, "target"))
    target.pop("path_sets", None)
    wanted = target_of(record, told)
    promised = str(mapping_of(header, "record")["sha256"])
    conditions = (
        ("target", target == wanted),
        ("environment", mapping_of(header, "environment") == {"machine": machine_of(wanted), "facts": {}}),
        ("created", header["created"] == created_of(record, told)),
        ("procedure", mapping_of(header, "procedure") == PROCEDURE),
        ("run_id", header["run_id"] == promised[:32]),
    )
    for name, holds in conditions:
        if not holds:
            raise InvalidDocumentError(f"its {name} is not what follows from the record", where=where)


def _of_record(found: CampaignRecords, record: Record, rows: Sequence[Row]) -> list[Finding]:
    """Return findings about the record as a whole."""
    noted = [*_digests(found, record)]
    if len(set(record.commits.values())) > 1:
        noted.append(Finding(code="several_commits", where="record", detail={"commits": len(record.commits)}))
    if record.decision and record.decision not in DECISIONS:
        noted.append(Finding(code="decision_in_one_word", where="record", detail={"decision": record.decision[:200]}))
    noted += [
        Finding(code="exclusion_in_prose", where=one.name, detail={"note": one.note}) for one in record.exclusions
    ]
    if not rows:
        noted.append(Finding(code="nothing_recorded", where="record"))
    return noted


def _digests(found: CampaignRecords, record: Record) -> list[Finding]:
    """Return names that stand for several files: in the record itself, or beside certificates that were there."""
    header = found.header
    digest = str(mapping_of(header, "target")["model_digest"])
    noted = []
    if digest == UNKNOWN:
        noted.append(Finding(code="no_model_digest", where="record"))
    within: dict[str, set[str]] = {}
    for name, one in record.models:
        if name and one:
            within.setdefault(name, set()).add(one)
    noted += [
        Finding(code="one_name_two_digests", where="record", detail={"model": name[:200], "digests": len(digests)})
        for name, digests in sorted(within.items())
        if len(digests) > 1
    ]
    known = header.get("known_models")
    for one in known if isinstance(known, (list, tuple)) else ():
        if isinstance(one, Mapping) and one["digest"] != digest and UNKNOWN not in (one["digest"], digest):
            detail = {"model": record.models[0][0][:200] if record.models else "", "other": one["digest"]}
            noted.append(
                Finding(code="one_name_two_digests", where=str(one["certificate"]), detail={**detail, "own": digest})
            )
    return noted


def _matrix(record: Record) -> dict[str, object]:
    """Return which pairs are there, cannot run, or are simply absent."""
    if not record.matrix:
        return {"pairs": [case.name for case in record.cases], "excluded": [], "absent": []}
    there = [case.name for case in record.cases]
    excluded = [one for one in record.exclusions if one.name not in there]
    kinds = list(dict.fromkeys(kind for case in record.cases for kind in (case.k, case.v)))
    spoken_of = {*there, *(one.name for one in excluded)}
    return {
        "pairs": there,
        "excluded": [{"name": one.name, "note": one.note, "reason": one.reason} for one in excluded],
        "absent": [f"{k}/{v}" for k, v in product(kinds, kinds) if f"{k}/{v}" not in spoken_of],
    }


def _row(row: Row) -> dict[str, object]:
    return {
        "name": row.name,
        "count": row.count,
        "recorded": row.recorded,
        "judged": _judged(row),
        "checks": [_check(one) for one in row.checks],
        "recomputed": [
            {"name": one.name, "recorded": one.recorded, "computed": one.computed, "holds": one.holds}
            for one in row.recomputed
        ],
        "values": dict(row.values),
        "reasons": [reason[:400] for reason in row.reasons],
    }


def _check(check: Check) -> dict[str, object]:
    found: dict[str, object] = {
        "id": check.id,
        "axis": check.axis,
        "outcome": check.outcome,
        "observed": check.observed,
        "limit": check.limit,
    }
    return {**found, "reason": check.reason} if check.reason else found


def _judged(row: Row) -> str:
    """Return the worst of a row; numbers that contradict one another show nothing."""
    if not row.checks or any(not one.holds for one in row.recomputed):
        return str(Outcome.ERROR)
    outcomes = {check.outcome for check in row.checks}
    return next(word for word in _WORST if word in outcomes)


def _totals(record: Record, rows: Sequence[Row]) -> dict[str, object]:
    recorded = [row.recorded for row in rows]
    judged = [_judged(row) for row in rows]
    mixed = recorded.count("one_pass_one_fail")
    matrix = _matrix(record)
    counted = {name: len(value) for name, value in matrix.items() if isinstance(value, list)}
    return {
        "recorded": {
            "pass": recorded.count("pass"),
            "stop": recorded.count("stop") + mixed,
            "one_pass_one_fail": mixed,
            "not_said": recorded.count("not_said"),
        },
        "judged": {word: judged.count(word) for word in _WORST},
        "excluded": counted["excluded"],
        "absent": counted["absent"],
    }


def _axis(axis: str, rows: Sequence[Row]) -> str:
    outcomes = {check.outcome for row in rows for check in row.checks if check.axis == axis}
    word = next((one for one in _WORST if one in outcomes), "not_evaluated")
    return "stop" if word == "fail" else word


def _decision(rows: Sequence[Row]) -> dict[str, object]:
    judged = {_judged(row) for row in rows}
    if not rows:
        return {"overall": str(Verdict.ERROR), "reasons": ["nothing_recorded"]}
    if "error" in judged:
        return {"overall": str(Verdict.ERROR), "reasons": ["contradicts_itself"]}
    reasons = sorted({check.reason for row in rows for check in row.checks if check.reason})
    for word, verdict in (("fail", Verdict.STOP), ("inconclusive", Verdict.INCONCLUSIVE)):
        if word in judged:
            return {"overall": str(verdict), "reasons": reasons}
    return {"overall": str(Verdict.PASS), "reasons": []}


def _commits(record: Record) -> list[dict[str, str]]:
    return [{"name": name[:64], "commit": commit} for name, commit in record.commits.items()]


def _limits(record: Record, width: int) -> list[str]:
    found = ["tokens_not_independent"] if any(case.steps for case in record.cases) else []
    found += ["k_v_swap_not_visible"] if width else []
    found += ["types_not_shown_by_bytes"] if record.cases and not width else []
    return [*found, *(f"absent:{name}" for name in map(str, _absent(record)))]


def _absent(record: Record) -> Sequence[object]:
    absent = _matrix(record)["absent"]
    return absent if isinstance(absent, list) else ()


__all__ = ["FOREIGN", "KIND", "PROCEDURE", "SCHEMA", "derive_foreign", "text_of"]
