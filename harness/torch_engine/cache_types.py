"""Nouns of the session cache: what it restores into, plans, holds, and keeps per session."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from harness.torch_engine.keys import CacheKey, Schedule
from harness.torch_engine.snapshot import Snapshot
from harness.torch_engine.state import StateLayout


class Restorable(Protocol):
    """A state that a chain can be restored into."""

    def expect(self, boundary: int, meta: bytes) -> StateLayout:
        """The buffers with the row counts they will have at ``boundary``; touches nothing.

        Raises:
            MetadataError: ``meta`` contradicts the boundary.
        """

    def finish_restore(self, meta: bytes) -> None:
        """Take over lengths and counters after the bytes have been copied."""


Spans = tuple[tuple[int, int], ...]
"""Positions [start, stop) that a session decoded in place of forwarding them as a prompt, ascending. A span may be
empty: a prompt ended there and another one went on."""


def spans_below(spans: Spans, boundary: int) -> Spans:
    """Those that begin below a boundary."""
    return tuple(span for span in spans if span[0] < boundary)


@dataclass(frozen=True, kw_only=True, slots=True)
class CachePlan:
    """What the cache can do for a prompt."""

    boundary: int
    """Tokens that a restore would bring; 0 for none."""
    key: CacheKey | None
    """The snapshot to restore, or None."""
    reason: str
    """``hit``, or why not: ``disabled``, ``too_short``, ``no_boundary``, ``never_captured``, ``evicted``."""


@dataclass(slots=True)
class Entry:
    """A held snapshot and what pins and ages it."""

    key: CacheKey
    snapshot: Snapshot
    parent: CacheKey | None
    stamp: int
    children: int = 0
    ancestors: frozenset[CacheKey] = frozenset()
    """Keys of all cuts above it, under the policy ``whole``."""
    spans: Spans = ()
    """Where its state was not forwarded as a prompt; see `Turn.spans`."""

    def row(self, *, pending: bool) -> dict[str, object]:
        """The entry as a row of `SessionCache.entries`."""
        return {
            "key": self.key.hex,
            "boundary": self.key.boundary,
            "parent": self.parent.hex if self.parent else "",
            "bytes": self.snapshot.nbytes,
            "fixed_bytes": self.snapshot.fixed_bytes,
            "gap_bytes": self.snapshot.gap_bytes,
            "children": self.children,
            "pinned": self.children > 0,
            "pending": pending,
            "domain": hashlib.sha256(self.key.domain).hexdigest(),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Deferred:
    """A snapshot that is promised and not copied: its session still has all of it."""

    key: CacheKey
    nbytes: int
    """What it will hold; counted as held."""
    ancestors: frozenset[CacheKey]


@dataclass(slots=True, eq=False)
class Turn:
    """One session's side of the cache: its domain, its cuts, its pending captures."""

    domain: bytes
    schedule: Schedule
    apart: bytes | None = None
    """The domain of captures that descend from a live turn; None where there are none."""
    spans: Spans = ()
    """What tells the present state from that of a cold run on the same tokens; empty: nothing does."""
    pending: dict[CacheKey, Entry] = field(default_factory=dict)
    source: CacheKey | None = None
    """What the open turn was restored from."""
    deferring: Deferred | None = None
    """The deferred save of the open turn."""
    deferred: Deferred | None = None
    """That of an earlier turn which the session has not left."""
    kept: Callable[[], int] = lambda: 0
    """Bytes that the session keeps beside the cache, to go back to its resident prefix."""

    def domain_at(self, boundary: int) -> bytes:
        """The domain of a capture at a boundary of the present state."""
        return self.apart if self.apart is not None and spans_below(self.spans, boundary) else self.domain


COUNTERS = (
    "captures",
    "published",
    "refused",
    "duplicates",
    "abandoned",
    "evictions",
    "evicted_bytes",
    "cleared",
    "restores",
    "restore_failures",
    "restored_tokens",
    "restored_bytes",
    "restored_links",
    "hits",
    "misses",
    "miss_disabled",
    "miss_too_short",
    "miss_no_boundary",
    "miss_never_captured",
    "miss_evicted",
    "skip_exceeds_budget",
    "skip_budget",
    "skip_memory_guard",
    "skip_memory_query_failed",
    "skip_allocation",
    "replaced",
    "replaced_bytes",
    "deferred",
    "materialized",
    "live_hits",
    "live_tokens",
    "resident_hits",
    "resident_tokens",
    "resident_bytes",
    "draft_proposed",
    "draft_accepted",
    "draft_rejected",
    "rollbacks",
)
"""Names of everything that `SessionCache.counters` counts, so that 0 is said and not left out."""
