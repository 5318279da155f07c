"""CG203: no run is counted twice."""

from __future__ import annotations

from harness.gating.rule import FolderFacts, Problem, Problems, Rule


def check(facts: FolderFacts) -> Problems:
    """Equal run ids or evidence digests: one run, shown as two."""
    runs: dict[str, str] = {}
    blobs: dict[str, str] = {}
    for one in facts.certificates:
        first = runs.setdefault(one.run_id, one.path)
        if first != one.path:
            yield Problem(one.path, f"has the run id {one.run_id} of {first}")
        first = blobs.setdefault(one.evidence, one.path)
        if first != one.path:
            yield Problem(one.path, f"rests on the same evidence as {first}")


RULE = Rule(
    id="CG203",
    text="No two certificates have the same run id or the same evidence.",
    pain="One run, issued twice, corroborates itself; an old run is replayed as a new one.",
    hint="remove the copy; a new certificate needs a new run",
    failing=(
        "same_run_twice",
        "same_evidence_twice",
    ),
    folder=check,
)
