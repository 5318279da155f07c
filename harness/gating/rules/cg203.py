"""CG203: no run is counted twice."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

from harness.errors import InvalidDocumentError
from harness.gating.folder import READABLE, read
from harness.gating.known import repeated
from harness.gating.rule import FolderFacts, Problem, Problems, Rule


def check(facts: FolderFacts) -> Problems:
    """Equal run ids, evidence digests or observations: one run, shown as two."""
    held = facts.certificates
    if marks := repeated(one.run_id for one in held):
        yield from _twice([(one.run_id, one.path) for one in held if hash(one.run_id) in marks], "has the run id of")
    if marks := repeated(one.evidence for one in held):
        pairs = [(one.evidence, one.path) for one in held if hash(one.evidence) in marks]
        yield from _twice(pairs, "rests on the same evidence as")
    yield from _twice(list(_observed(facts)), "has the observations, to the nanosecond, of")


def _observed(facts: FolderFacts) -> Iterator[tuple[str, str]]:
    """Digest what was observed, without the header and the end, of runs that share a scenario; else nothing is equal.

    Campaigns take no times: run again on the same bytes, an honest one makes the same lines.
    """
    counts = Counter(one.claim_key.partition("/")[0] for one in facts.certificates)
    seen: set[str] = set()
    for one in facts.certificates:
        scenario = one.claim_key.partition("/")[0]
        if not scenario[:1].isupper():
            continue
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
