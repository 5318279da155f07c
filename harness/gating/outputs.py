"""A gate report as text and as JSON, the table of rules, and the explanation of one.

Texts of a folder may come from anyone. Whatever is shown passes :func:`safe` first: control, escape, bidirectional and
invisible characters become visible escapes, so that no terminal acts on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from harness.errors import ExitCode, UsageError
from harness.gating import rules as table
from harness.gating.kinds import KINDS, kinds_of
from harness.gating.rule import Rule
from harness.model.certificate import Finding, GateReport, Waived
from harness.wire import canonical

SCHEMA: Final = "statecert/gate/v1"
RULES_SCHEMA: Final = "statecert/gate-rules/v1"
MOST_SHOWN: Final = 100
"""Findings in the text; the JSON has all."""

_ID12: Final = 12
_LONGEST: Final = 1000
_MOST_NAMED: Final = 6
_MOST_PATHS: Final = 8
_ENDINGS: Final[Mapping[ExitCode, str]] = {
    ExitCode.GOOD: "good: every record is valid",
    ExitCode.FINDINGS: "not met: the records are valid, and not all is there that was required of them",
    ExitCode.INVALID: "invalid: a record cannot be trusted, so no outcome counts",
    ExitCode.BROKEN: "broken: a rule did not end; nothing is known of what it did not judge, so no outcome counts",
    ExitCode.NOTHING: "nothing to check: no certificate, which is no pass",
}
_ACCEPTED: Final = (ExitCode.GOOD, ExitCode.FINDINGS)
"""Ends in which the records are what they say, so that their outcomes may be shown as such."""


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return a count with its noun, like ``1 file`` or ``12 files``."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def read_in_words(report: GateReport) -> str:
    """Return what a gate has read, like ``1 certificate, 1 evidence file, 0 events``."""
    files = counted(report.evidence_files, "evidence file")
    return f"{counted(report.certificates, 'certificate')}, {files}, {counted(report.events, 'event')}"


def ending(report: GateReport) -> str:
    """Return in words how a gate run ended; a good end says what stands beside it, since often nothing else is read."""
    words = _ENDINGS.get(report.exit_code, "")
    if report.exit_code is not ExitCode.GOOD:
        return words
    if "--require-pass" in report.settings.get("options", "").split():
        left_out = " that is not excluded" if report.outcomes.get("excluded") else ""
        words = f"{words}, and every cell{left_out} passed"
    if report.waived:
        words = f"good: nothing was found that is not waived ({counted(len(report.waived), 'finding')})"
    beside = [
        *([counted(len(report.stops), "stop")] if report.stops else []),
        *([counted(len(report.contested), "contested claim")] if report.contested else []),
    ]
    return f"{words}; valid is not passed: {', '.join(beside)}" if beside else words


def safe(text: str) -> str:
    """Return one line of visible ASCII, cut to a bearable length; anything else is an escape."""
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    if cut.isascii() and cut.isprintable():
        return cut
    return "".join(letter if letter.isascii() and letter.isprintable() else _escape(letter) for letter in cut)


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape", "surrogatepass").decode("ascii")


def text(report: GateReport) -> str:
    """Return the report for a terminal: worst first, a hint once for each rule, totals, one last line."""
    lines = _finding_lines(report.findings)
    lines += [f"waived {one.finding.rule} {safe(one.finding.where)} {_waiver(one)}" for one in report.waived]
    lines += [f"stop   {safe(stop)}" for stop in report.stops]
    lines += [f"contested {safe(one)}" for one in report.contested]
    lines += [f"fresh  {safe(one)}" for one in report.carried]
    lines += _change_lines(report)
    lines += _totals(report)
    return "\n".join(lines) + "\n"


def _finding_lines(findings: Sequence[Finding]) -> list[str]:
    lines: list[str] = []
    hinted: set[str] = set()
    told, left = shown(findings)
    for finding in told:
        lines.append(f"{finding.rule} {finding.severity} {safe(finding.where)} {safe(finding.message)}")
        if finding.hint not in hinted:
            hinted.add(finding.hint)
            lines.append(f"      fix: {safe(finding.hint)}")
    return [*lines, *(f"... and {more} more of {rule}; --json lists all" for rule, more in left.items())]


def shown(findings: Sequence[Finding]) -> tuple[list[Finding], Mapping[str, int]]:
    """Return the findings that people read, and how many of each rule are left out.

    Where there are too many, each rule has the same room: one that finds much hides nothing of another one.
    """
    if len(findings) <= MOST_SHOWN:
        return list(findings), {}
    room = max(1, MOST_SHOWN // len({finding.rule for finding in findings}))
    told: list[Finding] = []
    found: Counter[str] = Counter()
    for finding in findings:
        found[finding.rule] += 1
        if found[finding.rule] <= room:
            told.append(finding)
    return told, {rule: count - room for rule, count in found.items() if count > room}


def _change_lines(report: GateReport) -> list[str]:
    """Which certificates speak of which changed files; files with the same ones share a line."""
    if "base" not in report.settings:
        return []
    groups: dict[tuple[str, ...], list[str]] = {}
    for path, certificates in report.changed:
        groups.setdefault(tuple(certificates), []).append(path)
    lines = []
    for certificates, paths in sorted(groups.items(), key=lambda group: (bool(group[0]), group[1])):
        names = " ".join(one[:_ID12] for one in certificates[:_MOST_NAMED])
        more = f" and {len(certificates) - _MOST_NAMED} more" if len(certificates) > _MOST_NAMED else ""
        speaks = f"{counted(len(certificates), 'certificate')}: {names}{more}" if certificates else "no certificate"
        shown = ", ".join(paths[:_MOST_PATHS]) + (
            f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
        )
        lines.append(safe(f"changed {shown} <- {speaks}"))
    covered = sum(1 for _, certificates in report.changed if certificates)
    told = report.settings
    lines.append(
        f"since  {told['base'][:_ID12]}: {counted(len(report.changed), 'file')} changed, "
        f"{covered} covered by certificates"
    )
    return lines


def _waiver(one: Waived) -> str:
    until = f"until {safe(one.until)}" if one.until else "without an end"
    return f"{safe(one.finding.message)} (by event {one.event[:_ID12]}, {until})"


def _totals(report: GateReport) -> list[str]:
    errors = sum(1 for finding in report.findings if finding.severity == "error")
    notes, stops = len(report.findings) - errors, counted(len(report.stops), "stop")
    return [
        f"read   {read_in_words(report)}",
        f"cells  {_outcomes(report)}",
        f"rules  {_rules(report)}",
        f"found  {counted(errors, 'finding')}, {counted(notes, 'note')}, {stops} listed, {len(report.waived)} waived",
        f"gate   exit {int(report.exit_code)}, {ending(report)}",
    ]


def _rules(report: GateReport) -> str:
    """Return how many rules ran, and how many of them found an error; ``--list-rules`` and the JSON have their ids."""
    failed = len({finding.rule for finding in report.findings if finding.severity == "error"})
    held = f"ran, {failed} with findings" if failed else "held"
    return f"{len(report.rules)} {held} (--list-rules tells them)"


def _outcomes(report: GateReport) -> str:
    """Return the outcomes of cells; where a record may say anything, as what is claimed."""
    outcomes = ", ".join(f"{count} {safe(name)}" for name, count in report.outcomes.items()) or "none"
    if report.exit_code in _ACCEPTED:
        return f"{outcomes} (of current certificates)"
    return f"claimed, not accepted: {outcomes}" if report.outcomes else outcomes


def to_mapping(report: GateReport) -> dict[str, object]:
    """Return the document of a report (``schemas/gate.v1.json``)."""
    return {
        "schema": SCHEMA,
        "exit_code": int(report.exit_code),
        "certificates": report.certificates,
        "evidence_files": report.evidence_files,
        "events": report.events,
        "rules": list(report.rules),
        "outcomes": {safe(name): count for name, count in report.outcomes.items()},
        "stops": [safe(stop) for stop in report.stops],
        "findings": [_finding_mapping(finding) for finding in report.findings],
        "waived": [
            {**_finding_mapping(one.finding), "event": one.event, **({"until": one.until} if one.until else {})}
            for one in report.waived
        ],
        "contested": [safe(one) for one in report.contested],
        "carried": [safe(one) for one in report.carried],
        "gate": {"version": _version(), "rules": rules_digest()},
        "told": {name: safe(value) for name, value in report.settings.items()},
        "judged": list(report.judged),
        "changed": [{"path": safe(path), "certificates": list(ids)} for path, ids in report.changed],
    }


def _version() -> str:
    from harness import __version__

    return __version__


def rules_digest() -> str:
    """Return the digest of what the rules of this gate say: two gates with the same one ask the same questions."""
    return canonical.digest([_rule_mapping(rule) for rule in table.RULES])


def record_id(report: GateReport) -> str:
    """Return the id of a gate run as a record: SHA-256 of the canonical bytes of its document."""
    return canonical.digest(to_mapping(report))


def _finding_mapping(finding: Finding) -> dict[str, object]:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "where": safe(finding.where),
        "message": safe(finding.message),
        "hint": safe(finding.hint),
        "exit_code": int(finding.exit_code),
    }


def to_json(report: GateReport) -> bytes:
    """Return the report as a deterministic file."""
    return canonical.render(to_mapping(report))


def rules_table() -> str:
    """Return the text of ``--list-rules``."""
    return "\n".join(f"{rule.id}  {_class(rule):<16}  {_kinds(rule):<13}  {rule.text}" for rule in table.RULES) + "\n"


def rules_json() -> bytes:
    """Return the document of ``--list-rules --json``."""
    return canonical.render({"schema": RULES_SCHEMA, "rules": [_rule_mapping(rule) for rule in table.RULES]})


def _rule_mapping(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.id,
        "text": rule.text,
        "pain": rule.pain,
        "severity": rule.severity,
        "exit_code": int(rule.exit_code),
        "hint": rule.hint,
        "only_on_request": rule.only_on_request,
        "option": rule.option,
        "kinds": list(kinds_of(rule.id)),
        "failing_fixtures": list(rule.failing),
        "passing_fixture": rule.passing,
    }


def explain(rule_id: str) -> str:
    """Return what ``--explain CGnnn`` prints.

    Raises:
        UsageError: There is no rule of that id.
    """
    rule = next((rule for rule in table.RULES if rule.id == rule_id.upper()), None)
    if rule is None:
        raise UsageError(f"no rule {safe(rule_id)}; there are: {', '.join(rule.id for rule in table.RULES)}")
    return (
        f"{rule.id}: {rule.text}\n"
        f"without it: {rule.pain}\n"
        f"asked of:   {_kinds(rule)} certificates\n"
        f"ends in:    {_class(rule)}{' (only with {rule.option})' if rule.option else ''}\n"
        f"to do:      {rule.hint}\n"
        f"fails on:   {', '.join(rule.failing)}\n"
        f"passes on:  {rule.passing}\n"
    )


def _kinds(rule: Rule) -> str:
    found = kinds_of(rule.id)
    return "all" if len(found) == len(KINDS) else ", ".join(found)


def _class(rule: Rule) -> str:
    return f"{rule.severity}, exit {int(rule.exit_code)}"
