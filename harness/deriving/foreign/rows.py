"""Rows of records that are no pairs of element types: a state handed over, a prompt that grows."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from harness.deriving.foreign.arithmetic import equal_ratio, ratio_row
from harness.deriving.foreign.nouns import Check, Finding, Recomputed, Row
from harness.deriving.foreign.reading import Members
from harness.errors import InvalidDocumentError

PARTS_OF_MATCHES: Final = (
    "predicted_token_matches",
    "restored_output_matches",
    "suffix_prefill_matches",
    "cache_hit_matches",
)
"""What ``matches`` is made of, with the gate; absent ones do not count. The round trip is not among them."""
MOST_AMPLIFICATION: Final = Decimal("1.2")
"""Bytes written per byte that a grown prompt adds."""


def handoff_row(found: Members, gate: Members | None) -> Row:
    """Return what a report of a handoff says: its verdict made again of its parts, and the part that it leaves out."""
    parts = [flag for name in PARTS_OF_MATCHES if (flag := found.flag(name)) is not None]
    parts += [gate.flag("passed") is True] if gate is not None else []
    recorded, computed = found.flag("matches"), all(parts)
    trip = found.flag("roundtrip_state_matches")
    resident = found.text("state_payload_kind") == "resident-kv"
    findings = []
    if trip is False and recorded:
        findings.append(Finding(code="round_trip_left_out", where="handoff"))
    if resident and trip is not None:
        findings.append(Finding(code="round_trip_constant", where="handoff"))
    if found.text("mode") and found.value.get("include_output") is False and not found.has("restored_output_matches"):
        findings.append(Finding(code="output_not_compared", where="handoff"))
    recomputed = [_said("matches", str(recorded).lower(), str(computed).lower())]
    speedup = found.number("cache_hit_speedup")
    times = found.number("recompute_total_ms"), found.number("cache_hit_total_ms")
    if speedup is not None and times[0] is not None and times[1]:
        recomputed.append(ratio_row("cache_hit_speedup", speedup, times[0], times[1]))
    outcome = "fail" if not computed or trip is False else "inconclusive" if resident or trip is None else "pass"
    reason = {"pass": "", "fail": "does_not_match", "inconclusive": "round_trip_not_shown"}[outcome]
    return Row(
        name="handoff",
        count=1 + (found.whole("cache_hit_repeats") or 0),
        recorded="pass" if recorded else "stop",
        checks=(Check(id="handoff", axis="exactness", outcome=outcome, reason=reason),),
        recomputed=recomputed,
        findings=findings,
        values={
            name: value
            for name in ("state_bytes", "cache_storage_bytes", "resident_state_bytes", "prompt_token_count")
            if (value := found.whole(name)) is not None
        },
    )


def growth_row(found: Members) -> Row:
    """Return what a report of a growing prompt says: the largest amplification, made again of its turns.

    Raises:
        InvalidDocumentError: It has no turn, or a turn has no amplification.
    """
    turns = found.list("turns")
    most, tier = _of_turns(turns, "amplification"), _of_turns(turns, "tier_amplification")
    if not most:
        raise InvalidDocumentError("found no turn with an amplification", where=f"{found.at}.turns")
    recomputed = [_most("max_amplification", found, most)]
    recomputed += [_most("max_tier_amplification", found, tier)] if found.has("max_tier_amplification") and tier else []
    findings = [
        Finding(code="amplification_of_other_terms", where=f"turn_{index}")
        for index, turn in enumerate(turns)
        if not _is_ratio(turn)
    ]
    accepted = [turn.flag("geometry_accepted") for turn in turns]
    checks = [
        _held("amplification", "footprint", max(*most, *tier) <= MOST_AMPLIFICATION, str(max(*most, *tier))),
        _held("append_only", "exactness", found.flag("append_only") is True, str(found.flag("append_only")).lower()),
        _held("geometry", "exactness", False not in accepted, f"{accepted.count(True)} of {len(turns)}"),
    ]
    return Row(
        name="growth", count=len(turns), recorded="not_said", checks=checks, recomputed=recomputed, findings=findings
    )


def _of_turns(turns: Sequence[Members], name: str) -> list[Decimal]:
    return [value for turn in turns if (value := turn.number(name)) is not None]


def _is_ratio(turn: Members) -> bool:
    said, bytes_, ideal = (turn.number(name) for name in ("amplification", "physical_bytes", "ideal_bytes"))
    return said is None or bytes_ is None or not ideal or equal_ratio(said, bytes_, ideal)


def _most(name: str, found: Members, values: Sequence[Decimal]) -> Recomputed:
    said = found.number(name)
    return _said(name, str(said), str(max(values)))


def _said(name: str, recorded: str, computed: str) -> Recomputed:
    return Recomputed(name=name, recorded=recorded, computed=computed, holds=recorded == computed)


def _held(name: str, axis: str, holds: bool, observed: str) -> Check:  # noqa: FBT001 - the one thing that it is about
    limit = str(MOST_AMPLIFICATION) if name == "amplification" else ""
    outcome, reason = ("pass", "") if holds else ("fail", f"{name}_broken")
    return Check(id=name, axis=axis, outcome=outcome, reason=reason, observed=observed, limit=limit)
