"""Counts of a matrix: against each other, and against the checks that failed in each pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from harness.gating.campaigns.decision import hold, hold_counts, untrusted
from harness.gating.rule import Body, Problem, Problems

Record = Mapping[str, Any]


def in_body(body: Body) -> Problems:
    """Hold the counts by kind against the mutants, and the decision against both."""
    rows = body["mutants"]
    if len(rows) != body["procedure"]["mutants"]:
        yield Problem("/body/mutants", f"are {len(rows)}; the procedure has {body['procedure']['mutants']}")
    for index, result in enumerate(body["results"]):
        own = [row for row in rows if row["id"].startswith(f"{result['name']}.")]
        counted = {
            "mutants": len(own),
            "stopped_as_named": len([row for row in own if row["named"] == "stopped"]),
            "stops": sum(len(row["stopped_by"]) for row in own),
            "count": sum(len(row["stopped_by"]) + len(row["not_by"]) for row in own),
        }
        yield from hold_counts(f"/body/results/{index}", result, counted)
    if sum(result["mutants"] for result in body["results"]) != len(rows):
        yield Problem("/body/results", "leave mutants out")
    nothing = {
        "clean_engine_fails": any(row["unsound"] for row in rows),
        "digests_not_trusted": untrusted(body),
    }
    yield from hold(body, nothing=nothing, wrong={"not_stopped": any(row["named"] != "stopped" for row in rows)})


def in_records(body: Body, records: Sequence[Record]) -> Problems:
    """Ask every pair again whether a check of the scenario failed there."""
    said = {one["id"]: one for one in records if one["type"] == "mutant"}
    clean = {one["cell"] for one in records if one["type"] == "sound" and one["outcome"] == "pass"}
    by_mutant: dict[str, dict[str, bool]] = defaultdict(dict)
    unsound: dict[str, int] = defaultdict(int)
    for pair in records:
        if pair["type"] != "pair":
            continue
        stopping = [cell["cell"] for cell in pair["cells"] if _is_stop(cell, said[pair["mutant"]], pair["scenario"])]
        by_mutant[pair["mutant"]][pair["scenario"]] = bool(stopping)
        unsound[pair["mutant"]] += bool(stopping) and stopping[-1] not in clean
    for index, row in enumerate(body["mutants"]):
        if row["id"] not in said:
            yield Problem(f"/body/mutants/{index}/id", f"is {row['id']!r}; no record speaks of it")
            continue
        met = by_mutant[row["id"]]
        counted = {
            "stopped_by": sorted(scenario for scenario, stopped in met.items() if stopped),
            "not_by": sorted(scenario for scenario, stopped in met.items() if not stopped),
            "unsound": unsound[row["id"]],
        }
        yield from hold_counts(f"/body/mutants/{index}", row, counted)
        if (row["named"] == "stopped") != met.get(said[row["id"]]["scenario"], False):
            yield Problem(f"/body/mutants/{index}/named", f"says {row['named']}; the records show otherwise")


def _is_stop(cell: Record, mutant: Record, scenario: str) -> bool:
    """One check failed that is neither a control nor about the run; in the mutant's own scenario the named one."""
    if cell["crash"]:
        return False
    for check in cell["checks"]:
        ours = check["code"].startswith("CTRL.") or check["code"] in ("REPEAT.COLD@1", "RUN.FINISHED@1")
        if check["outcome"] != "fail" or ours or (check["reason"] == "refused" != mutant["reason"]):
            continue
        if scenario != mutant["scenario"]:
            return True
        places = (mutant["part"] in ("", check["part"], check["family"]), mutant["phase"] in ("", check["phase"]))
        if check["id"] == mutant["check"] and all(places) and mutant["reason"] in ("", check["reason"]):
            return True
    return False
