"""CG313: a foreign record says what its text says, and no time in it is a verdict."""

from __future__ import annotations

from harness.gating.rule import Problem, Problems, Rule, Subject


def check(subject: Subject) -> Problems:
    """Fold the rows again, by the words of the body, then look its numbers up in the text."""
    if subject.body["campaign"] != "foreign":
        yield Problem("/body/campaign", f"is {subject.body['campaign']}; nothing is known of it")
        return
    from harness.gating import foreigncounts

    yield from foreigncounts.in_body(subject.body)
    if subject.campaign is not None:
        yield from foreigncounts.in_records(subject.body, subject.campaign.records)


RULE = Rule(
    id="CG313",
    text="Rows and decision of a foreign record follow from numbers that its text has; no time in it is a verdict.",
    pain="A published table is quoted as if it had been measured here, and one lucky sample becomes a pass.",
    hint="restore the certificate as it was issued; the published record lies beside its evidence",
    failing=("foreign_raised", "foreign_time_judged", "foreign_number_edited", "foreign_stop_hidden"),
    passing="valid_foreign",
    certificate=check,
)
