"""What a text cites, held against the certificate: values, counts, and whether it still holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from harness.deriving.prose import VERDICTS, Citation, Prose, Said, counted, numbers, verdicts_of
from harness.gating.known import CertificateFacts
from harness.gating.prose import cited, meant, run_rows
from harness.gating.rule import Body, FolderFacts, Problem, Problems
from harness.gating.rules.cg505 import contested

_KINDS = ("ns", "bytes", "ppm")
_NAMES = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z_][A-Za-z0-9_.-]{0,80}")
"""Names may hold digits, which are no numbers of a text: ``A01``, ``q8_0``."""


def values(facts: FolderFacts, prose: Prose) -> Problems:
    """Each citation finds its certificate, and there the value that its words give, to the last printed digit."""
    for citation in prose.citations:
        found = cited(facts, citation)
        if not found:
            yield Problem(f"#L{citation.line}", f"cites {citation.target}, and there is no such certificate in force")
        for one in found:
            if fault := _fault(citation, facts.body(one.id)):
                yield Problem(f"#L{citation.line}", f"{fault} (certificate {one.id[:12]})")


def _fault(citation: Citation, body: Body) -> str:
    if citation.pointer == "cells":
        return ""  # CG803 counts
    pointers = citation.pointer.split("&")
    values = [meant(body, pointer) for pointer in pointers]
    for pointer, value in zip(pointers, values, strict=True):
        if value is None or isinstance(value, (dict, list, tuple)):
            return f"cites {pointer or 'overall'}, which is no value there"
    if body["kind"] == "foreign" and not citation.of_others:
        return "cites a record that others published, and does not say so"
    texts = [value for value in values if isinstance(value, str)]
    if fault := next((fault for text in texts if (fault := _word(citation, text))), ""):
        return fault
    held = [(at, value) for at, value in zip(pointers, values, strict=True) if isinstance(value, int)]
    return _numbers(_without(citation.text, texts) if texts else citation.text, held)


def _word(citation: Citation, held: str) -> str:
    """Compare a word: of a decision the text says this one and no other, and not its opposite; else it has the word."""
    if held in VERDICTS:
        right = verdicts_of(citation.text) == {"stop" if held == "fail" else held}
    else:
        right = bool(held) and re.search(rf"(?<!\w){re.escape(held)}(?!\w)", citation.text, re.I) is not None
    return "" if right else f"says {citation.text!r}; the certificate says {held}"


def _without(text: str, words: Sequence[str]) -> str:
    """Return a text without the words that it cites, and without names."""
    for word in words:
        text = re.sub(re.escape(word), " ", text, flags=re.I)
    return _NAMES.sub(" ", text)


def _numbers(text: str, held: Sequence[tuple[str, int]]) -> str:
    said = numbers(text)
    if len(said) != len(held):
        return f"says {len(said)} numbers and cites {len(held)}"
    for one, (pointer, value) in zip(said, held, strict=True):
        if not _fits(one, pointer, value):
            return f"says {one.shown}; the certificate has {value} at {pointer}"
    return ""


def _fits(said: Said, pointer: str, value: int) -> bool:
    """A unit must be that of the field; without one the number is the field's."""
    of_field = next((kind for kind in _KINDS if pointer.rpartition("/")[2].endswith(f"_{kind}")), "")
    if said.kind and said.kind != of_field:
        return False
    exact = said.least == said.most
    return (
        said.least == value if exact else said.least < Fraction(value) < said.most or value in (said.least, said.most)
    )


def counts(facts: FolderFacts, prose: Prose) -> Problems:
    """A count that cites cells is that of the certificate: so many passed, of so many that the scenario runs."""
    for citation in prose.citations:
        if citation.pointer != "cells":
            continue
        for one in cited(facts, citation):
            if fault := _count_fault(citation, facts.body(one.id)):
                yield Problem(f"#L{citation.line}", f"{fault} (certificate {one.id[:12]})")


def _count_fault(citation: Citation, body: Body) -> str:
    said = counted(citation.text)
    if said is None:
        return f"cites cells and counts nothing: {citation.text!r}"
    told = run_rows(body)
    passed = sum(one.outcome == "pass" for one in told)
    return "" if said == (passed, len(told)) else f"says {said[0]} of {said[1]}; {passed} of {len(told)} passed"


def standing(facts: FolderFacts, prose: Prose) -> Problems:
    """What does not hold any more is cited in a sentence that says *historical*; what is disputed, *contested*."""
    disputed = contested(facts.certificates) if prose.citations else {}
    for citation in prose.citations:
        for one in cited(facts, citation):
            state = one.state if one.state != "current" else _stale(facts, one)
            if state and not citation.historical:
                yield Problem(
                    f"#L{citation.line}", f"cites {one.id[:12]}, which is {state}, and does not say historical"
                )
            held = disputed.get(one.claim_key, ()) if one.state == "current" and not citation.contested else ()
            if others := [other.id[:12] for other in held if other.overall != one.overall]:
                said = f"cites {one.id[:12]}, which {', '.join(others)} of another machine contradicts"
                yield Problem(f"#L{citation.line}", f"{said}, and does not say contested")


def _stale(facts: FolderFacts, one: CertificateFacts) -> str:
    """Whether its files have changed since; asked only where freshness is."""
    fresh = facts.asked.fresh
    if fresh is None:
        return ""
    body = facts.body(one.id)
    sets = (*body["harness"]["path_sets"], *body["subject"]["path_sets"])
    return "stale" if any(fresh.fault(one, body["subject"]["commit"]) for one in sets) else ""
