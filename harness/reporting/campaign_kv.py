"""What a report says of the matrix of element types: read from its certificate, nothing decided."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from harness.model.certificate import Certificate
from harness.reporting.claimable import subject
from harness.reporting.reading import integer, items, mapping, text, texts
from harness.reporting.reasons import reason_sentence
from harness.reporting.told import Told
from harness.reporting.units import counted, number
from harness.reporting.view import Fact, Head, Problem, Section, Sheet

COLUMNS: Final = {
    "name": "cell",
    "class": "class",
    "outcome": "outcome",
    "exact_bytes": "exact bytes",
    "lossy_bytes": "lossy bytes",
    "size_ppm": "size, ppm",
    "exact_restore_ns": "exact restore, ns",
    "lossy_restore_ns": "lossy restore, ns",
    "restore_ppm": "restore, ppm",
    "import_ppm": "import, ppm",
    "total_ppm": "total, ppm",
    "lossy_overlap_ns": "overlap, ns",
    "lossy_host_kib": "host, KiB",
    "agreed": "agreed",
    "steps": "steps",
    "agreement_low_ppm": "at least, ppm",
    "first_mismatch": "first mismatch",
}
"""Columns of a cell in tables; all figures of lossy rows say that they are."""


def kv(certificate: Certificate) -> Told:
    """Return all that is particular to a matrix of element types."""
    body = certificate.body
    problems = _problems(body)
    return Told(
        title="Matrix of K/V element types",
        sentence=f"{_sentence(body)}.",
        claims=[],
        no_claims=[
            "No quality: weights come from a seed, and agreement of such a model says nothing of another one.",
            "No percentile but the median.",
            "No exactness of any lossy row: lossy and exact are classes of their own.",
            "No other model, engine version or class of hardware.",
        ],
        problems=problems,
        problems_note="" if problems else "Every cell lies within its limits.",
        sections=[
            Section(
                title="What was measured",
                facts=[
                    Fact(name="Processes", value=text(body, "procedure", "processes")),
                    Fact(name="Rounds of each", value=text(body, "procedure", "rounds")),
                    Fact(name="Codec path", value=text(body, "procedure", "path")),
                    Fact(name="Quality", value=text(body, "quality")),
                ],
            ),
            Section(title="Entries of the catalogue", sheet=_entries(body)),
            Section(title="Cells: lossy beside exact", sheet=_cells(body)),
            Section(title="Excluded types", sheet=_excluded(body)),
        ],
        command=_command(body),
        count=f"{number(_within(body))}/{number(len(items(body, 'results')))} cells within limits",
        headline=problems[0].reason if problems else f"{_sentence(body)}.",
    )


def _sentence(body: Mapping[str, object]) -> str:
    cells = items(body, "results")
    good = sum(text(row, "outcome") == "pass" for row in items(body, "entries"))
    return (
        f"{subject(body)}: {number(_within(body))} of {counted(len(cells), 'cell')} of lossy pages within all limits; "
        f"{good} of {len(items(body, 'entries'))} entries hold"
    )


def _command(body: Mapping[str, object]) -> str:
    words = ["statecert", "kv"]
    words += [word for name in ("scale", "processes", "rounds", "steps", "path") for word in _option(body, name)]
    asked = mapping(body, "procedure")
    words += [word for one in texts(asked, "coded") for word in ("--type", one)]
    words += [word for one in sorted(mapping(asked, "models")) for word in ("--model", one)]
    return shlex.join(words)


def _option(body: Mapping[str, object], name: str) -> list[str]:
    return [f"--{name}", text(body, "procedure", name)]


def _within(body: Mapping[str, object]) -> int:
    return sum(text(row, "outcome") == "pass" for row in items(body, "results"))


def _cells(body: Mapping[str, object]) -> Sheet:
    heads = [Head(text=words, right=name not in ("name", "class", "outcome")) for name, words in COLUMNS.items()]
    return Sheet(heads=heads, rows=[[text(row, name) for name in COLUMNS] for row in items(body, "results")])


def _entries(body: Mapping[str, object]) -> Sheet:
    heads = [Head(text=words) for words in ("entry", "outcome", "asked", "did not hold")]
    rows = [
        [text(row, "entry"), text(row, "outcome"), number(integer(row, "asked")), "; ".join(texts(row, "failed"))]
        for row in items(body, "entries")
    ]
    return Sheet(heads=heads, rows=rows)


def _excluded(body: Mapping[str, object]) -> Sheet:
    heads = [Head(text=words) for words in ("type", "cells", "refused with")]
    rows = [[text(row, "types"), number(integer(row, "cells")), text(row, "reason")] for row in items(body, "excluded")]
    return Sheet(heads=heads, rows=rows)


def _problems(body: Mapping[str, object]) -> list[Problem]:
    found = [
        _problem(text(row, "entry"), text(row, "outcome"), "; ".join(texts(row, "failed")) or "missing", "entry_failed")
        for row in items(body, "entries")
        if text(row, "outcome") != "pass"
    ]
    for row in items(body, "results"):
        if text(row, "outcome") != "pass":
            reasons = texts(row, "reasons")
            found.append(_problem(text(row, "name"), text(row, "outcome"), ", ".join(reasons), reasons[0]))
    return found


def _problem(cell: str, state: str, observed: str, reason: str) -> Problem:
    return Problem(
        cell=cell,
        state="fail" if state == "stop" else state,
        check="",
        code="",
        observed=observed,
        limit="within all limits",
        reason=reason_sentence(reason),
        place="",
    )
