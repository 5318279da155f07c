"""What is said of published records: as recorded, as judged, and what their reader should know."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.deriving.foreign.bounds import lower_bound_ppm, shows_at_least, shows_less_than
from harness.errors import InvalidDocumentError
from harness.wire.published import MAX_DEPTH, read_published
from tests.foreign import published
from tests.foreign.published import STEPS
from tests.foreign.support import REST, TOLD, body_of, codes, row

PAIRS = ("f32/f32", "q8_0/f32", "f32/f16", "f16/f32", "q8_0/q8_0", "q4_0/q4_0", "q8_0/f16", "q4_0/f16")


@pytest.fixture(scope="module")
def typed() -> Any:
    return body_of(published.typed())


@pytest.fixture(scope="module")
def first() -> Any:
    return body_of(published.one_pair())


def test_three_pairs_are_recorded_as_pass_and_five_as_stop_one_of_which_passed_once(typed: Any) -> None:
    assert typed["totals"]["recorded"] == {"pass": 3, "stop": 5, "one_pass_one_fail": 1, "not_said": 0}
    assert tuple(one["name"] for one in typed["results"]) == PAIRS


def test_the_pair_that_passed_once_is_inconclusive_by_our_rules(typed: Any) -> None:
    mixed = row(typed, "q8_0/f32")
    assert (mixed["recorded"], mixed["judged"], mixed["count"]) == ("one_pass_one_fail", "inconclusive", 2)
    assert {check["reason"] for check in mixed["checks"] if "reason" in check} == {"verdict_flipped"}
    assert {"verdict_flipped", "control_moved", "reasons_missing"} <= codes(typed)


def test_no_verdict_about_a_time_stands_on_one_sample(typed: Any, first: Any) -> None:
    for one in [*typed["results"], *first["results"]]:
        times = [check for check in one["checks"] if check["axis"] == "latency"]
        assert {check["outcome"] for check in times} == {"inconclusive"}
        assert (one["count"] == 1) == ("one_sample" in {check["reason"] for check in times})
    assert typed["totals"]["judged"]["pass"] == 0


def test_a_pair_that_is_absent_is_named_and_one_that_cannot_run_keeps_its_reason(typed: Any) -> None:
    matrix = typed["matrix"]
    assert "f16/f16" in matrix["absent"]
    assert len(matrix["absent"]) == 7
    assert matrix["excluded"] == [
        {
            "name": "f32/q8_0",
            "note": 1,
            "reason": "quantized V requires Flash Attention and there is no kernel",
        }
    ]
    assert "absent:f16/f16" in typed["limits"]
    assert "exclusion_in_prose" in codes(typed)


def test_bytes_of_every_type_follow_from_tokens_layers_and_width(typed: Any) -> None:
    for one in typed["results"]:
        (made,) = (number for number in one["recomputed"] if number["name"] == "native_storage_bytes")
        assert made["holds"], one["name"]


def test_a_type_that_is_called_otherwise_than_its_bytes_is_an_error() -> None:
    record = published.typed()
    record["cases"][2]["cache_type_v"] = "f32"
    record["cases"][0]["cache_type_v"] = "q4_0"
    found = body_of(record)
    assert row(found, "f32/f32")["judged"] == "error"
    assert found["decision"]["overall"] == "error"


def test_a_payload_that_is_not_smaller_is_a_fail_whatever_the_times_are(typed: Any) -> None:
    assert row(typed, "q4_0/q4_0")["judged"] == "fail"
    assert typed["decision"]["by_axis"]["footprint"] == "stop"
    assert typed["decision"]["overall"] == "stop"


def test_a_time_that_was_added_up_of_a_percentile_is_found_in_both_arms(first: Any) -> None:
    for code in ("composed_time", "percentile_is_the_first_step"):
        assert {one["detail"]["arm"] for one in first["findings"] if one["code"] == code} == {"native", "cachegen"}
    assert {"percentile_is_one_step", "implausible_gain", "one_sample"} <= codes(first)


def test_a_time_that_is_not_the_sum_is_not_called_composed() -> None:
    record = published.one_pair()
    record["metrics"]["native_ttft_ms"] += 1.5
    record["metrics"]["cachegen_ttft_ms"] += 1.5
    record["failure_reasons"][0] = published.lost(
        record["metrics"]["cachegen_ttft_ms"], record["metrics"]["native_ttft_ms"]
    )
    found = body_of(record)
    assert "composed_time" not in codes(found)
    assert found["decision"]["overall"] == "stop"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression_ratio", 0.5),
        ("token_agreement", 0.99),
        ("p99_decode_regression", -0.1),
        ("cachegen_persist_ms", 12.5),
        ("native_storage_bytes", 7),
        ("tile_count", 3),
    ],
)
def test_a_number_that_does_not_follow_from_the_others_is_an_error(name: str, value: float) -> None:
    record = published.one_pair()
    record["metrics"][name] = value
    found = body_of(record)
    assert found["decision"]["overall"] == "error"
    assert "does_not_recompute" in codes(found) or name == "native_storage_bytes"


def changed_case(**changes: Any) -> Any:
    """A summary of eight pairs, the first of which says something else."""
    record = published.typed()
    record["cases"][0] |= changes
    return record


@pytest.mark.parametrize(
    ("changes", "name", "wanted"),
    [
        ({"matching_tokens": STEPS + 3, "token_agreement": (STEPS + 3) / STEPS}, "matching_tokens", f"at most {STEPS}"),
        ({"first_token_mismatch_step": STEPS + 1}, "first_token_mismatch_step", f"at most {STEPS}"),
        ({"first_token_mismatch_step": 3}, "first_token_mismatch_step", "none, since all tokens match"),
        (
            {"matching_tokens": 5, "token_agreement": 5 / STEPS, "first_token_mismatch_step": 9},
            "matching_tokens",
            "at least 8",
        ),
        ({"cachegen_storage_bytes": 0, "compression_ratio": 0.0}, "cachegen_storage_bytes", "above 0"),
        ({"cachegen_ttft_ms": 0}, "first_token_ns", "above 0"),
        ({"token_agreement": 100}, "token_agreement", "0 to 1"),
        ({"p99_decode_regression": -3.0}, "p99_decode_regression", "at least -1"),
    ],
)
def test_a_number_that_cannot_be_makes_its_row_an_error(changes: Any, name: str, wanted: str) -> None:
    body = body_of(changed_case(**changes))

    assert row(body, "f32/f32")["judged"] == "error"
    broken = [one for one in row(body, "f32/f32")["recomputed"] if not one["holds"]]
    assert (name, wanted) in [(one["name"], one["computed"]) for one in broken]
    assert "does_not_recompute" in codes(body)
    assert row(body, "q8_0/f32")["judged"] != "error"


@pytest.mark.parametrize("minimum", [95, -1])
def test_a_threshold_that_is_no_share_is_found(minimum: int) -> None:
    record = published.typed()
    record["thresholds"]["minimum_token_agreement"] = minimum

    assert {one["judged"] for one in body_of(record)["results"]} == {"error"}


def test_a_mean_above_its_maximum_is_found_and_a_negative_measure_refused() -> None:
    record = published.one_pair(date="2026-03-02", digest=published.SECOND_FILE, scalar=False)
    record["metrics"]["max_entropy_abs_drift"] = 0.25
    assert body_of(record)["decision"]["reasons"] == ["contradicts_itself"]
    for name in ("cachegen_decode_tokens_per_second", "mean_entropy_abs_drift", "estimated_peak_codec_working_bytes"):
        record = published.one_pair(date="2026-03-02", digest=published.SECOND_FILE, scalar=False)
        record["metrics"][name] = -1.5
        with pytest.raises(InvalidDocumentError, match=f"{name}: found '-1.5'; expected a number of at least 0"):
            body_of(record)


def test_a_run_that_is_told_twice_is_found() -> None:
    record = published.typed()
    record["cases"][1]["runs"] += record["cases"][1]["runs"][:1]

    [found] = [one for one in body_of(record)["findings"] if one["code"] == "run_told_twice"]
    assert (found["where"], found["detail"]) == ("q8_0/f32", {"runs": 1})


def test_a_pass_against_its_own_thresholds_is_an_error() -> None:
    record = published.typed()
    record["cases"][4] |= {"passed": True, "failure_reasons": []}
    found = body_of(record)
    assert "passed_against_its_thresholds" in codes(found)
    assert row(found, "q8_0/q8_0")["judged"] == "error"


def test_times_that_a_reason_quotes_must_be_those_of_the_case() -> None:
    record = published.typed()
    record["cases"][4]["failure_reasons"] = [published.lost(651.0, 333.5)]
    assert row(body_of(record), "q8_0/q8_0")["judged"] == "error"


def test_agreement_counts_by_its_lower_bound(typed: Any) -> None:
    assert row(typed, "q4_0/f16")["values"]["agreement_lower_bound_ppm"] == 883_283  # 61 of 64
    assert row(typed, "f32/f32")["values"]["agreement_lower_bound_ppm"] == 954_270  # 64 of 64: 0.05 ** (1 / 64)
    assert "bound_below_minimum" in codes(typed)


def test_bounds_are_those_of_clopper_and_pearson() -> None:
    assert abs(lower_bound_ppm(64, 64) / 1e6 - 0.05 ** (1 / 64)) < 1e-6
    assert abs(lower_bound_ppm(1, 64) / 1e6 - (1 - 0.95 ** (1 / 64))) < 1e-6
    assert shows_at_least(64, 64, Fraction(95, 100))
    assert not shows_at_least(63, 64, Fraction(95, 100))
    assert shows_less_than(10, 64, Fraction(95, 100))
    assert not shows_less_than(61, 64, Fraction(95, 100))
    assert not shows_less_than(64, 64, Fraction(95, 100))
    assert lower_bound_ppm(0, 64) == 0


def test_one_name_of_a_model_with_another_digest_beside_it_is_found() -> None:
    other = "cd" * 32
    found = body_of(published.typed(), known={other: published.FIRST_FILE})
    (one,) = (finding for finding in found["findings"] if finding["code"] == "one_name_two_digests")
    assert one["where"] == other
    assert (one["detail"]["own"], one["detail"]["other"]) == (published.SECOND_FILE, published.FIRST_FILE)


def test_the_second_generation_of_a_summary_is_read_too() -> None:
    record = published.one_pair(scalar=False, matching=64, decision="quality-pass-latency-stop", digest="3c" * 32)
    found = body_of(record)
    assert found["record"]["shape"] == "summary"
    assert found["decision"]["overall"] == "inconclusive"
    assert found["decision"]["by_axis"]["quality"] == "pass"
    assert "decision_in_one_word" in codes(found)


def test_a_gate_report_needs_to_be_told_what_it_does_not_say() -> None:
    with pytest.raises(InvalidDocumentError, match="--model"):
        body_of(published.gate_report())
    with pytest.raises(InvalidDocumentError, match="--published"):
        body_of(published.gate_report(), {name: value for name, value in REST.items() if name != "published"})
    found = body_of(published.gate_report(), REST)
    assert row(found, "f16/f16")["recorded"] == "stop"
    assert "no_model_digest" in codes(found)
    assert found["decision"]["overall"] == "inconclusive"


def test_a_gate_report_that_passed_over_its_own_limit_of_memory_is_an_error() -> None:
    quick = {"cachegen_ttft_ms": 1.5, "cachegen_read_ms": 0.5, "cachegen_import_ms": 0.5, "cachegen_p99_decode_ms": 0.5}
    sound = {**published.gate_report(), **quick, "passed": True, "failure_reasons": []}
    taken = sound["estimated_peak_codec_working_bytes"]

    within = body_of({**sound, "max_peak_codec_working_bytes": taken}, REST)
    over = body_of({**sound, "max_peak_codec_working_bytes": taken - 1}, REST)

    assert "passed_against_its_thresholds" not in codes(within)
    assert "passed_against_its_thresholds" in codes(over)
    assert row(over, "f16/f16")["judged"] == "error"


def test_a_handoff_is_judged_with_the_bytes_that_came_back() -> None:
    assert body_of(published.handoff(), REST)["decision"]["overall"] == "pass"
    left_out = body_of(published.handoff(roundtrip_state_matches=False), REST)
    assert left_out["decision"]["overall"] == "stop"
    assert "round_trip_left_out" in codes(left_out)
    constant = body_of(published.handoff(state_payload_kind="resident-kv"), REST)
    assert constant["decision"]["overall"] == "inconclusive"
    assert "round_trip_constant" in codes(constant)


def test_a_handoff_that_matches_although_a_part_does_not_contradicts_itself() -> None:
    assert body_of(published.handoff(suffix_prefill_matches=False), REST)["decision"]["overall"] == "error"


def test_a_gate_inside_a_handoff_is_judged_like_any_other() -> None:
    found = body_of(published.handoff(matches=False, cachegen_gate=published.gate_report()), REST)
    assert [one["name"] for one in found["results"]] == ["f16/f16", "handoff"]


def test_a_growing_prompt_is_held_to_its_largest_amplification() -> None:
    assert body_of(published.growth(), REST)["decision"]["overall"] == "pass"
    record = published.growth()
    record["turns"][2] |= {"physical_bytes": 130_000, "amplification": 1.3}
    assert body_of(record, REST)["decision"]["overall"] == "error"  # its own maximum is another
    record["max_amplification"] = 1.3
    assert body_of(record, REST)["decision"]["overall"] == "stop"
    assert body_of(published.growth(append_only=False), REST)["decision"]["overall"] == "stop"


def test_a_header_cannot_say_what_the_record_does_not() -> None:
    from tests.foreign.support import imported

    lines = imported(published.typed())
    header = {**lines.lines[0]}
    header["target"] = {**header["target"], "model_digest": "ee" * 32}
    with pytest.raises(InvalidDocumentError, match="its target is not what follows"):
        type(lines)(lines=[header, *lines.lines[1:]]).body()


def test_another_text_than_the_one_that_was_imported_is_refused() -> None:
    from tests.foreign.support import imported

    lines = imported(published.typed())
    text = {**lines.lines[1], "text": lines.lines[1]["text"].replace('"passed": false', '"passed": true ', 1)}
    with pytest.raises(InvalidDocumentError, match="another text"):
        type(lines)(lines=[lines.lines[0], text]).body()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"[1]", "no object"),
        (b"{", "no JSON"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": NaN}', "no number"),
        (b'{"a": 1e999}', "exponents"),
        (b'{"a": ' + b"9" * 50 + b"}", "digits"),
        (b"\xff{}", "no JSON"),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "containers"),
        (b"{}", "no known shape"),
        (b'{"cases": [], "thresholds": {}, "workload": {}}', "no case"),
    ],
)
def test_what_is_no_record_is_refused_by_name(data: bytes, words: str) -> None:
    from harness.deriving.foreign.shapes import read_record

    with pytest.raises(InvalidDocumentError, match=words):
        read_record(read_published(data, "x"), "x")


def test_importing_files_both_in_order_and_the_older_one_shows_its_successor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer, older = tmp_path / "a.json", tmp_path / "b.json"
    newer.write_bytes(published.written(published.typed()))
    older.write_bytes(published.written(published.one_pair()))
    drafted = tmp_path / "runs"
    assert main(["import", str(newer), str(older), "--engine", TOLD["engine"], "--out", str(drafted)]) == 0
    shown = capsys.readouterr().out
    assert shown.index("agreement_below_minimum") < shown.index("verdict_flipped")
    assert sorted(path.name for path in drafted.glob("*/*")) == ["foreign-0.jsonl", "foreign-1.jsonl"]


def test_the_successor_names_the_changed_digest_and_the_pair_that_it_dropped(tmp_path: Path) -> None:
    from harness.certifying.issue import issue
    from harness.certifying.store import read_store
    from harness.gating.gate import gate
    from tests.foreign.support import imported

    folder = tmp_path / "certificates"
    issue(imported(published.one_pair()).data(), folder)
    (old,) = read_store(folder).certificates.values()
    issue(imported(published.typed(), known={old.id: published.FIRST_FILE}).data(), folder, "2026-05-01T00:00:00Z")
    store = read_store(folder)
    (path,) = folder.glob(f"foreign/*/*/*-{old.id[:12]}.json")
    status = json.loads(path.read_bytes())["status"]
    (successor,) = (one.id for one in store.certificates.values() if one.id != old.id)
    assert (status["state"], status["superseded_by"]) == ("superseded", successor)
    (event,) = store.events
    assert "subject.model.digest" in event.differs
    assert event.reason_code == "model_changed"
    assert event.dropped_cells == ("f16/f16",)
    record = folder / "evidence" / f"{old.body['record']['sha256']}.json"  # type: ignore[index]
    assert record.read_bytes() == published.written(published.one_pair())
    assert gate([folder]).exit_code == 0


def test_a_record_is_imported_once(tmp_path: Path) -> None:
    from harness.certifying.issue import issue
    from tests.foreign.support import imported

    data = imported(published.typed()).data()
    assert issue(data, tmp_path)
    assert issue(data, tmp_path) == []


def test_two_records_of_one_moment_are_refused_since_nobody_can_tell_which_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, matching in (("a", 10), ("b", 11)):
        (tmp_path / f"{name}.json").write_bytes(published.written(published.one_pair(matching=matching)))
    told = ["--engine", "someones", "--out", str(tmp_path / "runs")]
    assert main(["import", str(tmp_path / "a.json"), str(tmp_path / "b.json"), *told]) == 4
    assert "--published" in capsys.readouterr().err


def test_a_report_shows_both_verdicts_and_claims_nothing() -> None:
    from harness.model.certificate import Certificate, Status
    from harness.model.values import CertificateState, Sha256
    from harness.reporting.campaigns import told

    body = body_of(published.typed())
    said = told(Certificate(id=Sha256("ab" * 32), body=body, status=Status(state=CertificateState.CURRENT)))
    assert "3 pass, 5 stop (of these 1 one pass, one fail)" in said.sentence
    assert "0 pass, 7 inconclusive, 1 fail, 0 error" in said.sentence
    assert not said.claims
    assert "measured by nobody here" in said.sentence
    assert any("f16/f16" in row for section in said.sections if section.sheet for row in section.sheet.rows)


def test_a_report_names_first_what_the_decision_rests_on_and_no_digests_that_nobody_made() -> None:
    from harness.model.certificate import Certificate, Status
    from harness.model.values import CertificateState, Sha256
    from harness.reporting.building import Archive, certificate_view

    one = Certificate(
        id=Sha256("ab" * 32), body=body_of(published.typed()), status=Status(state=CertificateState.CURRENT)
    )
    made = certificate_view(one, Archive([one]))
    worst = made.problems[0]
    assert (worst.cell, worst.state, worst.check) == ("q4_0/q4_0", "fail", "size")
    assert worst.reason == "The coded form is not smaller than the native one."
    assert not any("Digests were made by" in limit for limit in made.limits)
    assert "Run took" not in [fact.name for fact in made.environment]


def test_what_was_told_otherwise_than_the_record_says_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(published.written(published.one_pair()))
    assert main(["import", str(path), "--engine", "someones", "--model", "Other/Model", "--out", str(tmp_path)]) == 2
    assert "Some/Model-1B" in capsys.readouterr().err


def test_a_record_that_names_a_path_of_somebody_is_refused(tmp_path: Path) -> None:
    record = published.one_pair()
    record["notes"] = ["It lay in " + "/" + "home/somebody/cache.bin"]
    path = tmp_path / "a.json"
    path.write_bytes(published.written(record))
    assert main(["import", str(path), "--engine", "someones", "--out", str(tmp_path / "runs")]) == 2
