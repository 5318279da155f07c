"""The matrix: which scenario stops which mutant, and what follows from the checks that failed. Pure.

A mutant is an engine with one planted fault. It meets the scenario that it names, and every scenario that lists it
among its faults (reach ``claims``), or one fault of its kind (``kind``), or every one (``all``). In its own scenario
the named check must fail, at the expected part; elsewhere any check of the scenario may. A crash is no stop, and a
refusal is none unless the fault itself is that the engine refuses. The clean engine meets every cell in which a mutant
was stopped, and must pass it. Pairs follow from what mutants and scenarios say of themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.deriving.campaign_body import integer_of, mapping_of, trust_of
from harness.errors import InvalidDocumentError
from harness.model.campaign import CampaignRecords, Record
from harness.model.values import Verdict

MATRIX: Final = "matrix"
CLAIMS: Final = "claims"
KIND: Final = "kind"
ALL: Final = "all"
REACHES: Final = (CLAIMS, KIND, ALL)
STOPPED: Final = "stopped"
WORDS: Final = (STOPPED, "survived", "refused", "crash", "error")
_CONTROLS: Final = "CTRL."
_HARNESS: Final = frozenset({"REPEAT.COLD@1", "RUN.FINISHED@1"})
_FAIL: Final = "fail"
_PASS: Final = "pass"
_REFUSED: Final = "refused"
_LISTED: Final = 1000


def pairs_of(mutants: Sequence[Record], scenarios: Sequence[Record], reach: str) -> list[tuple[str, str]]:
    """Return the pairs of mutant and scenario, mutants in their order, scenarios in theirs.

    Args:
        mutants: What each says of itself; at least ``id`` and ``scenario``.
        scenarios: ``id`` and ``faults`` of each.
        reach: One of :data:`REACHES`.
    """
    return [
        (str(mutant["id"]), str(scenario["id"]))
        for mutant in mutants
        for scenario in scenarios
        if scenario["id"] == mutant["scenario"] or _reached(str(mutant["id"]), scenario, reach)
    ]


def _reached(mutant: str, scenario: Record, reach: str) -> bool:
    faults = scenario["faults"]
    listed = [str(one) for one in faults] if isinstance(faults, list) else []
    if reach == KIND:
        return kind_of(mutant) in {kind_of(one) for one in listed}
    return reach == ALL or mutant in listed


def kind_of(mutant: str) -> str:
    """Return the kind of a fault, like ``K07``."""
    return mutant.partition(".")[0]


def word_of(pair: Record, mutant: Record) -> str:
    """Return what a meeting comes to: one of :data:`WORDS`; of several cells the first stop, else the first word."""
    own = pair["scenario"] == mutant["scenario"]
    words = [_word_of_cell(cell, mutant, own=own) for cell in _cells(pair)]
    return STOPPED if STOPPED in words else next((word for word in words if word != "survived"), "survived")


def _word_of_cell(cell: Record, mutant: Record, *, own: bool) -> str:
    if cell["crash"]:
        return "crash"
    checks = cell["checks"]
    asked = [one for one in checks if not is_of_harness(str(one["code"]))] if isinstance(checks, list) else []
    failed = [one for one in asked if one["outcome"] == _FAIL]
    if own:
        failed = [one for one in failed if is_named(one, mutant)]
    if any(mutant["reason"] == _REFUSED or one["reason"] != _REFUSED for one in failed):
        return STOPPED
    if failed:
        return _REFUSED
    return "survived" if cell["outcome"] in (_PASS, _FAIL) else "error"


def is_of_harness(code: str) -> bool:
    """Tell whether a check is a control, or asks about the run and not about the engine."""
    return code.startswith(_CONTROLS) or code in _HARNESS


def is_named(check: Record, mutant: Record) -> bool:
    """Tell whether a failed check is the one that a mutant names, at the part, in the phase and for the reason."""
    return (
        check["id"] == mutant["check"]
        and mutant["part"] in ("", check["part"], check["family"])
        and mutant["phase"] in ("", check["phase"])
        and mutant["reason"] in ("", check["reason"])
    )


def derive_matrix(found: CampaignRecords, where: str) -> dict[str, object]:
    """Return counts by kind, what stops each mutant, limits and decision.

    Raises:
        InvalidDocumentError: The records are not those of the pairs.
    """
    procedure = mapping_of(found.header, "procedure")
    reach, count = str(procedure["reach"]), integer_of(procedure, "mutants")
    mutants = [one for one in found.records if one["type"] == "mutant"]
    scenarios = [one for one in found.records if one["type"] == "scenario"]
    met = {(str(one["mutant"]), str(one["scenario"])): one for one in found.records if one["type"] == "pair"}
    sound = {str(one["cell"]): str(one["outcome"]) for one in found.records if one["type"] == "sound"}
    pairs = pairs_of(mutants, scenarios, reach)
    known = {"header", "mutant", "scenario", "pair", "sound", "trust", "end"}
    ids = [one["id"] for one in mutants]
    if len(ids) != count or len(set(map(str, ids))) != count or {str(one["type"]) for one in found.records} - known:
        raise InvalidDocumentError(f"found {len(ids)} mutants of {count}, or other records", where=where)
    pair_records = sum(one["type"] == "pair" for one in found.records)
    if sorted(met) != sorted(pairs) or pair_records != len(pairs):
        raise InvalidDocumentError(f"found {pair_records} pairs; expected {len(pairs)}, each once", where=where)
    for kind, key in (("scenario", "id"), ("sound", "cell")):
        named = [str(one[key]) for one in found.records if one["type"] == kind]
        if len(set(named)) != len(named):
            raise InvalidDocumentError(f"found a record of type {kind} twice", where=where)
    rows = [_mutant_row(one, [met[pair] for pair in pairs if pair[0] == one["id"]], sound) for one in mutants]
    results = _by_kind(rows)
    return {
        "results": results,
        "mutants": rows[:_LISTED],
        "limits": ["outcomes_as_recorded", f"reach_{reach}", "scaled_down"],
        "decision": _decision(rows, sound, trust_of(found)),
    }


def _mutant_row(mutant: Record, met: Sequence[Record], sound: Mapping[str, str]) -> dict[str, object]:
    words = {str(pair["scenario"]): word_of(pair, mutant) for pair in met}
    cells = [str(_cells(pair)[-1]["cell"]) for pair in met if words[str(pair["scenario"])] == STOPPED]
    return {
        "id": mutant["id"],
        "scenario": mutant["scenario"],
        "named": words.get(str(mutant["scenario"]), "survived"),
        "stopped_by": sorted(scenario for scenario, word in words.items() if word == STOPPED),
        "not_by": sorted(scenario for scenario, word in words.items() if word != STOPPED),
        "unsound": sum(sound.get(cell) != _PASS for cell in cells),
    }


def _by_kind(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    kinds = sorted({kind_of(str(row["id"])) for row in rows})
    return [_kind_row(kind, [row for row in rows if kind_of(str(row["id"])) == kind]) for kind in kinds]


def _kind_row(kind: str, rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    stops, others = (sum(len(_texts(row[name])) for row in rows) for name in ("stopped_by", "not_by"))
    return {
        "name": kind,
        "count": stops + others,
        "mutants": len(rows),
        "stopped_as_named": sum(row["named"] == STOPPED for row in rows),
        "stops": stops,
        "unsound": sum(integer_of(row, "unsound") for row in rows),
    }


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _cells(pair: Record) -> list[Record]:
    cells = pair["cells"]
    return [one for one in cells if isinstance(one, Mapping)] if isinstance(cells, list) else []


def _decision(
    rows: Sequence[Mapping[str, object]], sound: Mapping[str, str], trust: Mapping[str, object]
) -> dict[str, object]:
    nothing = {
        "clean_engine_fails": any(row["unsound"] for row in rows) or any(word != _PASS for word in sound.values()),
        "digests_not_trusted": bool(trust["mismatches"]) or not trust["children"],
    }
    survived = any(row["named"] != STOPPED for row in rows)
    for verdict, reasons in ((Verdict.ERROR, nothing), (Verdict.STOP, {"not_stopped": survived})):
        if any(reasons.values()):
            return {"overall": str(verdict), "reasons": [word for word, holds in reasons.items() if holds]}
    return {"overall": str(Verdict.PASS), "reasons": []}
