"""Sentences of a text that say something and cite nothing, and certificates that say the opposite."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.deriving.prose import DEVICE, PAIR, Prose, Sentence, claims_something, tells, verdict_of
from harness.gating.known import CertificateFacts
from harness.gating.prose import Row, cited, rows
from harness.gating.rule import FolderFacts, Problem, Problems

_SHOWN = 80
_BACKENDS = {"hip": "rocm", "mps": "metal"}
_CHIPS = (
    ("cuda", re.compile(r"sm_|h100|h200|a100")),
    ("rocm", re.compile(r"gfx|mi300")),
    ("metal", re.compile("apple")),
)
"""What a chip is driven by."""
_FEW = 400
"""Certificates whose rows are looked through for a sentence without a citation."""


def uncited(facts: FolderFacts, prose: Prose) -> Problems:
    """A sentence about a pair of types or a device that gives a verdict or a number cites a certificate.

    Where a current certificate of that device has the pair and says the opposite, that is an error wherever it stands;
    otherwise it is one only under a heading about qualification, and elsewhere a note. Where it does cite one, that has
    the pair and is of the device.
    """
    for sentence in prose.sentences:
        if sentence.cited:
            if fault := _elsewhere(facts, sentence):
                yield Problem(f"#L{sentence.line}", fault, "error" if sentence.strict else "warning")
            continue
        if not claims_something(sentence):
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
    backend = _backend(device[0]) if device is not None else ""
    wanted = (pair["k"].lower(), pair["v"].lower())
    held = [one for one in facts.certificates if one.state == "current" and _on(one, backend)]
    for one in held[:_FEW]:
        for row in rows(facts.body(one.id)):
            if _types(row) == wanted and row.outcome in _OPPOSITE[said]:
                yield one, row


_OPPOSITE = {"pass": ("fail", "error", "inconclusive"), "stop": ("pass",)}


def _elsewhere(facts: FolderFacts, sentence: Sentence) -> str:
    """Say which device or pair a sentence speaks of and none of its certificates; empty: each has its own."""
    if not tells(sentence.whole):
        return ""
    known = [one for citation in sentence.citations for one in cited(facts, citation)]
    for device in DEVICE.finditer(sentence.whole):
        if known and not any(_on(one, _backend(device[0])) for one in known):
            return f"speaks of {device[0]} and cites {known[0].claim_key}"
    for pair in PAIR.finditer(sentence.whole):
        wanted = (pair["k"].lower(), pair["v"].lower())
        if known and not any(wanted in _pairs(facts.body(one.id)) for one in known):
            return f"speaks of {pair[0]} and cites {known[0].claim_key}, which has no such pair"
    return ""


def _pairs(body: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Every pair that a certificate has a row of, or ran with as a whole."""
    identity = body["subject"].get("identity", {})
    both = identity.get("kv_type", "")
    whole = (str(identity.get("k_type", both)).lower(), str(identity.get("v_type", both)).lower())
    listed = [(str(one.get("k", "")), str(one.get("v", ""))) for one in body.get("results", ())]
    return {whole, *((k.lower(), v.lower()) for k, v in listed), *(_types(row) for row in rows(body))}


def _backend(device: str) -> str:
    name = device.lower()
    return next((own for own, chips in _CHIPS if chips.match(name)), _BACKENDS.get(name, name))


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
