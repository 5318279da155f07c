"""Rows of reports that compare one way of running a model with another: stages, a second machine, a cache, a draft.

All of them compare tokens or text. Equal tokens show no equal state, so the best that such a row comes to is
`inconclusive` (``state_not_compared``); unequal ones are a fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from harness.deriving.foreign.arithmetic import ratio_row
from harness.deriving.foreign.nouns import Check, Finding, Recomputed, Row
from harness.deriving.foreign.reading import Members
from harness.errors import InvalidDocumentError

_NOISE_NS: Final = 4
"""A sum of five times, each of which was rounded to a nanosecond."""
_WIDE: Final = "f32"
_GOOD: Final = 200
"""Status of a request that was served."""


def step_row(found: Members) -> Row:
    """Return what a report of one token over two stages says beside the model in one piece."""
    split = found.inner("split")
    same = _same_token(found.inner("baseline"), split)
    return Row(
        name="single_step",
        count=1,
        recorded=_recorded(found),
        checks=(compared("token", holds=same, observed="1 token"),),
        recomputed=[*_inputs(found.inner("baseline"), split), _verdict(found, holds=same)],
        findings=[Finding(code="one_token_compared", where="single_step"), *_narrowed(split, "single_step")],
        values=_values(split.inner("boundary"), "token_count", "payload_bytes", "wire_payload_bytes"),
    )


def chain_row(found: Members) -> Row:
    """Return what a report of one token over a chain of stages says; the stages must follow one another.

    Raises:
        InvalidDocumentError: It has no stages.
    """
    same, stages = _same_token(found.inner("baseline"), found), found.list("stages")
    if not stages:
        raise InvalidDocumentError("found no stages", where=f"{found.at}.stages")
    ranges = [(one.required("layer_start"), one.required("layer_end")) for one in stages]
    follow = all(begin < end for begin, end in ranges) and all(
        first[1] == second[0] for first, second in pairwise(ranges)
    )
    told = [one.flag("returned_predicted_token") is True for one in stages]
    last = told[-1] and told.count(True) == 1
    return Row(
        name="chain",
        count=1,
        recorded=_recorded(found),
        checks=(
            compared("token", holds=same, observed="1 token"),
            held("layers", holds=follow, observed=f"{len(stages)} stages"),
            held("answer_of_the_last", holds=last, observed=f"{told.count(True)} answers"),
        ),
        recomputed=[*_inputs(found.inner("baseline"), found), _verdict(found, holds=same)],
        findings=[Finding(code="one_token_compared", where="chain"), *_narrowed(found, "chain")],
    )


def scan_row(found: Members, shape: str, counted: str) -> Row:
    """Return what a report of many splits, or of many types on the wire, says: every result is compared again.

    Args:
        found: The report.
        shape: What to call the row.
        counted: Member that counts the results.

    Raises:
        InvalidDocumentError: It has no results.
    """
    results = found.list("results")
    if not results:
        raise InvalidDocumentError("found no results", where=f"{found.at}.results")
    same = [_same_token(one.inner("baseline"), one.inner("split")) for one in results]
    agree = sum(_verdict(one, holds=own).holds for one, own in zip(results, same, strict=True))
    recorded = found.required("mismatch_count")
    narrow = {one.inner("split").text("wire_dtype", _WIDE) for one in results} - {_WIDE}
    return Row(
        name=shape,
        count=len(results),
        recorded="pass" if recorded == 0 else "stop",
        checks=(compared("token", holds=all(same), observed=f"{same.count(True)} of {len(same)} tokens"),),
        recomputed=[
            said(counted, str(found.required(counted)), str(len(results))),
            said("mismatch_count", str(recorded), str(sum(one.flag("matches") is not True for one in results))),
            said("matches_of_results", str(len(results)), str(agree)),
        ],
        findings=[
            Finding(code="one_token_compared", where=shape),
            *(Finding(code="wire_narrowed", where=shape, detail={"wire": kind}) for kind in sorted(narrow)),
        ],
    )


def prefix_hit_row(found: Members) -> Row:
    """Return what a report of a prefix that two stages keep says: a warm arm beside one without the prefix."""
    warm, control = found.inner("warm"), found.inner("control")
    same = _text(warm) == _text(control)
    hits = (warm.required("partial_prefix_hits"), control.required("partial_prefix_hits"))
    seen = hits[0] > 0 and hits[1] == 0
    served = all(one.required("http_status") == _GOOD for one in (warm, control))
    served = served and warm.whole("warmup_http_status") in (None, _GOOD)
    fatal = sum(one.required("fatal_error_events") for one in (warm, control))
    return Row(
        name="split_prefix_hit",
        count=1,
        recorded=_recorded(found),
        checks=(
            compared("text", holds=same, observed="1 request"),
            held("prefix_hit", holds=seen, observed=f"{hits[0]} warm, {hits[1]} control"),
            held("served", holds=served and not fatal, observed=f"{fatal} fatal errors"),
        ),
        recomputed=[
            said("partial_hit_observed", _flag(found, "partial_hit_observed"), _word(holds=seen)),
            said("matches", _flag(found, "matches"), _word(holds=same and seen and served and not fatal)),
        ],
        findings=[Finding(code="text_compared", where="split_prefix_hit")],
    )


def draft_row(found: Members) -> Row:
    """Return what a report of a draft head behind a server says: three ways of answering one request."""
    cases = {name: found.inner(name) for name in ("baseline", "n1", "batched")}
    same = len({_text(one) for one in cases.values()}) == 1
    needed, there = found.flag("batched_events_required") is True, found.flag("batched_events_present") is True
    served = all(one.required("http_status") == _GOOD for one in cases.values())
    events = there or not needed
    return Row(
        name="mtp_ab",
        count=1,
        recorded=_recorded(found),
        checks=(
            compared("text", holds=same, observed="3 requests"),
            held("served", holds=served, observed=_word(holds=served)),
            held("batched", holds=events, observed=f"{_word(holds=there)}, required {_word(holds=needed)}"),
        ),
        recomputed=[
            said("exact_content_match", _flag(found, "exact_content_match"), _word(holds=same)),
            implied("matches", found, holds=same and events),
        ],
        findings=[Finding(code="text_compared", where="mtp_ab")],
        values=_values(found, "max_tokens"),
    )


def remote_row(found: Members) -> Row:
    """Return what a report of a state handed to another machine says; its digest is compared with no other one."""
    source, restored = _tokens(found, "source_tokens"), _tokens(found, "restored_tokens")
    same, baseline = source == restored, found.flag("baseline_matches")
    checks = [compared("tokens", holds=same, observed=f"{len(restored)} of {len(source)} tokens")]
    if baseline is None:
        checks.append(Check(id="baseline", axis="exactness", outcome="inconclusive", reason="baseline_not_compared"))
    else:
        checks.append(held("baseline", holds=baseline, observed=_word(holds=baseline), axis="exactness"))
    if found.has("ttft_local_ms"):
        checks.append(
            Check(
                id="first_token", axis="latency", outcome="inconclusive", reason="one_sample", observed="1 of 10 pairs"
            )
        )
    parts = _parts_of_first_token(found)
    return Row(
        name="remote_handoff",
        count=1,
        recorded=_recorded(found),
        checks=checks,
        recomputed=[
            said("tokens_match", _flag(found, "tokens_match"), _word(holds=same)),
            said("matches", _flag(found, "matches"), _word(holds=same and baseline is not False)),
            *_times(found, parts),
        ],
        findings=[
            Finding(code="digest_not_compared", where="remote_handoff"),
            *([Finding(code="two_clocks_added", where="remote_handoff")] if parts else []),
        ],
        values=_values(found, "state_bytes", "prompt_token_count", "decode_token_count", "kv_bytes", "recurrent_bytes"),
    )


def compared(name: str, *, holds: bool, observed: str) -> Check:
    """Return a comparison of tokens or text: unequal is a fail, equal shows no state."""
    outcome, reason = ("inconclusive", "state_not_compared") if holds else ("fail", "does_not_match")
    return Check(id=name, axis="exactness", outcome=outcome, reason=reason, observed=observed)


def held(name: str, *, holds: bool, observed: str, axis: str = "robustness") -> Check:
    """Return a condition that holds or does not."""
    outcome, reason = ("pass", "") if holds else ("fail", f"{name}_broken")
    return Check(id=name, axis=axis, outcome=outcome, reason=reason, observed=observed)


def said(name: str, recorded: str, computed: str) -> Recomputed:
    """Return a word or a count made again."""
    return Recomputed(name=name, recorded=recorded[:80], computed=computed[:80], holds=recorded == computed)


def implied(name: str, found: Members, *, holds: bool) -> Recomputed:
    """Return a verdict that may have more parts than are known: it cannot be true where a known one does not hold."""
    recorded = _flag(found, name)
    return said(name, recorded, recorded if holds else "false")


def _verdict(found: Members, *, holds: bool) -> Recomputed:
    """``matches`` is that of the tokens, unless a draft was required as well."""
    if found.flag("native_mtp_draft_required"):
        return implied("matches", found, holds=holds)
    return said("matches", _flag(found, "matches"), _word(holds=holds))


def _same_token(first: Members, second: Members) -> bool:
    names = [name for name in ("predicted_token", "second_predicted_token") if first.has(name) and second.has(name)]
    if "predicted_token" not in names:
        raise InvalidDocumentError("has no two tokens to compare", where=f"{second.at}.predicted_token")
    return all(first.number(name) == second.number(name) for name in names)


def _inputs(first: Members, second: Members) -> Iterator[Recomputed]:
    """Both arms were given the same token."""
    if first.has("token_id") and second.has("token_id"):
        yield said("token_id", str(second.number("token_id")), str(first.number("token_id")))


def _narrowed(found: Members, name: str) -> Iterator[Finding]:
    wire = found.text("wire_dtype", _WIDE)
    if wire != _WIDE:
        yield Finding(code="wire_narrowed", where=name, detail={"wire": wire[:32]})


def _parts_of_first_token(found: Members) -> Sequence[int]:
    """Times whose sum is called the first token; those of a stream where it has a wall of its own. Empty: not known."""
    receiver = found.inner("receiver")
    if found.has("overlap_wall_ms"):
        parts = [found.ns("overlap_wall_ms"), receiver.ns("attach_residual_ms"), receiver.ns("first_decode_ms")]
    else:
        names = ("source_prefill_ms", "state_export_ms", "transfer_ms")
        parts = [
            *(found.ns(name) for name in names), receiver.ns("kv_attach_ms"), receiver.ns("first_decode_ms")
        ]  # fmt: skip
    known = [one for one in parts if one is not None]
    return known if len(known) == len(parts) else ()


def _times(found: Members, parts: Sequence[int]) -> Iterator[Recomputed]:
    whole = found.ns("ttft_disaggregated_ms")
    if parts and whole is not None:
        holds = abs(whole - sum(parts)) <= _NOISE_NS
        yield Recomputed(name="ttft_disaggregated_ns", recorded=str(whole), computed=str(sum(parts)), holds=holds)
    speedup, local, apart = (
        found.number(name) for name in ("ttft_speedup", "ttft_local_ms", "ttft_disaggregated_ms")
    )  # fmt: skip
    if speedup is not None and local is not None and apart:
        yield ratio_row("ttft_speedup", speedup, local, apart)
    share, tokens = found.number("state_bytes_per_prompt_token"), found.whole("prompt_token_count")
    held_bytes = found.whole("state_bytes")
    if share is not None and tokens and held_bytes is not None:
        yield ratio_row("state_bytes_per_prompt_token", share, held_bytes, tokens)


def _tokens(found: Members, name: str) -> Sequence[int]:
    value = found.value.get(name)
    if not isinstance(value, list) or not value or not all(type(one) is int for one in value):
        raise InvalidDocumentError("found no list of tokens", where=f"{found.at}.{name}")
    return value


def _text(found: Members) -> str:
    value = found.value.get("content")
    if not isinstance(value, str):
        raise InvalidDocumentError("found no text", where=f"{found.at}.content")
    return value


def _recorded(found: Members) -> str:
    flag: Mapping[bool | None, str] = {True: "pass", False: "stop", None: "not_said"}
    return flag[found.flag("matches")]


def _flag(found: Members, name: str) -> str:
    flag = found.flag(name)
    return "not_said" if flag is None else _word(holds=flag)


def _word(*, holds: bool) -> str:
    return "true" if holds else "false"


def _values(found: Members, *names: str) -> dict[str, int]:
    return {name: value for name in names if (value := found.whole(name)) is not None}
