"""What the session cache holds: published entries, pending ones by turn, and sums over both.

It knows keys and entries. When something comes or goes is decided in `cache.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from harness.torch_engine.cache_types import Deferred, Entry, Turn
from harness.torch_engine.damage import damaged
from harness.torch_engine.errors import MissingError
from harness.torch_engine.keys import CacheKey, Schedule, Tokens, prefix_fingerprints
from harness.torch_engine.snapshot import Snapshot, Snapshotter, corrupted

MOST_HEADS = 8
"""Heads that are protected at once, so that heads which nobody asks for again cannot fill the store for good."""


class CacheShelf:
    """Entries, turns, ages and counts."""

    snapshotter: Snapshotter

    def __init__(self) -> None:
        self._published: dict[CacheKey, Entry] = {}
        self._turns: list[Turn] = []
        self._protected: set[CacheKey] = set()
        self._heads: dict[CacheKey, None] = {}
        self._clock = 0
        self._counts: Counter[str] = Counter()

    def count(self, happened: Mapping[str, int]) -> None:
        """Add to the counters what sessions did."""
        self._counts.update(happened)

    def open_turn(self, domain: bytes, schedule: Schedule, apart: bytes | None = None) -> Turn:
        """Register a session; its pending captures are its own.

        Args:
            domain: of its captures.
            schedule: its cuts.
            apart: the domain of captures that descend from a live turn, if it takes such.
        """
        turn = Turn(domain=domain, schedule=schedule, apart=apart)
        self._turns.append(turn)
        return turn

    def key(self, turn: Turn, prompt: Tokens, boundary: int) -> CacheKey:
        """The key of the first ``boundary`` tokens of a prompt."""
        return self.keys(turn, prompt, (boundary,))[0]

    def keys(self, turn: Turn, prompt: Tokens, boundaries: Sequence[int]) -> list[CacheKey]:
        """The keys of ascending boundaries of a prompt as the turn's state stands, in one pass over its tokens."""
        fingerprints = self.fingerprints(prompt, boundaries)
        return [
            CacheKey(domain=turn.domain_at(boundary), boundary=boundary, fingerprint=fingerprint)
            for boundary, fingerprint in zip(boundaries, fingerprints, strict=True)
        ]

    def offered(self, turn: Turn, prompt: Tokens, boundaries: Sequence[int]) -> list[CacheKey]:
        """The keys that may serve a prompt, deepest first; of one boundary that of a cold run before one apart."""
        found: list[CacheKey] = []
        for boundary, fingerprint in zip(boundaries, self.fingerprints(prompt, boundaries), strict=True):
            domains = (turn.domain,) if turn.apart is None else (turn.apart, turn.domain)
            found += [CacheKey(domain=domain, boundary=boundary, fingerprint=fingerprint) for domain in domains]
        return found[::-1]

    def fingerprints(self, prompt: Tokens, boundaries: Sequence[int]) -> list[int]:
        """u64 of each prefix; see `keys.prefix_fingerprints`."""
        return prefix_fingerprints(prompt, boundaries)

    def find(self, key_hex: str) -> Entry:
        """The held entry, published or pending, with a key's hex.

        Raises:
            MissingError: there is none.
        """
        for entry, _ in self._held():
            if entry.key.hex == key_hex:
                return entry
        raise MissingError(f"cache entry: expected a held key, found {key_hex!r}")

    def corrupt(self, key_hex: str, part_name: str, byte_offset: int, xor_mask: int) -> None:
        """Flip bits of one stored byte, a negative control; see `snapshot.corrupted`.

        Raises:
            MissingError: no such entry or part.
            LayoutError: offset or mask out of range.
        """
        entry = self.find(key_hex)
        entry.snapshot = corrupted(entry.snapshot, part_name, byte_offset, xor_mask)

    def damage(self, key_hex: str, kind: str) -> None:
        """Break the geometry of a held snapshot, a negative control; see `damage.damaged`.

        ``missing`` takes the entry away as if its memory had been lost: children and plans still name it.

        Raises:
            MissingError: no such entry.
            OptionError: no such kind of damage, or nothing to damage.
        """
        entry = self.find(key_hex)
        if kind != "missing":
            entry.snapshot = damaged(entry.snapshot, kind)
            return
        for held in (self._published, *(turn.pending for turn in self._turns)):
            if held.get(entry.key) is entry:
                del held[entry.key]

    @property
    def stored_bytes(self) -> int:
        """Bytes of published snapshots."""
        return sum(entry.snapshot.nbytes for entry in self._published.values())

    @property
    def pending_bytes(self) -> int:
        """Bytes of pending snapshots of all turns."""
        return sum(e.snapshot.nbytes for turn in self._turns for e in turn.pending.values())

    @property
    def deferred_bytes(self) -> int:
        """Bytes promised to deferred saves of all turns."""
        return sum(promise.nbytes for promise in self._promises())

    @property
    def spare_bytes(self) -> int:
        """Bytes of displaced links that are kept to be used again."""
        return self.snapshotter.arenas.spare_bytes

    def retire(self, snapshot: Snapshot) -> None:
        """A link was displaced: its memory comes back."""
        self.snapshotter.arenas.give_back(snapshot.arena)

    def sources(self, *, other_than: Turn | None = None) -> set[CacheKey]:
        """Keys that open turns were restored from."""
        return {turn.source for turn in self._turns if turn.source is not None and turn is not other_than}

    def memory_counters(self) -> dict[str, int]:
        """What is allocated, as measured, and what of it is neither published nor pending."""
        arenas = self.snapshotter.arenas
        return {
            "allocated_bytes": arenas.allocated,
            "peak_bytes": arenas.peak,
            "spare_bytes": arenas.spare_bytes,
            "reused": arenas.reused,
            "kept_bytes": sum(turn.kept() for turn in self._turns),
        }

    def _promises(self) -> list[Deferred]:
        return [d for turn in self._turns for d in (turn.deferring, turn.deferred) if d is not None]

    def published(self, key: CacheKey) -> Entry | None:
        """The published entry of a key."""
        return self._published.get(key)

    def turns(self) -> Sequence[Turn]:
        """Every open session's side."""
        return self._turns

    def protect(self, key: CacheKey) -> None:
        """Never evict or replace the entry of a key, whether it is held yet or not."""
        self._protected.add(key)

    def unprotect(self, key: CacheKey) -> None:
        """Treat a key like others again."""
        self._protected.discard(key)

    def protect_head(self, key: CacheKey) -> None:
        """Protect a chat's head until it has served; of more than `MOST_HEADS` the oldest goes unprotected."""
        self._heads[key] = None
        while len(self._heads) > MOST_HEADS:
            del self._heads[next(iter(self._heads))]

    def release_head(self, key: CacheKey) -> None:
        """A head has served: it is as evictable as others."""
        self._heads.pop(key, None)

    def protects(self, key: CacheKey) -> bool:
        """Whether the key is protected."""
        return key in self._protected or key in self._heads

    def _pending_count(self) -> int:
        return sum(len(turn.pending) for turn in self._turns)

    def _held(self) -> Iterator[tuple[Entry, bool]]:
        """Every entry with whether it is pending."""
        for entry in self._published.values():
            yield entry, False
        for turn in self._turns:
            for entry in turn.pending.values():
                yield entry, True

    def entries(self) -> list[dict[str, object]]:
        """One row per held snapshot, least recently used first."""
        held = sorted(self._held(), key=lambda pair: pair[0].stamp)
        return [entry.row(pending=pending) for entry, pending in held]

    def _unlink(self, turn: Turn | None, entry: Entry) -> None:
        """Take one child off the entry's parent, which may unpin it."""
        if entry.parent is None:
            return
        parent = self._published.get(entry.parent)
        if parent is None and turn is not None:
            parent = turn.pending.get(entry.parent)
        if parent is not None:
            parent.children -= 1

    def _tick(self) -> int:
        self._clock += 1
        return self._clock
