"""The matrix of K/V element types: pages in their exact form beside the same pages in a lossy one. Pure.

Every cell compares two arms of one page: *exact* (the rows as they are stored) and *lossy* (CacheGen, LCG1 or LCG2).
Times of both come from the same rounds, warmed, in an order that rotates, from at least two fresh processes. What a
cell is judged by is in `kv_judging`; the plan in `kv_plan`; what records must be in `kv_reading`.

Weights that come from a seed say nothing about quality: agreement is listed with its lower bound, and the axis is not
evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.deriving.campaign_body import mapping_of, require_children, trust_of
from harness.deriving.ids import campaign_key
from harness.deriving.kv_entries import derive_entries
from harness.deriving.kv_judging import STOPS, cell_of, reasons_of
from harness.deriving.kv_plan import KV, SLICE, excluded_of, is_slice
from harness.deriving.kv_reading import Reading
from harness.model.campaign import CampaignRecords
from harness.model.values import Verdict

__all__ = ["KV", "decide", "derive_cells", "derive_kv"]


def derive_cells(found: CampaignRecords, where: str) -> list[dict[str, object]]:
    """Return the cells alone.

    Raises:
        InvalidDocumentError: The records are not those of the plan.
    """
    return _cells(Reading(found, where))


def derive_kv(found: CampaignRecords, where: str) -> dict[str, object]:
    """Return cells, entries, exclusions and decision.

    Raises:
        InvalidDocumentError: The records are not those of the plan.
    """
    reading = Reading(found, where)
    cells = _cells(reading)
    entries = derive_entries(reading.probes, cells, reading.oracles(), reading.version)
    excluded = [
        {"types": kind, "cells": reading.cells_without(kind), "reason": reading.refusal_of(kind)}
        for kind in excluded_of(reading.procedure)
    ]
    limits = [
        "lossy_and_exact_are_different_classes",
        *(["measured_in_sittings"] if reading.sittings() else []),
        *(["median_only"] if reading.version < 3 else ["percentiles_where_samples_suffice"]),
        *(["slice_of_the_matrix"] if is_slice(reading.procedure) else []),
        "pages_in_the_page_cache_dropped",
        "seeded_weights",
    ]
    require_children(found, where, hosts=1 + reading.sittings())
    return {
        **_key(found, reading),
        "results": cells,
        "entries": entries,
        "excluded": excluded,
        "quality": "not_evaluated",
        "limits": limits,
        "decision": decide(cells, entries, trust_of(found)),
    }


def decide(
    cells: Sequence[Mapping[str, object]], entries: Sequence[Mapping[str, object]], trust: Mapping[str, object]
) -> dict[str, object]:
    """Return the worst that cells and entries say: error, then stop, then inconclusive, then pass."""
    outcomes = {str(one["outcome"]) for one in cells}
    nothing = {
        "no_cells": not cells,
        "cell_in_error": "error" in outcomes,
        "entry_missing": any(one["outcome"] == "error" for one in entries),
        "digests_not_trusted": bool(trust["mismatches"]) or not trust["children"],
    }
    wrong = {
        "entry_failed": any(one["outcome"] == "fail" for one in entries),
        **{word: any(word in reasons_of(one) for one in cells) for word in STOPS},
    }
    unsure = {"cell_inconclusive": "inconclusive" in outcomes}
    for verdict, reasons in ((Verdict.ERROR, nothing), (Verdict.STOP, wrong), (Verdict.INCONCLUSIVE, unsure)):
        held = [word for word, holds in reasons.items() if holds]
        if held:
            return {"overall": str(verdict), "reasons": held}
    return {"overall": str(Verdict.PASS), "reasons": []}


def _key(found: CampaignRecords, reading: Reading) -> dict[str, object]:
    """The claim key of a slice of the matrix, in the place of that of the whole."""
    if not is_slice(reading.procedure):
        return {}
    target = mapping_of(found.header, "target")
    return {"claim_key": campaign_key(SLICE, *(str(target[name]) for name in ("engine", "model", "hw_class")))}


def _cells(reading: Reading) -> list[dict[str, object]]:
    """Every cell of the plan."""
    return [cell_of(reading, group, version) for group in reading.groups for version in reading.versions]
