"""The tables of the matrix of element types: the exact form of each page above its coded forms, in units for people.

What is called *over* or *open* was judged by whoever made the certificate: it follows from a cell's reasons alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from harness.reporting.reading import UNKNOWN, at, integer, items, text, texts
from harness.reporting.units import counted, duration, number, percent, ratio, size, thousandths
from harness.reporting.view import Head, Sheet

METRICS: Final[Mapping[str, str]] = {
    "restore": "restore to first token",
    "import": "import",
    "total": "total cost",
}
"""What is measured of both forms, in words."""
OVER: Final[Mapping[str, str]] = {
    "larger": "size",
    "restore_slower": "restore",
    "import_slower": "import",
    "total_dearer": "total",
    "more_memory": "host",
}
"""Reasons that stop a cell, and the figure that each is about."""
_SPANS: Final[Mapping[str, str]] = {
    "encode": "encode",
    "write": "write",
    "read": "read",
    "import": "import",
    "first_token": "first token",
    "decode": "each token after it",
}
FEWEST: Final[Mapping[int, int]] = {90: 29, 95: 59}
"""Percentiles that a certificate may tell, and how many samples each needs."""
_TAILS: Final[Mapping[str, str]] = {"restore": "restore", "decode": "token after it"}
_RESTORE: Final[Mapping[str, str]] = {"restore": "measured", "composed": "composed", "overlap": "overlap"}
_DRIFTS: Final[Mapping[str, str]] = {
    "entropy_mean_nano": "entropy, mean",
    "entropy_most_nano": "entropy, most",
    "top_mean_nano": "top log-probability, mean",
    "top_most_nano": "top log-probability, most",
}


def label(row: object) -> str:
    """Return which page a cell is about, like ``K f16, V q8_0, 250 tokens, scheduled``."""
    tokens = counted(integer(row, "prefix"), "token")
    return f"K {text(row, 'k')}, V {text(row, 'v')}, {tokens}, {text(row, 'model')}"


def cells(body: Mapping[str, object]) -> Sheet:
    """Return the table that the decision follows from: limits, then each page in its exact and its coded forms."""
    heads = [*_heads(("page", "form"), ("bins",)), *_heads(("outcome",), ("bytes", *METRICS))]
    limit = [ratio_limit(body, name) for name in METRICS]
    rows = [["limit", "", "", "", size_limit(body), *limit], *_grouped(body, _exact, _coded)]
    note = (
        "Of a coded form: its median, and in brackets its ratio to the exact form: the median of the ratios of rounds, "
        "not the ratio of two medians. Over: its interval lies wholly above the limit. Open: nothing can be said. "
        "Restore: to the first token. Total: the cost of encode, write, read and import. Bytes have no interval. The "
        "memory of an import has its limit too, and a table of its own."
    )
    return Sheet(heads=heads, rows=rows, note=note)


def memory(body: Mapping[str, object]) -> Sheet:
    """Return the most memory that one import of each form took, on the host and on the device."""
    rows = _grouped(
        body,
        lambda row: ["exact", _shown(row, "exact_host_kib", _kib), _shown(row, "exact_device_bytes", size)],
        lambda row: [
            text(row, "codec"),
            f"{_shown(row, 'lossy_host_kib', _kib)}{_word(row, 'host')}",
            _shown(row, "lossy_device_bytes", size),
        ],
    )
    note = (
        f"Of the host: at most {memory_limit(body)}. In one import, beyond what was held before; the most of all "
        "processes, so there is no interval. Where the rows lie on the host, a device has none."
    )
    return Sheet(heads=_heads(("page", "form"), ("host", "device")), rows=rows, note=note)


def intervals(body: Mapping[str, object]) -> Sheet:
    """Return the interval of each ratio, which is what its limit is asked of."""
    heads = _heads(("page", "form"), METRICS.values())
    rows = [
        [label(row), text(row, "codec"), *(_between(row, name) for name in METRICS)] for row in items(body, "results")
    ]
    return Sheet(heads=heads, rows=rows, note="Interval of the median ratio, by a sign test, 95 %.")


def spans(body: Mapping[str, object]) -> Sheet:
    """Return where the time of each form goes."""
    return _medians(body, _SPANS, "Medians.")


def restores(body: Mapping[str, object]) -> Sheet:
    """Return a restore to the first token as it was measured, and as it is composed of its spans."""
    note = (
        "Medians. Measured: from the read to the end of the first token; this is judged. Composed: read, import and "
        "first token on their one clock, each moment counted once. Overlap: by how much the three are longer than that."
    )
    return _medians(body, _RESTORE, note)


def _medians(body: Mapping[str, object], columns: Mapping[str, str], note: str) -> Sheet:
    """Medians of both forms, a column for each."""

    def taken(row: object, arm: str) -> list[str]:
        return [_shown(row, f"{arm}_{name}_ns", duration) for name in columns]

    rows = _grouped(
        body,
        lambda row: ["exact", *taken(row, "exact")],
        lambda row: [text(row, "codec"), *taken(row, "lossy")],
    )
    return Sheet(heads=_heads(("page", "form"), columns.values()), rows=rows, note=note)


def percentiles(body: Mapping[str, object]) -> Sheet:
    """Return the percentiles of each form, or that there are too few samples for one."""

    def taken(row: object, arm: str) -> list[str]:
        return [_percentile(row, f"{arm}_{name}", percent) for name in _TAILS for percent in FEWEST]

    rows = _grouped(
        body, lambda row: ["exact", *taken(row, "exact")], lambda row: [text(row, "codec"), *taken(row, "lossy")]
    )
    heads = [f"{words}, {percent} %" for words in _TAILS.values() for percent in FEWEST]
    note = (
        "Nearest rank. Told where one of the samples lies above the percentile with 95 %, whatever the distribution "
        f"({', '.join(f'{percent} %: {fewest} samples' for percent, fewest in FEWEST.items())}), if samples are "
        "independent. Tokens of one round follow one another and are less than that. Nothing is judged by a percentile."
    )
    return Sheet(heads=_heads(("page", "form"), heads), rows=rows, note=note)


def continuation(body: Mapping[str, object]) -> Sheet:
    """Return how far a continuation from a coded page went with the exact one."""
    heads = _heads(
        ("page", "form"), ("same next token", "of all, at least", "first other", "first other, decoding freely")
    )
    rows = [
        [
            label(row),
            text(row, "codec"),
            _agreed(row),
            _shown(row, "agreement_low_ppm", percent),
            _step(row, "first_mismatch"),
            _step(row, "free_first_mismatch"),
        ]
        for row in items(body, "results")
    ]
    return Sheet(heads=heads, rows=rows, note="Steps count from 0. The bound is one-sided, 95 %.")


def drifts(body: Mapping[str, object]) -> Sheet:
    """Return how far the distribution of the next token lay from that of the exact form, with the same tokens."""
    rows = [
        [label(row), text(row, "codec"), *(_drift(row, name) for name in _DRIFTS)] for row in items(body, "results")
    ]
    return Sheet(
        heads=_heads(("page", "form"), _DRIFTS.values()),
        rows=rows,
        note="Thousandths of a nat: the distance of each step, their mean and the largest one.",
    )


def ratio_limit(body: Mapping[str, object], name: str) -> str:
    """Return the limit of a ratio, like ``at most 2.00x``."""
    return f"at most {_shown(body, f'{name}_ppm', ratio, 'procedure', 'limits')}"


def shown_ratio(row: object, name: str) -> str:
    """Return a ratio of a cell, like ``3.33x``."""
    return _shown(row, f"{name}_ppm", percent if name == "size" else ratio)


def size_limit(body: Mapping[str, object]) -> str:
    """Return the limit of the coded bytes, like ``below 100 %``."""
    return f"below {_shown(body, 'size_ppm', percent, 'procedure', 'limits')}"


def memory_limit(body: Mapping[str, object]) -> str:
    """Return the limit of an import's memory: that of the exact form, the page, and some more."""
    more = _shown(body, "host_kib", _kib, "procedure", "limits")
    return f"that of the exact form, the exact bytes and {more} more"


