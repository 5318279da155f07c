"""CG203: no run is counted twice."""

from __future__ import annotations

from collections.abc import Sequence

from harness.gating.rule import FolderFacts, Problem, Problems, Rule


def check(facts: FolderFacts) -> Problems:
    """Equal run ids or evidence digests: one run, shown as two."""
    yield from _twice([(one.run_id, one.path) for one in facts.certificates], "has the run id of")
    yield from _twice([(one.evidence, one.path) for one in facts.certificates], "rests on the same evidence as")


def _twice(pairs: Sequence[tuple[str, str]], message: str) -> Problems:
    seen: dict[str, str] = {}
    for value, path in pairs:
        first = seen.setdefault(value, path)
        if first != path:
            yield Problem(path, f"{message} {first}")


RULE = Rule(
    id="CG203",
    text="No two certificates have the same run id or the same evidence.",
    pain="One run, issued twice, corroborates itself; an old run is replayed as a new one.",
    hint="remove the copy; a new certificate needs a new run",
    failing=(
        "same_run_twice",
        "same_evidence_twice",
        "campaign_twice",
    ),
    folder=check,
)
