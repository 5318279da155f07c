"""Checks that compare no states: counts, refusals, sizes and what else was asked, one row each over all cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.reporting.exactness import checks_of
from harness.reporting.reading import at, text
from harness.reporting.units import number
from harness.reporting.view import Head, Section, Sheet

_SHOWN_ELSEWHERE: Final = frozenset(
    {"EXACT.STATE", "EXACT.UNCHANGED", "NEAR.STATE", "CTRL.SEEN", "REPEAT.COLD", "STATE.INVENTORY", "RUN.FINISHED"}
)
"""Rules of comparisons and controls, and of the harness' own checks: they have their counts under exactness."""
_HEADS: Final = (
    Head(text="check"),
    Head(text="rule"),
    Head(text="passed", right=True),
    Head(text="observed", right=True),
    Head(text="limit", right=True),
    Head(text="unit"),
)
_MOST_VALUES: Final = 4


def count_sections(body: Mapping[str, object]) -> list[Section]:
    """Return the part of a page on counts and refusals; nothing where a scenario asks none."""
    groups: dict[str, list[object]] = {}
    for check in checks_of(body):
        if _rule(check) not in _SHOWN_ELSEWHERE:
            groups.setdefault(text(check, "id"), []).append(check)
    if not groups:
        return []
    note = "Passed: of the cells that ran. Where cells differ, every value that occurs is shown."
    rows = [_row(name, found) for name, found in groups.items()]
    return [Section(title="Counts and refusals", sheet=Sheet(heads=_HEADS, rows=rows, note=note))]


def _row(name: str, found: Sequence[object]) -> Sequence[str]:
    units = dict.fromkeys(text(check, "unit", default="") for check in found)
    return (
        name,
        text(found[0], "code"),
        f"{sum(text(check, 'outcome') == 'pass' for check in found)}/{len(found)}",
        _values(found, "observed"),
        _values(found, "limit"),
        ", ".join(unit for unit in units if unit) or "-",
    )


def _values(found: Sequence[object], name: str) -> str:
    values = list(dict.fromkeys(_shown(at(check, name)) for check in found))
    more = f" and {number(len(values) - _MOST_VALUES)} more" if len(values) > _MOST_VALUES else ""
    return ", ".join(values[:_MOST_VALUES]) + more


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return number(value)
    return value if isinstance(value, str) and value else "-"


def _rule(check: object) -> str:
    return text(check, "code").partition("@")[0]
