"""CG403: a percentile has enough samples."""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import ExitCode
from harness.gating.rule import Body, Problem, Problems, Rule, Subject

LEAST = {"p95": 59, "p99": 299}
"""Samples from which on the largest of them bounds the percentile with 95 %, one-sided."""


def check(subject: Subject) -> Problems:
    """A verdict on the 95th or 99th percentile names as many samples as it takes."""
    for at, said in _on_percentiles(subject.body):
        name = next((name for name in LEAST if name in str(said["id"]).lower().replace("-", "_").split("_")), "")
        if not name or said["outcome"] not in ("pass", "fail"):
            continue
        first = str(said["observed"]).split(" ")[0].split("/")[0]
        count = int(first) if first.isascii() and first.isdigit() else 0
        if count < LEAST[name]:
            yield Problem(at, f"is a {said['outcome']} about {name} from {count} samples; wanted are {LEAST[name]}")


def _on_percentiles(body: Body) -> Iterator[tuple[str, Body]]:
    """Checks of cells, and of the rows of a foreign record, whose ids could name a percentile."""
    for member in ("cells", "results"):
        for number, row in enumerate(body.get(member, ())):
            for place, one in enumerate(row.get("checks", ())):
                if "p9" in one["id"] or "P9" in one["id"]:
                    yield f"/body/{member}/{number}/checks/{place}", one


RULE = Rule(
    id="CG403",
    text="A verdict on a percentile has the samples that it takes: 59 for the 95th, 299 for the 99th.",
    pain="The 99th percentile of 64 steps is one step, and often the first one, with all that warms up.",
    hint="say the median of pairs instead, or take more samples",
    failing=("percentile_of_few",),
    passing="valid_timed",
    exit_code=ExitCode.FINDINGS,
    certificate=check,
)
