"""Numbers that cannot be, whatever was measured: each is told as one that does not follow from the others."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from harness.deriving.foreign.nouns import Case, Gates, Recomputed

_Told = tuple[str, Decimal | int, str]
"""Name, as recorded, what it would have to be."""


def impossible(case: Case, gates: Gates) -> Iterator[Recomputed]:
    """Return the numbers of a case, and of the thresholds that it is held to, that cannot be."""
    for name, said, wanted in (*_tokens(case), *_sizes(case), *_shares(case, gates), *_drifts(case)):
        yield Recomputed(name=name, recorded=str(said), computed=wanted, holds=False)


def _tokens(case: Case) -> Iterator[_Told]:
    """All tokens before the first mismatch match; whether steps count from 0 or from 1 is not told."""
    matching, mismatch = case.matching, case.mismatch
    if matching is not None and case.steps and matching > case.steps:
        yield "matching_tokens", matching, f"at most {case.steps}"
    if mismatch is None:
        return
    if case.steps and mismatch > case.steps:
        yield "first_token_mismatch_step", mismatch, f"at most {case.steps}"
    elif matching is not None and matching == case.steps:
        yield "first_token_mismatch_step", mismatch, "none, since all tokens match"
    elif matching is not None and matching < mismatch - 1:
        yield "matching_tokens", matching, f"at least {mismatch - 1}"


def _sizes(case: Case) -> Iterator[_Told]:
    """Nothing is stored in no bytes, and nothing is restored or decoded in no time."""
    times = [one for sample in case.samples for one in (sample.native_ttft, sample.other_ttft)]
    named = [
        ("native_storage_bytes", case.native_bytes),
        ("cachegen_storage_bytes", case.other_bytes),
        ("native_p99_decode_ns", case.native.p99),
        ("cachegen_p99_decode_ns", case.other.p99),
        *(("first_token_ns", one) for one in times),
    ]
    for name, said in named:
        if said == 0:
            yield name, 0, "above 0"


def _shares(case: Case, gates: Gates) -> Iterator[_Told]:
    for name, share in (("token_agreement", case.agreement), ("minimum_token_agreement", gates.agreement)):
        if share is not None and not 0 <= share <= 1:
            yield name, share, "0 to 1"
    if case.regression is not None and case.regression < -1:
        yield "p99_decode_regression", case.regression, "at least -1"


def _drifts(case: Case) -> Iterator[_Told]:
    for name, (mean, most) in case.drifts.items():
        if mean > most:
            yield f"max_{name}", most, f"at least {mean}"
