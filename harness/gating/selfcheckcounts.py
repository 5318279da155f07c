"""Counts of fuzzing campaigns and self-tests, held against each other and against the records by the gate's own lines.

Nothing here is the code that derives a body: a mistake there must not be its own alibi.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.gating.rule import Body, Problem, Problems

_MINUTE: Final = 60_000_000_000


def fuzz_in_body(body: Body) -> Problems:
    """Hold the counts of a fuzzing campaign together, and its decision against them."""
    totals, asked = body["totals"], body["procedure"]
    if [row["target"] for row in body["results"]] != asked["targets"]:
        yield Problem("/body/results", "are not of the targets of the procedure")
    for name, whole in (("cases", sum(row["cases"] for row in body["results"])), ("accepted", None)):
        ends = totals["accepted"] + totals["refused"] if whole is None else whole
        if ends != totals["cases"]:
            yield Problem("/body/totals/cases", f"says {totals['cases']}; {name} come to {ends}")
    slow, large = totals["slowest_ns"] > asked["slow_ns"], totals["largest_kib"] > asked["large_kib"]
    if (slow or large) and not body["wrong"]:
        yield Problem("/body/wrong", "is empty, and a case was slower or larger than it may be")
    found = [one["name"] for one in body["controls"] if one["found"]]
    short = body["run"]["elapsed_ns"] < asked["minutes"] * _MINUTE
    nothing = found != asked["controls"] or short or any(not row["cases"] for row in body["results"])
    yield from _decision(body, "error" if nothing else "stop" if body["wrong"] else "pass")


def fuzz_in_records(body: Body, records: Sequence[Mapping[str, Any]]) -> Problems:
    """Count the rounds again."""
    rounds = [one for one in records if one["type"] == "round"]
    for name in ("cases", "accepted", "refused", "new"):
        count = sum(one[name] for one in rounds)
        if body["totals"][name] != count:
            yield Problem(f"/body/totals/{name}", f"says {body['totals'][name]}; the records show {count}")
    for row in body["results"]:
        count = sum(one["by_target"].get(row["target"], 0) for one in rounds)
        if row["cases"] != count:
            yield Problem("/body/results", f"say {row['cases']} of {row['target']}; the records show {count}")
    wrong = sum(sum(one["wrong"].values()) for one in rounds)
    if sum(body["wrong"].values()) != wrong:
        yield Problem("/body/wrong", f"counts {sum(body['wrong'].values())}; the records show {wrong}")
    controls = [one for one in records if one["type"] == "control"]
    if [(one["name"], one["found"]) for one in body["controls"]] != [(one["name"], one["found"]) for one in controls]:
        yield Problem("/body/controls", "are not those of the records")


def selftest_in_body(body: Body) -> Problems:
    """Hold the counts of a self-test together, and its decision against them."""
    rows = body["results"]
    if [row["group"] for row in rows] != body["procedure"]["groups"]:
        yield Problem("/body/results", "are not of the groups of the procedure")
    for row in rows:
        ends = row["pass"] + row["fail"] + row["not_run"]
        if ends != row["asked"]:
            yield Problem("/body/results", f"say {row['asked']} of {row['group']}; the answers come to {ends}")
    failed = sum(row["fail"] for row in rows)
    if failed != len(body["failed"]) and failed <= 1000:
        yield Problem("/body/failed", f"lists {len(body['failed'])}; the results say {failed}")
    nothing = any(not row["pass"] + row["fail"] for row in rows) or not rows
    yield from _decision(body, "error" if nothing else "stop" if failed else "pass")


def selftest_in_records(body: Body, records: Sequence[Mapping[str, Any]]) -> Problems:
    """Count the answers again."""
    for row in body["results"]:
        own = [one for one in records if one["type"] == "asked" and one["group"] == row["group"]]
        for outcome in ("pass", "fail", "not_run"):
            count = sum(one["outcome"] == outcome for one in own)
            if row[outcome] != count:
                yield Problem("/body/results", f"say {row[outcome]} {outcome} of {row['group']}; there are {count}")
    missing = set(body["procedure"]["mutants"]) - {one["name"] for one in records if one.get("group") == "mutants"}
    if missing:
        yield Problem("/body/procedure/mutants", f"names {sorted(missing)[0]}, of which there is no answer")


def _decision(body: Body, wanted: str) -> Problems:
    decision = body["decision"]
    if decision["overall"] != wanted:
        yield Problem("/body/decision/overall", f"says {decision['overall']}; its counts give {wanted}")
    if bool(decision["reasons"]) == (wanted == "pass"):
        yield Problem("/body/decision/reasons", "do not fit the decision")
