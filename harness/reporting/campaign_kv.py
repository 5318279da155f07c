"""What a report says of the matrix of element types: read from its certificate, nothing decided."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from harness.model.certificate import Certificate
from harness.reporting import kv_sheets
from harness.reporting.claimable import subject
from harness.reporting.reading import at, integer, items, mapping, text, texts
from harness.reporting.reasons import reason_sentence, spaced
from harness.reporting.told import Told
from harness.reporting.units import counted, number
from harness.reporting.view import Fact, Head, Problem, Section, Sheet
from harness.reporting.words import mark

_LIMITS: Final[Mapping[str, str]] = {
    "larger": "bytes",
    "restore_slower": "restore to first token",
    "import_slower": "import",
    "total_dearer": "total cost",
    "more_memory": "host memory",
}
"""Reasons that stop a cell, as what they are about."""
_MOST_NAMED: Final = 8
"""Cells named for one reason."""
COLUMNS: Final = {
    "name": "cell",
    "class": "class",
    "outcome": "outcome",
    "exact_bytes": "exact bytes",
    "lossy_bytes": "lossy bytes",
    "size_ppm": "size, ppm",
    "exact_restore_ns": "exact restore, ns",
    "lossy_restore_ns": "lossy restore, ns",
    "restore_ppm": "restore, ppm",
    "import_ppm": "import, ppm",
    "total_ppm": "total, ppm",
    "bins": "bins",
    "lossy_composed_ns": "composed, ns",
    "lossy_overlap_ns": "overlap, ns",
    "lossy_host_kib": "host, KiB",
    "agreed": "agreed",
    "steps": "steps",
    "agreement_low_ppm": "at least, ppm",
    "first_mismatch": "first mismatch",
}
"""Columns of a cell in the table of ``statecert kv``, which programs read too."""


def kv(certificate: Certificate) -> Told:
    """Return all that is particular to a matrix of element types."""
    body = certificate.body
    problems = _problems(body)
    return Told(
        title="Slice of the matrix of K/V element types" if _is_slice(body) else "Matrix of K/V element types",
        sentence=f"{_sentence(body)}.",
        claims=[],
        no_claims=[
            "No quality: weights come from a seed, and agreement of such a model says nothing of another one.",
            _no_percentile(body),
            "No exactness of any lossy row: lossy and exact are classes of their own.",
            "No other model, engine version or class of hardware.",
        ],
        problems=problems,
        problems_note="" if problems else "Every cell lies within its limits.",
        sections=[
            Section(title="Cells: coded form beside exact form", sheet=kv_sheets.cells(body)),
            Section(title="Intervals of the ratios", sheet=kv_sheets.intervals(body)),
            Section(title="Restore to first token: measured and composed", sheet=kv_sheets.restores(body)),
            Section(title="Where the time goes", sheet=kv_sheets.spans(body)),
            *([Section(title="Percentiles", sheet=kv_sheets.percentiles(body))] if _has_samples(body) else []),
            Section(title="Memory of an import", sheet=kv_sheets.memory(body)),
            Section(title="Continuation: no statement about quality", sheet=kv_sheets.continuation(body)),
            Section(title="Drift of a continuation", sheet=kv_sheets.drifts(body)),
            Section(
                title="What was measured",
                facts=[
                    Fact(name="Pages", value=_pages(body)),
                    Fact(name="Processes", value=text(body, "procedure", "processes")),
                    Fact(name="Rounds of each", value=text(body, "procedure", "rounds")),
                    Fact(name="Path of the encoder", value=text(body, "procedure", "path")),
                    Fact(name="Path of the decoder", value=_restored(body)),
                    Fact(name="Quality", value=spaced(text(body, "quality"))),
                ],
            ),
            Section(title="Entries of the catalogue", sheet=_entries(body)),
            Section(title="Excluded types", sheet=_excluded(body)),
        ],
        command=_command(body),
        count=f"{number(_within(body))}/{number(len(items(body, 'results')))} cells within limits",
        headline=f"{problems[0].cell}: {problems[0].reason}" if problems else f"{_sentence(body)}.",
    )


def _sentence(body: Mapping[str, object]) -> str:
    """Verdict first, then what it rests on."""
    cells, entries = items(body, "results"), items(body, "entries")
    verdict = mark(text(body, "decision", "overall")).word
    good = sum(text(row, "outcome") == "pass" for row in entries)
    return (
        f"{verdict[:1].upper()}{verdict[1:]}: {number(_within(body))} of {counted(len(cells), 'cell')} of coded pages "
        f"within all limits{_passed_over(cells)}; {good} of {counted(len(entries), 'entry', 'entries')} of the "
        f"catalogue hold; {subject(body)}"
    )


def _passed_over(cells: Sequence[object]) -> str:
    counts = {reason: sum(reason in texts(row, "reasons") for row in cells) for reason in _LIMITS}
    said = [f"{_LIMITS[reason]} in {counted(count, 'cell')}" for reason, count in counts.items() if count]
    return f" (over a limit: {', '.join(said)})" if said else ""


def _pages(body: Mapping[str, object]) -> str:
    asked = mapping(body, "procedure")
    tokens = " and ".join(number(one) for one in items(asked, "prefixes") if isinstance(one, int))
    return f"K and V of {', '.join(texts(asked, 'coded'))}; {tokens} tokens; {', '.join(mapping(asked, 'models'))}"


def _restored(body: Mapping[str, object]) -> str:
    """The path that restored, as the engine told it of every import."""
    found = sorted({text(row, "restored") for row in items(body, "results") if at(row, "restored") is not None})
    return ", ".join(found) or "not told; procedures before version 3 did not ask"


def _is_slice(body: Mapping[str, object]) -> bool:
    return text(body, "claim_key").startswith("kv_slice/")


def _has_samples(body: Mapping[str, object]) -> bool:
    """Whether its procedure asked for percentiles."""
    return any(at(row, "lossy_restore_samples") is not None for row in items(body, "results"))


def _no_percentile(body: Mapping[str, object]) -> str:
    return "No percentile of too few samples." if _has_samples(body) else "No percentile but the median."


def _command(body: Mapping[str, object]) -> str:
    words = ["statecert", "kv"]
    words += [word for name in ("scale", "processes", "rounds", "steps", "path") for word in _option(body, name)]
    if at(body, "procedure", "restore") is not None:
        words += _option(body, "restore")
    asked = mapping(body, "procedure")
    words += [word for one in texts(asked, "coded") for word in ("--type", one)]
    words += [word for one in sorted(mapping(asked, "models")) for word in ("--model", one)]
    words += [word for one in items(asked, "versions") for word in ("--lcg", str(one))]
    return shlex.join(words)


def _option(body: Mapping[str, object], name: str) -> list[str]:
    return [f"--{name}", text(body, "procedure", name)]


def _within(body: Mapping[str, object]) -> int:
    return sum(text(row, "outcome") == "pass" for row in items(body, "results"))


def _entries(body: Mapping[str, object]) -> Sheet:
    heads = [Head(text=words) for words in ("entry", "outcome", "asked", "did not hold")]
    rows = [
        [text(row, "entry"), text(row, "outcome"), number(integer(row, "asked")), "; ".join(texts(row, "failed"))]
        for row in items(body, "entries")
    ]
    return Sheet(heads=heads, rows=rows, note="H06 is the matrix itself: the tables of cells above.")


def _excluded(body: Mapping[str, object]) -> Sheet:
    heads = [Head(text=words) for words in ("type", "cells", "refused with")]
    rows = [[text(row, "types"), number(integer(row, "cells")), text(row, "reason")] for row in items(body, "excluded")]
    return Sheet(heads=heads, rows=rows)


def _problems(body: Mapping[str, object]) -> list[Problem]:
    """What did not hold: of the catalogue by entry, of the cells by reason, each with the cells that give it."""
    found = [_entry_problem(row) for row in items(body, "entries") if text(row, "outcome") != "pass"]
    results = items(body, "results")
    groups: dict[tuple[str, str], list[object]] = {}
    for row in results:
        for reason in texts(row, "reasons") or ([] if text(row, "outcome") == "pass" else [""]):
            groups.setdefault((_state(row, reason), reason), []).append(row)
    order = ("error", "fail")
    worst = sorted(groups, key=lambda one: order.index(one[0]) if one[0] in order else len(order))
    return [*found, *(_cell_problem(body, state, reason, groups[state, reason], results) for state, reason in worst)]


def _state(row: object, reason: str) -> str:
    """Of one reason of a cell: a stopped cell may leave other questions open."""
    outcome = text(row, "outcome")
    if outcome == "stop":
        return "fail" if reason in (*kv_sheets.OVER, "") else "inconclusive"
    return outcome


def _entry_problem(row: object) -> Problem:
    return Problem(
        cell=text(row, "entry"),
        state=text(row, "outcome"),
        check="entry_failed",
        code="",
        observed="; ".join(texts(row, "failed")) or "missing",
        limit="every probe holds",
        reason=reason_sentence("entry_failed"),
        place="",
    )


def _cell_problem(
    body: Mapping[str, object], state: str, reason: str, rows: Sequence[object], results: Sequence[object]
) -> Problem:
    observed, limit = _figures(body, reason, rows)
    return Problem(
        cell=f"{number(len(rows))} of {counted(len(results), 'cell')}",
        state=state,
        check=reason,
        code="",
        observed=observed,
        limit=limit,
        reason=reason_sentence(reason),
        place=_which(rows, results),
    )


def _figures(body: Mapping[str, object], reason: str, rows: Sequence[object]) -> tuple[str, str]:
    """What was seen of the figure that a reason is about, and its limit; nothing where it is about no figure."""
    name = kv_sheets.OVER.get(reason) or reason.partition("_")[0]
    if name == "size" and reason == "larger":
        return _range(rows, name), f"{kv_sheets.size_limit(body)} of the exact form"
    if name == "host":
        return "", f"at most {kv_sheets.memory_limit(body)}"
    if name in kv_sheets.METRICS:
        return _range(rows, name), f"{kv_sheets.ratio_limit(body, name)} of the exact form"
    return "", ""


def _range(rows: Sequence[object], name: str) -> str:
    ordered = sorted(rows, key=lambda row: integer(row, f"{name}_ppm"))
    low, high = (kv_sheets.shown_ratio(row, name) for row in (ordered[0], ordered[-1]))
    return low if low == high else f"{low} to {high}"


def _which(rows: Sequence[object], results: Sequence[object]) -> str:
    """Name the cells, or the few that are not meant."""
    names = [f"{kv_sheets.label(row)}, {text(row, 'codec')}" for row in rows]
    others = [f"{kv_sheets.label(row)}, {text(row, 'codec')}" for row in results if row not in rows]
    if not others:
        return "every cell"
    but = len(others) < len(names)
    shown = others if but else names
    more = f"; and {number(len(shown) - _MOST_NAMED)} more, marked in the table" if len(shown) > _MOST_NAMED else ""
    return f"{'all but ' if but else ''}{'; '.join(shown[:_MOST_NAMED])}{more}"
