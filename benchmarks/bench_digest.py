"""Part digests against raw hashlib, first difference against memcmp, documents against orjson."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import orjson

from benchmarks.runner import Goal, Group, main
from harness.digest import blocks, parts
from harness.digest.difference import first_difference
from harness.wire import canonical, strict

HASHLIB = "hashlib over the parts"


def state_group(*, quick: bool) -> Group:
    """A state of 48 parts of one size, as a decoder with K and V per layer has."""
    count, size = 48, (1 << 18 if quick else 8 << 20)
    buffers = [memoryview(os.urandom(size)) for _ in range(count)]

    def raw() -> list[str]:
        return [hashlib.sha256(buffer).hexdigest() for buffer in buffers]

    return Group(
        title=f"digests of one state: {count} parts of {size >> 10} KiB",
        cases={
            HASHLIB: raw,
            "part_digests, 1 thread": lambda: parts.part_digests(buffers),
            "part_digests, 2 threads": lambda: parts.part_digests(buffers, threads=2),
        },
        reference=HASHLIB,
        size=count * size,
        threads={"part_digests, 2 threads": 2},
        goals=(
            Goal(case="part_digests, 1 thread", speed_at_least=0.95),
            Goal(case="part_digests, 2 threads", speed_at_least=1.8),
        ),
        check=all_equal,
    )


def small_parts_group(*, quick: bool) -> Group:
    """Many small parts: the overhead per part."""
    count, size = (1_000 if quick else 10_000), 4096
    whole = os.urandom(count * size)
    view = memoryview(whole)
    buffers = [view[at : at + size] for at in range(0, len(whole), size)]

    def raw() -> list[str]:
        return [hashlib.sha256(buffer).hexdigest() for buffer in buffers]

    return Group(
        title=f"{count} parts of 4 KiB",
        cases={
            "one hash over all bytes": lambda: hashlib.sha256(whole).hexdigest(),
            "hashlib, part by part": raw,
            "part_digests, 1 thread": lambda: parts.part_digests(buffers),
            "part_digests, 2 threads": lambda: parts.part_digests(buffers, threads=2),
        },
        reference="one hash over all bytes",
        size=len(whole),
        goals=(Goal(case="part_digests, 1 thread", time_at_most=1.25),),
    )


def difference_group(*, quick: bool) -> Group:
    """Two equal buffers: how fast is the answer that there is no difference."""
    size = 16 << 20 if quick else 256 << 20
    left = np.frombuffer(os.urandom(1 << 20) * (size >> 20), np.uint8)
    right = left.copy()

    def search() -> object:
        return first_difference(left.data, right.data, element_type="bf16", shape=(size // 1024, 512))

    return Group(
        title=f"first difference of equal buffers of {size >> 20} MiB",
        cases={
            "memcmp": lambda: blocks.equal(left, right),
            "first_difference": search,
            "numpy, bytes": lambda: bool((left == right).all()),
        },
        reference="memcmp",
        size=size,
        goals=(Goal(case="first_difference", time_at_most=1.3),),
    )


def document_group(*, quick: bool) -> Group:
    """Strict reading of certificates, a hundred at a time."""
    text = canonical.render(sample_document())
    count = 10 if quick else 100

    def times(call: Callable[[], object]) -> Callable[[], object]:
        def repeated() -> object:
            for _ in range(count - 1):
                call()
            return call()

        return repeated

    def read() -> object:
        return strict.loads(text, where="sample", form="rendered")

    def address() -> str:
        return canonical.digest_trusted(read())

    return Group(
        title=f"{count} documents of {len(text)} bytes",
        cases={
            "orjson.loads": times(lambda: orjson.loads(text)),
            "strict.loads": times(read),
            "strict.loads and digest": times(address),
        },
        reference="orjson.loads",
        size=count * len(text),
        goals=(Goal(case="strict.loads", time_at_most=2.5),),
    )


def sample_document() -> dict[str, object]:
    """Return a value of the size and mixture of a certificate's body."""

    def fake(number: int) -> str:
        return hashlib.sha256(str(number).encode()).hexdigest()

    samples = [{"arm": "cold", "rep": at, "start_ns": 10**9 + at} for at in range(40)]
    cells = [{"cell_id": f"A16[scale=16,at=end+{at}]", "outcome": "pass", "samples": samples} for at in range(5)]
    table = [{"name": f"layer{at}.k", "rows": 512, "element_type": "bf16", "sha256": fake(at)} for at in range(58)]
    return {"kind": "qualification", "cells": cells, "parts": table, "repeatable": True}


def all_equal(results: Mapping[str, object]) -> None:
    """Raise if two cases gave different results."""
    first, *others = results.values()
    if any(other != first for other in others):
        raise AssertionError("two cases do not agree")


def groups(*, quick: bool) -> Sequence[Group]:
    """Return all groups, largest first."""
    makers = (state_group, small_parts_group, difference_group, document_group)
    return [maker(quick=quick) for maker in makers]


if __name__ == "__main__":
    raise SystemExit(main(groups))
