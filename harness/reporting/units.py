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
