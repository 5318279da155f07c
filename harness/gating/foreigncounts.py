"""What the gate asks of a record that others published, by its own logic.

Nothing here is the code that derives a body: a mistake there must not be its own alibi.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from harness.gating.campaigns.decision import hold_counts
from harness.gating.rule import Body, Problem, Problems

Records = Sequence[Mapping[str, Any]]

_WORST: Final = ("error", "fail", "inconclusive", "pass")
_OVERALL: Final = {"error": "error", "fail": "stop", "inconclusive": "inconclusive", "pass": "pass"}
_COMPUTED: Final = frozenset({"agreement_lower_bound_ppm"})
_NS_PER_MS: Final = 1_000_000


def in_body(body: Body) -> Problems:
    """Find verdicts that a row, an axis or the whole does not have by its own words."""
    rows = body["results"]
    for index, row in enumerate(rows):
        wanted = _worst_of_row(row)
        if row["judged"] != wanted:
            yield Problem(f"/body/results/{index}/judged", f"says {row['judged']}; its checks give {wanted}")
        yield from _times(f"/body/results/{index}", row)
    yield from _totals(body, rows)
    yield from _decision(body, rows)


def in_records(body: Body, records: Records) -> Problems:
    """Find what the text of the record does not say."""
    text = "".join(one["text"] for one in records if one["type"] == "text").encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(text).hexdigest()
    if body["record"]["sha256"] != digest:
        yield Problem("/body/record/sha256", f"says {body['record']['sha256']}; the text gives {digest}")
        return
    value = json.loads(text, parse_float=Decimal)
    numbers = set(_numbers(value))
    words = set(_texts(value))
    for index, row in enumerate(body["results"]):
        for name, held in row["values"].items():
            if name not in _COMPUTED and not _found(name, held, numbers):
                yield Problem(f"/body/results/{index}/values/{name}", f"says {held}; the record has no such number")
        for reason in row["reasons"]:
            if not any(word.startswith(reason) for word in words):
                yield Problem(f"/body/results/{index}/reasons", "quotes what the record does not say")
    yield from _passes(body, value)


def _passes(body: Body, value: Mapping[str, Any]) -> Problems:
    """Count what the record calls passed."""
    cases = value.get("cases") if body["record"]["shape"] == "typed_summary" else None
    if isinstance(cases, list):
        mixed = sum(len({run.get("passed") for run in case.get("runs", ())}) > 1 for case in cases)
        passed = sum(case.get("passed") is True and len(case.get("runs", ())) < 2 for case in cases)
        recorded = body["totals"]["recorded"]
        yield from hold_counts("/body/totals/recorded", recorded, {"pass": passed, "one_pass_one_fail": mixed})


def _worst_of_row(row: Body) -> str:
    if not row["checks"] or not all(one["holds"] for one in row["recomputed"]):
        return "error"
    outcomes = {check["outcome"] for check in row["checks"]}
    return next(word for word in _WORST if word in outcomes)


def _times(at: str, row: Body) -> Problems:
    """No time that others measured is a verdict: pairs, order and processes are not known."""
    for check in row["checks"]:
        if check["axis"] == "latency" and check["outcome"] != "inconclusive":
            yield Problem(f"{at}/checks", f"has a {check['outcome']} about a time that nobody here measured")
        if check["id"] == "first_token" and (row["count"] == 1) != (check.get("reason") == "one_sample"):
            yield Problem(f"{at}/checks", f"gives {check.get('reason', 'no reason')} for {row['count']} samples")


def _totals(body: Body, rows: Sequence[Body]) -> Problems:
    judged = Counter(row["judged"] for row in rows)
    recorded = Counter(row["recorded"] for row in rows)
    stops = recorded["stop"] + recorded["one_pass_one_fail"]
    totals, matrix = body["totals"], body["matrix"]
    yield from hold_counts("/body/totals/judged", totals["judged"], {word: judged[word] for word in _WORST})
    yield from hold_counts("/body/totals/recorded", totals["recorded"], {"stop": stops, "pass": recorded["pass"]})
    counted = {name: len(matrix[name]) for name in ("excluded", "absent")}
    yield from hold_counts("/body/totals", totals, counted)


def _decision(body: Body, rows: Sequence[Body]) -> Problems:
    judged = {row["judged"] for row in rows}
    worst = next((word for word in _WORST if word in judged), "error")
    decision = body["decision"]
    if decision["overall"] != _OVERALL[worst]:
        yield Problem("/body/decision/overall", f"says {decision['overall']}; its rows give {_OVERALL[worst]}")
    for axis, said in decision["by_axis"].items():
        outcomes = {check["outcome"] for row in rows for check in row["checks"] if check["axis"] == axis}
        wanted = next((_OVERALL[word] for word in _WORST if word in outcomes), "not_evaluated")
        if said != wanted:
            yield Problem(f"/body/decision/by_axis/{axis}", f"says {said}; its checks give {wanted}")


def _found(name: str, held: int, numbers: set[Decimal]) -> bool:
    if not name.endswith("_ns"):
        return Decimal(held) in numbers
    return any(abs(one * _NS_PER_MS - held) <= 1 for one in numbers)


def _leaves(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
        else:
            yield one


def _numbers(value: Any) -> Iterator[Decimal]:
    return (Decimal(one) for one in _leaves(value) if isinstance(one, (int, Decimal)) and not isinstance(one, bool))


def _texts(value: Any) -> Iterator[str]:
    return (one for one in _leaves(value) if isinstance(one, str))
