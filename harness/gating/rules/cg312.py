"""CG312: a self-test counts what its records show, and its decision follows."""

from __future__ import annotations

from harness.gating.rule import Problem, Problems, Rule, Subject


def check(subject: Subject) -> Problems:
    """Fold the counts again, by the words of the body, then by its records."""
    from harness.gating import selfcheckcounts

    if subject.body["campaign"] != "selftest":
        yield Problem("/body/campaign", f"is {subject.body['campaign']}; nothing is known of it")
        return
    yield from selfcheckcounts.selftest_in_body(subject.body)
    if subject.campaign is not None:
        yield from selfcheckcounts.selftest_in_records(subject.body, subject.campaign.records)


RULE = Rule(
    id="CG312",
    text="The counts of a self-test are those of its records; one wrong answer is a stop, an empty group an error.",
    pain="A certifier certifies itself by a list of questions that it did not ask, or answered otherwise.",
    hint="run `statecert selftest --certify` again; if it stops, mend the harness first",
    failing=("selftest_raised", "selftest_failure_hidden", "selftest_of_nothing", "selftest_mutant_left_out"),
    passing="valid_selftest",
    certificate=check,
)
