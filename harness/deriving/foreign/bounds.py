"""What a count of matches shows about a rate, by exact binomial tails. Integers only: no machine rounds otherwise.

The bounds are those of Clopper and Pearson, one-sided: a minimum is shown if so many matches would be rare under it.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Final

ALPHA: Final = Fraction(1, 20)
"""One-sided error that is allowed."""
PPM: Final = 1_000_000
MOST: Final = 4096
"""Steps up to which the tails are summed."""


def shows_at_least(matching: int, steps: int, rate: Fraction) -> bool:
    """Tell whether the lower bound of the rate is at least this."""
    return _tail(matching, steps, rate) <= ALPHA


def shows_less_than(matching: int, steps: int, rate: Fraction) -> bool:
    """Tell whether the upper bound of the rate is below this."""
    return matching < steps and 1 - _tail(matching + 1, steps, rate) <= ALPHA


def lower_bound_ppm(matching: int, steps: int) -> int:
    """Return the lower bound in millionths, rounded down."""
    low, high = 0, PPM
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if shows_at_least(matching, steps, Fraction(middle, PPM)) else (low, middle)
    return low


def _tail(matching: int, steps: int, rate: Fraction) -> Fraction:
    """Return how likely so many matches or more are."""
    if matching <= 0:
        return Fraction(1)
    p, q, whole = rate.numerator, rate.denominator - rate.numerator, rate.denominator
    hits = sum(comb(steps, k) * p**k * q ** (steps - k) for k in range(matching, steps + 1))
    return Fraction(hits, whole**steps)
