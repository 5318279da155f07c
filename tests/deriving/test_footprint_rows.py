"""``footprint`` beyond the fixed parts: what a model's fixed parts weigh does not decide whether rows are shared."""

from __future__ import annotations

import copy
from typing import Any

from harness.model.evidence import Point, StoreView
from harness.model.values import Outcome, Phase
from tests.fakes.evidence import Recorded, recorded


def asked(at_most_ppm: int) -> Recorded:
    """Three links of a chain that share all rows: 3 parts of the 1 + 2 + 3 that whole copies would take."""
    found = recorded()
    procedure: dict[str, Any] = copy.deepcopy(dict(found.header.procedure))
    check = {"at": "warm.held", "whole": ["cold.a"], "beyond_fixed": True, "at_most_ppm": at_most_ppm}
    procedure["checks"] = [*procedure["checks"], {"id": "rows", "footprint": check}]
    return found.with_procedure(procedure)


def held(found: Recorded) -> StoreView:
    return next(one for one in found.observations if isinstance(one, StoreView) and one.arm == "warm")


def heavier(found: Recorded, more: int) -> Recorded:
    """Every snapshot has more bytes, and the counter agrees."""
    entries = [dict(entry) for entry in held(found).entries]
    for entry in entries:
        entry["bytes"] = int(entry["bytes"]) + more
    total = held(found).counters["stored_bytes"] + more * len(entries)
    return found.with_store("warm", "held", entries=tuple(entries), counters={"stored_bytes": total})


def with_larger_state(found: Recorded, more: int) -> Recorded:
    """The recurrent state of the reference has more bytes, at every boundary."""
    looks = [one for one in found.observations if isinstance(one, Point) and one.arm == "cold" and one.label == "a"]
    for position in sorted({one.position for one in looks if one.phase is Phase.BOUNDARY}):
        for rep in (0, 1):
            found = found.with_part(
                "cold", "a", Phase.BOUNDARY, "layer0.recurrent", rep=rep, position=position, bytes=64 + more
            )
    return found


def test_rows_that_are_shared_stay_within_the_limit() -> None:
    result = asked(500_000).result("rows")

    assert (result.outcome, result.observed) == (Outcome.PASS, 500_000)


def test_one_part_in_a_million_less_is_not_enough_room() -> None:
    assert asked(499_999).result("rows").reason == "too_large"


def test_a_heavy_fixed_part_changes_nothing() -> None:
    result = with_larger_state(heavier(asked(500_000), 50_000), 50_000).result("rows")

    assert (result.outcome, result.observed) == (Outcome.PASS, 500_000)


def test_rows_that_are_copied_are_too_large_however_small_they_are_beside_a_fixed_part() -> None:
    found = with_larger_state(heavier(asked(500_000), 50_000), 50_000)

    assert heavier(found, 576).result("rows").reason == "too_large"


def test_a_snapshot_without_its_fixed_parts_is_no_saving() -> None:
    result = heavier(asked(500_000), -600).result("rows")

    assert (result.outcome, result.reason) == (Outcome.FAIL, "other_size")


def test_a_snapshot_at_a_boundary_that_nobody_looked_at_is_no_pass() -> None:
    found = asked(500_000)
    entries = tuple({**entry, "boundary": 9} for entry in held(found).entries)

    assert found.with_store("warm", "held", entries=entries).result("rows").reason == "observation_missing"
