"""What lies in an open tier: links by key, their children, their age. Holds no bytes and no files."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.torch_engine.keys import CacheKey
from harness.torch_engine.store_record import Header


@dataclass(slots=True)
class StoreLink:
    """A link of this build that is on the disk."""

    name: str
    header: Header
    stamp: int
    own: bool = True

    @property
    def nbytes(self) -> int:
        """Bytes of its file."""
        return self.header.file_bytes


@dataclass(slots=True)
class OtherLink:
    """A link of another build: it takes room and is the first to go."""

    name: str
    nbytes: int
    stamp: int
    own: bool = False


class StoreIndex:
    """Links by key; the oldest have the smallest stamps."""

    def __init__(self) -> None:
        self._links: dict[CacheKey, StoreLink] = {}
        self._others: dict[str, OtherLink] = {}
        self._children: Counter[CacheKey] = Counter()
        self._clock = 0
        self.total_bytes = 0
        """Bytes of all links, of other builds too."""

    def __len__(self) -> int:
        return len(self._links)

    def __contains__(self, key: object) -> bool:
        return key in self._links

    def get(self, key: CacheKey | None) -> StoreLink | None:
        """The link of a key."""
        return self._links.get(key) if key is not None else None

    # -- changing ------------------------------------------------------------------------------

    def add(self, name: str, header: Header) -> None:
        """A link that is on the disk now; the youngest."""
        record = header.record
        self._links[record.key] = StoreLink(name=name, header=header, stamp=self._tick())
        if record.parent is not None:
            self._children[record.parent] += 1
        self.total_bytes += header.file_bytes

    def add_other(self, name: str, nbytes: int) -> None:
        """A link of another build."""
        self._others[name] = OtherLink(name=name, nbytes=nbytes, stamp=self._tick())
        self.total_bytes += nbytes

    def drop(self, key: CacheKey) -> None:
        """Forget a link of this build, if it is there."""
        link = self._links.pop(key, None)
        if link is None:
            return
        parent = link.header.record.parent
        if parent is not None:
            self._children[parent] -= 1
        self.total_bytes -= link.nbytes

    def forget(self, link: StoreLink | OtherLink) -> None:
        """Forget a link of any build."""
        if isinstance(link, StoreLink):
            self.drop(link.header.record.key)
        else:
            del self._others[link.name]
            self.total_bytes -= link.nbytes

    def touch(self, key: CacheKey) -> None:
        """A link was used."""
        self._links[key].stamp = self._tick()

    @contextmanager
    def pinned(self, key: CacheKey | None) -> Iterator[None]:
        """Keep a link, and so its ancestors, from being evicted meanwhile."""
        if key is None:
            yield
            return
        self._children[key] += 1
        try:
            yield
        finally:
            self._children[key] -= 1

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    # -- asking --------------------------------------------------------------------------------

    def children(self, key: CacheKey) -> Iterator[StoreLink]:
        """The links on the disk that continue a key."""
        if self._children[key] > 0:
            yield from (link for link in self._links.values() if link.header.record.parent == key)

    def walk(self, key: CacheKey, held: Collection[CacheKey]) -> Iterator[StoreLink]:
        """Links leaf → root, up to a held one, to one that is not there, or to the root."""
        at: CacheKey | None = key
        while at is not None and at in self._links and (at == key or at not in held):
            link = self._links[at]
            yield link
            at = link.header.record.parent

    def missing(self, key: CacheKey, held: Collection[CacheKey]) -> CacheKey | None:
        """The first link of a chain that is neither here nor held, or None."""
        links = list(self.walk(key, held))
        gap = links[-1].header.record.parent if links else key
        return None if gap is None or (gap in held and gap != key) else gap

    def victim(self, protect: Collection[CacheKey]) -> StoreLink | OtherLink | None:
        """What goes next: the oldest of other builds, else the oldest leaf that is not protected."""
        if self._others:
            return min(self._others.values(), key=lambda other: other.stamp)
        leaves = (link for key, link in self._links.items() if self._children[key] <= 0 and key not in protect)
        return min(leaves, key=lambda link: link.stamp, default=None)

    def by_depth(self) -> list[StoreLink]:
        """All links of this build, shallowest first."""
        return sorted(self._links.values(), key=lambda link: link.header.record.key.boundary)

    def counters(self) -> dict[str, int]:
        """What is held now; bytes of all builds together."""
        return {"entries": len(self), "other_build_entries": len(self._others), "stored_bytes": self.total_bytes}

    def rows(self) -> list[dict[str, object]]:
        """One row per link, least recently used first."""
        rows: list[tuple[int, dict[str, object]]] = []
        for key, link in self._links.items():
            parent, children = link.header.record.parent, self._children[key]
            row: dict[str, object] = {
                "name": link.name,
                "build": "own",
                "bytes": link.nbytes,
                "payload_at": link.header.header_bytes,
                "key": key.hex,
                "boundary": key.boundary,
                "parent": parent.hex if parent else "",
                "children": children,
                "pinned": children > 0,
                "domain": hashlib.sha256(key.domain).hexdigest(),
                "sha256": link.header.sha256.hex(),
            }
            rows.append((link.stamp, row))
        others = self._others.values()
        rows += [(other.stamp, {"name": other.name, "build": "other", "bytes": other.nbytes}) for other in others]
        return [row for _, row in sorted(rows, key=lambda pair: pair[0])]
