"""Two looks side by side, and which looks belong together."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.deriving.compare import Pair, compare
from harness.deriving.questions import FIELDS
from harness.model.evidence import PartRow, Point
from harness.model.values import CellId, Outcome, Phase, Sha256
from harness.wire.evidence_doc import part_table
from tests.fakes.evidence import CELL, OTHER, Recorded, recorded

BASE = recorded()
META = PartRow(
    name="meta", family="meta", layer=-1, element_type="u8", shape=(3,), stream="fixed", bytes=3, sha256=OTHER
)
LOGITS = replace(META, name="logits", family="logits", element_type="f32", bytes=12)


def differing(
    ours: Sequence[PartRow], theirs: Sequence[PartRow], reference: Phase, *, see_parts: bool = True
) -> tuple[list[str], int]:
    points = [
        Point(cell=CellId(CELL), arm="a", rep=0, label="x", phase=phase, position=3, root=part_table(rows).root)
        for phase, rows in ((Phase.RESTORED, ours), (reference, theirs))
    ]
    pair = Pair(phase=Phase.RESTORED, candidate=points[0], reference=points[1])
    found = compare(pair, part_table(ours), part_table(theirs), FIELDS, see_parts=see_parts)
    return [f"{one.name}:{one.how}" for one in found.differing], found.digests


def test_at_a_boundary_pending_logits_are_compared_only_where_both_have_them() -> None:
    changed = replace(LOGITS, sha256=Sha256(OTHER[::-1]))

    assert differing([META], [META, LOGITS], Phase.BOUNDARY) == ([], 1)
    assert differing([META, changed], [META, LOGITS], Phase.BOUNDARY) == (["logits:bytes"], 2)
    assert differing([META], [META, LOGITS], Phase.PREFILLED) == (["logits:only_in_reference"], 1)


@pytest.mark.parametrize(
    ("change", "how"),
    [
        ({"bytes": 4}, "size"),
        ({"shape": (4,)}, "shape"),
        ({"element_type": "i8"}, "element_type"),
        ({"family": "draft"}, "element_type"),
        ({"layer": 2}, "element_type"),
        ({"stream": "rows"}, "element_type"),
        ({"sha256": Sha256("1" * 64)}, "bytes"),
    ],
)
def test_every_column_of_a_part_counts(change: dict[str, object], how: str) -> None:
    other = replace(META, **change)  # type: ignore[arg-type]

    assert differing([other], [META], Phase.PREFILLED) == ([f"meta:{how}"], 1)


def test_a_grade_that_shows_no_parts_compares_none() -> None:
    assert differing([META], [META, LOGITS], Phase.PREFILLED, see_parts=False) == ([], 0)


def with_check(check: dict[str, object]) -> Recorded:
    procedure = copy.deepcopy(dict(BASE.header.procedure))
    checks = procedure["checks"]
    assert isinstance(checks, list)
    return BASE.with_procedure({**procedure, "checks": [{"id": "own", **check}, *checks]})


def test_an_observed_session_is_compared_with_the_state_as_the_reference_left_it() -> None:
    record = with_check({"exact": {"candidate": "warm.before", "reference": "cold.a"}})

    assert record.result("own").outcome is Outcome.PASS
    assert record.with_part("warm", "before", Phase.SEEN, "layer1.k").result("own").reason == "parts_differ"


@pytest.mark.parametrize(
    ("check", "outcome", "reason"),
    [
        ({"candidate": "warm.again", "reference": "cold.a", "guarantee": "tokens_only", "witness": "copied"}, Outcome.PASS, ""),
        ({"candidate": "warm.again", "reference": "cold.a", "phases": ["end"], "witness": "copied"}, Outcome.PASS, ""),
        ({"candidate": "warm.again", "reference": "cold.a", "fields": ["tokens"], "phases": ["prefilled"], "witness": "copied"}, Outcome.ERROR, "nothing_compared"),
        ({"candidate": "warm.again", "reference": "cold.a", "witness": "live"}, Outcome.FAIL, "restore_not_witnessed"),
        ({"candidate": "warm.again", "reference": "cold.a", "witness": "resident"}, Outcome.PASS, ""),
        ({"candidate": "warm.again", "reference": "cold.a"}, Outcome.FAIL, "restore_not_witnessed"),
    ],
)  # fmt: skip
def test_guarantee_phases_fields_and_witness_narrow_what_is_judged(
    check: dict[str, object], outcome: Outcome, reason: str
) -> None:
    result = with_check({"exact": check}).result("own")

    assert (result.outcome, result.reason) == (outcome, reason)


def test_a_refused_restore_began_nothing() -> None:
    record = with_check({"exact": {"candidate": "warm.more", "reference": "cold.more"}})

    assert record.result("own").outcome is Outcome.PASS


def test_tokens_only_sees_tokens_and_nothing_else() -> None:
    check: dict[str, object] = {
        "exact": {"candidate": "warm.again", "reference": "cold.a", "guarantee": "tokens_only", "witness": "copied"}
    }
    record = with_check(check)

    assert record.with_part("warm", "again", Phase.END, "layer1.k").result("own").outcome is Outcome.PASS
    assert record.with_point("warm", "again", Phase.END, tokens=(9, 9, 9, 9)).result("own").reason == "tokens_differ"
