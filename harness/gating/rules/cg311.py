"""CG311: what a campaign counts is in its records."""

from __future__ import annotations

from harness.gating.rule import Problem, Problems, Rule, Subject


def check(subject: Subject) -> Problems:
    """Count the records again, by the gate's own logic."""
    if subject.campaign is None:
        return
    from harness.gating.campaigns import QUESTIONS

    ask = QUESTIONS.get(subject.body["campaign"])
    if ask is None:
        yield Problem("/body/campaign", f"is {subject.body['campaign']}; nothing is known of its records")
        return
    yield from ask.in_records(subject.body, subject.campaign.records)


RULE = Rule(
    id="CG311",
    text="Every count of a campaign is found again in its records: what was located lies where the bit was flipped.",
    pain="A fault counts as located because the judge says so; a judge with a bug is its own alibi.",
    hint="restore the certificate as it was issued; if it was, the judge has a mistake: report it",
    failing=(
        "campaign_located_elsewhere",
        "campaign_located_in_another_row",
        "campaign_two_bits",
        "campaign_not_repeated",
        "campaign_clean_run_differs",
        "campaign_tokens_told_wrong",
        "soak_memory_grew",
        "soak_step_over_budget",
        "soak_turn_differs",
        "kill_torn",
        "kill_lost",
        "kill_control_unseen",
        "matrix_named_elsewhere",
        "matrix_clean_engine_fails",
        "kv_slower_than_told",
        "kv_percentile_told_wrong",
        "kv_probe_did_not_hold",
        "fuzz_cases_added",
    ),
    passing="valid_campaign",
    certificate=check,
)
