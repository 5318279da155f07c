"""The matrix of K/V element types: pages in their exact form beside the same pages in a lossy one. Pure.

Every cell compares two arms of one page: *exact* (the rows as they are stored) and *lossy* (CacheGen, LCG1 or LCG2).
Times of both come from the same rounds, warmed, in an order that rotates, from at least two fresh processes. Rules:

0. the exact form comes back as it was, in every part, else the cell is an error;
1. size: the lossy form is smaller; of LCG2 its bytes are those of the formula, else the cell is an error;
2. restore to first token (measured, from the read to the end of the first decode step), import, and total cost
   (encode + write + read + import) lie within their limits, by the interval of the median of paired ratios that a sign
   test gives: wholly below a limit is within it, wholly above is a stop, anything else is inside the noise;
3. processes that disagree by more than ``spread_ppm`` are unstable, a ratio below ``implausible_ppm`` is implausible,
   times that are the same in every round are constant (the clock stands), and an exact arm that differs from itself
   shows the noise: each of them is inconclusive, however good it looks;
4. transient memory of the host stays within its limit; memory that is planted must be seen.

A smaller payload with a dearer total is a stop. Weights that come from a seed say nothing about quality: agreement is
listed with its lower bound, and the axis is not evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import comb
from typing import Final

from harness.deriving.campaign_body import integer_of, mapping_of, trust_of
from harness.deriving.kv_entries import derive_entries
from harness.deriving.soak import median
from harness.errors import InvalidDocumentError
from harness.model.campaign import CampaignRecords, Record
from harness.model.values import Verdict

KV: Final = "kv"
EXACT: Final = "exact"
CONTROL: Final = "exact_again"
"""The exact arm once more: what it differs by is noise."""
PLANTED: Final = "planted"
"""Memory that is taken on purpose, as much as would break the limit: if it is not seen, none is."""
SPANS: Final = ("encode", "write", "read", "import", "first_token")
METRICS: Final = ("restore", "import", "total")
PPM: Final = 1_000_000
LIMITS: Final[Mapping[str, int]] = {
    "size_ppm": 1_000_000,
    "restore_ppm": 1_000_000,
    "import_ppm": 2_000_000,
    "total_ppm": 1_000_000,
    "host_kib": 4096,
    "pairs": 10,
    "noise_ppm": 100_000,
    "spread_ppm": 250_000,
    "implausible_ppm": 20_000,
}
"""Lossy beside exact, in millionths; KiB above a decoded page that an import may take; rules of the measurement."""
_MOST_DECODES: Final = 10
_BITS: Final = {16: 4, 32: 5}
STOPS: Final = ("larger", "restore_slower", "import_slower", "total_dearer", "more_memory")


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """One page that was planned: its lossy forms are cells."""

    model: str
    prefix: int
    k: str
    v: str

    @property
    def id(self) -> str:
        """Like ``k=f16,v=q8_0,model=scheduled,prefix=250``."""
        return f"k={self.k},v={self.v},model={self.model},prefix={self.prefix}"


def plan_groups(procedure: Record) -> list[Group]:
    """Return all groups in order."""
    coded = _texts(procedure, "coded")
    return [
        Group(model=str(model), prefix=prefix, k=k, v=v)
        for model in mapping_of(procedure, "models")
        for prefix in _integers(procedure, "prefixes")
        for k in coded
        for v in coded
    ]


def excluded_of(procedure: Record) -> list[str]:
    """Return the element types that the archive has no record for: pairs with one of them are excluded."""
    coded = _texts(procedure, "coded")
    return [kind for kind in _texts(procedure, "types") if kind not in coded]


def arms_of(procedure: Record) -> list[str]:
    """Return the arms of a round, in the order of its number 0."""
    return [EXACT, *(f"lossy_lcg{version}" for version in _integers(procedure, "versions")), CONTROL]


def order_of(procedure: Record, number: int) -> list[str]:
    """Return the order of the arms in a round: it rotates."""
    arms = arms_of(procedure)
    shift = number % len(arms)
    return [*arms[shift:], *arms[:shift]]


def version_of(procedure: Record) -> int:
    """Return the version of a procedure: from 2 on it asks for more probes."""
    return integer_of(procedure, "version") if "version" in procedure else 1


def derive_cells(found: CampaignRecords, where: str) -> list[dict[str, object]]:
    """Return the cells alone.

    Raises:
        InvalidDocumentError: The records are not those of the plan.
    """
    return _Reading(found, where).cells()


def derive_kv(found: CampaignRecords, where: str) -> dict[str, object]:
    """Return cells, entries, exclusions and decision.

    Raises:
        InvalidDocumentError: The records are not those of the plan.
    """
    reading = _Reading(found, where)
    cells = reading.cells()
    entries = derive_entries(reading.probes, cells, reading.oracles(), version_of(reading.procedure))
    excluded = [
        {"types": kind, "cells": reading.cells_without(kind), "reason": reading.refusal_of(kind)}
        for kind in excluded_of(reading.procedure)
    ]
    limits = [
        "lossy_and_exact_are_different_classes",
        "median_only",
        "pages_in_the_page_cache_dropped",
        "seeded_weights",
    ]
    return {
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
        **{word: any(word in _reasons(one) for one in cells) for word in STOPS},
    }
    unsure = {"cell_inconclusive": "inconclusive" in outcomes}
    for verdict, reasons in ((Verdict.ERROR, nothing), (Verdict.STOP, wrong), (Verdict.INCONCLUSIVE, unsure)):
        held = [word for word, holds in reasons.items() if holds]
        if held:
            return {"overall": str(verdict), "reasons": held}
    return {"overall": str(Verdict.PASS), "reasons": []}


class _Reading:
    """The records of a file, held to the plan."""

    def __init__(self, found: CampaignRecords, where: str) -> None:
        self._where = where
        self.procedure = mapping_of(found.header, "procedure")
        self.limits = mapping_of(self.procedure, "limits")
        self.groups = plan_groups(self.procedure)
        self.versions = _integers(self.procedure, "versions")
        self.processes = integer_of(self.procedure, "processes")
        self.rounds = integer_of(self.procedure, "rounds")
        if self.processes < 1 or self.rounds < 1 or not self.groups:
            raise self._fault("found no processes, no rounds or no groups")
        self._by: dict[str, dict[tuple[object, ...], Record]] = {}
        for one in found.records:
            kind = str(one["type"])
            if kind in ("header", "trust", "end"):
                continue
            if kind not in _KEYS:
                raise self._fault(f"found a record of type {kind}")
            key = tuple(one[name] for name in _KEYS[kind])
            if self._by.setdefault(kind, {}).setdefault(key, one) is not one:
                raise self._fault(f"found {kind} {key} twice")
        self._hold_to_plan()
        self.probes = list(self._by.get("kv_probe", {}).values())

    def cells(self) -> list[dict[str, object]]:
        """Return every cell of the plan."""
        return [self.cell(group, version) for group in self.groups for version in self.versions]

    def cell(self, group: Group, version: int) -> dict[str, object]:
        """Return everything about one cell."""
        lossy = f"lossy_lcg{version}"
        rounds = [[self._round(p, group, n) for n in range(self.rounds)] for p in range(self.processes)]
        page = self._page(0, group)
        told = mapping_of(mapping_of(page, "archives"), lossy)
        exact_bytes, lossy_bytes = integer_of(page, "raw"), integer_of(told, "bytes")
        formula = lcg2_bytes(_maps(page, "components"))
        flat = [one for process in rounds for one in process]
        ratios = {
            name: [ratio_ppm(_cost(one, lossy, name), _cost(one, EXACT, name)) for one in flat] for name in METRICS
        }
        control = {
            name: [ratio_ppm(_cost(one, CONTROL, name), _cost(one, EXACT, name)) for one in flat] for name in METRICS
        }
        walk = self._get("kv_walk", group.id, version)
        memory = {arm: self._memory(group, arm) for arm in (EXACT, lossy)}
        row: dict[str, object] = {
            "name": f"{group.id},codec=lcg{version}",
            "class": "lossy",
            "k": group.k,
            "v": group.v,
            "model": group.model,
            "prefix": group.prefix,
            "codec": f"lcg{version}",
            "path": str(told["path"]),
            "bins": [int(str(one)) for one in _list(told, "bins")],
            "pairs": len(flat),
            "processes": self.processes,
            "exact_bytes": exact_bytes,
            "lossy_bytes": lossy_bytes,
            "formula_bytes": formula if version == 2 else 0,
            "size_ppm": ratio_ppm(lossy_bytes, exact_bytes),
        }
        for arm, label in ((EXACT, EXACT), (lossy, "lossy")):
            row |= {
                f"{label}_{name}_ns": median([_cost(one, arm, name) for one in flat])
                for name in (*SPANS, "restore", "total")
            }
            row[f"{label}_composed_ns"] = median([composed(_spans(one, arm)) for one in flat])
            row[f"{label}_overlap_ns"] = median([overlap(_spans(one, arm)) for one in flat])
            row[f"{label}_decode_ns"] = median([ns for one in flat for ns in _decodes(one, arm)])
            row[f"{label}_host_kib"], row[f"{label}_device_bytes"] = memory[arm]
        row["planted_host_kib"] = self._memory(group, PLANTED, least=True)[0]
        for name in METRICS:
            low, high = interval(ratios[name])
            row |= {f"{name}_ppm": median(ratios[name]), f"{name}_low_ppm": low, f"{name}_high_ppm": high}
        row |= {name: integer_of(walk, name) for name in _WALK}
        row["agreement_low_ppm"] = lower_bound_ppm(integer_of(walk, "agreed"), integer_of(walk, "steps"))
        outcome, reasons = self._judge(row, rounds, lossy, control)
        if any(self._page(p, group)["back"] != self._page(p, group)["state"] for p in range(self.processes)):
            outcome, reasons = "error", [*(reasons if outcome == "error" else []), "exact_differs"]
        return {**row, "outcome": outcome, "reasons": reasons}

    def _judge(
        self,
        row: Mapping[str, object],
        rounds: Sequence[Sequence[Record]],
        lossy: str,
        control: Mapping[str, Sequence[int]],
    ) -> tuple[str, list[str]]:
        errors = []
        if row["codec"] == "lcg2" and row["lossy_bytes"] != row["formula_bytes"]:
            errors.append("size_formula")
        if integer_of(row, "pairs") < integer_of(self.limits, "pairs") or self.processes < 2:
            errors.append("too_few_pairs")
        if errors:
            return "error", errors
        stops = ["larger"] if integer_of(row, "size_ppm") >= integer_of(self.limits, "size_ppm") else []
        unsure = []
        names = {"restore": "restore_slower", "import": "import_slower", "total": "total_dearer"}
        for name, word in names.items():
            low, high = integer_of(row, f"{name}_low_ppm"), integer_of(row, f"{name}_high_ppm")
            limit = integer_of(self.limits, f"{name}_ppm")
            own = [
                median([ratio_ppm(_cost(one, lossy, name), _cost(one, EXACT, name)) for one in many]) for many in rounds
            ]
            agree = len({one > limit for one in own}) == 1
            small, large = interval(control[name])
            quiet = small <= PPM + integer_of(self.limits, "noise_ppm") and large >= PPM - integer_of(
                self.limits, "noise_ppm"
            )
            if not agree and max(own) - min(own) > integer_of(self.limits, "spread_ppm"):
                unsure.append(f"{name}_unstable")
            elif not quiet:
                unsure.append(f"{name}_control_moved")
            elif integer_of(row, f"{name}_ppm") < integer_of(self.limits, "implausible_ppm"):
                unsure.append(f"{name}_implausible")
            elif all(len({_cost(one, arm, name) for many in rounds for one in many}) == 1 for arm in (lossy, EXACT)):
                unsure.append(f"{name}_constant")
            elif low > limit:
                stops.append(word)
            elif high > limit:
                unsure.append(f"{name}_in_noise")
        larger, blind = self._memory_reasons(row)
        stops, unsure = [*stops, *larger], [*unsure, *blind]
        if stops:
            return "stop", [*stops, *unsure]
        return ("inconclusive", unsure) if unsure else ("pass", [])

    def _memory_reasons(self, row: Mapping[str, object]) -> tuple[list[str], list[str]]:
        """Return what the memory of a cell's imports stops, and what it leaves open."""
        page = integer_of(row, "exact_bytes") // 1024
        allowed = integer_of(row, "exact_host_kib") + page + integer_of(self.limits, "host_kib")
        larger = ["more_memory"] if integer_of(row, "lossy_host_kib") > allowed else []
        return larger, ["memory_not_seen"] if integer_of(row, "planted_host_kib") < page else []

    def oracles(self) -> list[Record]:
        """Return the timed runs of the oracle, each with the rounds of its process."""
        spans = [
            [_span(_spans(self._round(p, group, n), arm), name) for name in ("read", "import", "first_token")]
            for group in self.groups
            for p in range(self.processes)
            for n in range(self.rounds)
            for arm in arms_of(self.procedure)
        ]
        flat = [one for many in spans for one in many]
        found: list[Record] = []
        for one in self._by.get("kv_oracle", {}).values():
            begin, end = _span(mapping_of(one, "spans"), "oracle")
            inside = sum(begin < stop and start < end for start, stop in flat)
            found.append({**one, "inside": inside, "ns": end - begin})
        return found

    def cells_without(self, kind: str) -> int:
        """Return how many cells of the whole product have a type, counted with the first such type of the pair."""
        types, coded = _texts(self.procedure, "types"), _texts(self.procedure, "coded")
        earlier = [one for one in types[: types.index(kind)] if one not in coded]
        pairs = [(k, v) for k in types for v in types if kind in (k, v) and not {k, v} & set(earlier)]
        return len(pairs) * len(self.versions) * len(self.groups) // len(coded) ** 2

    def refusal_of(self, kind: str) -> str:
        """Return the word with which the codec refused a type."""
        found = [one for one in self.probes if one["entry"] == "H07" and one["name"] == f"coded {kind}"]
        return str(found[0]["observed"]) if found else "not_tried"

    def _memory(self, group: Group, arm: str, *, least: bool = False) -> tuple[int, int]:
        """Return the most that any process took, KiB of the host and bytes of the device; or the least."""
        found = [self._get("kv_memory", p, group.id, arm) for p in range(self.processes)]
        if least:
            return min(integer_of(one, "host_kib") for one in found), 0
        return max(integer_of(one, "host_kib") for one in found), max(integer_of(one, "device_bytes") for one in found)

    def _page(self, process: int, group: Group) -> Record:
        return self._get("kv_page", process, group.id)

    def _round(self, process: int, group: Group, number: int) -> Record:
        return self._get("kv_round", process, group.id, number)

    def _get(self, kind: str, *key: object) -> Record:
        found = self._by.get(kind, {}).get(key)
        if found is None:
            raise self._fault(f"found no {kind} {key}")
        return found

    def _hold_to_plan(self) -> None:
        ids, arms = {group.id for group in self.groups}, set(arms_of(self.procedure))
        for group in self.groups:
            pages = [self._page(process, group) for process in range(self.processes)]
            for page in pages:
                labels = {(str(one["k_element"]), str(one["v_element"])) for one in _maps(page, "components")}
                if labels != {(group.k, group.v)}:
                    raise self._fault(f"{group.id} holds {sorted(labels)}")
                if any(page[name] != pages[0][name] for name in ("raw", "archives", "components", "state")):
                    raise self._fault(f"{group.id} differs between processes")
            for process in range(self.processes):
                for number in range(self.rounds):
                    self._hold_round(self._round(process, group, number), number, arms)
        for kind, many in self._by.items():
            if "group" in _KEYS[kind] and any(one["group"] not in ids for one in many.values()):
                raise self._fault(f"found a {kind} of a group that was not planned")
        if len(self._by.get("kv_round", {})) != len(ids) * self.processes * self.rounds:
            raise self._fault("found rounds that were not planned")
        self._hold_apart()

    def _hold_apart(self) -> None:
        """All rounds of all processes ran one after another: none is another one told again."""
        ran = sorted((*_extent(one), str(one["group"]), str(one["number"])) for one in self._by["kv_round"].values())
        for (_, end, *_), (begin, _, group, number) in pairwise(ran):
            if begin < end:
                raise self._fault(f"round {number} of {group} overlaps another one")

    def _hold_round(self, one: Record, number: int, arms: set[str]) -> None:
        told = mapping_of(one, "arms")
        if _texts(one, "order") != order_of(self.procedure, number) or set(told) != arms:
            raise self._fault(f"round {number} of {one['group']} has another order or other arms")
        last = 0
        for arm in _texts(one, "order"):
            spans = _spans(one, arm)
            before, done = "", 0
            for name in SPANS:
                begin, end = _span(spans, name)
                if not last <= begin <= end:
                    raise self._fault(f"round {number} of {one['group']}, {arm}: {name} runs backwards")
                if end < done:
                    raise self._fault(f"round {number} of {one['group']}, {arm}: {name} ends before {before}")
                last, before, done = begin, name, end
            last = _span(spans, SPANS[-1])[1]
            if not 1 <= len(_decodes(one, arm)) <= _MOST_DECODES:
                raise self._fault(
                    f"round {number} of {one['group']}, {arm}: expected 1 to {_MOST_DECODES} decode steps"
                )

    def _fault(self, message: str) -> InvalidDocumentError:
        return InvalidDocumentError(message, where=self._where)


