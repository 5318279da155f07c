"""CG203: no run is counted twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.errors import InvalidDocumentError
from harness.gating.folder import READABLE, read
from harness.gating.known import repeated
from harness.gating.rule import FolderFacts, Problem, Problems, Rule
from harness.wire.sha256 import sha256


def check(facts: FolderFacts) -> Problems:
    """Equal run ids, evidence digests or observations: one run, shown as two."""
    held = facts.certificates
    if marks := repeated(held.runs()):
        pairs = [(run, held[place].path) for place, run in enumerate(held.runs()) if hash(run) in marks]
        yield from _twice(pairs, "has the run id of")
    if marks := repeated(held.evidence()):
        pairs = [(digest, held[place].path) for place, digest in enumerate(held.evidence()) if hash(digest) in marks]
        yield from _twice(pairs, "rests on the same evidence as")
    yield from _twice(list(_observed(facts)), "has the observations, to the nanosecond, of")


def _observed(facts: FolderFacts) -> Iterator[tuple[bytes, str]]:
    """Digest what was observed, without the header and the end, of runs that share a scenario; else nothing is equal.

    Campaigns take no times: run again on the same bytes, an honest one makes the same lines.
    """
    held = facts.certificates
    counts = Counter(claim_key.partition("/")[0] for claim_key in held.claim_keys())
    seen: set[bytes] = set()
    for place, (claim_key, evidence) in enumerate(zip(held.claim_keys(), held.evidence(), strict=True)):
        scenario = claim_key.partition("/")[0]
        if not scenario[:1].isupper() or counts[scenario] < 2 or evidence in seen:
            continue
        entry = facts.folder.find(f"evidence/{evidence.hex()}.jsonl")
        if entry is None or entry.form not in READABLE:
            continue
        seen.add(evidence)
        try:
            data = read(entry)
        except InvalidDocumentError:
            continue
        first, last = data.find(b"\n") + 1, data.rfind(b"\n", 0, -1) + 1
        if 0 < first < last:
            yield sha256(data[first:last]).digest(), held[place].path


def _twice(pairs: Sequence[tuple[bytes, str]], message: str) -> Problems:
    seen: dict[bytes, str] = {}
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
