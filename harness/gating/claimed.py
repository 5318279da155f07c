"""Sentences of a text that say something and cite nothing, and certificates that say the opposite."""

from __future__ import annotations

from collections.abc import Iterator

from harness.deriving.prose import DEVICE, PAIR, Prose, Sentence, claims_something, verdict_of
from harness.gating.known import CertificateFacts
from harness.gating.prose import Row, rows
from harness.gating.rule import FolderFacts, Problem, Problems

_SHOWN = 80
_BACKENDS = {"hip": "rocm", "mps": "metal"}
_FEW = 400
"""Certificates whose rows are looked through for a sentence without a citation."""


def uncited(facts: FolderFacts, prose: Prose) -> Problems:
    """A sentence about a pair of types or a device that gives a verdict or a number cites a certificate.

    Where a current certificate of that device has the pair and says the opposite, that is an error wherever it stands;
    otherwise it is one only under a heading about qualification, and elsewhere a note.
    """
    for sentence in prose.sentences:
        if sentence.cited or not claims_something(sentence):
            continue
        shown = " ".join(sentence.text.split())[:_SHOWN]
        contradictions = list(_contradictions(facts, sentence))
        for one, row in contradictions[:1]:
            said = f"{one.id[:12]} says {row.outcome} of {row.name}"
            yield Problem(f"#L{sentence.line}", f"says {shown!r}; certificate {said}", "error")
        if not contradictions:
            severity = "error" if sentence.strict else "warning"
            yield Problem(f"#L{sentence.line}", f"says {shown!r} and cites no certificate", severity)


def _contradictions(facts: FolderFacts, sentence: Sentence) -> Iterator[tuple[CertificateFacts, Row]]:
    pair, said = PAIR.search(sentence.text), verdict_of(sentence.text)
    device = DEVICE.search(sentence.text)
    if pair is None or not said:
        return
    backend = device[0].lower() if device is not None else ""
    backend = _BACKENDS.get(backend, backend)
    wanted = (pair["k"].lower(), pair["v"].lower())
    held = [one for one in facts.certificates if one.state == "current" and _on(one, backend)]
    for one in held[:_FEW]:
        for row in rows(facts.body(one.id)):
            if _types(row) == wanted and row.outcome in _OPPOSITE[said]:
                yield one, row


_OPPOSITE = {"pass": ("fail", "error", "inconclusive"), "stop": ("pass",)}


def _on(one: CertificateFacts, backend: str) -> bool:
    return not backend or backend in one.claim_key.split("/")[2]


def _types(row: Row) -> tuple[str, str]:
    """The pair of a row: by its coordinates, or by its name."""
    coords = row.coords
    k, v = coords.get("k", coords.get("k_type")), coords.get("v", coords.get("v_type"))
    if k is not None and v is not None:
        return str(k).lower(), str(v).lower()
    found = PAIR.search(row.name)
    return (found["k"].lower(), found["v"].lower()) if found is not None else ("", "")
