"""What was compared and what it came to: counts only, taken from the checks as they were judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.reporting.reading import integer, items, mapping, text
from harness.reporting.units import number, size
from harness.reporting.view import Fact, Head, Sheet

NEAR: Final = "NEAR.STATE"
"""Rule of comparisons that allow a stated distance. They are counted apart: nearness is no equality."""
_EXACT: Final = ("EXACT.STATE", "EXACT.UNCHANGED")
_HEADS: Final = (
    Head(text="check"),
    Head(text="passed", right=True),
    Head(text="parts", right=True),
    Head(text="guarantee"),
    Head(text="witness"),
    Head(text="reused", right=True),
    Head(text="copied", right=True),
)
_FARTHEST: Final = Head(text="farthest", right=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """How many of all passed."""

    passed: int
    all: int

    def __str__(self) -> str:
        return f"{number(self.passed)}/{number(self.all)}"


def checks_of(body: Mapping[str, object]) -> list[object]:
    """Return the checks of all cells, in order."""
    return [check for cell in items(body, "cells") for check in items(cell, "checks")]


def share(checks: Sequence[object], *rules: str) -> Share:
    """Return how many checks of these rules passed."""
    states = [text(check, "outcome") for check in checks if _rule(check) in rules]
    return Share(passed=states.count("pass"), all=len(states))


def comparisons(body: Mapping[str, object]) -> Share:
    """Return how many exact comparisons were equal."""
    return share(checks_of(body), *_EXACT)


def controls(body: Mapping[str, object]) -> Share:
    """Return how many planted corruptions were seen."""
    return share(checks_of(body), "CTRL.SEEN")


def parts_compared(body: Mapping[str, object]) -> int:
    """Return how many part digests the equal comparisons rest on."""
    passed = [check for check in checks_of(body) if _rule(check) in _EXACT and text(check, "outcome") == "pass"]
    return sum(integer(check, "detail", "parts_compared") for check in passed)


def seen_whole(body: Mapping[str, object]) -> tuple[int, int]:
    """Return how many equal comparisons saw state parts, and how many rest on logits or tokens alone."""
    passed = [check for check in checks_of(body) if _rule(check) in _EXACT and text(check, "outcome") == "pass"]
    whole = sum(integer(check, "detail", "parts_compared") > 0 for check in passed)
    return whole, len(passed) - whole


def exactness_facts(body: Mapping[str, object]) -> list[Fact]:
    """Return the counts that say how much was looked at."""
    checks = checks_of(body)
    witnesses = sorted(
        {text(check, "detail", "witness") for check in checks if "witness" in mapping(check, "detail")} - {"none"}
    )
    restored = sum(integer(check, "detail", "restored_bytes") for check in checks if text(check, "outcome") == "pass")
    near = share(checks, NEAR)
    return [
        Fact(name="Comparisons equal", value=str(comparisons(body))),
        *([Fact(name="Comparisons within tolerance", value=f"{near}, not counted as equal")] if near.all else []),
        Fact(name="Part digests in equal comparisons", value=number(parts_compared(body))),
        Fact(name="Seen of the state", value=_grade(text(body, "observability"))),
        Fact(name="Planted corruptions seen", value=str(controls(body))),
        Fact(name="References that repeat themselves", value=str(share(checks, "REPEAT.COLD"))),
        Fact(name="Cells that came to their end", value=str(share(checks, "RUN.FINISHED"))),
        Fact(name="Inventories whole", value=str(share(checks, "STATE.INVENTORY"))),
        Fact(name="Restore witness", value=", ".join(witnesses) or "none: no check asks for one"),
        Fact(name="Bytes restored in equal comparisons", value=size(restored)),
    ]


def comparison_sheet(body: Mapping[str, object]) -> Sheet:
    """Return one row per exact comparison and control of the scenario, over all its cells."""
    groups: dict[str, list[object]] = {}
    for check in checks_of(body):
        if _rule(check) in (*_EXACT, NEAR, "CTRL.SEEN"):
            groups.setdefault(text(check, "id"), []).append(check)
    if not groups:
        return Sheet(heads=(), rows=(), note="Nothing was compared.")
    note = "Passed: of the cells that ran. Parts: part digests compared. Reused in tokens, copied back in bytes."
    rows = [_row(name, found) for name, found in groups.items()]
    if not share(checks_of(body), NEAR).all:
        return Sheet(heads=_HEADS, rows=rows, note=note)
    note += " Farthest: the distance that uses most of its limit, of comparisons that allow one."
    rows = [(*row, _farthest(found)) for row, found in zip(rows, groups.values(), strict=True)]
    return Sheet(heads=(*_HEADS, _FARTHEST), rows=rows, note=note)


def _row(name: str, found: Sequence[object]) -> Sequence[str]:
    plain = {"CTRL.SEEN": "control", "EXACT.UNCHANGED": "unchanged"}.get(_rule(found[0]))
    return (
        name,
        f"{sum(text(check, 'outcome') == 'pass' for check in found)}/{len(found)}",
        number(sum(integer(check, "detail", "parts_compared") for check in found)),
        plain or _words(found, "guarantee"),
        _words(found, "witness"),
        _range(found, "cached", number),
        _range(found, "restored_bytes", size),
    )


def _farthest(found: Sequence[object]) -> str:
    """Return the distance that uses most of its limit, with the limit; of other rules than nearness nothing."""
    told = [check for check in found if _rule(check) == NEAR and text(check, "unit", default="")]
    if not told:
        return "-"
    most = max(told, key=lambda check: integer(check, "observed") * 10**9 // max(1, integer(check, "limit")))
    unit = {"relative_ppb": "ppb", "absolute_nano": "nano"}.get(text(most, "unit"), text(most, "unit"))
    return f"{number(integer(most, 'observed'))} of {number(integer(most, 'limit'))} {unit}"


def _words(found: Sequence[object], name: str) -> str:
    words = {text(check, "detail", name, default="") for check in found} - {""}
    return ", ".join(sorted(words)).replace("_", " ") or "-"


def _range(found: Sequence[object], name: str, shown: Callable[[int], str]) -> str:
    values = [integer(check, "detail", name) for check in found if name in mapping(check, "detail")]
    if not values:
        return "-"
    low, high = shown(min(values)), shown(max(values))
    return low if low == high else f"{low} to {high}"


def _grade(grade: str) -> str:
    words = {
        "parts": "every state part, the logits and the tokens",
        "image": "the state as one opaque image, the logits and the tokens",
        "logits": "the logits and the tokens only",
        "tokens": "the tokens only",
    }
    return words.get(grade, grade)


def _rule(check: object) -> str:
    return text(check, "code").partition("@")[0]
