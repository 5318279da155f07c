"""One cell of the matrix of element types: its figures, and whether they lie within the limits. Pure.

0. the exact form comes back as it was, in every part, by the declared path, else the cell is an error;
1. size: the lossy form is smaller; of LCG2 its bytes are those of the formula, else the cell is an error;
2. restore to first token (measured, from the read to the end of the first decode step), import, and total cost
   (encode + write + read + import) lie within their limits, by the interval of the median of paired ratios that a sign
   test gives: wholly below a limit is within it, wholly above is a stop, anything else is inside the noise;
3. processes that disagree by more than ``spread_ppm`` are unstable, a ratio below ``implausible_ppm`` is implausible,
   times that are the same in every round are constant (the clock stands), and an exact arm that differs from itself
   shows the noise: each of them is inconclusive, however good it looks;
4. transient memory of the host stays within its limit; memory that is planted must be seen.

A smaller payload with a dearer total is a stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.deriving.campaign_body import integer_of, mapping_of
from harness.deriving.kv_figures import (
    METRICS,
    PERCENTS,
    PPM,
    SPANS,
    composed,
    cost,
    decodes,
    fewest_of,
    integers,
    interval,
    lcg2_bytes,
    lower_bound_ppm,
    maps,
    overlap,
    percentile,
    ratio_ppm,
    spans_of,
)
from harness.deriving.kv_plan import CONTROL, EXACT, PLANTED, Group, restore_path_of
from harness.deriving.kv_reading import Reading
from harness.deriving.soak import median
from harness.model.campaign import Record

STOPS: Final = ("larger", "restore_slower", "import_slower", "total_dearer", "more_memory")
_SLOWER: Final = {"restore": "restore_slower", "import": "import_slower", "total": "total_dearer"}
_WALK: Final = (
    "steps", "agreed", "first_mismatch", "free_first_mismatch", "entropy_mean_nano", "entropy_most_nano",
    "top_mean_nano", "top_most_nano",
)  # fmt: skip


def cell_of(reading: Reading, group: Group, version: int) -> dict[str, object]:
    """Return everything about one cell.

    Args:
        reading: The records.
        group: The page.
        version: Of the segments.
    """
    lossy = f"lossy_lcg{version}"
    rounds = reading.rounds_of(group)
    told = mapping_of(mapping_of(reading.page(0, group), "archives"), lossy)
    row = {
        **_about(reading, group, version, told),
        **_times(rounds, lossy),
        **(_percentiles(rounds, lossy) if reading.version >= 3 else {}),
        **_memory(reading, group, lossy),
        **_ratios(rounds, lossy),
        **_continued(reading.walk(group, version)),
    }
    outcome, reasons = _judge(reading, row, rounds, lossy)
    broken = _broken(reading, group, told)
    if broken:
        outcome, reasons = "error", [*(reasons if outcome == "error" else []), *broken]
    return {**row, "outcome": outcome, "reasons": reasons}


def reasons_of(cell: Mapping[str, object]) -> list[str]:
    """Return the reasons that a cell gives."""
    reasons = cell["reasons"]
    return [str(word) for word in reasons] if isinstance(reasons, list) else []


# -- figures ---------------------------------------------------------------------------------------


def _about(reading: Reading, group: Group, version: int, told: Record) -> dict[str, object]:
    page = reading.page(0, group)
    exact_bytes, lossy_bytes = integer_of(page, "raw"), integer_of(told, "bytes")
    return {
        "name": f"{group.id},codec=lcg{version}",
        "class": "lossy",
        "k": group.k,
        "v": group.v,
        "model": group.model,
        "prefix": group.prefix,
        "codec": f"lcg{version}",
        "path": str(told["path"]),
        **({"restored": str(told["restored"])} if "restored" in told else {}),
        "bins": integers(told, "bins"),
        "pairs": reading.processes * reading.rounds,
        "processes": reading.processes,
        "exact_bytes": exact_bytes,
        "lossy_bytes": lossy_bytes,
        "formula_bytes": lcg2_bytes(maps(page, "components")) if version == 2 else 0,
        "size_ppm": ratio_ppm(lossy_bytes, exact_bytes),
    }


def _times(rounds: Sequence[Sequence[Record]], lossy: str) -> dict[str, object]:
    flat = [one for process in rounds for one in process]
    row: dict[str, object] = {}
    for arm, label in ((EXACT, "exact"), (lossy, "lossy")):
        row |= {
            f"{label}_{name}_ns": median([cost(one, arm, name) for one in flat])
            for name in (*SPANS, "restore", "total")
        }
        row[f"{label}_composed_ns"] = median([composed(spans_of(one, arm)) for one in flat])
        row[f"{label}_overlap_ns"] = median([overlap(spans_of(one, arm)) for one in flat])
        row[f"{label}_decode_ns"] = median([ns for one in flat for ns in decodes(one, arm)])
    return row


def _percentiles(rounds: Sequence[Sequence[Record]], lossy: str) -> dict[str, object]:
    """How many samples there are, and the percentiles that so many can show; others are not there."""
    flat = [one for process in rounds for one in process]
    row: dict[str, object] = {}
    for arm, label in ((EXACT, "exact"), (lossy, "lossy")):
        samples = {
            "restore": [cost(one, arm, "restore") for one in flat],
            "decode": [ns for one in flat for ns in decodes(one, arm)],
        }
        for name, values in samples.items():
            row[f"{label}_{name}_samples"] = len(values)
            row |= {
                f"{label}_{name}_p{percent}_ns": percentile(values, percent)
                for percent in PERCENTS
                if len(values) >= fewest_of(percent)
            }
    return row


def _memory(reading: Reading, group: Group, lossy: str) -> dict[str, object]:
    """The most that any process took; of what was planted, the least that any process saw."""
    row: dict[str, object] = {}
    for arm, label in ((EXACT, "exact"), (lossy, "lossy")):
        took = reading.memory(group, arm)
        row |= {
            f"{label}_host_kib": max(host for host, _ in took),
            f"{label}_device_bytes": max(device for _, device in took),
        }
    return {**row, "planted_host_kib": min(host for host, _ in reading.memory(group, PLANTED))}


def _ratios(rounds: Sequence[Sequence[Record]], lossy: str) -> dict[str, object]:
    row: dict[str, object] = {}
    for name in METRICS:
        found = [one for process in rounds for one in _paired(process, lossy, name)]
        low, high = interval(found)
        row |= {f"{name}_ppm": median(found), f"{name}_low_ppm": low, f"{name}_high_ppm": high}
    return row


def _paired(rounds: Sequence[Record], arm: str, name: str) -> list[int]:
    """An arm beside the exact one, round by round, in millionths."""
    return [ratio_ppm(cost(one, arm, name), cost(one, EXACT, name)) for one in rounds]


def _continued(walk: Record) -> dict[str, object]:
    found: dict[str, object] = {name: integer_of(walk, name) for name in _WALK}
    return {**found, "agreement_low_ppm": lower_bound_ppm(integer_of(walk, "agreed"), integer_of(walk, "steps"))}


# -- limits ----------------------------------------------------------------------------------------


def _broken(reading: Reading, group: Group, told: Record) -> list[str]:
    """What makes a comparison of this page one of something else than was declared."""
    pages = [reading.page(process, group) for process in range(reading.processes)]
    differs = any(page["back"] != page["state"] for page in pages)
    elsewhere = told.get("restored", "") != restore_path_of(reading.procedure)
    return [word for word, holds in (("exact_differs", differs), ("path_differs", elsewhere)) if holds]


def _judge(
    reading: Reading, row: Mapping[str, object], rounds: Sequence[Sequence[Record]], lossy: str
) -> tuple[str, list[str]]:
    errors = []
    if row["codec"] == "lcg2" and row["lossy_bytes"] != row["formula_bytes"]:
        errors.append("size_formula")
    if integer_of(row, "pairs") < integer_of(reading.limits, "pairs") or reading.processes < 2:
        errors.append("too_few_pairs")
    if errors:
        return "error", errors
    stops = ["larger"] if integer_of(row, "size_ppm") >= integer_of(reading.limits, "size_ppm") else []
    unsure: list[str] = []
    for name in METRICS:
        word = _time_reason(reading.limits, row, rounds, lossy, name)
        if word:
            (stops if word in STOPS else unsure).append(word)
    larger, blind = _memory_reasons(reading.limits, row)
    stops, unsure = [*stops, *larger], [*unsure, *blind]
    if stops:
        return "stop", [*stops, *unsure]
    return ("inconclusive", unsure) if unsure else ("pass", [])


def _time_reason(
    limits: Record, row: Mapping[str, object], rounds: Sequence[Sequence[Record]], lossy: str, name: str
) -> str:
    """Why a time is not within its limit; empty if it is."""
    limit, noise = integer_of(limits, f"{name}_ppm"), integer_of(limits, "noise_ppm")
    own = [median(_paired(process, lossy, name)) for process in rounds]
    agree = len({one > limit for one in own}) == 1
    small, large = interval([one for process in rounds for one in _paired(process, CONTROL, name)])
    if not agree and max(own) - min(own) > integer_of(limits, "spread_ppm"):
        return f"{name}_unstable"
    if not (small <= PPM + noise and large >= PPM - noise):
        return f"{name}_control_moved"
    if integer_of(row, f"{name}_ppm") < integer_of(limits, "implausible_ppm"):
        return f"{name}_implausible"
    if all(len({cost(one, arm, name) for many in rounds for one in many}) == 1 for arm in (lossy, EXACT)):
        return f"{name}_constant"
    if integer_of(row, f"{name}_low_ppm") > limit:
        return _SLOWER[name]
    return f"{name}_in_noise" if integer_of(row, f"{name}_high_ppm") > limit else ""


def _memory_reasons(limits: Record, row: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """What the memory of a cell's imports stops, and what it leaves open."""
    page = integer_of(row, "exact_bytes") // 1024
    allowed = integer_of(row, "exact_host_kib") + page + integer_of(limits, "host_kib")
    larger = ["more_memory"] if integer_of(row, "lossy_host_kib") > allowed else []
    return larger, ["memory_not_seen"] if integer_of(row, "planted_host_kib") < page else []
