from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import NothingToDoError
from harness.model.evidence import Difference, End, Evidence, Header
from harness.model.values import CellId, Phase, Sha256
from harness.reporting import explain
from harness.reporting.fault_kinds import likely_kinds

CELL = CellId("A01[scale=16]")


def located(**changes: object) -> Difference:
    found = Difference(
        cell=CELL,
        check="warm",
        phase=Phase.RESTORED,
        part="layer3.delta",
        family="recurrent",
        layer=3,
        element_type="f32",
        byte=36,
        row=0,
        element=9,
        reference="0000803f",
        candidate="0100803f",
        reference_value="1",
        candidate_value="1.0000001",
        differing_elements=1,
        differing_rows=1,
        last_row=0,
        shape="single_bit",
        parts_differing=3,
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def evidence(*observations: Difference) -> Evidence:
    none = Sha256("0" * 64)
    header = Header(
        run_id="0" * 32,
        created="2026-01-01T00:00:00Z",
        suite="default",
        scales=(16,),
        selected=(CELL,),
        scenario_id="A01",
        procedure={},
        procedure_digest=none,
        target={},
        environment={},
        source={},
    )
    return Evidence(header=header, observations=observations, end=None, sha256=none, bytes=0)


def test_a_place_names_part_row_element_both_values_and_how_many_more() -> None:
    text = explain.place_in_words(located())

    assert text == (
        "layer3.delta (recurrent, layer 3), row 0, element 9: 1 (bytes 0000803f) expected, 1.0000001 (bytes 0100803f) "
        "found; one single bit is flipped; 2 more parts differ too"
    )


def test_a_difference_of_one_element_is_not_said_to_be_in_many_places() -> None:
    assert "many" not in explain.place_in_words(located(shape="scattered"))
    assert "one element differs" in explain.place_in_words(located(shape="scattered"))
    assert "elements differ" in explain.place_in_words(located(shape="scattered", differing_elements=7))


def test_a_check_without_a_place_is_told_with_what_was_seen_and_demanded() -> None:
    check = {
        "id": "reused",
        "outcome": "fail",
        "observed": 256,
        "limit": 384,
        "unit": "tokens",
        "reason": "other_count",
    }
    body = {"cells": [{"id": "A01[x=1]", "checks": [check, {**check, "id": "good", "outcome": "pass"}]}]}

    (found,) = explain.explain_checks(body)

    shown = explain.render_terminal([found], colour=False)
    assert "256 tokens" in shown
    assert "384 tokens" in shown
    assert "The count is not within its limit." in shown
    assert explain.explain_checks(body, cell="other") == []


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("shifted_by_3_rows", "the reference's rows stand 3 rows too late"),
        ("shifted_by_-1_rows", "the reference's rows stand 1 row too early"),
        ("other_part:layer2.k", "the candidate holds another part: layer2.k"),
        ("a_new_word", "a new word"),
    ],
)
def test_a_classification_is_said_in_words(shape: str, words: str) -> None:
    assert explain.shape_in_words(shape) == words


def test_a_lost_recurrent_state_looks_like_a_hybrid_that_fell_apart() -> None:
    kinds = likely_kinds(located(shape="all_zero"))

    assert kinds[0] == "K01"
    assert "K03" in kinds


def test_a_late_difference_without_a_pattern_may_be_another_numeric_path() -> None:
    assert likely_kinds(located(phase=Phase.END, shape="scattered"))[0] == "K13"


def test_moved_rows_look_like_a_wrong_count() -> None:
    assert likely_kinds(located(family="kv", part="layer0.k", shape="shifted_by_1_rows"))[0] == "K02"


def test_only_the_asked_cell_and_check_are_explained() -> None:
    run = evidence(located(), located(check="fork"))

    assert [one.title for one in explain.explain_evidence(run, check="fork")] == [
        "A01[scale=16] fork: layer3.delta differs"
    ]
    with pytest.raises(NothingToDoError, match="there are: A01"):
        explain.explain_evidence(run, check="other")


def test_a_run_that_was_cut_off_is_called_so_where_nothing_was_located() -> None:
    with pytest.raises(NothingToDoError, match="cut off before its end record"):
        explain.explain_evidence(evidence())


def test_a_whole_run_without_a_difference_points_at_judge() -> None:
    ended = replace(
        evidence(), end=End(records=2, sha256=Sha256("0" * 64), finished="2026-01-01T00:00:01Z", elapsed_ns=1)
    )

    with pytest.raises(NothingToDoError, match="nothing to explain; `statecert judge`"):
        explain.explain_evidence(ended)


def test_a_planted_difference_is_not_blamed_on_the_engine() -> None:
    run = evidence(located(check="flip"))
    checks = {"checks": [{"id": "flip", "seen": {"candidate": "a.b", "reference": "c.d"}}]}

    found = explain.explain_evidence(replace(run, header=replace(run.header, procedure=checks)))

    assert found[0].note == "Nothing is wrong: this check is a control, its corruption was planted and had to be seen."
    assert found[0].meanings == []
    shown = explain.render_terminal(found, colour=False)
    assert shown.splitlines()[1].strip().startswith("Nothing is wrong")
    assert "restore itself is wrong" not in shown
    assert "differs" not in shown.splitlines()[0]


def test_terminal_and_json_say_the_same() -> None:
    found = explain.explain_evidence(evidence(located()))

    shown = explain.render_terminal(found, colour=False)
    data = json.loads(explain.render_json(found))

    assert "one single bit is flipped" in shown
    assert data["differences"][0]["facts"]["expected"] == "1 (bytes 0000803f)"
    assert "1 (bytes 0000803f)" in shown
    assert max(map(len, shown.splitlines())) <= 80


def dump(path: Path, values: list[float]) -> Path:
    path.write_bytes(struct.pack(f"<{len(values)}f", *values))
    return path


def test_two_dumps_are_compared_and_explained(tmp_path: Path) -> None:
    values = [float(index) for index in range(100 * 64)]
    changed = [*values]
    changed[70 * 64 + 5] = -1.0

    found = explain.explain_files(
        dump(tmp_path / "a.bin", values), dump(tmp_path / "b.bin", changed), element_type="f32", shape=(100, 64)
    )

    assert found is not None
    facts = {fact.name: fact.value for fact in found.facts}
    assert facts["First row"] == "70"
    assert facts["First element"] == "5"
    assert facts["Elements differing"] == "1"


def test_equal_dumps_have_nothing_to_explain(tmp_path: Path) -> None:
    one = dump(tmp_path / "a.bin", [1.0, 2.0])

    assert explain.explain_files(one, one, element_type="f32", shape=(2,)) is None
