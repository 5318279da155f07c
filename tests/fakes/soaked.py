"""A valid soak and a valid campaign of kills in memory, and the same with one thing changed. No engine runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.deriving.kill import CLOSE, EVICT, control_seed, plan_shot, shot_ids
from harness.deriving.prompts import prompt_digest
from harness.deriving.soak import is_compared, plan_turns, turn_ids
from harness.model.noun import replace
from harness.wire.records import record_to_mapping
from tests.fakes.campaign import TRUST, Flown, Line, digest, header_line

SOAK_PROCEDURE: Mapping[str, Any] = {
    "seed": 1,
    "turns": 20,
    "warmup": 4,
    "window": 4,
    "allowance_kib": 100,
    "conversations": 3,
    "grows_least": 2,
    "grows_most": 9,
    "longest": 30,
    "decode": 2,
    "chunk": 4,
    "budget_bytes": 1000,
    "compare_every": 5,
    "leak_turns": 6,
}
KILL_PROCEDURE: Mapping[str, Any] = {
    "seed": 1,
    "kills": 6,
    "lanes": 2,
    "ways": [EVICT, CLOSE],
    "chunk": 4,
    "links": 2,
    "suffix": 3,
    "decode": 2,
    "latest": 1600,
    "controls": 1,
}


def soaked(*, run: int = 1, day: int = 1) -> Flown:
    """A soak in which memory stays, the budget holds and every repeat is the same."""
    lines: list[Line] = [header_line("soak", SOAK_PROCEDURE, run=run, day=day)]
    for turn in plan_turns(SOAK_PROCEDURE):
        text = prompt_digest(turn_ids(turn))
        seen = {"parts": digest(f"parts{text}"), "output": digest(f"out{text}")}
        lines.append(
            {
                "type": "turn",
                "number": turn.number,
                "conversation": turn.conversation,
                "tokens": turn.tokens,
                "digest": text,
                "cached": turn.tokens // 2,
                "held": [500, 1000],
                "entries": 3,
                "evictions": turn.number,
                "rss_kib": 5000 + turn.number % 3,
                **seen,
            }
        )
        if is_compared(SOAK_PROCEDURE, turn.number):
            reps = range(2 if turn.number == 0 else 1)
            lines += [{"type": "cold", "number": turn.number, "rep": rep, **seen} for rep in reps]
    lines += [{"type": "leak", "number": number, "rss_kib": 6000 + number} for number in range(6)]
    lines.append(record_to_mapping(TRUST))
    return Flown(lines=lines)


def killed(*, run: int = 2, day: int = 1) -> Flown:
    """Kills after which everything that was published is restored, and nothing else."""
    procedure = KILL_PROCEDURE
    lines: list[Line] = [header_line("kill", procedure, run=run, day=day)]
    lines += [
        {"type": "pace", "lane": lane, "way": way, "publish_us": 1000} for lane in (0, 1) for way in (EVICT, CLOSE)
    ]
    for number in range(6):
        shot = plan_shot(procedure, number)
        text = _text(shot.seed)
        answered = number == 5
        line: Line = {
            "type": "kill",
            "number": number,
            "digest": text,
            "first_cached": 0,
            "roots": [digest(f"{text}{depth}") for depth in (1, 2)],
            "end": digest(f"end{text}"),
            "output": digest(f"out{text}"),
            "delay_us": shot.after,
            "answered": answered,
            "published": 2 if answered else 0,
            "files_before": 1,
            "files_after": 1 + number,
            "reopened": True,
            "unfinished": number % 2,
            "put_aside": 0,
            "again": _asked(text, 2 if answered else number % 3),
        }
        if shot.earlier >= 0:
            line["earlier"] = _asked(_text(plan_shot(procedure, shot.earlier).seed), 1)
        lines.append(line)
    lines += [_control(lane) for lane in (0, 1)]
    # each kill ends a child, and each lane has one more
    children = [TRUST] * 2 + [replace(TRUST, child=number) for number in (2, 2, 3, 3, 4, 4)]
    lines += [record_to_mapping(one) for one in children]
    return Flown(lines=lines)


def _text(seed: int) -> str:
    return prompt_digest(shot_ids(KILL_PROCEDURE, seed))


def _asked(text: str, depth: int) -> Line:
    restored = {"restored": digest(f"{text}{depth}")} if depth else {}
    return {
        "cached": depth * 4,
        "disk_bytes": depth * 10,
        **restored,
        "end": digest(f"end{text}"),
        "output": digest(f"out{text}"),
    }


def _control(lane: int) -> Line:
    text = _text(control_seed(KILL_PROCEDURE, lane, 0))
    whole = {"boundary": 8, "cached": 8, "root": digest(f"{text}2"), "restored": digest("flipped")}
    return {"type": "planted", "lane": lane, "number": 0, "part": "layer0.k", "digest": text, **whole}
