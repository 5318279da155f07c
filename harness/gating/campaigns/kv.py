"""Counts of the matrix of element types: against each other, and against the rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from statistics import median_low
from typing import Any, Final

from harness.gating.campaigns.decision import hold_counts, untrusted
from harness.gating.rule import Body, Problem, Problems

Record = Mapping[str, Any]
_SLOWER: Final = {"restore": "restore_slower", "import": "import_slower", "total": "total_dearer"}
_MOST: Final = {
    "size_ppm": 1_000_000,
    "restore_ppm": 1_000_000,
    "import_ppm": 2_000_000,
    "total_ppm": 1_000_000,
    "host_kib": 4096,
    "noise_ppm": 100_000,
    "spread_ppm": 250_000,
}
_LEAST: Final = {"pairs": 10, "implausible_ppm": 20_000}
"""The loosest limits under which a matrix counts; a run may state narrower ones."""
_LEAST_VERSION: Final = 3
"""Of the procedure of a certificate that is current; older ones are history, and are judged by what they asked for."""
_STOPS: Final = ("larger", "restore_slower", "import_slower", "total_dearer", "more_memory")


def outdated(body: Body) -> Problems:
    """A procedure that is asked of what holds today says its version: an older one asks for less."""
    found = body["procedure"].get("version", 1)
    if found < _LEAST_VERSION:
        said = f"is of version {found}" if found > 1 else "names no version"
        yield Problem("/body/procedure", f"{said}; what is current has one from {_LEAST_VERSION} on")


_PERCENTS: Final = {90: 29, 95: 59}
"""Percentiles, and the fewest samples of which one lies above them with 95 %: 0.9^29 and 0.95^59 are below 0.05."""


def in_body(body: Body) -> Problems:
    """Hold the cells against the product, each against its limits, and the decision against all of them."""
    asked, cells = body["procedure"], body["results"]
    limits = asked["limits"]
    for name in (*_MOST, *_LEAST):
        if limits[name] > _MOST.get(name, limits[name]) or limits[name] < _LEAST.get(name, 0):
            known = _MOST.get(name, _LEAST.get(name))
            yield Problem(f"/body/procedure/limits/{name}", f"is {limits[name]}, looser than {known}")
    axes = (asked["models"], asked["prefixes"], asked["coded"], asked["coded"], asked["versions"])
    wanted = {f"k={k},v={v},model={m},prefix={p},codec=lcg{n}" for m, p, k, v, n in product(*axes)}
    named = [cell["name"] for cell in cells]
    if set(named) != wanted or len(named) != len(wanted):
        yield Problem("/body/results", f"are {len(named)} cells; the product has {len(wanted)}")
    whole = len(asked["types"]) ** 2 * len(asked["versions"]) * len(asked["models"]) * len(asked["prefixes"])
    if len(named) + sum(one["cells"] for one in body["excluded"]) != whole:
        yield Problem("/body/excluded", f"and the cells do not make up the whole product of {whole}")
    for index, cell in enumerate(cells):
        for text in (*_elsewhere(cell, asked), *_of_too_few(cell), *_faults(cell, asked["limits"])):
            yield Problem(f"/body/results/{index}", text)
    overall, reasons = _decided(body)
    if body["decision"] != {"overall": overall, "reasons": reasons}:
        yield Problem("/body/decision", f"is not {overall} ({', '.join(reasons) or 'no reasons'}), as its rows give")


def _elsewhere(cell: Record, asked: Record) -> Iterable[str]:
    """A path that took the place of the declared one, where the cell keeps it to itself."""
    if cell.get("restored", "") != asked.get("restore", "") and "path_differs" not in cell["reasons"]:
        yield f"was restored by {cell.get('restored', 'an unnamed path')}, and does not say that it differs"


def _of_too_few(cell: Record) -> Iterable[str]:
    """Percentiles that so many samples cannot show."""
    for name, percent in _told(cell):
        if cell.get(f"{name}_samples", 0) < _PERCENTS[percent]:
            yield f"tells the {percent}th percentile of {name} of too few samples"


def _faults(cell: Record, limits: Record) -> Iterable[str]:
    """What a cell claims and its own figures do not bear out."""
    reasons = set(cell["reasons"])
    grown = cell["lossy_bytes"] * 1_000_000 // max(1, cell["exact_bytes"])
    if cell["size_ppm"] != grown:
        yield f"says {cell['size_ppm']} ppm of size; its bytes give {grown}"
    if cell["codec"] == "lcg2" and (cell["lossy_bytes"] != cell["formula_bytes"]) != ("size_formula" in reasons):
        yield "does not say whether its bytes are those of the formula"
    few = cell["pairs"] < limits["pairs"] or cell["processes"] < 2
    if few != ("too_few_pairs" in reasons):
        yield "does not say whether it has enough pairs"
    if few or reasons & {"size_formula", "exact_differs", "path_differs"}:
        if cell["outcome"] != "error":
            yield f"is {cell['outcome']} and should be an error"
        return
    if (grown >= limits["size_ppm"]) != ("larger" in reasons):
        yield "does not say whether it is smaller"
    for name, word in _SLOWER.items():
        if word in reasons and cell[f"{name}_low_ppm"] <= limits[f"{name}_ppm"]:
            yield f"says {word}, and its interval reaches below the limit"
        quiet = not any(reason.startswith(f"{name}_") for reason in reasons)
        if quiet and cell[f"{name}_high_ppm"] > limits[f"{name}_ppm"]:
            yield f"says nothing of {name}, and its interval reaches above the limit"
    if (cell["planted_host_kib"] < cell["exact_bytes"] // 1024) != ("memory_not_seen" in reasons):
        yield "does not say whether planted memory was seen"
    outcome = "stop" if reasons & {*_STOPS} else "inconclusive" if reasons else "pass"
    if cell["outcome"] != outcome:
        yield f"is {cell['outcome']}; its reasons give {outcome}"


def _told(cell: Record) -> Iterable[tuple[str, int]]:
    """The percentiles that a cell tells."""
    names = product(("exact", "lossy"), ("restore", "decode"), _PERCENTS)
    return [(f"{arm}_{what}", percent) for arm, what, percent in names if f"{arm}_{what}_p{percent}_ns" in cell]


def _decided(body: Body) -> tuple[str, list[str]]:
    cells, entries = body["results"], body["entries"]
    outcomes = {cell["outcome"] for cell in cells}
    entry = {one["outcome"] for one in entries}
    told = {reason for cell in cells for reason in cell["reasons"]}
    levels = (
        (
            "error",
            {
                "no_cells": not cells,
                "cell_in_error": "error" in outcomes,
                "entry_missing": "error" in entry,
                "digests_not_trusted": untrusted(body),
            },
        ),
        ("stop", {"entry_failed": "fail" in entry, **{word: word in told for word in _STOPS}}),
        ("inconclusive", {"cell_inconclusive": "inconclusive" in outcomes}),
    )
    for overall, reasons in levels:
        held = [word for word, holds in reasons.items() if holds]
        if held:
            return overall, held
    return "pass", []


def in_records(body: Body, records: Sequence[Record]) -> Problems:
    """Take the medians again, and the bytes from the pages."""
    rounds: dict[str, list[Record]] = {}
    for one in records:
        if one["type"] == "kv_round":
            rounds.setdefault(one["group"], []).append(one["arms"])
    pages = {one["group"]: one for one in records if one["type"] == "kv_page"}
    probes = [one for one in records if one["type"] == "kv_probe"]
    for index, cell in enumerate(body["results"]):
        group, _, codec = cell["name"].rpartition(",codec=")
        arms, page = rounds.get(group, []), pages.get(group)
        if not arms or page is None:
            yield Problem(f"/body/results/{index}", "has no rounds or no page")
            continue
        lossy = f"lossy_{codec}"
        if codec != cell["codec"] or lossy not in page["archives"] or any(lossy not in one for one in arms):
            yield Problem(f"/body/results/{index}/codec", f"is {cell['codec']!r} under the name {cell['name']!r}")
            continue
        counted = {
            "pairs": len(arms),
            "exact_bytes": page["raw"],
            "lossy_bytes": page["archives"][lossy]["bytes"],
            **{name: page["archives"][lossy][name] for name in ("restored",) if name in page["archives"][lossy]},
            "k": page["components"][0]["k_element"],
            "v": page["components"][0]["v_element"],
        }
        for arm, label in (("exact", "exact"), (lossy, "lossy")):
            counted[f"{label}_restore_ns"] = median_low([_restore(one[arm]["spans"]) for one in arms])
            counted[f"{label}_total_ns"] = median_low([_total(one[arm]["spans"]) for one in arms])
        samples = _samples(cell, arms)
        counted |= {f"{name}_samples": len(values) for name, values in samples.items()}
        counted |= {f"{n}_p{percent}_ns": _percentile(samples[n], percent) for n, percent in _told(cell)}
        yield from hold_counts(f"/body/results/{index}", cell, counted)
        if (page["back"] != page["state"]) and "exact_differs" not in cell["reasons"]:
            yield Problem(f"/body/results/{index}", "says nothing of an exact form that came back otherwise")
    for index, row in enumerate(body["entries"]):
        own = [one for one in probes if one["entry"] == row["entry"]]
        unlike = {one["name"] for one in own if one["expected"] and one["observed"] != one["expected"]}
        if not unlike <= set(row["failed"]):
            yield Problem(f"/body/entries/{index}/failed", f"leaves out {', '.join(sorted(unlike))}")


def _samples(cell: Record, arms: Sequence[Record]) -> Mapping[str, Sequence[int]]:
    """What percentiles are of, where a cell says how many there are."""
    found: dict[str, Sequence[int]] = {}
    for arm, label in (("exact", "exact"), (f"lossy_{cell['codec']}", "lossy")):
        found[f"{label}_restore"] = [_restore(one[arm]["spans"]) for one in arms]
        found[f"{label}_decode"] = [ns for one in arms for ns in one[arm]["decode_ns"]]
    return {name: values for name, values in found.items() if f"{name}_samples" in cell}


def _percentile(values: Sequence[int], percent: int) -> int:
    """The nearest rank: the least value that ``percent`` of a hundred do not lie above."""
    return next(one for one in sorted(values) if 100 * sum(other <= one for other in values) >= percent * len(values))


def _restore(spans: Record) -> int:
    return int(spans["first_token"][1] - spans["read"][0])


def _total(spans: Record) -> int:
    return sum(int(spans[name][1] - spans[name][0]) for name in ("encode", "write", "read", "import"))
