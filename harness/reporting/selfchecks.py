"""What a report says of the harness tested by itself: fuzzing campaigns and self-tests. Counted, nothing decided."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from harness.model.certificate import Certificate
from harness.reporting.claimable import subject
from harness.reporting.reading import integer, items, mapping, text, texts
from harness.reporting.told import Told
from harness.reporting.units import counted, number
from harness.reporting.view import Fact, Head, Problem, Section, Sheet

_MOST = 40
_FUZZED = {"gate": "Fuzzing of the gate", "codec": "Fuzzing of the codecs"}


def fuzz(certificate: Certificate) -> Told:
    """Return what is said of a fuzzing campaign."""
    body = certificate.body
    cases, wrong = integer(body, "totals", "cases"), sum(_counts(body, "wrong").values())
    found = sum(text(one, "found") == "yes" for one in items(body, "controls"))
    controls = len(items(body, "controls"))
    minutes = integer(body, "run", "elapsed_ns") // 60_000_000_000
    problems = [
        _problem(text(one, "target"), text(one, "wrong"), f"case {text(one, 'number')}, {text(one, 'sha256')[:12]}")
        for one in items(body, "crashers")[:_MOST]
    ]
    said = (
        f"{subject(body)}: {counted(cases, 'made-up input')} in {counted(minutes, 'minute')}, "
        f"{number(integer(body, 'totals', 'refused'))} refused by name, {number(wrong)} with something wrong; "
        f"{number(found)} of {counted(controls, 'planted hole')} found."
    )
    return Told(
        title=_FUZZED.get(text(body, "subject", "model", "name"), "Fuzzing"),
        sentence=said,
        claims=_claims(certificate, said),
        no_claims=[
            "No input that was not made: cases are drawn from a seed, and lines of code were not counted.",
            "No other version of the harness or of the libraries that it reads with.",
        ],
        problems=problems or _reasons(body),
        problems_note="" if wrong else "No input raised, broke a rule, passed although changed, or took too much.",
        sections=[
            Section(title="What was given to whom", sheet=_sheet(items(body, "results"), ("target", "cases"))),
            Section(title="Planted holes", sheet=_sheet(items(body, "controls"), ("name", "found", "cases"))),
            Section(title="Worst cases", facts=_worst(body)),
        ],
        command=shlex.join(
            [
                "statecert",
                "fuzz",
                "--minutes",
                text(body, "procedure", "minutes"),
                "--seed",
                text(body, "procedure", "seed"),
            ]
        ),
        count=f"{number(cases - wrong)}/{number(cases)} inputs",
        headline=said,
    )


def selftest(certificate: Certificate) -> Told:
    """Return what is said of a self-test."""
    body = certificate.body
    rows = items(body, "results")
    asked, passed, away = (sum(integer(row, name) for row in rows) for name in ("asked", "pass", "not_run"))
    said = (
        f"{subject(body)}: {number(passed)} of {counted(asked, 'question')} about the harness itself answered as they "
        f"should be, {number(away)} could not be asked here."
    )
    problems = [
        _problem(text(one, "group"), text(one, "reason"), text(one, "name")) for one in items(body, "failed")[:_MOST]
    ]
    return Told(
        title="Self-test of the harness",
        sentence=said,
        claims=_claims(certificate, said),
        no_claims=["Nothing about any engine: the mutants of a self-test are a quick few of all."],
        problems=problems or _reasons(body),
        problems_note="" if problems else "Every question that could be asked was answered as it should be.",
        sections=[
            Section(
                title="Questions by group",
                sheet=_sheet(rows, ("group", "asked", "pass", "fail", "not_run", "count")),
            ),
            Section(
                title="Mutants",
                facts=[Fact(name="Run", value=", ".join(texts(body, "procedure", "mutants")) or "none")],
            ),
        ],
        command="statecert selftest",
        count=f"{number(passed)}/{number(asked)} questions",
        headline=said,
    )


def _claims(certificate: Certificate, said: str) -> list[str]:
    body = certificate.body
    if certificate.status.state != "current" or text(body, "decision", "overall") != "pass":
        return []
    return [f"{said[:-1]} [cert:{certificate.id[:12]}]."]


def _reasons(body: Mapping[str, object]) -> list[Problem]:
    return [_problem("the whole", reason, "") for reason in texts(body, "decision", "reasons")]


def _problem(where: str, reason: str, place: str) -> Problem:
    words = reason.replace("_", " ")
    return Problem(cell=where, state="fail", check="", code="", observed="", limit="", reason=words, place=place)


def _worst(body: Mapping[str, object]) -> Sequence[Fact]:
    totals = mapping(body, "totals")
    return [
        Fact(name="Slowest case", value=f"{integer(totals, 'slowest_ns') // 1_000_000} ms of processor time"),
        Fact(name="Most memory that one case added", value=f"{number(integer(totals, 'largest_kib'))} KiB"),
    ]


def _sheet(rows: Sequence[object], columns: Sequence[str]) -> Sheet:
    heads = [Head(text=name.replace("_", " "), right=index > 0) for index, name in enumerate(columns)]
    return Sheet(heads=heads, rows=[[text(row, name) for name in columns] for row in rows])


def _counts(body: Mapping[str, object], name: str) -> Mapping[str, int]:
    return {word: count for word, count in mapping(body, name).items() if isinstance(count, int)}
