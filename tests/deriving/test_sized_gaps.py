"""``sized`` with gaps: what lies between aligned parts is left out, if the scenario allows as much; nothing else is."""

from __future__ import annotations

import copy
from typing import Any

from harness.model.evidence import StoreView
from harness.model.values import Outcome
from tests.fakes.evidence import Recorded, recorded


def asked(gaps_at_most: int | None) -> Recorded:
    """Every snapshot takes 40 bytes more than its parts do, and says so."""
    found = recorded()
    procedure: dict[str, Any] = copy.deepcopy(dict(found.header.procedure))
    check: dict[str, Any] = {"at": "warm.held", "reference": "cold.a"}
    if gaps_at_most is not None:
        check["gaps_at_most"] = gaps_at_most
    procedure["checks"] = [*procedure["checks"], {"id": "aligned", "sized": check}]
    return told(found.with_procedure(procedure), more=40, gap=40)


def told(found: Recorded, *, more: int, gap: int) -> Recorded:
    """Snapshots with other sizes; the counter agrees."""
    held = next(one for one in found.observations if isinstance(one, StoreView) and one.arm == "warm")
    entries = [dict(entry) | {"bytes": int(str(entry["bytes"])) + more, "gap_bytes": gap} for entry in held.entries]
    total = held.counters["stored_bytes"] + more * len(entries)
    return found.with_store("warm", "held", entries=tuple(entries), counters={"stored_bytes": total})


def test_gaps_that_the_scenario_allows_are_left_out() -> None:
    assert asked(40).result("aligned").outcome is Outcome.PASS


def test_one_byte_of_gaps_more_than_allowed_is_too_large() -> None:
    result = asked(39).result("aligned")

    assert (result.outcome, result.reason, result.observed, result.limit) == (Outcome.FAIL, "too_large", 40, 39)


def test_no_gap_is_left_out_where_the_scenario_allows_none() -> None:
    assert asked(None).result("aligned").reason == "other_size"


def test_what_lies_in_no_gap_is_another_size() -> None:
    assert told(asked(1024), more=4, gap=0).result("aligned").reason == "other_size"


def test_a_lost_row_does_not_hide_in_a_gap() -> None:
    assert told(asked(1024), more=-4, gap=0).result("aligned").reason == "other_size"


def test_a_gap_of_less_than_nothing_is_no_gap() -> None:
    assert told(asked(1024), more=0, gap=-8).result("aligned").reason == "too_large"
