"""CG203: no run is counted twice."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

from harness.errors import InvalidDocumentError
from harness.gating.folder import READABLE, read
from harness.gating.rule import FolderFacts, Problem, Problems, Rule


def check(facts: FolderFacts) -> Problems:
    """Equal run ids, evidence digests or observations: one run, shown as two."""
    yield from _twice([(one.run_id, one.path) for one in facts.certificates], "has the run id of")
    yield from _twice([(one.evidence, one.path) for one in facts.certificates], "rests on the same evidence as")
    yield from _twice(list(_observed(facts)), "has the observations, to the nanosecond, of")


def _observed(facts: FolderFacts) -> Iterator[tuple[str, str]]:
    """Digest what was observed, without the header and the end, of runs that share a scenario; else nothing is equal.

    Campaigns take no times: run again on the same bytes, an honest one makes the same lines.
    """
    runs = [(one.claim_key.partition("/")[0], one) for one in facts.certificates if one.claim_key[:1].isupper()]
    counts = Counter(scenario for scenario, _ in runs)
    seen: set[str] = set()
    for scenario, one in runs:
        entry = facts.folder.find(f"evidence/{one.evidence}.jsonl")
        if counts[scenario] < 2 or entry is None or entry.form not in READABLE or one.evidence in seen:
            continue
        seen.add(one.evidence)
        try:
            data = read(entry)
        except InvalidDocumentError:
            continue
        first, last = data.find(b"\n") + 1, data.rfind(b"\n", 0, -1) + 1
        if 0 < first < last:
            yield hashlib.sha256(data[first:last]).hexdigest(), one.path


def _twice(pairs: Sequence[tuple[str, str]], message: str) -> Problems:
    seen: dict[str, str] = {}
    for value, path in pairs:
        first = seen.setdefault(value, path)
        if first != path:
            yield Problem(path, f"{message} {first}")


RULE = Rule(
    id="CG203",
    text="No two certificates have the same run id, evidence or observations.",
    pain="One run, issued twice, corroborates itself; an old run is replayed as a new one.",
    hint="remove the copy; a new certificate needs a new run",
    failing=(
        "same_run_twice",
        "same_evidence_twice",
        "same_observations_twice",
        "campaign_twice",
    ),
    folder=check,
)
