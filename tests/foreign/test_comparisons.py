"""What is said of reports that compare two ways of running a model, and of policies that hold no result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.deriving.foreign.shapes import read_record
from harness.errors import InvalidDocumentError
from tests.foreign import published
from tests.foreign.support import REST, body_of, codes, imported, row

SOUND: dict[str, Callable[[], published.Record]] = {
    "single_step": published.a_step,
    "chain": published.a_chain,
    "split_scan": published.a_scan,
    "dtype_matrix": lambda: published.a_scan(counted="dtype_count"),
    "split_prefix_hit": published.a_prefix_hit,
    "mtp_ab": published.a_draft_ab,
    "remote_handoff": published.a_remote,
    "family_policy": published.a_policy,
    "split_roster": published.a_roster,
    "capability_draft": published.a_capability,
}
ROWS = {name: "capability" if name == "capability_draft" else name for name in SOUND}


def judged(record: published.Record) -> tuple[str, Any]:
    """Decision and the one row."""
    body = body_of(record, REST)
    (only,) = body["results"]
    return body["decision"]["overall"], only


@pytest.mark.parametrize("shape", SOUND)
def test_a_sound_report_is_read_by_its_members_and_shows_no_state(shape: str) -> None:
    body = body_of(SOUND[shape](), REST)

    assert body["record"]["shape"] == shape
    assert [one["name"] for one in body["results"]] == [ROWS[shape]]
    assert all(one["holds"] for one in body["results"][0]["recomputed"])
    assert "fail" not in {check["outcome"] for check in body["results"][0]["checks"]}
    assert body["decision"]["overall"] == "inconclusive"


@pytest.mark.parametrize("shape", SOUND)
def test_its_certificate_passes_the_gate(shape: str, tmp_path: Any) -> None:
    from harness.certifying.issue import issue
    from harness.gating.gate import gate

    issue(imported(SOUND[shape](), REST).data(), tmp_path)
    assert gate([tmp_path]).exit_code == 0


def of_split(**changes: Any) -> published.Record:
    return {**published.a_step()["split"], **changes}


def of_stages(index: int, **changes: Any) -> list[published.Record]:
    stages: list[published.Record] = published.a_chain()["stages"]
    return [{**one, **changes} if at == index else one for at, one in enumerate(stages)]


FAILING: dict[str, tuple[published.Record, str]] = {
    "another token": (published.a_step(matches=False, split=of_split(predicted_token=42)), "does_not_match"),
    "another second token": (
        published.a_step(
            matches=False,
            baseline={"token_id": 7, "predicted_token": 41, "second_predicted_token": 1},
            split=of_split(second_predicted_token=2),
        ),
        "does_not_match",
    ),
    "a chain with a gap": (published.a_chain(stages=of_stages(1, layer_start=9)), "layers_broken"),
    "an answer of the first": (
        published.a_chain(stages=of_stages(0, returned_predicted_token=True)),
        "answer_of_the_last_broken",
    ),
    "one split of eight": (published.a_scan(bad=1), "does_not_match"),
    "another text": (published.a_prefix_hit(matches=False, warm={"content": "elsewhere"}), "does_not_match"),
    "no hit": (
        published.a_prefix_hit(matches=False, partial_hit_observed=False, warm={"partial_prefix_hits": 0}),
        "prefix_hit_broken",
    ),
    "a hit of the control": (
        published.a_prefix_hit(matches=False, partial_hit_observed=False, control={"partial_prefix_hits": 1}),
        "prefix_hit_broken",
    ),
    "a draft that says something else": (
        published.a_draft_ab(matches=False, exact_content_match=False, batched={"content": "no"}),
        "does_not_match",
    ),
    "no batched verification": (
        published.a_draft_ab(matches=False, batched_events_present=False),
        "batched_broken",
    ),
    "other tokens over there": (
        published.a_remote(matches=False, tokens_match=False, restored_tokens=[5, 6, 7, 9]),
        "does_not_match",
    ),
    "fewer tokens over there": (
        published.a_remote(matches=False, tokens_match=False, restored_tokens=[5, 6]),
        "does_not_match",
    ),
    "another baseline": (published.a_remote(matches=False, baseline_matches=False), "baseline_broken"),
    "a model of no profile": (
        published.a_policy(models=[{**published.a_policy()["models"][0], "profile": "half"}]),
        "profiles_broken",
    ),
    "an oracle without evidence": (
        published.a_policy(models=[{**published.a_policy()["models"][0], "profile": "workload-oracle"}]),
        "evidence_named_broken",
    ),
    "an artifact that is not pinned": (
        published.a_policy(models=[{**published.a_policy()["models"][0], "artifact": {"revision": "main"}}]),
        "pinned_broken",
    ),
    "a build of no digest": (
        published.a_roster(native_recipe={"llama_upstream_sha": "ab" * 20, "skippy_abi": "1.2.3"}),
        "bound_broken",
    ),
    "an architecture twice": (published.a_roster(architectures=["alpha", "alpha"]), "once_each_broken"),
}


@pytest.mark.parametrize("what", FAILING)
def test_what_does_not_hold_is_a_stop_with_its_reason(what: str) -> None:
    record, reason = FAILING[what]
    overall, only = judged(record)

    assert overall == "stop"
    assert reason in {check.get("reason") for check in only["checks"] if check["outcome"] == "fail"}


def test_a_full_profile_without_its_lanes_is_a_stop() -> None:
    record = published.a_policy()
    record["policy"]["profiles"]["full"]["required_lanes"] = ["single-step", "chain"]
    assert judged(record)[0] == "stop"


def test_a_certified_profile_without_an_oracle_is_a_stop() -> None:
    record = published.a_policy()
    record["policy"]["profiles"]["graph-only"]["status"] = "certified"
    assert judged(record)[0] == "stop"


@pytest.mark.parametrize(
    "record",
    [
        published.a_step(split=of_split(predicted_token=42)),
        published.a_step(matches=False),
        published.a_step(native_mtp_draft_required=True, split=of_split(predicted_token=42)),
        published.a_step(split=of_split(token_id=8)),
        published.a_chain(predicted_token=42),
        published.a_scan(split_count=9),
        published.a_scan(bad=2, mismatch_count=1),
        published.a_prefix_hit(partial_hit_observed=False),
        published.a_prefix_hit(warm={"http_status": 500}),
        published.a_prefix_hit(control={"fatal_error_events": 1}),
        published.a_draft_ab(batched={"content": "no"}),
        published.a_draft_ab(batched_events_present=False),
        published.a_remote(restored_tokens=[5, 6, 7, 9]),
        published.a_remote(baseline_matches=False),
        published.a_remote(ttft_disaggregated_ms=900.0),
        published.a_remote(ttft_speedup=2.5),
        published.a_remote(state_bytes_per_prompt_token=1.0),
    ],
)
def test_a_report_that_contradicts_itself_is_an_error(record: published.Record) -> None:
    assert judged(record)[0] == "error"


def test_a_draft_that_was_required_may_fail_for_a_reason_that_is_not_told() -> None:
    overall, only = judged(published.a_step(matches=False, native_mtp_draft_required=True))
    assert (overall, only["recorded"]) == ("inconclusive", "stop")


def test_a_time_over_two_machines_is_found_and_is_no_verdict() -> None:
    body = body_of(published.a_remote(), REST)
    assert {"two_clocks_added", "digest_not_compared"} <= codes(body)
    assert body["decision"]["by_axis"]["latency"] == "inconclusive"


def test_a_stream_has_a_wall_of_its_own() -> None:
    parts = {"overlap_wall_ms": 700.5, "receiver": {"attach_residual_ms": 3.25, "first_decode_ms": 14.0}}
    whole = 700.5 + 3.25 + 14.0
    record = published.a_remote(**parts, ttft_disaggregated_ms=whole, ttft_speedup=1650.25 / whole)
    assert judged(record)[0] == "inconclusive"


def test_a_handoff_that_was_not_compared_with_a_local_run_says_so() -> None:
    record = published.a_remote(baseline_matches=None)
    assert "baseline_not_compared" in {check.get("reason") for check in judged(record)[1]["checks"]}


def test_a_mismatch_may_hide_behind_untested() -> None:
    body = body_of(published.a_capability(), REST)
    assert "mismatch_filed_as_untested" in codes(body)
    assert row(body, "capability")["checks"][0]["reason"] == "untested_or_mismatched"
    accepted = body_of(published.a_capability("accepted"), REST)
    assert row(accepted, "capability")["checks"][0]["reason"] == "no_evidence_inside"


def test_a_narrow_wire_and_a_provisional_family_are_found() -> None:
    assert "wire_narrowed" in codes(body_of(published.a_step(), REST))
    assert "wire_narrowed" not in codes(body_of(published.a_chain(), REST))
    assert "provisional_families" in codes(body_of(published.a_policy(), REST))


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"mode": "glm-dsa-stage0-trace", "trace_parity": {}, "variants": [1]}, "this shape is not read: trace"),
        ({"commands": 3, "created_at": "x"}, "its manifest is not read"),
        (published.a_chain(stages=[]), "no known shape|no stages"),
        (published.a_scan(results=[]), "no results"),
        (published.a_step(split={"token_id": 7}), "no two tokens"),
        (published.a_remote(source_tokens=["a"]), "no list of tokens"),
        (published.a_remote(source_tokens=[True]), "no list of tokens"),
        (published.a_prefix_hit(warm={"content": None}), "no text"),
        (published.a_capability("maybe"), "known are accepted"),
        (published.a_roster(architectures=[]), "no architectures"),
        (published.a_policy(models=[]), "no models"),
    ],
)
def test_what_says_too_little_is_refused_by_name(record: published.Record, words: str) -> None:
    with pytest.raises(InvalidDocumentError, match=words):
        read_record(record, "record")
