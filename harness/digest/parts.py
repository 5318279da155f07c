"""Part digest v1: SHA-256 over the valid bytes of one state part.

The bytes are the part's own elements in C order, little-endian, valid rows only, so ``sha256sum``
on the dumped part prints the same digits. Nothing is copied: a buffer that would need a copy to
become contiguous is refused, since the copy would hide what the engine really holds.

``hashlib`` releases the interpreter lock while it hashes, so threads share the parts of a state:
the largest first, small ones all in one piece. The digests do not depend on the number of threads.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Final

from harness.errors import StatecertError
from harness.model.evidence import PART_DIGEST
from harness.model.noun import dataclass
from harness.wire import canonical

if TYPE_CHECKING:
    from typing_extensions import Buffer

ALGORITHM: Final = PART_DIGEST
"""The id that every record of a part digest names."""

_LARGE_BYTES: Final = 1 << 16
_MASK: Final = 2**64 - 1


class NotContiguousError(StatecertError):
    """A buffer does not hold its bytes in C order without gaps, so it cannot be hashed as it is."""


def part_digest(buffer: Buffer) -> str:
    """Return the part digest of a buffer as 64 hex digits, without copying it.

    Args:
        buffer: Anything with the buffer protocol, of any shape and element type. The caller has
            cut it to its valid rows and has synchronized the device that wrote it.

    Raises:
        NotContiguousError: The buffer has gaps or another order; make it contiguous where it is
            taken, and say so in the part's record.
    """
    try:
        return sha256(memoryview(buffer)).hexdigest()
    except BufferError as error:
        raise NotContiguousError(
            f"found a buffer that is not C-contiguous ({error}); allowed are the bytes of a part "
            "in C order without gaps"
        ) from error


def part_digests(buffers: Sequence[Buffer], *, threads: int = 1) -> list[str]:
    """Return the part digest of each buffer, in the order given.

    Args:
        buffers: The parts of one state.
        threads: How many threads hash at a time; more than there are large parts bring nothing.

    Raises:
        NotContiguousError: As :func:`part_digest`; no digest is returned then.
    """
    if threads <= 1 or len(buffers) <= 1:
        return _in_turn(buffers)
    sizes = [memoryview(buffer).nbytes for buffer in buffers]
    batches = _batches(sizes)
    if len(batches) == 1:
        return _in_turn(buffers)
    return _shared(buffers, batches, threads)


def _in_turn(buffers: Sequence[Buffer]) -> list[str]:
    """Hash in this thread; the plain call costs least and says no to all but flat buffers."""
    try:
        return [state.hexdigest() for state in map(sha256, buffers)]
    except BufferError:
        return [part_digest(buffer) for buffer in buffers]


def _shared(buffers: Sequence[Buffer], batches: Sequence[list[int]], threads: int) -> list[str]:
    from concurrent.futures import ThreadPoolExecutor

    def hashed(batch: list[int]) -> list[str]:
        return _in_turn([buffers[index] for index in batch])

    found = [""] * len(buffers)
    with ThreadPoolExecutor(max_workers=min(threads, len(batches))) as pool:
        for batch, digests in zip(batches, pool.map(hashed, batches), strict=True):
            for index, digest in zip(batch, digests, strict=True):
                found[index] = digest
    return found


def _batches(sizes: Sequence[int]) -> list[list[int]]:
    """Divide the parts into pieces of work: large ones alone, largest first; all small ones last.

    Small parts stay together, since two threads that hash them fight for the interpreter lock
    between any two and end up slower than one.
    """
    order = sorted(range(len(sizes)), key=lambda number: -sizes[number])
    large = [[index] for index in order if sizes[index] >= _LARGE_BYTES]
    small = [index for index in order if sizes[index] < _LARGE_BYTES]
    return [*large, small] if small else large


def root(table: Sequence[object]) -> str:
    """Return the digest that stands for a whole part table: over its canonical JSON.

    Args:
        table: One mapping per part, in the order of the parts, as the evidence line holds it.

    Raises:
        TypeError: The table holds something that documents cannot hold.
        ValueError: As above.
    """
    return canonical.digest(list(table))


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownAnswer:
    """A buffer that anybody can make, and its digest."""

    seed: int
    """Start of the generator, see :func:`known_buffer`."""
    size: int
    """Bytes of the buffer."""
    sha256: str
    """Part digest of the buffer, 64 hex digits."""


def known_buffer(seed: int, size: int) -> bytes:
    """Return the first ``size`` bytes of the splitmix64 sequence from ``seed``, little-endian."""
    words = islice(_splitmix64(seed), (size + 7) // 8)
    return b"".join(struct.pack("<Q", word) for word in words)[:size]


def _splitmix64(state: int) -> Iterable[int]:
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        word = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
        yield word ^ (word >> 31)


KNOWN_ANSWERS: Final[tuple[KnownAnswer, ...]] = (
    KnownAnswer(
        seed=1,
        size=0,
        sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ),
    KnownAnswer(
        seed=2,
        size=1,
        sha256="c337ded6f56c07205fb7b391654d7d463c9e0c726869523ae6024c9bec878878",
    ),
    KnownAnswer(
        seed=3,
        size=3,
        sha256="bfa2fd3b2cec3210e4358c2464c24b65c2813ba8141eb00a1223d8bb11c3ddb5",
    ),
    KnownAnswer(
        seed=4,
        size=55,
        sha256="f1e84ddb153ffeced19dcff15749883ea821a7cb348275f822edcc3a0af8d769",
    ),
    KnownAnswer(
        seed=5,
        size=56,
        sha256="0ea0ce4c734e7dee55fb10c3e55c82439e8f7fa25933dd7414b60944243b238a",
    ),
    KnownAnswer(
        seed=6,
        size=57,
        sha256="1306794aa68231c8726abb9f075a2ffe0dd719e8dc1905307b849ec3a36b92b4",
    ),
    KnownAnswer(
        seed=7,
        size=63,
        sha256="3403268c90262279b1ba896eaca6a7447cad6ecaa30983c3e6521d6db56f9f9e",
    ),
    KnownAnswer(
        seed=8,
        size=64,
        sha256="f02ed6b8981bc6f1698e97072830f86471cf0577f9f6ffb4f3054c5e1925f95b",
    ),
    KnownAnswer(
        seed=9,
        size=65,
        sha256="b917cbddd96a170c84eafde71e560d15e77b6aaa7d2b0a83bc773472ff7214ab",
    ),
    KnownAnswer(
        seed=10,
        size=127,
        sha256="11babc4c650e3ee344d0e67a576d745fd39ef9eaf8a1c226de94356909c31c75",
    ),
    KnownAnswer(
        seed=11,
        size=128,
        sha256="23e5d3e9deb9ef296e5deb3d378942ce4e73824388b4c7d5c2246c65d32f72e2",
    ),
    KnownAnswer(
        seed=12,
        size=4096,
        sha256="b18e4659a102f896e199f3684520d50ca19bd7a2f5d00f5f05ac0cf188114082",
    ),
    KnownAnswer(
        seed=13,
        size=65537,
        sha256="c77722e8f5504229d5f20cc1be652606ebbacc3bd3306f463da8f39a2b2c6fd1",
    ),
)
"""Sizes around the block and padding borders of SHA-256, one page, and one odd larger buffer.

A child process hashes these at its start, and the parent compares: a broken build of a hash
library, a byte-swapped pipe or a truncated shared buffer shows before any state is judged.
"""


def wrong_answers(hasher: Callable[[bytes], str] = part_digest) -> tuple[KnownAnswer, ...]:
    """Return the known answers that ``hasher`` gets wrong; empty means that it can be used."""
    return tuple(answer for answer in KNOWN_ANSWERS if hasher(known_buffer(answer.seed, answer.size)) != answer.sha256)
