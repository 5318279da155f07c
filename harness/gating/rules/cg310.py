"""CG310: the counts of a campaign add up, and its decision follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from harness.gating import faultcounts, selfcheckcounts
from harness.gating.rule import Body, Problem, Problems, Rule, Subject

_QUESTIONS: Final[Mapping[str, Callable[[Body], Problems]]] = {
    "faults": faultcounts.in_body,
    "fuzz": selfcheckcounts.fuzz_in_body,
}


def check(subject: Subject) -> Problems:
    """Fold the counts again, by the words of the body alone."""
    ask = _QUESTIONS.get(subject.body["campaign"])
    if ask is None:
        yield Problem("/body/campaign", f"is {subject.body['campaign']}; nothing is known of its counts")
        return
    yield from ask(subject.body)


RULE = Rule(
    id="CG310",
    text="The counts of a campaign add up; a fault neither located nor refused is a stop, no fault at all an error.",
    pain="239 of 240 faults found read like a pass, and so does a campaign in which none was made.",
    hint="restore the certificate as it was issued; if it was, the judge has a mistake: report it",
    failing=(
        "campaign_raised",
        "campaign_miss_hidden",
        "campaign_flips_added",
        "campaign_of_no_flips",
        "campaign_split_wrong",
        "campaign_untrusted",
        "campaign_reason_added",
        "fuzz_raised",
        "fuzz_control_not_found",
    ),
    passing="valid_campaign",
    certificate=check,
)
