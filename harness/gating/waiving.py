"""Waivers of the ledger, applied: what they cover is listed and counted, and never left out.

A waiver covers findings of one rule on one certificate, up to its last day. Only what a caller requires can be waived
(exit class 1): that a record cannot be trusted, or that a rule broke, is nobody's to accept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from harness.errors import ExitCode
from harness.model.certificate import Event, Finding, Waived

_OWN = "CG003"
"""That a waiver has ended cannot be waived."""


def holds(event: Event, day: str) -> bool:
    """Tell whether a waiver is in force on a day: made by then, and not ended before."""
    return event.kind == "waive" and event.created[:10] <= day and (not event.until or day <= event.until)


def waivable(options: Collection[str]) -> frozenset[str]:
    """Return the ids of the rules that can be waived and that these options ask for."""
    from harness.gating.rules import asked_for

    return frozenset(rule.id for rule in asked_for(options) if rule.exit_code is ExitCode.FINDINGS and rule.id != _OWN)


def waive(
    findings: Sequence[Finding], certificates: Mapping[str, str], ledger: Mapping[str, Sequence[Event]], day: str
) -> tuple[list[Finding], list[Waived]]:
    """Divide findings into those that stand and those that are waived.

    Args:
        findings: Of one folder.
        certificates: Place of each certificate, as findings have it, to its id.
        ledger: Events by target.
        day: On which waivers must hold.
    """
    standing: list[Finding] = []
    waived: list[Waived] = []
    for finding in findings:
        event = _waiver(finding, ledger.get(certificates.get(finding.where.partition("#")[0], ""), ()), day)
        if event is None:
            standing.append(finding)
        else:
            waived.append(Waived(finding=finding, event=event.id, until=event.until))
    return standing, waived


def _waiver(finding: Finding, events: Sequence[Event], day: str) -> Event | None:
    if finding.exit_code is not ExitCode.FINDINGS or finding.severity != "error" or finding.rule == _OWN:
        return None
    return next((event for event in events if event.rule == finding.rule and holds(event, day)), None)
