"""The records of a matrix of element types, held to its plan: none is missing, none is another one told again. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import Final

from harness.deriving.campaign_body import integer_of, mapping_of
from harness.deriving.kv_entries import asked_of
from harness.deriving.kv_figures import SPANS, decodes, extent, integers, maps, span, spans_of, texts
from harness.deriving.kv_plan import Group, arms_of, order_of, plan_groups, restore_path_of, version_of
from harness.errors import InvalidDocumentError
from harness.model.campaign import CampaignRecords, Record

_MOST_DECODES: Final = 10
_KEYS: Final[Mapping[str, Sequence[str]]] = {
    "kv_page": ("process", "group"),
    "kv_round": ("process", "group", "number"),
    "kv_memory": ("process", "group", "arm"),
    "kv_walk": ("group", "version"),
    "kv_probe": ("entry", "name"),
    "kv_oracle": ("process",),
    "kv_sitting": ("run_id",),
}


class Reading:
    """The records of a file, by what they are about.

    Args:
        found: All of them.
        where: The file, for messages.

    Raises:
        InvalidDocumentError: They are not those of the plan.
    """

    def __init__(self, found: CampaignRecords, where: str) -> None:
        self._where = where
        self.procedure = mapping_of(found.header, "procedure")
        self.version = version_of(self.procedure)
        self.limits = mapping_of(self.procedure, "limits")
        self.groups = plan_groups(self.procedure)
        self.versions = integers(self.procedure, "versions")
        self.processes = integer_of(self.procedure, "processes")
        self.rounds = integer_of(self.procedure, "rounds")
        if self.processes < 1 or self.rounds < 1 or not self.groups:
            raise self._fault("found no processes, no rounds or no groups")
        if (self.version >= 3) != bool(restore_path_of(self.procedure)):
            raise self._fault(f"version {self.version} of the procedure and the path of a restore do not go together")
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
        self.probes = list(self._by.get("kv_probe", {}).values())
        self._hold_to_plan()

    # -- what there is -------------------------------------------------------------------------

    def page(self, process: int, group: Group) -> Record:
        """Return what a process told of a page."""
        return self._get("kv_page", process, group.id)

    def round(self, process: int, group: Group, number: int) -> Record:
        """Return one round."""
        return self._get("kv_round", process, group.id, number)

    def rounds_of(self, group: Group) -> list[list[Record]]:
        """Return all rounds of a group, process by process."""
        return [[self.round(p, group, n) for n in range(self.rounds)] for p in range(self.processes)]

    def walk(self, group: Group, version: int) -> Record:
        """Return the continuation of one cell."""
        return self._get("kv_walk", group.id, version)

    def memory(self, group: Group, arm: str) -> list[tuple[int, int]]:
        """Return what each process took in one import of an arm: KiB of the host, bytes of the device."""
        found = [self._get("kv_memory", process, group.id, arm) for process in range(self.processes)]
        return [(integer_of(one, "host_kib"), integer_of(one, "device_bytes")) for one in found]

    def oracles(self) -> list[Record]:
        """Return the timed runs of the oracle, each with how many spans of restores it lies in."""
        restores = [
            span(spans_of(one, arm), name)
            for group in self.groups
            for process in self.rounds_of(group)
            for one in process
            for arm in arms_of(self.procedure)
            for name in ("read", "import", "first_token")
        ]
        found: list[Record] = []
        for one in self._by.get("kv_oracle", {}).values():
            begin, end = span(mapping_of(one, "spans"), "oracle")
            inside = sum(begin < stop and start < end for start, stop in restores)
            found.append({**one, "inside": inside, "ns": end - begin})
        return found

    def sittings(self) -> int:
        """Return how often the campaign was broken off and taken up again."""
        return len(self._by.get("kv_sitting", {}))

    def cells_without(self, kind: str) -> int:
        """Return how many cells of the whole product have a type, counted with the first such type of the pair."""
        types, coded = texts(self.procedure, "types"), texts(self.procedure, "coded")
        earlier = [one for one in types[: types.index(kind)] if one not in coded]
        pairs = [(k, v) for k in types for v in types if kind in (k, v) and not {k, v} & set(earlier)]
        return len(pairs) * len(self.versions) * len(self.groups) // len(coded) ** 2

    def refusal_of(self, kind: str) -> str:
        """Return the word with which the codec refused a type."""
        found = [one for one in self.probes if one["entry"] == "H07" and one["name"] == f"coded {kind}"]
        return str(found[0]["observed"]) if found else "not_tried"

    def _get(self, kind: str, *key: object) -> Record:
        found = self._by.get(kind, {}).get(key)
        if found is None:
            raise self._fault(f"found no {kind} {key}")
        return found

    # -- whether it is what was planned --------------------------------------------------------

    def _hold_to_plan(self) -> None:
        ids, arms = {group.id for group in self.groups}, set(arms_of(self.procedure))
        for group in self.groups:
            self._hold_pages(group, [self.page(process, group) for process in range(self.processes)])
            for process in self.rounds_of(group):
                for number, one in enumerate(process):
                    self._hold_round(one, number, arms)
        for kind, many in self._by.items():
            if "group" in _KEYS[kind] and any(one["group"] not in ids for one in many.values()):
                raise self._fault(f"found a {kind} of a group that was not planned")
        if len(self._by.get("kv_round", {})) != len(ids) * self.processes * self.rounds:
            raise self._fault("found rounds that were not planned")
        for number in range(self.processes):
            self._get("kv_oracle", number)
        for group, arm in product(self.groups, arms_of(self.procedure)):
            self.memory(group, arm)
        asked = asked_of(self.version)
        strange = sorted(f"{one['entry']} {one['name']}" for one in self.probes if not _is_asked(one, asked))
        if strange:
            raise self._fault(f"version {self.version} of the procedure asks for no probe {strange[0]}")
        self._hold_apart()

    def _hold_pages(self, group: Group, pages: Sequence[Record]) -> None:
        for page in pages:
            labels = {(str(one["k_element"]), str(one["v_element"])) for one in maps(page, "components")}
            if labels != {(group.k, group.v)}:
                raise self._fault(f"{group.id} holds {sorted(labels)}")
            if any(page[name] != pages[0][name] for name in ("raw", "archives", "components", "state")):
                raise self._fault(f"{group.id} differs between processes")
            told = mapping_of(page, "archives")
            if any(("restored" in mapping_of(told, arm)) != (self.version >= 3) for arm in told):
                raise self._fault(f"{group.id}: version {self.version} and the path that a restore took disagree")

    def _hold_apart(self) -> None:
        """All rounds of all processes ran one after another: none is another one told again."""
        ran = sorted((*extent(one), str(one["group"]), str(one["number"])) for one in self._by["kv_round"].values())
        for (_, end, *_), (begin, _, group, number) in pairwise(ran):
            if begin < end:
                raise self._fault(f"round {number} of {group} overlaps another one")

    def _hold_round(self, one: Record, number: int, arms: set[str]) -> None:
        told = mapping_of(one, "arms")
        if texts(one, "order") != order_of(self.procedure, number) or set(told) != arms:
            raise self._fault(f"round {number} of {one['group']} has another order or other arms")
        last = 0
        for arm in texts(one, "order"):
            spans = spans_of(one, arm)
            before, done = "", 0
            for name in SPANS:
                begin, end = span(spans, name)
                if not last <= begin <= end:
                    raise self._fault(f"round {number} of {one['group']}, {arm}: {name} runs backwards")
                if end < done:
                    raise self._fault(f"round {number} of {one['group']}, {arm}: {name} ends before {before}")
                last, before, done = begin, name, end
            last = span(spans, SPANS[-1])[1]
            if not 1 <= len(decodes(one, arm)) <= _MOST_DECODES:
                raise self._fault(
                    f"round {number} of {one['group']}, {arm}: expected 1 to {_MOST_DECODES} decode steps"
                )

    def _fault(self, message: str) -> InvalidDocumentError:
        return InvalidDocumentError(message, where=self._where)


def _is_asked(one: Record, asked: Mapping[str, Sequence[str]]) -> bool:
    return one["name"] in asked.get(str(one["entry"]), ())
