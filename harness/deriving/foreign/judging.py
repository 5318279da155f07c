"""A recorded pair by our rules: what its numbers show, and what they cannot.

Times of others come without raw pairs, order and processes, so no time is ever a verdict here. Bytes are exact;
agreement counts by its lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

from harness.deriving.foreign.arithmetic import composed, recompute, verdict
from harness.deriving.foreign.bounds import MOST, lower_bound_ppm, shows_at_least, shows_less_than
from harness.deriving.foreign.nouns import Case, Check, Finding, Gates, Recomputed, Row, Workload

MIN_PAIRS: Final = 10
"""Interleaved pairs, from at least two fresh processes, below which there is no verdict about a time."""
MIN_STEPS_OF_P99: Final = 299
"""Steps from which on the 99th percentile of a sample bounds that of the whole with 95 %; below it is one step."""
IMPLAUSIBLE_PPM: Final = 200_000
"""A decode step that gets so much faster by a codec that does not touch it was measured otherwise."""
CONTROL_PPM: Final = 50_000
"""A native arm that moves so much between repeats."""
_PPM: Final = 1_000_000


def judge_case(case: Case, gates: Gates, workload: Workload, width: int) -> Row:
    """Return the row of one pair."""
    recomputed = recompute(case, gates, workload, width)
    return Row(
        name=case.name,
        count=len(case.samples),
        recorded=_recorded(case),
        checks=tuple(_checks(case, gates)),
        recomputed=recomputed,
        findings=tuple(_findings(case, gates, recomputed)),
        values=_values(case, gates),
        reasons=case.reasons or (),
    )


def _recorded(case: Case) -> str:
    if case.mixed or len({one.passed for one in case.samples}) > 1:
        return "one_pass_one_fail"
    return "not_said" if case.passed is None else "pass" if case.passed else "stop"


def _checks(case: Case, gates: Gates) -> Iterator[Check]:
    yield from _size(case, gates)
    yield from _quality(case, gates)
    yield from _latency(case, gates)


def _size(case: Case, gates: Gates) -> Iterator[Check]:
    if gates.smaller and case.native_bytes is not None and case.other_bytes is not None:
        fine = case.other_bytes < case.native_bytes
        yield Check(
            id="size",
            axis="footprint",
            outcome="pass" if fine else "fail",
            reason="" if fine else "not_smaller",
            observed=f"{case.other_bytes}",
            limit=f"{case.native_bytes}",
        )


def _quality(case: Case, gates: Gates) -> Iterator[Check]:
    if gates.agreement is None or case.matching is None or not case.steps:
        return
    wanted = Fraction(gates.agreement)
    if not 0 < wanted < 1 or case.matching > case.steps or case.steps > MOST:
        outcome, reason = "inconclusive", "bound_not_computed"
    elif shows_at_least(case.matching, case.steps, wanted):
        outcome, reason = "pass", ""
    elif shows_less_than(case.matching, case.steps, wanted):
        outcome, reason = "fail", "agreement_below_minimum"
    else:
        outcome, reason = "inconclusive", "bound_below_minimum"
    yield Check(
        id="agreement",
        axis="quality",
        outcome=outcome,
        reason=reason,
        observed=f"{case.matching}/{case.steps}",
        limit=str(gates.agreement),
    )


def _latency(case: Case, gates: Gates) -> Iterator[Check]:
    if gates.faster and case.samples:
        faster = {one.other_ttft < one.native_ttft for one in case.samples}
        reason = "one_sample" if len(case.samples) == 1 else "verdict_flipped" if len(faster) > 1 else "few_samples"
        if len(case.samples) >= MIN_PAIRS and reason == "few_samples":
            reason = "order_not_told"
        yield Check(
            id="first_token",
            axis="latency",
            outcome="inconclusive",
            reason=reason,
            observed=f"{len(case.samples)} of {MIN_PAIRS} pairs",
        )
    if gates.regression is not None and case.regression is not None:
        reason = "percentile_is_one_step" if case.steps < MIN_STEPS_OF_P99 else "order_not_told"
        yield Check(
            id="p99_step",
            axis="latency",
            outcome="inconclusive",
            reason=reason,
            observed=f"{case.steps} of {MIN_STEPS_OF_P99} steps",
        )


def _findings(case: Case, gates: Gates, recomputed: Sequence[Recomputed]) -> Iterator[Finding]:
    yield from _of_times(case)
    yield from _of_samples(case)
    checks = {check.id: check for check in _checks(case, gates)}
    if checks.get("agreement") is not None and checks["agreement"].reason == "bound_below_minimum":
        ratio = Fraction(case.matching or 0, case.steps) >= Fraction(gates.agreement or 0)
        if ratio:
            yield _finding("bound_below_minimum", case, lower_bound_ppm=lower_bound_ppm(case.matching or 0, case.steps))
    if case.passed is False and case.reasons is None:
        yield _finding("reasons_missing", case)
    for one in recomputed:
        if not one.holds:
            yield _finding("does_not_recompute", case, number=one.name, recorded=one.recorded, computed=one.computed)
    if verdict(case, gates) and case.passed:
        yield _finding("passed_against_its_thresholds", case)


def _of_times(case: Case) -> Iterator[Finding]:
    for arm, times in (("native", case.native), ("cachegen", case.other)):
        if composed(case, arm):
            yield _finding("composed_time", case, arm=arm, first_token_ns=times.ttft or 0)
            yield _finding("percentile_is_the_first_step", case, arm=arm, p99_ns=times.p99 or 0)
    if case.regression is not None and case.steps < MIN_STEPS_OF_P99:
        yield _finding("percentile_is_one_step", case, steps=case.steps)
    if case.regression is not None and case.regression * _PPM < -IMPLAUSIBLE_PPM:
        yield _finding("implausible_gain", case, regression_ppm=int(case.regression * _PPM))


def _of_samples(case: Case) -> Iterator[Finding]:
    if len(case.samples) == 1:
        yield _finding("one_sample", case)
    twice = len(case.samples) - len({(one.native_ttft, one.other_ttft) for one in case.samples})
    if twice:
        yield _finding("run_told_twice", case, runs=twice)
    if len({one.other_ttft < one.native_ttft for one in case.samples}) > 1:
        margin = min(abs(one.native_ttft - one.other_ttft) for one in case.samples)
        yield _finding("verdict_flipped", case, runs=len(case.samples), margin_ns=margin)
    native = [one.native_ttft for one in case.samples]
    least = min(native, default=0)
    if least:
        moved = (max(native) - least) * _PPM // least
        if moved > CONTROL_PPM:
            yield _finding("control_moved", case, moved_ppm=moved)


def _finding(code: str, case: Case, **detail: int | str) -> Finding:
    return Finding(code=code, where=case.name, detail=detail)


def _values(case: Case, gates: Gates) -> dict[str, int]:
    found = {
        "native_storage_bytes": case.native_bytes,
        "cachegen_storage_bytes": case.other_bytes,
        "native_first_token_ns": case.native.ttft,
        "cachegen_first_token_ns": case.other.ttft,
        "native_import_ns": case.native.load,
        "cachegen_import_ns": case.other.load,
        "matching_tokens": case.matching,
        "steps": case.steps or None,
        "first_mismatch": case.mismatch,
    }
    if gates.agreement is not None and case.matching is not None and 0 < case.matching <= case.steps <= MOST:
        found["agreement_lower_bound_ppm"] = lower_bound_ppm(case.matching, case.steps)
    return {name: value for name, value in found.items() if value is not None}