def bins(row: object) -> str:
    """Return the numbers of bins in a coded form, like ``16+32``."""
    return "+".join(number(one) for one in items(row, "bins") if isinstance(one, int)) or UNKNOWN


def _exact(row: object) -> list[str]:
    times = [_shown(row, f"exact_{name}_ns", duration) for name in METRICS]
    return ["exact", "-", "-", _shown(row, "exact_bytes", size), *times]


def _coded(row: object) -> list[str]:
    times = [
        f"{_shown(row, f'lossy_{name}_ns', duration)} ({shown_ratio(row, name)}{_word(row, name)})" for name in METRICS
    ]
    return [
        text(row, "codec"),
        bins(row),
        text(row, "outcome"),
        f"{_shown(row, 'lossy_bytes', size)} ({shown_ratio(row, 'size')}{_word(row, 'size')})",
        *times,
    ]


def _word(row: object, name: str) -> str:
    """What the reasons of a cell say of one figure."""
    reasons = texts(row, "reasons")
    if any(OVER.get(reason) == name for reason in reasons):
        return ", over"
    mine = any(reason.startswith(f"{name}_") for reason in reasons) or (name == "host" and "memory_not_seen" in reasons)
    return ", open" if mine else ""


def _grouped(
    body: Mapping[str, object], exact: Callable[[object], list[str]], coded: Callable[[object], list[str]]
) -> list[list[str]]:
    """Rows of each page: its exact form once, its coded forms below it."""
    rows: list[list[str]] = []
    above: list[str] = []
    for row in items(body, "results"):
        first = [label(row), *exact(row)]
        if first != above:
            rows.append(first)
            above = first
        rows.append(["", *coded(row)])
    return rows