_KEYS: Final[Mapping[str, Sequence[str]]] = {
    "kv_page": ("process", "group"),
    "kv_round": ("process", "group", "number"),
    "kv_memory": ("process", "group", "arm"),
    "kv_walk": ("group", "version"),
    "kv_probe": ("entry", "name"),
    "kv_oracle": ("process",),
}
_WALK: Final = (
    "steps", "agreed", "first_mismatch", "free_first_mismatch", "entropy_mean_nano", "entropy_most_nano",
    "top_mean_nano", "top_most_nano",
)  # fmt: skip


# -- arithmetic ------------------------------------------------------------------------------------


def ratio_ppm(part: int, whole: int) -> int:
    """Return a ratio in millionths, rounded down; of nothing it is none."""
    return part * PPM // max(1, whole)


def interval(values: Sequence[int]) -> tuple[int, int]:
    """Return an interval that holds the median with 95 %, whatever the distribution (sign test); the range if few."""
    ordered, count = sorted(values), len(values)
    skip = 0
    while 2 * sum(comb(count, i) for i in range(skip + 1)) * 20 <= 2**count:
        skip += 1
    low = max(0, skip - 1)
    return ordered[low], ordered[count - 1 - low]


def lower_bound_ppm(agreed: int, steps: int) -> int:
    """Return the one-sided 95 % lower bound of a share in millionths, exact (Clopper and Pearson), rounded down.

    The largest p with P(X >= agreed | p) <= 5 %, found by halving in integers.
    """
    if steps < 1 or agreed < 1:
        return 0
    low, high = 0, PPM
    while high - low > 1:
        middle = (low + high) // 2
        tail = sum(comb(steps, i) * middle**i * (PPM - middle) ** (steps - i) for i in range(agreed, steps + 1))
        if tail * 20 <= PPM**steps:
            low = middle
        else:
            high = middle
    return low


