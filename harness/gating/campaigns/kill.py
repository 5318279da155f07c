"""Counts of kills: against each other, and against what the next process found after each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.gating.campaigns.decision import hold, hold_counts, untrusted
from harness.gating.rule import Body, Problem, Problems

Record = Mapping[str, Any]


def in_body(body: Body) -> Problems:
    """Hold the counts of a body against its procedure and its decision."""
    row, asked = body["results"][0], body["procedure"]
    depths = ("restored_whole", "restored_partly", "restored_nothing")
    for name, wanted in (
        ("count", asked["kills"]),
        ("controls", asked["controls"] * asked["lanes"]),
        ("reopened", sum(row[depth] for depth in depths)),
    ):
        if row[name] != wanted:
            yield Problem(f"/body/results/0/{name}", f"says {row[name]}; expected is {wanted}")
    for name, most in (("between", "inside"), ("inside", "count"), ("earlier_restored", "earlier_asked")):
        if row[name] > row[most]:
            yield Problem(f"/body/results/0/{name}", f"says {row[name]}; there were {row[most]}")
    nothing = {
        "not_repeatable": row["cold_differs"] > 0,
        "control_not_seen": row["controls_seen"] < row["controls"],
        "no_kill_inside": row["inside"] == 0,
        "nothing_restored": row["restored_whole"] + row["restored_partly"] == 0,
        "digests_not_trusted": untrusted(body),
    }
    wrong = {
        "not_reopened": row["reopened"] < row["count"],
        "torn": row["torn"] > 0,
        "put_aside": row["put_aside"] > 0,
        "lost": row["lost"] > 0,
    }
    yield from hold(body, nothing=nothing, wrong=wrong)


def in_records(body: Body, records: Sequence[Record]) -> Problems:
    """Count the kills again: every state that came back must be one that the killed process, or an earlier one, had."""
    asked = body["procedure"]
    kills = [one for one in records if one["type"] == "kill"]
    known = {one["digest"]: one for one in kills}
    states = {(one["end"], one["output"]): one["digest"] for one in kills}
    opened = [one for one in kills if one["reopened"]]
    depths = [one["again"]["cached"] // asked["chunk"] for one in opened]
    unlike = [(one, turn) for one in opened for turn in _turns(one) if not _is_known(turn, one, known, states, asked)]
    lost = [
        one
        for one, depth in zip(opened, depths, strict=True)
        if one["answered"] and one["published"] >= asked["links"] and depth != asked["links"]
    ]
    controls = [one for one in records if one["type"] == "planted"]
    asked_again = [one["earlier"] for one in opened if "earlier" in one]
    counted = {
        "count": len(kills),
        "inside": len([one for one in kills if not one["answered"]]),
        "between": len([one for one in kills if not one["answered"] and one["files_after"] != one["files_before"]]),
        "reopened": len(opened),
        "unfinished": sum(one["unfinished"] for one in opened),
        "put_aside": sum(one["put_aside"] for one in opened),
        "restored_whole": depths.count(asked["links"]),
        "restored_nothing": depths.count(0),
        "torn": len({one["number"] for one, turn in unlike if turn["cached"]}),
        "cold_differs": len({one["number"] for one, turn in unlike if not turn["cached"]}),
        "lost": len(lost),
        "earlier_asked": len(asked_again),
        "earlier_restored": len([one for one in asked_again if one["cached"]]),
        "controls_seen": len([one for one in controls if _is_seen(one)]),
    }
    yield from hold_counts("/body/results/0", body["results"][0], counted)


def _is_seen(control: Record) -> bool:
    whole = control["cached"] == control["boundary"]
    return "refused" in control or (whole and control.get("restored") != control["root"])


def _turns(kill: Record) -> Iterator[Record]:
    yield kill["again"]
    if "earlier" in kill:
        yield kill["earlier"]


def _is_known(
    turn: Record, kill: Record, known: Mapping[str, Record], states: Mapping[tuple[str, str], str], asked: Record
) -> bool:
    """The end is that of a prompt of this campaign, and the restored state is that prompt's own at that depth."""
    digest = states.get((turn["end"], turn["output"]))
    if digest is None or (turn is kill["again"] and digest != kill["digest"]):
        return False
    depth = turn["cached"] // asked["chunk"]
    return not depth or turn["restored"] == known[digest]["roots"][depth - 1]
