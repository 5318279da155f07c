"""CG404: a share counts by its bound."""

from __future__ import annotations

from harness.errors import ExitCode
from harness.gating.rule import Problem, Problems, Rule, Subject

MOST = 20_000


def check(subject: Subject) -> Problems:
    """A share that passes has a one-sided 95 % lower bound that meets the limit, computed here from its two counts."""
    from fractions import Fraction

    for number, row in enumerate(subject.body["results"]):
        for place, one in enumerate(row["checks"]):
            if one["id"] == "agreement" and one["outcome"] == "pass":
                at = f"/body/results/{number}/checks/{place}"
                some, _, whole = str(one["observed"]).partition("/")
                limit = Fraction(str(one["limit"]))
                if not _shown(int(some), int(whole), limit.numerator, limit.denominator - limit.numerator):
                    yield Problem(at, f"passes {one['limit']} with {some} of {whole}, whose lower bound lies below it")


def _shown(some: int, whole: int, hit: int, miss: int) -> bool:
    """Whether so many would be seen in at most one of twenty runs if the share were the limit."""
    if hit <= 0 or miss <= 0 or not 0 <= some <= whole or not 0 < whole <= MOST:
        return False
    term: int = hit**whole
    tail = term
    for missed in range(1, whole - some + 1):
        term = term * (whole - missed + 1) * miss // (missed * hit)
        tail += term
    everything: int = (hit + miss) ** whole
    return tail * 20 <= everything


RULE = Rule(
    id="CG404",
    text="A share that passes a minimum does so by its one-sided 95 % lower bound, not by its ratio.",
    pain="61 of 64 is 0.953 and passes 0.95, although it shows no more than 0.883.",
    hint="take more samples; 59 of 59 is the least that shows 0.95",
    failing=("share_by_its_ratio",),
    passing="valid_foreign",
    exit_code=ExitCode.FINDINGS,
    certificate=check,
)
