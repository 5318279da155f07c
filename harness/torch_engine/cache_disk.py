"""The session cache above a disk tier: what leaves memory is demoted, what is asked for again is promoted.

Rules:

1. a link is demoted before it leaves memory, whatever made it leave; that it could not be stored is
   counted and changes nothing else;
2. a prompt is planned over both: a chain may end in memory and begin on the disk;
3. nothing is restored before every link of its chain has been read and verified;
4. a promoted link stays on the disk too. Where memory has no room for it, it serves this one restore
   from a staging copy.

Without a tier every method here does nothing.
"""

from __future__ import annotations

from harness.torch_engine.cache_shelf import CacheShelf
from harness.torch_engine.cache_types import Entry
from harness.torch_engine.disk_tier import DiskTier, Fetched
from harness.torch_engine.keys import CacheKey
from harness.torch_engine.snapshot import Snapshot
from harness.torch_engine.store_record import StoreError

DISK_COUNTERS = ("demotions", "demotions_failed", "promotions", "stagings")


class CacheDisk(CacheShelf):
    """A shelf with a disk below it, or without one."""

    tier: DiskTier | None = None
    """The disk; None for none."""

    def on_disk(self, key: CacheKey) -> bool:
        """Whether the disk, with what memory holds, has the whole chain of a key."""
        return self.tier is not None and self.tier.offers(key, self._published.keys())

    def demote(self, entry: Entry) -> None:
        """Write a link that is about to leave memory, but for one of a live turn: files do not say how it was made."""
        if self.tier is None or entry.spans:
            return
        try:
            stored = self.tier.write(entry)
        except StoreError:
            stored = False  # it does not continue what lies there
        self._counts["demotions" if stored else "demotions_failed"] += 1

    def demote_all(self) -> None:
        """Write every published link, parents before children."""
        if self.tier is not None:
            for entry in sorted(self._published.values(), key=lambda entry: entry.key.boundary):
                self.demote(entry)

    def fetched(self, key: CacheKey) -> list[Fetched]:
        """The links of a key that memory lacks, read and verified, root first; none if it lacks none.

        Raises:
            LinkCorruptError, LinkMissingError, ChainError: located at the link that is wrong.
        """
        if self.tier is None or key in self._published:
            return []
        return self.tier.fetch(key, self._published.keys())

    def promote(self, links: list[Fetched]) -> None:
        """Take fetched links into memory, root first, as far as there is room."""
        for number, link in enumerate(links):
            if self.put(link.key, link.parent, link.snapshot) not in ("published", "exists"):
                self._counts["stagings"] += len(links) - number
                return
            self._counts["promotions"] += 1

    def put(self, key: CacheKey, parent: CacheKey | None, snapshot: Snapshot) -> str:
        """Publish a link that was made elsewhere; see `SessionCache.put`."""
        raise NotImplementedError

    def disk_counters(self) -> dict[str, int]:
        """What moved between memory and disk, and what the disk holds; nothing without a tier."""
        if self.tier is None:
            return {}
        moved = {name: self._counts[name] for name in DISK_COUNTERS}
        return moved | self.tier.counters()
