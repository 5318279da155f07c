"""Counts against ``equals``, ``at_least`` and ``at_most``."""

from __future__ import annotations

from harness.model.scenario import CheckSpec


def within(spec: CheckSpec, value: int) -> bool:
    """Tell whether a count keeps every limit that the check names; one without any keeps none."""
    limits = (
        spec.equals is None or value == spec.equals,
        spec.at_least is None or value >= spec.at_least,
        spec.at_most is None or value <= spec.at_most,
    )
    named = (spec.equals, spec.at_least, spec.at_most) != (None, None, None)
    return named and all(limits)


def limit_text(spec: CheckSpec) -> str | int:
    """Return the limit as it is shown: a number, or a range."""
    if spec.equals is not None:
        return spec.equals
    low = f">= {spec.at_least}" if spec.at_least is not None else ""
    high = f"<= {spec.at_most}" if spec.at_most is not None else ""
    return " and ".join(part for part in (low, high) if part)
