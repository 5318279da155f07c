"""A gate report as a forge wants it: JUnit XML, workflow annotations, a job summary in Markdown.

Every text passes :func:`harness.gating.outputs.safe` first, so that what is left to escape is printable ASCII: markup
here, and the letters that end a workflow command or a table cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from harness.errors import ExitCode
from harness.gating.outputs import MOST_SHOWN, counted, ending, read_in_words, safe, shown
from harness.model.certificate import Finding, GateReport

ANNOTATIONS: Final = 10
"""Of one kind that a step may make; a forge drops the rest without a word, so the last one counts them."""
SUMMARY_BYTES: Final = 1024 * 1024
"""Of one step's summary; one that is larger is not shown at all."""

_MARKUP: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"})
_DATA: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})
_CELL: Final = str.maketrans({"`": "'", "|": "\u00a6"})


def junit(report: GateReport) -> bytes:
    """Return one test case for each rule that ran: failed, broken, or skipped where all that it found is waived."""
    errors = [finding for finding in report.findings if finding.severity == "error"]
    ids = sorted({*report.rules, *(finding.rule for finding in errors)})
    broken = {finding.rule for finding in errors if finding.exit_code is ExitCode.BROKEN}
    failed = {finding.rule for finding in errors} - broken
    waived = {one.finding.rule for one in report.waived} - broken - failed
    counts = f'tests="{len(ids)}" failures="{len(failed)}" errors="{len(broken)}" skipped="{len(waived)}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="statecert" {counts}>',
        f'  <testsuite name="statecert gate" {counts}>',
        *(line for rule in ids for line in _case(report, rule, [one for one in errors if one.rule == rule])),
        "  </testsuite>",
        "</testsuites>",
    ]
    return ("\n".join(lines) + "\n").encode()


def _case(report: GateReport, rule: str, found: Sequence[Finding]) -> Iterator[str]:
    waived = [one for one in report.waived if one.finding.rule == rule]
    head = f'    <testcase classname="statecert.gate" name="{_markup(rule)}"'
    if not (found or waived):
        yield f"{head}/>"
        return
    yield f"{head}>"
    if found:
        kind = "error" if any(one.exit_code is ExitCode.BROKEN for one in found) else "failure"
        yield f'      <{kind} type="{_markup(rule)}" message="{counted(len(found), "finding")}">'
        yield from (f"{_markup(one.where)} {_markup(one.message)}" for one in found[:MOST_SHOWN])
        yield from (f"... and {more} more" for more in [len(found) - MOST_SHOWN] if more > 0)
        yield f"fix: {_markup(found[0].hint)}</{kind}>"
    else:
        events = ", ".join(sorted({one.event for one in waived}))
        yield f'      <skipped message="{_waived(len(waived))} by {_markup(events)}"/>'
    yield "    </testcase>"


def workflow_commands(report: GateReport) -> str:
    """Return annotations: the worst findings as errors, notes as notices, and one of each that counts the rest."""
    errors = [finding for finding in report.findings if finding.severity == "error"]
    notes = [finding for finding in report.findings if finding.severity != "error"]
    lines = [*_annotated("error", errors, report), *_annotated("notice", notes, report)]
    if report.waived:
        lines.append(_command("warning", "", "waived", f"{_waived(len(report.waived))}; the log lists them"))
    return "".join(f"{line}\n" for line in lines)


def _waived(count: int) -> str:
    return f"{counted(count, 'finding')} {'is' if count == 1 else 'are'} waived"


def _annotated(kind: str, findings: Sequence[Finding], report: GateReport) -> Iterator[str]:
    shown = findings if len(findings) <= ANNOTATIONS else findings[: ANNOTATIONS - 1]
    for one in shown:
        file, _, inside = one.where.partition("#")
        place = f" (at {inside})" if inside else ""
        yield _command(kind, file, one.rule, f"{one.message}{place}. Fix: {one.hint}")
    if len(shown) < len(findings):
        rest = f"{len(findings) - len(shown)} more; the log lists them. {ending(report)}"
        yield _command(kind, "", "statecert gate", rest)


def _command(kind: str, file: str, title: str, message: str) -> str:
    where = f"file={_property(file)}," if file else ""
    return f"::{kind} {where}title={_property(title)}::{safe(message).translate(_DATA)}"


def summary(report: GateReport) -> bytes:
    """Return a page for the summary of a job: the end, what was read, the worst findings, what is waived, the stops."""
    lines = [
        f"### statecert gate: exit {int(report.exit_code)}",
        "",
        f"{ending(report)}. Read: {read_in_words(report)}; {counted(len(report.rules), 'rule')} ran.",
        *_findings(report),
        *_table("Waived", [(one.finding.rule, one.finding.where, f"by {one.event}") for one in report.waived]),
        *_table("Stops", [("", stop, "") for stop in report.stops]),
    ]
    return ("\n".join(lines) + "\n").encode()[:SUMMARY_BYTES]


def _findings(report: GateReport) -> Iterator[str]:
    """The table of findings; where there are too many, each rule has the same room in it."""
    told, left = shown(report.findings)
    rows = [(one.rule, one.where, one.message) for one in told]
    for line in _table("Findings", rows):
        yield line.replace(f"Findings: {len(rows)}", f"Findings: {len(report.findings)}", 1)
    yield from (f"| `{safe(rule)}` | | and {more} more |" for rule, more in left.items())


def _table(title: str, rows: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    if not rows:
        return
    yield from ("", f"#### {title}: {len(rows)}", "", "| rule | where | what |", "|---|---|---|")
    for row in rows[:MOST_SHOWN]:
        yield f"| {' | '.join(_cell(text) for text in row)} |"
    if len(rows) > MOST_SHOWN:
        yield f"| | | and {len(rows) - MOST_SHOWN} more |"


def _cell(text: str) -> str:
    """A text in a table, as code: nothing inside is markup, and no letter ends the cell."""
    return f"`{safe(text).translate(_CELL)}`" if text.strip() else ""


def _markup(text: str) -> str:
    return safe(text).translate(_MARKUP)


def _property(text: str) -> str:
    return safe(text).translate(_PROPERTY)
