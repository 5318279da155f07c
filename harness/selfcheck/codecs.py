"""What a fuzzed archive of coded rows must come to: a refusal by name, or one page by every path.

A second reader, written apart and plainly, says of every input whether it is valid; where it and the codec differ, one
of them is wrong. Nothing may be allocated beyond the limit that the caller gives.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import accumulate, groupby, pairwise
from random import Random
from typing import Final, NamedTuple

from harness.codec import rans
from harness.codec.archive import Component, decode_page, encode_page, read_archive
from harness.codec.compiled import available
from harness.codec.errors import CodecError
from harness.codec.identity import CodecIdentity, read_identity
from harness.codec.paths import Coder, coder, decode_symbols, encode_tile, half_values
from harness.codec.segments import read_segment
from harness.selfcheck import mutations
from harness.selfcheck.assault import Answer, Target, essence

LIMIT: Final = 1 << 20
"""Bytes of a page that the fuzzed reader may make."""
_RECORD: Final = struct.Struct("<BBH6Q")
_EDGES: Final = (0, 1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 34, 127, 128, 255, 256, 257, 65535, 1 << 16, 1 << 24)
_ENDS: Final = ((1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_SIZES: Final = {0: 2, 1: 1, 2: 2, 3: 4, 4: 4, 5: 34, 6: 18}
"""Kind of a record to the bytes of an element or block."""


def targets() -> Sequence[Target]:
    """Return the readers of coded bytes, each with valid inputs; the first call compiles what is compiled."""
    found = _targets()
    for one in found:
        for seed in one.seeds:
            one.judge(seed)
    return found


@cache
def _targets() -> Sequence[Target]:
    return (
        Target("segment", _segments(), _segment, _binary),
        Target("archive", _archives(), _archive, _in_archive),
        Target("tile", _tiles(), _tile, _binary),
        Target("identity", _identities(), _identity),
    )


WEIGHTS: Final = {"segment": 3, "archive": 6, "tile": 2, "identity": 1}
"""Target to its share of the cases."""


# -- the second reader -------------------------------------------------------------------------


def plain_segment(data: bytes) -> tuple[int, int] | None:
    """Return rows and channels of a valid segment; None: it is none. Written from the format alone."""
    if len(data) < 16 or data[:4] not in (b"LCG1", b"LCG2"):
        return None
    bins, second, rows, channels, size = struct.unpack_from("<BBHII", data, 4)
    bits = {16: 4, 32: 5}.get(bins, 0)
    if not bits or not 1 <= rows <= 256 or channels < 1 or rows * channels > 1 << 24:
        return None
    first = data[:4] == b"LCG1"
    tables = 68 * channels if first else 0
    if second != (0 if first else bits) or len(data) != 16 + 4 * rows + tables + size:
        return None
    if any(not (math.isfinite(one) and math.copysign(1, one) > 0) for one in struct.unpack_from(f"<{rows}f", data, 16)):
        return None
    if not first:
        return (rows, channels) if size == (rows * channels * bits + 7) // 8 else None
    at = 16 + 4 * rows
    for _ in range(channels):
        edges = struct.unpack_from("<33H", data, at)
        at += 66
        if edges[0] != 0 or edges[-1] != 65535 or any(b <= a for a, b in pairwise(edges)):
            return None
    lengths = struct.unpack_from(f"<{channels}H", data, at)
    fine = all(1 <= one <= 256 for one in lengths) and sum(lengths) == size
    return (rows, channels) if fine else None


def plain_archive(data: bytes, limit: int = LIMIT) -> bool:
    """Tell whether an archive is valid, every byte of its page covered once. Written from the format alone."""
    pieces = _pieces(data)
    if pieces is None:
        return False
    raw = int.from_bytes(data[4:12], "little")
    if raw > limit or any(b <= a for a, b in pairwise((one.offset, one.start) for one in pieces)):
        return False
    covered = 0
    for offset, group in groupby(pieces, key=lambda one: one.offset):
        end = _end_of_group(list(group), raw)
        if offset != covered or end is None:
            return False
        covered = end
    return covered == raw


class _Piece(NamedTuple):
    """A record that is valid by itself."""

    kind: int
    offset: int
    decoded: int
    tokens: int
    start: int
    total: int
    width: int


def _pieces(data: bytes) -> Sequence[_Piece] | None:
    """Return the records, or None where one is wrong by itself or the ends do not meet."""
    if len(data) < 16 or data[:4] != b"CKG1":
        return None
    found: list[_Piece] = []
    at = 16
    for _ in range(int.from_bytes(data[12:16], "little")):
        if len(data) - at < _RECORD.size:
            return None
        kind, size, zero, offset, decoded, tokens, start, total, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        if _SIZES.get(kind) != size or zero or length > len(data) - at:
            return None
        segment = (tokens, 1) if kind == 1 else plain_segment(data[at : at + length])
        width = _width(kind, segment[1]) if segment is not None else 0
        counted = length if kind == 1 else tokens * width
        if segment is None or not width or decoded < 1 or decoded != counted or segment[0] != tokens:
            return None
        if kind == 1 and tokens:
            return None
        at += length
        found.append(_Piece(kind, offset, decoded, tokens, start, total, width))
    return found if at == len(data) else None


def _end_of_group(group: Sequence[_Piece], raw: int) -> int | None:
    """Return where records of one offset end in the page; None: they do not fill it as they say."""
    first = group[0]
    if first.kind not in (2, 4):
        fine = len(group) == 1 and not (first.start or first.total)
        end = first.offset + first.decoded
    else:
        starts = [0, *accumulate(one.tokens for one in group)]
        alike = len({(one.kind, one.total, one.width) for one in group}) == 1
        fine = alike and [one.start for one in group] == starts[:-1] and starts[-1] == first.total
        end = first.offset + first.total * first.width
    return end if fine and end <= raw else None


def _width(kind: int, channels: int) -> int:
    """Bytes of a row; 0: no such row."""
    if kind in (5, 6):
        return channels // 32 * _SIZES[kind] if channels % 32 == 0 else 0
    return channels * _SIZES[kind]


# -- what each input comes to ------------------------------------------------------------------


def _segment(data: bytes) -> Answer:
    wanted = plain_segment(data)
    try:
        segment = read_segment(data)
    except CodecError as refused:
        return Answer(_refused(refused), "disagreed" if wanted else "")
    if wanted != (segment.rows, segment.channels):
        return Answer("accepted", "disagreed")
    return _alike(lambda path: half_values(segment, path=path).tobytes() + decode_symbols(segment, path=path).tobytes())


def _archive(data: bytes) -> Answer:
    return archive_answer(data, lambda given: read_archive(given, limit=LIMIT).raw)


def archive_answer(data: bytes, read: Callable[[bytes], int]) -> Answer:
    """Return what an archive comes to with a reader that returns the bytes of its page."""
    valid = plain_archive(data)
    try:
        raw = read(data)
    except CodecError as refused:
        return Answer(_refused(refused), "disagreed" if valid else "")
    if not valid:
        return Answer("accepted", "disagreed")
    return _alike(lambda path: _page(data, raw, path))


def _page(data: bytes, raw: int, path: Coder) -> bytes:
    page = bytes(decode_page(data, path=path, limit=LIMIT))
    if len(page) != raw:
        raise AssertionError(f"found a page of {len(page)} bytes; {raw} were promised")
    return page


def _alike(decode: Callable[[Coder], bytes]) -> Answer:
    """Decode by every path that is here; all must give the same, or refuse."""
    found: list[tuple[str, bytes]] = []
    for path in _paths():
        try:
            found.append(("accepted", decode(path)))
        except CodecError as refused:
            found.append((f"refused {type(refused).__name__}", b""))
    return Answer(found[0][0], "" if len(set(found)) == 1 else "disagreed")


@cache
def _paths() -> Sequence[Coder]:
    return [coder(name) for name in (("numpy", "compiled") if available() else ("numpy",))]


def _tile(data: bytes) -> Answer:
    try:
        rows = rans.decode_tile(data)
    except CodecError as refused:
        return Answer(_refused(refused))
    (dims,) = struct.unpack_from("<H", data, 4)
    return Answer("accepted", "" if all(len(row) == dims for row in rows) else "disagreed")


def _identity(data: bytes) -> Answer:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return Answer("refused as text")
    if not isinstance(value, dict):
        return Answer("refused as a mapping")
    try:
        found = read_identity(value)
    except CodecError as refused:
        return Answer(_refused(refused))
    return Answer("accepted", "" if found.record() == value else "disagreed")


def _refused(error: CodecError) -> str:
    return f"refused {type(error).__name__} {essence(str(error))}"


# -- valid inputs ------------------------------------------------------------------------------


def _rows(seed: int, rows: int, channels: int) -> list[list[float]]:
    rng = Random(seed)  # noqa: S311 - inputs are to be made again, not to be secret
    return [[math.ldexp(rng.randrange(-2048, 2049), -9) for _ in range(channels)] for _ in range(rows)]


@cache
def _segments() -> Sequence[bytes]:
    path = coder("numpy")
    return [
        encode_tile(_rows(rows, rows, channels), bins=bins, version=2 if version == 2 else 1, path=path)
        for version in (1, 2)
        for bins in (16, 32)
        for rows, channels in ((1, 1), (5, 3), (9, 32))
    ]


@cache
def _archives() -> Sequence[bytes]:
    path = coder("numpy")
    shapes = (
        Component(layers=1, tokens=3, k_element="f16", v_element="f32", k_channels=3, v_channels=2),
        Component(layers=2, tokens=4, k_element="q8_0", v_element="q4_0", k_channels=32, v_channels=32, exact_bytes=7),
        Component(layers=1, tokens=5, k_element="f32", v_element="f16", k_channels=2, v_channels=3, transposed_v=True),
        Component(
            layers=1, tokens=300, k_element="f16", v_element="f16", k_channels=1, v_channels=2, transposed_v=True
        ),
    )
    made = [
        encode_page(_page_of([one], seed), [one], version=2 if version == 2 else 1, path=path)
        for seed, one in enumerate(shapes)
        for version in (1, 2)
    ]
    return [*made, encode_page(_page_of(shapes[:2], 9), shapes[:2], version=2, path=path)]


def _page_of(components: Sequence[Component], seed: int) -> bytes:
    """A page of small halves, whatever type they are read as: every two bytes are f16 of few bits, f32 likewise."""
    rng = Random(seed)  # noqa: S311
    size = sum(one.size for one in components)
    words = [struct.pack("<e", math.ldexp(rng.randrange(-64, 65), -5)) for _ in range(size // 2 + 1)]
    return b"".join(words)[:size]


@cache
def _tiles() -> Sequence[bytes]:
    return [rans.encode_tile(_rows(rows, rows, channels)) for rows, channels in ((1, 1), (4, 3), (7, 8))]


@cache
def _identities() -> Sequence[bytes]:
    lossy = CodecIdentity(
        name="lmcache-cachegen", version=2, kind="lossy", decoded_length=96, calibration="ab" * 32
    ).record()
    exact = CodecIdentity(name="raw", version=1, kind="exact", decoded_length=0, calibration="cd" * 32).record()
    return [json.dumps(one).encode() for one in (lossy, exact)]


# -- changes -----------------------------------------------------------------------------------


def _binary(rng: Random, data: bytes, other: bytes) -> bytes:
    """Change bytes: bits, numbers of every width at any place, ends, pieces of another input."""
    for _ in range(rng.randint(1, 3)):
        data = rng.choice(_CHANGES)(rng, data, other)
    return data


def _in_archive(rng: Random, data: bytes, other: bytes) -> bytes:
    """Change an archive as bytes, or one field of its head or of a record, or the order and number of its records."""
    if rng.random() < 0.35:
        return _binary(rng, data, other)
    heads = _heads(data)
    if not heads or rng.random() < 0.15:
        return _number(rng, data, rng.choice((4, 12)), rng.choice((4, 8)))
    at = rng.choice(heads)
    change = rng.random()
    if change < 0.6:
        field = rng.choice((0, 1, 2, 4, 12, 20, 28, 36, 44))
        return _number(rng, data, at + field, 1 if field < 2 else 2 if field == 2 else 8)
    end = next((one for one in heads if one > at), len(data))
    if change < 0.7:
        return data[:at] + data[end:]
    if change < 0.8:
        return data[:end] + data[at:end] + data[end:]
    if change < 0.9:
        return data[:at] + data[end:] + data[at:end]
    return data[: at + 52] + _binary(rng, data[at + 52 : end], other) + data[end:]


def _heads(data: bytes) -> list[int]:
    """Where records of a valid archive begin; of a broken one those that can be told."""
    found: list[int] = []
    at = 16
    while at + _RECORD.size <= len(data) and len(found) < 64:
        found.append(at)
        (length,) = struct.unpack_from("<Q", data, at + 44)
        at += _RECORD.size + min(length, len(data))
    return found


def _number(rng: Random, data: bytes, at: int, width: int) -> bytes:
    if at + width > len(data):
        return data + b"\0"
    old = int.from_bytes(data[at : at + width], "little")
    near = [old + step for step in (-2, -1, 1, 2, 32)] + [old * 2, old // 2]
    new = rng.choice((*near, *near, *_EDGES, *_ENDS, rng.randrange(1 << 8 * width))) % (1 << 8 * width)
    return data[:at] + new.to_bytes(width, "little") + data[at + width :]


def _anywhere(rng: Random, data: bytes, _: bytes) -> bytes:
    width = rng.choice((1, 2, 4, 8))
    return _number(rng, data, rng.randrange(max(1, len(data))), width)


def _bit(rng: Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :] if at < len(data) else data


def _cut(rng: Random, data: bytes, _: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _grow(rng: Random, data: bytes, _: bytes) -> bytes:
    return data + rng.randbytes(rng.randint(1, 80))


def _splice(rng: Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


_CHANGES: Final[Sequence[Callable[[Random, bytes, bytes], bytes]]] = (
    _bit,
    _bit,
    _anywhere,
    _anywhere,
    _anywhere,
    _cut,
    _grow,
    _splice,
    mutations.of_bytes,
)


# -- holes -------------------------------------------------------------------------------------


def _tail_ignored(target: Target) -> Target:
    """A reader that stops after the last record, whatever follows."""

    def read(data: bytes) -> int:
        for end in range(len(data), max(0, len(data) - 90), -1):
            try:
                return read_archive(data[:end], limit=LIMIT).raw
            except CodecError:
                continue
        return read_archive(data, limit=LIMIT).raw

    return target._replace(judge=lambda data: archive_answer(data, read)) if target.name == "archive" else target


def _allocates_first(target: Target) -> Target:
    """A reader that makes the page before it looks at the records."""

    def read(data: bytes) -> int:
        page = bytearray(int.from_bytes(data[4:12], "little"))  # untouched, so that only what no machine has raises
        del page
        return read_archive(data, limit=LIMIT).raw

    return target._replace(judge=lambda data: archive_answer(data, read)) if target.name == "archive" else target


def _length_trusted(target: Target) -> Target:
    """A reader that unpacks as many maxima as a segment says that it has."""

    def judge(data: bytes) -> Answer:
        if data[:4] == b"LCG2" and len(data) >= 16:
            struct.unpack_from(f"<{struct.unpack_from('<H', data, 6)[0]}f", data, 16)
        return _segment(data)

    return target._replace(judge=judge) if target.name == "segment" else target


HOLES: Final[Mapping[str, tuple[str, str, Callable[[Target], Target]]]] = {
    "tail_ignored": ("archive", "disagreed", _tail_ignored),
    "page_made_first": ("archive", "raised", _allocates_first),
    "length_trusted": ("segment", "raised", _length_trusted),
}
"""Name to target, what must be wrong, and the reader with a hole."""
