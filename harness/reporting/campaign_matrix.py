"""What a report says of a matrix: counted from its certificate, nothing decided."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from harness.model.certificate import Certificate
from harness.reporting.claimable import is_mutant, subject
from harness.reporting.reading import integer, items, text, texts
from harness.reporting.reasons import reason_sentence
from harness.reporting.told import Told
from harness.reporting.units import counted, number
from harness.reporting.view import Fact, Head, Problem, Section, Sheet

COLUMNS: Final = {
    "name": "kind",
    "mutants": "mutants",
    "stopped_as_named": "stopped as named",
    "count": "pairs",
    "stops": "stops",
    "unsound": "where the clean engine fails",
}


def matrix(certificate: Certificate) -> Told:
    """Return all that is particular to a matrix."""
    body = certificate.body
    problems = _problems(body)
    good = certificate.status.state == "current" and text(body, "decision", "overall") == "pass"
    claim = f"{_sentence(body)} [cert:{certificate.id[:12]}]."
    reasons = [f"Nothing at all: {reason_sentence(one)}" for one in texts(body, "decision", "reasons")]
    return Told(
        title="Matrix of mutants and scenarios",
        sentence=f"{_sentence(body)}.",
        claims=[claim] if good and not is_mutant(body) else [],
        no_claims=[
            *reasons,
            "Nothing about faults of other forms than the planted ones.",
            "Nothing about pairs that did not meet: a scenario that is not listed was not tried.",
            "No other model, engine version or class of hardware.",
        ],
        problems=problems,
        problems_note="" if problems else "Every mutant was stopped by the check that it names.",
        sections=[
            Section(title="What met what", facts=[Fact(name="Reach", value=text(body, "procedure", "reach"))]),
            Section(title="By kind of fault", sheet=_kinds(body)),
            Section(title="Which scenario stops which", sheet=_mutants(body)),
        ],
        command=_command(body),
        count=f"{number(_sum(body, 'stopped_as_named'))}/{number(_sum(body, 'mutants'))} mutants stopped",
        headline=problems[0].reason if problems else f"{_sentence(body)}.",
    )


def _sentence(body: Mapping[str, object]) -> str:
    return (
        f"{subject(body)}: {number(_sum(body, 'stopped_as_named'))} of {counted(_sum(body, 'mutants'), 'mutant')} "
        f"stopped by the check that it names; "
        f"{number(_sum(body, 'stops'))} stops in {counted(_sum(body, 'count'), 'pair')}"
    )


def _kinds(body: Mapping[str, object]) -> Sheet:
    heads = [Head(text=words, right=name != "name") for name, words in COLUMNS.items()]
    rows = [[text(row, name) for name in COLUMNS] for row in items(body, "results")]
    return Sheet(heads=heads, rows=rows)


def _mutants(body: Mapping[str, object]) -> Sheet:
    heads = [Head(text=words) for words in ("mutant", "named scenario", "stopped by", "met, not stopped by")]
    rows = [
        [text(row, "id"), text(row, "scenario"), " ".join(texts(row, "stopped_by")), " ".join(texts(row, "not_by"))]
        for row in items(body, "mutants")
    ]
    return Sheet(heads=heads, rows=rows)


def _problems(body: Mapping[str, object]) -> list[Problem]:
    found = []
    for row in items(body, "mutants"):
        word = text(row, "named")
        if word != "stopped" or integer(row, "unsound"):
            reason = "not_stopped" if word != "stopped" else "clean_engine_fails"
            found.append(
                Problem(
                    cell=text(row, "id"),
                    state="fail",
                    check=text(row, "scenario"),
                    code="",
                    observed=word,
                    limit="stopped",
                    reason=reason_sentence(reason),
                    place="",
                )
            )
    return found


def _command(body: Mapping[str, object]) -> str:
    words = ["statecert", "matrix", "--reach", text(body, "procedure", "reach")]
    return shlex.join([*words, "--target", text(body, "subject", "engine", "adapter")])


def _sum(body: Mapping[str, object], column: str) -> int:
    return sum(integer(row, column) for row in items(body, "results"))
