"""Numbers of a record that follow from others of it: made again, exactly, and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Final

from harness.deriving.foreign.limits import impossible
from harness.deriving.foreign.nouns import Case, Gates, Recomputed, Workload

BITS: Final[Mapping[str, Fraction]] = {
    "f32": Fraction(32),
    "f16": Fraction(16),
    "bf16": Fraction(16),
    "q8_0": Fraction(34 * 8, 32),
    "q4_0": Fraction(18 * 8, 32),
}
"""Bits of one element, scales of its block included."""
_SHOWN: Final = Context(prec=12)
_EXACT: Final = Context(prec=50)
_RELATIVE: Final = Decimal("1e-9")
"""Two ratios that differ by less are one: the writer computed in binary floating point."""
_NOISE_NS: Final = 2
"""Each time was rounded to a nanosecond, from a sum that floating point had rounded before."""


def equal_ratio(said: Decimal, above: Decimal, below: Decimal) -> bool:
    """Tell whether a recorded ratio is that of two numbers."""
    made = _EXACT.divide(above, below)
    return abs(_EXACT.subtract(said, made)) <= _RELATIVE * max(abs(made), Decimal(1))


def ratio_row(name: str, said: Decimal, above: Decimal | int, below: Decimal | int) -> Recomputed:
    """Return a ratio made again."""
    holds = equal_ratio(said, Decimal(above), Decimal(below))
    return Recomputed(
        name=name, recorded=str(said), computed=str(_SHOWN.divide(Decimal(above), Decimal(below))), holds=holds
    )


def recompute(case: Case, gates: Gates, workload: Workload, width: int) -> Sequence[Recomputed]:
    """Return all numbers of a case that follow from others.

    Args:
        case: What is recorded of one pair.
        gates: Thresholds.
        workload: Sizes.
        width: K and V elements of a token and layer that most cases of the record agree on; 0: none.
    """
    return [
        *_ratios(case),
        *_sums(case),
        *_bytes(case, workload, width),
        *_verdict(case, gates),
        *impossible(case, gates),
    ]


def width_of(cases: Sequence[Case], workload: Workload) -> int:
    """Return the width of K (and V) that most cases have, of those whose bytes give a whole one; 0: none."""
    found = Counter(width for case in cases if (width := _width(case, workload)))
    return min(found, key=lambda width: (-found[width], width)) if found else 0


def composed(case: Case, arm: str) -> bool:
    """Tell whether the restore-to-first-token time of an arm is the sum of its pieces and its slowest decode step."""
    times = case.native if arm == "native" else case.other
    if times.ttft is None or times.read is None or times.load is None or times.p99 is None:
        return False
    apart = case.decode or 0 if arm != "native" else 0
    return abs(times.ttft - times.read - times.load - times.p99 - apart) <= 2 * _NOISE_NS


def verdict(case: Case, gates: Gates) -> list[str]:
    """Return which declared gates one case breaks by its own numbers."""
    broken = []
    if gates.smaller and None not in (case.native_bytes, case.other_bytes) and not _smaller(case):
        broken.append("not_smaller")
    if gates.faster and case.samples and any(one.other_ttft >= one.native_ttft for one in case.samples):
        broken.append("not_faster")
    if gates.agreement is not None and case.matching is not None and case.steps:
        broken += ["agreement"] if Fraction(case.matching, case.steps) < Fraction(gates.agreement) else []
    if gates.regression is not None and case.regression is not None and case.regression > gates.regression:
        broken.append("regression")
    if gates.working_bytes is not None and (case.working_bytes or 0) > gates.working_bytes:
        broken.append("working_set")
    return broken


def _ratios(case: Case) -> Iterator[Recomputed]:
    if case.ratio is not None and case.other_bytes is not None and case.native_bytes:
        yield ratio_row("compression_ratio", case.ratio, case.other_bytes, case.native_bytes)
    if case.agreement is not None and case.matching is not None and case.steps:
        yield ratio_row("token_agreement", case.agreement, case.matching, case.steps)
    if case.regression is not None and case.native.p99 and case.other.p99 is not None:
        change = case.other.p99 - case.native.p99
        yield ratio_row("p99_decode_regression", case.regression, change, case.native.p99)


def _sums(case: Case) -> Iterator[Recomputed]:
    if case.native.persist is not None and case.native.write is not None:
        yield _sum("native_persist_ns", case.native.persist, (case.native.write,))
    if case.other.persist is not None and case.other.write is not None and case.encode is not None:
        yield _sum("cachegen_persist_ns", case.other.persist, (case.encode, case.other.write))


def _bytes(case: Case, workload: Workload, width: int) -> Iterator[Recomputed]:
    bits = BITS.get(case.k), BITS.get(case.v)
    if width and case.native_bytes is not None and bits[0] is not None and bits[1] is not None:
        made = workload.tokens * workload.layers * width * (bits[0] + bits[1]) / 8
        yield _whole("native_storage_bytes", case.native_bytes, int(made))
    if case.tiles is not None and workload.tile_rows and workload.layers:
        made_of = workload.layers * 2 * -(-workload.tokens // workload.tile_rows)
        yield _whole("tile_count", case.tiles, made_of)


def _verdict(case: Case, gates: Gates) -> Iterator[Recomputed]:
    broken = verdict(case, gates)
    if case.passed is not None:
        words = "pass" if case.passed else "stop", "stop" if broken else "pass"
        yield Recomputed(name="passed", recorded=words[0], computed=words[1], holds=words[0] == words[1])
    if case.reasons is not None:
        yield _whole("failure_reasons", len(case.reasons), len(broken))
        yield from _reason_numbers(case)


def _reason_numbers(case: Case) -> Iterator[Recomputed]:
    """The times that a reason quotes are those of the case."""
    if len(case.samples) != 1 or case.reasons is None:
        return
    sample = case.samples[0]
    wanted = f"({_ms(sample.other_ttft)} ms >= {_ms(sample.native_ttft)} ms)"
    for reason in case.reasons:
        at = reason.find("(")
        if "did not beat native" in reason and at >= 0:
            said = reason[at:]
            yield Recomputed(name="reason_times", recorded=said[:80], computed=wanted, holds=said == wanted)


def _ms(ns: int) -> str:
    return f"{(Decimal(ns) / 1_000_000).quantize(Decimal('0.001'))}"


def _smaller(case: Case) -> bool:
    return (case.other_bytes or 0) < (case.native_bytes or 0)


def _width(case: Case, workload: Workload) -> int:
    """K (and V) elements of a token and layer, if the bytes are those of these types."""
    bits = BITS.get(case.k), BITS.get(case.v)
    if not (case.native_bytes and workload.tokens and workload.layers) or bits[0] is None or bits[1] is None:
        return 0
    found = Fraction(case.native_bytes * 8) / (workload.tokens * workload.layers * (bits[0] + bits[1]))
    return int(found) if found.denominator == 1 else 0


def _sum(name: str, said: int, parts: Sequence[int]) -> Recomputed:
    holds = abs(said - sum(parts)) <= _NOISE_NS
    return Recomputed(name=name, recorded=str(said), computed=str(sum(parts)), holds=holds)


def _whole(name: str, said: int, made: int) -> Recomputed:
    return Recomputed(name=name, recorded=str(said), computed=str(made), holds=said == made)