def _between(row: object, name: str) -> str:
    low, high = (_shown(row, f"{name}_{end}_ppm", ratio) for end in ("low", "high"))
    return f"{low} to {high}{_word(row, name)}"


def _agreed(row: object) -> str:
    agreed, steps = at(row, "agreed"), integer(row, "steps")
    if not isinstance(agreed, int) or not steps:
        return UNKNOWN
    return f"{number(agreed)} of {number(steps)} ({percent(agreed * 1_000_000 // steps)})"


def _step(row: object, name: str) -> str:
    found = at(row, name)
    return UNKNOWN if not isinstance(found, int) else "none" if found < 0 else f"step {number(found)}"


def _percentile(row: object, name: str, percent: int) -> str:
    found, count = at(row, f"{name}_p{percent}_ns"), at(row, f"{name}_samples")
    if isinstance(found, int):
        return duration(found)
    return f"too few ({number(count)} < {number(FEWEST[percent])})" if isinstance(count, int) else UNKNOWN


def _drift(row: object, name: str) -> str:
    """A drift in thousandths of a nat; one that is not finite is unknown."""
    found = at(row, name)
    return thousandths(found) if isinstance(found, int) and found >= 0 else UNKNOWN


def _kib(count: int) -> str:
    return size(count << 10)


def _shown(value: object, name: str, unit: Callable[[int], str], *path: str) -> str:
    """A number with its unit; one that is not there is unknown, never 0."""
    found = at(value, *path, name)
    return unit(found) if isinstance(found, int) and not isinstance(found, bool) else UNKNOWN


def _heads(left: Sequence[str], right: Iterable[str]) -> list[Head]:
    return [*(Head(text=name) for name in left), *(Head(text=name, right=True) for name in right)]
