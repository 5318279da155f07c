"""CG310: the counts of a campaign add up, and its decision follows from them."""

from __future__ import annotations

from harness.gating.rule import Problem, Problems, Rule, Subject


def check(subject: Subject) -> Problems:
    """Fold the counts again, by the words of the body alone."""
    from harness.gating.campaigns import QUESTIONS

    ask = QUESTIONS.get(subject.body["campaign"])
    if ask is None:
        yield Problem("/body/campaign", f"is {subject.body['campaign']}; nothing is known of its counts")
        return
    yield from ask.in_body(subject.body)
    if ask.outdated is not None and subject.state == "current":
        yield from ask.outdated(subject.body)


RULE = Rule(
    id="CG310",
    text="The counts of a campaign add up; what broke a rule is a stop, what shows nothing an error.",
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
        "soak_growth_hidden",
        "soak_raised",
        "kill_raised",
        "kill_depths_wrong",
        "matrix_survivor_hidden",
        "matrix_raised",
        "kv_dearer_hidden",
        "kv_raised",
        "kv_cell_left_out",
        "kv_size_told_wrong",
        "kv_limits_loosened",
        "kv_version_dropped",
        "kv_version_before_paths",
        "kv_path_hidden",
        "kv_percentile_of_too_few",
        "fuzz_raised",
        "fuzz_control_not_found",
    ),
    passing="valid_campaign",
    certificate=check,
)
