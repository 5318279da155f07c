"""Numbers of a record as text with a unit. Integers in, no rounding that a reader could take for exact.

Three significant digits are shown for times and sizes; the full number stands in the record.
"""

from __future__ import annotations

from typing import Final

_TIMES: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))
_SIZES: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_MINUTE_NS: Final = 60_000_000_000


def duration(ns: int) -> str:
    """Return nanoseconds as text, like ``12.3 ms``."""
    if ns >= _MINUTE_NS:
        seconds = (ns + 500_000_000) // 1_000_000_000
        return f"{seconds // 60} min {seconds % 60} s"
    return _scaled(ns, _TIMES, "ns")


def size(count: int) -> str:
    """Return bytes as text, like ``1.50 MiB``."""
    return _scaled(count, _SIZES, "B")


def number(value: int) -> str:
    """Return an integer with its thousands set apart, like ``21,550``."""
    return f"{value:,}"


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return a count with its noun, like ``1 cell`` or ``12 cells``."""
    return f"{number(count)} {singular if count == 1 else plural or singular + 's'}"


def _scaled(value: int, steps: tuple[tuple[int, str], ...], smallest: str) -> str:
    for factor, unit in steps:
        if value >= factor:
            whole = value // factor
            digits = 2 if whole < 10 else 1 if whole < 100 else 0
            scaled = (value * 10**digits + factor // 2) // factor
            head, tail = divmod(scaled, 10**digits)
            return f"{head}.{tail:0{digits}} {unit}" if digits else f"{head} {unit}"
    return f"{value} {smallest}"


def ratio(ppm: int) -> str:
    """Return a ratio in millionths as text, like ``3.33x``; one that is not whole never reads as if it were."""
    return f"{_three(ppm, 6)}x"


def percent(ppm: int) -> str:
    """Return a share in millionths as text, like ``53.4 %``; one that is not whole never reads as if it were."""
    return "100 %" if ppm == 1_000_000 else f"{_three(ppm, 4)} %"


def thousandths(billionths: int) -> str:
    """Return billionths in thousandths with three significant digits, like ``4.6``."""
    return _three(billionths, 6)


def _three(value: int, places: int) -> str:
    """Three significant digits; more where three would read as a small whole number, or as 100."""
    if value == 0:
        return "0"
    digits = max(0, 3 - max(1, len(str(value)) - places)) if value >= 10**places else min(places, 3)
    for more in range(digits, places + 1):
        step = 10 ** (places - more)
        kept = (value + step // 2) // step
        head, tail = divmod(kept, 10**more)
        if tail or kept * step == value or (head >= 10 and head != 100):
            break
    return f"{head}.{tail:0{more}}" if more else str(head)
