"""Counts of a soak: against each other, and against the turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import Any

from harness.gating.campaigns.decision import hold, hold_counts, untrusted
from harness.gating.rule import Body, Problem, Problems


def in_body(body: Body) -> Problems:
    """Hold the counts of a body against its procedure and its decision."""
    row, asked = body["results"][0], body["procedure"]
    for name, wanted in (
        ("count", asked["turns"]),
        ("allowance_kib", asked["allowance_kib"]),
        ("budget_bytes", asked["budget_bytes"]),
        ("leak_turns", asked["leak_turns"]),
        ("rss_growth_kib", row["rss_last_kib"] - row["rss_first_kib"]),
    ):
        if row[name] != wanted:
            yield Problem(f"/body/results/0/{name}", f"says {row[name]}; expected is {wanted}")
    if (row["held_most_bytes"] > row["budget_bytes"]) != bool(row["over_budget"]):
        yield Problem("/body/results/0/over_budget", "is not what the most bytes held say")
    nothing = {
        "not_repeatable": row["repeats_differing"] > 0,
        "leak_not_seen": row["leak_growth_kib"] <= row["allowance_kib"],
        "budget_never_reached": row["evictions"] == 0,
        "states_do_not_differ": row["states"] != row["prompts"],
        "nothing_restored": row["cached"] == 0,
        "digests_not_trusted": untrusted(body),
    }
    wrong = {
        "memory_grew": row["rss_growth_kib"] > row["allowance_kib"],
        "over_budget": row["over_budget"] > 0,
        "differs": row["differing"] > 0,
    }
    yield from hold(body, nothing=nothing, wrong=wrong)


def in_records(body: Body, records: Sequence[Mapping[str, Any]]) -> Problems:
    """Count the turns again."""
    asked = body["procedure"]
    turns = [one for one in records if one["type"] == "turn"]
    leaks = [one["rss_kib"] for one in records if one["type"] == "leak"]
    if len(turns) != asked["turns"] or not leaks:
        yield Problem("/body/results/0/count", f"says {body['results'][0]['count']}; the records show {len(turns)}")
        return
    memory, end = [one["rss_kib"] for one in turns], asked["warmup"] + asked["window"]
    last = median_low(memory[len(memory) - asked["window"] :])
    held = [step for one in turns for step in one["held"]]
    by_number = {one["number"]: one for one in turns}
    again = [one for one in records if one["type"] == "cold"]
    unlike = {one["number"] for one in again if any(one[k] != by_number[one["number"]][k] for k in ("parts", "output"))}
    counted = {
        "rss_first_kib": median_low(memory[asked["warmup"] : end]),
        "rss_last_kib": last,
        "rss_most_kib": max(memory),
        "steps": len(held),
        "held_most_bytes": max(held),
        "over_budget": len([step for step in held if step > asked["budget_bytes"]]),
        "evictions": max(one["evictions"] for one in turns),
        "cached": len([one for one in turns if one["cached"]]),
        "compared": len({one["number"] for one in again}),
        "differing": len(unlike),
        "prompts": len({one["digest"] for one in turns}),
        "states": len({one["parts"] for one in turns}),
        "leak_turns": len(leaks),
        "leak_growth_kib": median_low(leaks[len(leaks) // 2 :]) - last,
    }
    yield from hold_counts("/body/results/0", body["results"][0], counted)
