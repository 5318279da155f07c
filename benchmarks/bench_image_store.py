"""Session images and the disk tier against one memcpy and one hash of the same bytes.

The references do the same work on the same warm buffers: copy all parts, hash all parts, or both one
after the other. Files are read from the page cache.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.runner import Goal, Group, main
from harness.torch_engine.image import (
    Expectation,
    ExpectedPart,
    ImageDescription,
    PartKind,
    PartSpec,
    export_into,
    image_size,
    parts_of,
    validate,
)
from harness.torch_engine.keys import CacheKey
from harness.torch_engine.store import DiskStore, Record, Section, SectionKind

PARTS = 48
BOTH = "memcpy, then hash"
HASH = "hash alone"
WIDTH = 512
"""Elements of a row, two bytes each."""
LARGE = 1 << 20
"""Bytes of a part from which on there are goals."""
IDENTITY = {"engine": "bench", "k_type": "bf16"}
_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def warm(size: int) -> memoryview:
    """Random bytes in memory that has been touched."""
    block = os.urandom(1 << 20)
    whole = bytearray((block * (size // len(block) + 1))[:size])
    return memoryview(whole)


def copy_all(targets: Sequence[memoryview], sources: Sequence[memoryview]) -> None:
    for target, source in zip(targets, sources, strict=True):
        target[:] = source


def hash_all(parts: Sequence[memoryview]) -> bytes:
    return b"".join(hashlib.sha256(part).digest() for part in parts)


def image_group(size: int, tokens: int) -> Group:
    """Export and import of a session of 48 parts."""
    rows = size // (2 * WIDTH)
    specs = tuple(
        PartSpec(
            name=f"layer{at}.k", family="kv", layer=at, element_type="bf16", kind=PartKind.ROWS, shape=(rows, WIDTH)
        )
        for at in range(PARTS)
    )
    about = ImageDescription(
        identity=IDENTITY,
        position=tokens,
        history=tuple(range(tokens)),
        meta=bytes(64),
        logits_valid=False,
        owed_forward=False,
        sampler_present=False,
        parts=specs,
    )
    expected = tuple(
        ExpectedPart(name=s.name, family="kv", layer=s.layer, element_type="bf16", kind=s.kind, shape=s.shape)
        for s in specs
    )
    expectation = Expectation(identity=IDENTITY, capacity=tokens, parts=expected)
    sources = [warm(size) for _ in range(PARTS)]
    targets = [warm(size) for _ in range(PARTS)]
    image = warm(image_size(about))

    def reference() -> bytes:
        copy_all(targets, sources)
        return hash_all(sources)

    def exported() -> bytes:
        info = export_into(image, about, sources)
        return b"".join(entry.sha256 for entry in info.parts)

    def imported() -> bytes:
        info = validate(image, expectation)
        copy_all(targets, list(parts_of(info, image).values()))
        return b"".join(entry.sha256 for entry in info.parts)

    title = f"image of {PARTS} parts of {size >> 10} KiB, {tokens} tokens"
    cases = {BOTH: reference, "export": exported, "import": imported, HASH: lambda: hash_all(sources)}
    goals = (Goal(case="export", time_at_most=1.2), Goal(case="import", time_at_most=1.2)) if size >= LARGE else ()
    return Group(title=title, cases=cases, reference=BOTH, size=PARTS * size, goals=goals, check=all_equal)


def store_group(size: int) -> Group:
    """Verified load of one link of 48 sections into warm memory."""
    rows = size // (2 * WIDTH)
    sections = tuple(
        Section(name=f"layer{at}.k", kind=SectionKind.ROWS, row_bytes=2 * WIDTH, start=0, stop=rows)
        for at in range(PARTS)
    )
    key = CacheKey(domain=b"bench", boundary=rows, fingerprint=1)
    record = Record(key=key, parent=None, position=rows, meta=b"", sections=sections)
    sources = [warm(size) for _ in range(PARTS)]
    targets = [warm(size) for _ in range(PARTS)]
    _FOLDERS.append(tempfile.TemporaryDirectory())
    folder = Path(_FOLDERS[-1].name)
    store = DiskStore.open(folder, build="bench", budget_bytes=1 << 40)
    if store.put(record, sources) != "stored":
        raise AssertionError("the link could not be stored")
    file = next(folder.glob("*.snap"))

    def loaded() -> None:
        store.load(key, into=targets)

    def digest_of_file() -> None:
        with file.open("rb") as stream:
            hashlib.file_digest(stream, "sha256")

    def read_only() -> None:
        with file.open("rb", buffering=0) as stream:
            stream.seek(4096)
            for target in targets:
                stream.readinto(target)

    def check(_: Mapping[str, object]) -> None:
        loaded()
        if not all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(sources, targets, strict=True)):
            raise AssertionError("the load is not what was stored")

    return Group(
        title=f"verified load of {PARTS} sections of {size >> 10} KiB from the page cache",
        cases={
            HASH: lambda: hash_all(targets),
            "verified load": loaded,
            "read without hash": read_only,
            "hashlib.file_digest, nothing kept": digest_of_file,
        },
        reference=HASH,
        size=PARTS * size,
        goals=(Goal(case="verified load", time_at_most=1.1),) if size >= LARGE else (),
        helped=("verified load",),
        check=check,
    )


def all_equal(results: Mapping[str, object]) -> None:
    """Raise if two cases gave different digests."""
    first, *others = results.values()
    if any(other != first for other in others):
        raise AssertionError("two cases do not agree")


def groups(quick: bool) -> Sequence[Group]:  # noqa: FBT001 - the runner's signature
    """Return all groups, largest first."""
    size = 1 << 16 if quick else 4 << 20
    return [image_group(size, 8192), store_group(size), image_group(1 << 18, 512), store_group(1 << 18)]


if __name__ == "__main__":
    raise SystemExit(main(groups))