def composed(spans: Record) -> int:
    """Return the length of the union of read, import and first token on their clock."""
    whole, reached = 0, 0
    for begin, end in sorted(_span(spans, name) for name in ("read", "import", "first_token")):
        whole += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return whole


def overlap(spans: Record) -> int:
    """Return by how much these three together are longer than their union."""
    return sum(end - begin for begin, end in (_span(spans, n) for n in ("read", "import", "first_token"))) - composed(
        spans
    )


def lcg2_bytes(components: Sequence[Record]) -> int:
    """Return the bytes of an LCG2 archive, which do not depend on the data: heads, maxima, packed symbols."""
    whole = 16
    for one in components:
        layers, tokens = integer_of(one, "layers"), integer_of(one, "tokens")
        for side, fine in (("k", 10), ("v", 2)):
            channels = integer_of(one, f"{side}_channels")
            for layer in range(layers):
                bits = _BITS[32 if layers < 10 or layer < fine else 16]
                for first in range(0, tokens, 256):
                    rows = min(256, tokens - first)
                    whole += 52 + 16 + 4 * rows + -(-rows * channels * bits // 8)
        exact = integer_of(one, "exact_bytes")
        whole += 52 + exact if exact else 0
    return whole


def _cost(one: Record, arm: str, name: str) -> int:
    spans = _spans(one, arm)
    if name == "restore":
        return _span(spans, "first_token")[1] - _span(spans, "read")[0]
    names = ("encode", "write", "read", "import") if name == "total" else (name,)
    return sum(end - begin for begin, end in (_span(spans, each) for each in names))


def _ratios(rounds: Sequence[Record], arm: str, name: str) -> list[int]:
    """Return an arm beside the exact one, round by round, in millionths."""
    return [ratio_ppm(_cost(one, arm, name), _cost(one, EXACT, name)) for one in rounds]


def _spans(one: Record, arm: str) -> Record:
    return mapping_of(mapping_of(mapping_of(one, "arms"), arm), "spans")


def _decodes(one: Record, arm: str) -> list[int]:
    return _integers(mapping_of(mapping_of(one, "arms"), arm), "decode_ns")


def _span(spans: Record, name: str) -> tuple[int, int]:
    begin, end = _integers(spans, name)
    return begin, end


def _extent(one: Record) -> tuple[int, int]:
    """Return when a round began, and when its last arm ended."""
    order = _texts(one, "order")
    return _span(_spans(one, order[0]), SPANS[0])[0], _span(_spans(one, order[-1]), SPANS[-1])[1]


def _reasons(one: Mapping[str, object]) -> list[str]:
    reasons = one["reasons"]
    return [str(word) for word in reasons] if isinstance(reasons, list) else []


def _list(record: Record, name: str) -> list[object]:
    value = record.get(name)
    return list(value) if isinstance(value, list | tuple) else []


def _texts(record: Record, name: str) -> list[str]:
    return [str(one) for one in _list(record, name)]


def _integers(record: Record, name: str) -> list[int]:
    return [int(str(one)) for one in _list(record, name)]


def _maps(record: Record, name: str) -> list[Record]:
    return [one for one in _list(record, name) if isinstance(one, Mapping)]
