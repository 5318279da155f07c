"""What did not pass, worst first: which check, what was seen, what was allowed, why, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.reporting.explain import blame_in_words, phase_in_words, shape_in_words
from harness.reporting.reading import UNKNOWN, at, integer, items, mapping, text
from harness.reporting.reasons import reason_sentence, witness_fault
from harness.reporting.units import counted, number
from harness.reporting.view import Problem

_WORST_FIRST: Final = ("fail", "error", "inconclusive", "not_run")
_QUIET: Final = ("pass", "excluded", "not_supported")
_MOST: Final = 40
_MOST_NAMED: Final = 8
_LEFT_OUT: Final[Mapping[str, str]] = {
    "not_supported": "not supported",
    "not_run": "not run",
    "excluded": "excluded by a rule of the scenario",
}


def problems(body: Mapping[str, object]) -> tuple[list[Problem], str]:
    """Return what did not pass, worst first, and a sentence about it."""
    found = [problem for cell in items(body, "cells") for problem in _of_cell(cell)]
    order = sorted(range(len(found)), key=lambda index: (_rank(found[index].state), index))
    shown = [found[index] for index in order[:_MOST]]
    if not found:
        return [], _nothing_failed(body)
    cut = f"{number(len(found) - _MOST)} more are in the record; the worst stand here." if len(found) > _MOST else ""
    return shown, cut


def _nothing_failed(body: Mapping[str, object]) -> str:
    """Say that nothing failed, and name every cell that nothing was asked of."""
    left_out = [
        f"{word}: {_named([text(cell, 'id') for cell in items(body, 'cells') if text(cell, 'outcome') == state])}"
        for state, word in _LEFT_OUT.items()
        if any(text(cell, "outcome") == state for cell in items(body, "cells"))
    ]
    if not left_out:
        return "Nothing failed, nothing is inconclusive, nothing was left out."
    return f"Nothing failed and nothing is inconclusive of what ran. Not looked at: {'; '.join(left_out)}."


def _named(cells: Sequence[str]) -> str:
    more = f" and {number(len(cells) - _MOST_NAMED)} more" if len(cells) > _MOST_NAMED else ""
    return f"{', '.join(cells[:_MOST_NAMED])}{more}"


def _of_cell(cell: object) -> list[Problem]:
    state, cell_id = text(cell, "outcome"), text(cell, "id")
    checks = [check for check in items(cell, "checks") if text(check, "outcome") != "pass"]
    if checks:
        return [_of_check(cell_id, check) for check in checks]
    return [] if state in _QUIET else [_whole(cell_id, state, text(cell, "reason", default=""))]


def _whole(cell_id: str, state: str, reason: str) -> Problem:
    return Problem(
        cell=cell_id,
        state=state,
        check="",
        code="",
        observed="",
        limit="",
        reason=reason_sentence(reason),
        place="",
    )


def _of_check(cell_id: str, check: object) -> Problem:
    compares = text(check, "code").startswith("EXACT.")
    unit = text(check, "unit", default="differing" if compares else "")
    return Problem(
        cell=cell_id,
        state=text(check, "outcome"),
        check=text(check, "id"),
        code=text(check, "code"),
        observed=_amount(at(check, "observed"), unit),
        limit=_amount(at(check, "limit"), unit),
        reason=reason_sentence(text(check, "reason", default="")),
        place=_place(check),
    )


def _amount(value: object, unit: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{number(value)} {unit}".rstrip()
    return f"{value} {unit}".rstrip() if isinstance(value, str) and value else ""


def _place(check: object) -> str:
    detail = mapping(check, "detail")
    located = "part" in detail and "refusal" not in detail and text(check, "code").startswith("EXACT.")
    told = blame_in_words if located else phase_in_words
    phase = told(text(detail, "phase")) if "phase" in detail else ""
    if "witness" in detail and "how" in detail:
        return _witness_place(detail)
    counts = text(check, "code").startswith(
        "EXACT.STATE@"
    )  # it counts all that differs; others count bytes, or nothing
    pieces = [phase, *_detail_pieces(detail, integer(check, "observed") if counts else 0)]
    return f"{_capital('; '.join(piece for piece in pieces if piece))}." if any(pieces) else ""


def _witness_place(detail: Mapping[str, object]) -> str:
    counts = ", ".join(
        f"{name} {text(detail, key)}"
        for key, name in (("cached", "reused"), ("forwarded", "forwarded"), ("prompt_tokens", "prompt"))
        if key in detail
    )
    at = f" at {text(detail, 'at')}" if "at" in detail else ""
    told = f" ({counts})" if counts else ""
    return f"Witness {text(detail, 'witness')}{at}: {witness_fault(text(detail, 'how'))}{told}."


def _detail_pieces(detail: Mapping[str, object], observed: int) -> Sequence[str]:
    pieces: list[str] = []
    if "part" in detail:
        layer = text(detail, "layer", default="-1")
        inner = ", ".join(word for word in (text(detail, "family", default=""), f"layer {layer}") if word)
        pieces.append(f"first at {text(detail, 'part')}" + (f" ({inner})" if layer != "-1" else ""))
    if "row" in detail:
        pieces.append(f"row {text(detail, 'row')}, element {text(detail, 'element')}")
        pieces.append(f"{text(detail, 'reference_value')} expected, {text(detail, 'candidate_value')} found")
    if "shape" in detail:
        pieces.append(shape_in_words(text(detail, "shape"), integer(detail, "differing_elements")))
    if "parts_differing" in detail:
        differing, compared = integer(detail, "parts_differing"), text(detail, "parts_compared")
        others = observed - differing  # what is compared and is no part
        more = f" and {others} of logits, tokens and position" if others > 0 else ""
        pieces.append(f"{number(differing)} of {compared} parts{more} differ")
    if "arm" in detail:
        pieces.append(f"step {text(detail, 'arm')}.{text(detail, 'label')}")
    if "refusal" in detail:
        pieces.append(f"refused as {text(detail, 'refusal')}")
    return pieces


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _rank(state: str) -> int:
    return _WORST_FIRST.index(state) if state in _WORST_FIRST else 0


def headline(found: Sequence[Problem]) -> str:
    """Return the worst problem in one line; empty: there is none."""
    if not found:
        return ""
    worst = found[0]
    more = f" ({counted(len(found) - 1, 'more problem')})" if len(found) > 1 else ""
    what = worst.check or worst.cell
    return f"{what if what != UNKNOWN else worst.cell}: {worst.reason}{more}"
