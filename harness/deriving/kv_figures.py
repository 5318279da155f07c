"""Figures of the matrix of element types: spans of a round, ratios, intervals, bounds, LCG2's size. Pure, integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from typing import Final

from harness.deriving.campaign_body import integer_of, mapping_of
from harness.model.campaign import Record

SPANS: Final = ("encode", "write", "read", "import", "first_token")
METRICS: Final = ("restore", "import", "total")
PPM: Final = 1_000_000
PERCENTS: Final = (90, 95)
"""Percentiles that are told where there are samples enough."""
_BITS: Final = {16: 4, 32: 5}


def ratio_ppm(part: int, whole: int) -> int:
    """Return a ratio in millionths, rounded down; of nothing it is none."""
    return part * PPM // max(1, whole)


def interval(values: Sequence[int]) -> tuple[int, int]:
    """Return an interval that holds the median with 95 %, whatever the distribution (sign test); the range if few."""
    ordered, count = sorted(values), len(values)
    skip = 0
    while 2 * sum(comb(count, i) for i in range(skip + 1)) * 20 <= 2**count:
        skip += 1
    low = max(0, skip - 1)
    return ordered[low], ordered[count - 1 - low]


def fewest_of(percent: int) -> int:
    """Return how many samples a percentile needs: so many that one of them lies above it with 95 %.

    All of ``n`` independent samples lie below it with ``percent/100`` to the power of ``n``, whatever the distribution:
    29 for the 90th, 59 for the 95th, 299 for the 99th.
    """
    count = 1
    while 20 * percent**count > 100**count:
        count += 1
    return count


def percentile(values: Sequence[int], percent: int) -> int:
    """Return the least of some values that so many in a hundred of them do not lie above (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def lower_bound_ppm(agreed: int, steps: int) -> int:
    """Return the one-sided 95 % lower bound of a share in millionths, exact (Clopper and Pearson), rounded down.

    The largest p with P(X >= agreed | p) <= 5 %, found by halving in integers.
    """
    if steps < 1 or agreed < 1:
        return 0
    low, high = 0, PPM
    while high - low > 1:
        middle = (low + high) // 2
        tail = sum(comb(steps, i) * middle**i * (PPM - middle) ** (steps - i) for i in range(agreed, steps + 1))
        if tail * 20 <= PPM**steps:
            low = middle
        else:
            high = middle
    return low


def composed(spans: Record) -> int:
    """Return the length of the union of read, import and first token on their clock."""
    whole, reached = 0, 0
    for begin, end in sorted(span(spans, name) for name in ("read", "import", "first_token")):
        whole += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return whole


def overlap(spans: Record) -> int:
    """Return by how much these three together are longer than their union."""
    return sum(end - begin for begin, end in (span(spans, n) for n in ("read", "import", "first_token"))) - composed(
        spans
    )


def lcg2_bytes(components: Sequence[Record]) -> int:
    """Return the bytes of an LCG2 archive, which do not depend on the data: heads, maxima, packed symbols."""
    whole = 16
    for one in components:
        layers, tokens = integer_of(one, "layers"), integer_of(one, "tokens")
        for side, fine in (("k", 10), ("v", 2)):
            channels = integer_of(one, f"{side}_channels")
            for layer in range(layers):
                bits = _BITS[32 if layers < 10 or layer < fine else 16]
                for first in range(0, tokens, 256):
                    rows = min(256, tokens - first)
                    whole += 52 + 16 + 4 * rows + -(-rows * channels * bits // 8)
        exact = integer_of(one, "exact_bytes")
        whole += 52 + exact if exact else 0
    return whole


def cost(one: Record, arm: str, name: str) -> int:
    """Return nanoseconds of one arm of a round: of a span, of the whole restore, or of the total cost."""
    found = spans_of(one, arm)
    if name == "restore":
        return span(found, "first_token")[1] - span(found, "read")[0]
    names = ("encode", "write", "read", "import") if name == "total" else (name,)
    return sum(end - begin for begin, end in (span(found, each) for each in names))


def spans_of(one: Record, arm: str) -> Record:
    """Return begin and end of each span of an arm of a round."""
    return mapping_of(mapping_of(mapping_of(one, "arms"), arm), "spans")


def decodes(one: Record, arm: str) -> list[int]:
    """Return the times of an arm's decode steps after the first token."""
    return integers(mapping_of(mapping_of(one, "arms"), arm), "decode_ns")


def span(spans: Record, name: str) -> tuple[int, int]:
    """Return begin and end of one span."""
    begin, end = integers(spans, name)
    return begin, end


def extent(one: Record) -> tuple[int, int]:
    """Return when a round began, and when its last arm ended."""
    order = texts(one, "order")
    return span(spans_of(one, order[0]), SPANS[0])[0], span(spans_of(one, order[-1]), SPANS[-1])[1]


# -- members of a record ---------------------------------------------------------------------------


def texts(record: Record, name: str) -> list[str]:
    """Return a member that lists words; nothing if it is not there."""
    return [str(one) for one in _listed(record, name)]


def integers(record: Record, name: str) -> list[int]:
    """Return a member that lists integers; nothing if it is not there."""
    return [int(str(one)) for one in _listed(record, name)]


def maps(record: Record, name: str) -> list[Record]:
    """Return a member that lists objects; nothing if it is not there."""
    return [one for one in _listed(record, name) if isinstance(one, Mapping)]


def _listed(record: Record, name: str) -> list[object]:
    value = record.get(name)
    return list(value) if isinstance(value, list | tuple) else []
