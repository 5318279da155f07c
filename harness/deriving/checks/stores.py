"""What a store observation says, after its listing and its counters were held against one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.deriving.view import CellView
from harness.model.evidence import Facts, StoreView
from harness.model.scenario import PointRef


def stores_at(view: CellView, ref: PointRef | None) -> Sequence[StoreView]:
    """Return the store observations of a step, one per run of its arm; empty if one is missing."""
    if ref is None:
        return ()
    found = [view.store(ref, rep) for rep in view.reps(ref.arm)]
    return tuple(one for one in found if one is not None) if None not in found else ()


def held(store: StoreView) -> Sequence[Facts]:
    """Return the snapshots that others can find: pending ones are not."""
    return tuple(entry for entry in store.entries if not entry.get("pending", False))


def bytes_held(store: StoreView) -> int | None:
    """Return the stored bytes; None if the counter is missing."""
    return store.counters.get("stored_bytes")


def entries_agree(store: StoreView) -> bool:
    """Tell whether the counter of entries, where there is one, equals the listing."""
    counted = store.counters.get("entries")
    return counted is None or counted in (len(held(store)), len(store.entries))


def bytes_agree(store: StoreView) -> bool:
    """Tell whether the bytes of the listing sum up to the counter."""
    published = _sum(held(store))
    return bytes_held(store) in (published, _sum(store.entries))


def listed(store: StoreView) -> Mapping[str, int]:
    """Return the sums of the listing under names of their own."""
    published = _sum(held(store))
    return {"listed_bytes": published, "listed_pending_bytes": _sum(store.entries) - published}


def _sum(entries: Sequence[Facts]) -> int:
    sizes = [entry.get("bytes", 0) for entry in entries]
    return sum(size for size in sizes if isinstance(size, int))
