"""The probes of entries H01 to H10 and G11: what is tried on an engine's codec and pages, beside the harness's own.

The expectation of each is made here, by the plain paths of `harness.codec`, from the bytes that the engine hands over.
"""

from __future__ import annotations

import hashlib
import os
import signal
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from harness.codec import blocks
from harness.codec.archive import Component, decode_page, encode_page, read_archive
from harness.codec.bins import bins_of
from harness.codec.paths import coder
from harness.deriving.kv_entries import HARMS, TYPES
from harness.deriving.prompts import prompt_ids
from harness.engines.pages import PageComponent, PageEngine, PageRefusedError, PageSession
from harness.model.scenario import PromptSegment, PromptSpec

Probe = tuple[str, str, str]
"""Name, what was observed, what was expected (empty where the specification says it)."""
F16 = np.ndarray[Any, np.dtype[np.float16]]


@dataclass(frozen=True, slots=True)
class Paths:
    """The declared paths of the codec."""

    code: str
    """Encodes."""
    restore: str
    """Decodes into resident rows."""


_ATTENTION: Final[Mapping[str, str | int]] = {"preset": "tiny", "arch": "attention", "chunk": 1024, "max_seq_len": 2048}
_TOKENS: Final = 300
"""More than one tile."""
_MANY: Final = 1500
"""So many rows that rules of rounding differ in some of them."""


def probe_all(pages: PageEngine, paths: Paths, only: str = "") -> Iterator[Mapping[str, object]]:
    """Yield every probe as a record without its type.

    Args:
        pages: what to try it on.
        paths: declared paths of the codec.
        only: the one entry to try; empty for all.
    """
    parts = {
        "H01": _tiles, "H02": _packed, "H03": _bins, "H04": _layouts, "H05": _harms, "H07": _pairs, "H09": _apart,
        "H10": _types, "G11": _identities,
    }  # fmt: skip
    for entry, part in parts.items():
        if only in ("", entry):
            for name, observed, expected in part(pages, paths):
                yield {"entry": entry, "name": name, "observed": observed, "expected": expected}


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _told(ask: Callable[[], str]) -> str:
    """What comes out, or the word of a refusal that nobody expected."""
    try:
        return ask()
    except PageRefusedError as error:
        return f"refused:{error.word}"


def _word(ask: Callable[[], object], done: str = "taken") -> str:
    """The word of a refusal; another error by its kind."""
    try:
        ask()
    except PageRefusedError as error:
        return error.word
    except Exception as error:  # noqa: BLE001 - whatever else it is, it is no refusal
        return f"crash:{type(error).__name__}"
    return done


def _session(
    pages: PageEngine, options: Mapping[str, str | int], tokens: int = _TOKENS, seed: int = 710
) -> PageSession:
    made = pages.open({**_ATTENTION, **options})
    segments = [PromptSegment(tokens=tokens, seed=seed)]
    made.prefill(list(prompt_ids({"A": PromptSpec(segments=segments)}, "A")))
    return made


def _rows(session: PageSession) -> str:
    """Digest of all rows of K, V and index."""
    sha = hashlib.sha256()
    for name, (kind, data) in session.parts().items():
        if name.startswith("layer"):
            sha.update(f"{name}\0{kind}\0".encode() + data)
    return sha.hexdigest()


def _state(session: PageSession) -> str:
    sha = hashlib.sha256()
    for name, (kind, data) in session.parts().items():
        sha.update(f"{name}\0{kind}\0".encode() + data)
    return sha.hexdigest()


def _words(components: list[PageComponent]) -> list[Component]:
    return [
        Component(
            layers=one.layers, tokens=one.tokens, k_element=one.k_element, v_element=one.v_element,
            k_channels=one.k_channels, v_channels=one.v_channels, transposed_v=one.transposed_v,
            exact_bytes=one.exact_bytes,
        )
        for one in components
    ]  # fmt: skip


def _reference(session: PageSession, version: int, *, transposed: bool = False) -> bytes:
    """The archive of a session's page, made by the harness itself."""
    parts = _words(list(session.components(transposed=transposed)))
    page = session.page(transposed=transposed)
    return encode_page(page, parts, version=2 if version == 2 else 1, path=coder("numpy"))


def _wave() -> F16:
    """A sine over 17 rows and 8 channels, each step rounded to f32, the result to f16."""
    row, channel = np.mgrid[0:17, 0:8]
    phase = ((row * 8 + channel) * np.float64(0.03125)).astype(np.float32)
    offset = ((channel - 3) * np.float64(0.015625)).astype(np.float32)
    sine = np.sin(phase.astype(np.float64)).astype(np.float32)
    made: F16 = ((sine.astype(np.float64) * 0.75).astype(np.float32) + offset).astype(np.float16)
    return made


def _tiles(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    tiny = np.array([[1, -0.5, 0.25, 0], [0.5, 0.5, -1, 0.125], [2, -2, 0, 1], [0, 0, 0, 0]], np.float16)
    for name, tile, version, bins in (
        ("tiny lcg1 16", tiny, 1, 16),
        *((f"wave lcg{version} {bins}", _wave(), version, bins) for version in (1, 2) for bins in (16, 32)),
    ):
        yield name, _sha(pages.encode_tile(tile.tobytes(), len(tile), bins, version, paths.code)), ""


def _packed(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    for k, v in (("f16", "f16"), ("f32", "q8_0")):
        source = _session(pages, {"k_type": k, "v_type": v})
        first, second = (_told(lambda s=source, n=n: _through(s, n, paths)) for n in (1, 2))  # type: ignore[misc]
        yield f"rows {k}/{v}", second, first


def _through(source: PageSession, version: int, paths: Paths, *, transposed: bool = False) -> str:
    """The rows of a session that the engine has coded and brought back."""
    target = source.fork()
    data = source.archive(version, paths.code, transposed=transposed)
    target.bring_archive(data, source.tail(), paths.restore, transposed=transposed)
    return _rows(target)


def _bins(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    for name, options in (("scheduled", {"preset": "deep"}), ("wide", {"preset": "deep", "arch": "sliding"})):
        source = _session(pages, {**options, "k_type": "f16", "v_type": "f16"}, tokens=64)
        parts = source.components(transposed=False)
        expected = [
            bins_of(layer=layer, layers=one.layers, side="k" if side == "k" else "v")
            for one in parts
            for side in ("k", "v")
            for layer in range(one.layers)
        ]
        archive = read_archive(source.archive(2, paths.code, transposed=False))
        found = [one.segment.bins for one in archive.records if one.segment is not None]
        yield f"bins {name}", str(found), str(expected)
    flat = np.repeat(np.array([[0], [0.5], [-0.75], [3]], np.float16), 32, axis=1)
    segment = pages.encode_tile(flat.tobytes(), 4, 16, 2, paths.code)
    yield "flat rows", _sha(_decoded(segment)), _sha(flat.tobytes())
    for version in (1, 2):
        broken = flat.copy()
        broken[1, 3] = np.inf
        data = broken.tobytes()
        word = _word(lambda d=data, n=version: pages.encode_tile(d, 4, 16, n, paths.code))  # type: ignore[misc]
        yield f"not finite lcg{version}", word, ""


def _decoded(segment: bytes) -> bytes:
    from harness.codec.paths import as_f16, decode_tile

    return as_f16(decode_tile(segment, path=coder("oracle"))).tobytes()


def _layouts(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    for kind in ("f16", "f32"):
        source = _session(pages, {"k_type": kind, "v_type": kind})
        plain = source.fork()
        plain.bring_archive(_reference(source, 2), source.tail(), paths.restore, transposed=False)
        found = _told(lambda s=source: _through(s, 2, paths, transposed=True))  # type: ignore[misc]
        yield f"transposed {kind}", found, _rows(plain)
    source = _session(pages, {"k_type": "q8_0", "v_type": "q4_0"})
    data = source.archive(2, paths.code, transposed=False)
    yield "tiles", _sizes(data), _sizes(_reference(source, 2))
    yield "mixed q8_0/q4_0", _sha(data), _sha(_reference(source, 2))
    target = source.fork()
    target.bring_archive(_reference(source, 2), source.tail(), paths.restore, transposed=False)
    yield "index rows", _index(target), _index(source)
    scaled = _session(pages, {"k_type": "i8", "v_type": "i4"})
    back = scaled.fork()
    back.prefill(list(range(8, 108)))
    back.bring(scaled.page(transposed=False), scaled.tail(), transposed=False)
    yield "exact page i8/i4", _state(back), _state(scaled)


def _sizes(data: bytes) -> str:
    """Tokens of the first layer's records, or the word of the refusal."""
    try:
        return str([one.tokens for one in read_archive(data).records][:2])
    except ValueError as error:
        return type(error).__name__


def _index(session: PageSession) -> str:
    rows = [data for name, (_, data) in session.parts().items() if "index" in name]
    return _sha(b"".join(rows))


def _harms(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    source = _session(pages, {"k_type": "f16", "v_type": "f16"}, tokens=40)
    other = _session(pages, {"k_type": "f16", "v_type": "f16"}, tokens=41)
    data, tail = source.archive(2, paths.code, transposed=False), source.tail()
    target = source.fork()
    target.prefill(list(range(8, 72)))
    before, moved = _state(target), ""
    for name in HARMS:
        harmed = other.archive(2, paths.code, transposed=False) if name == "other page" else harm(data, name)
        word = _word(lambda harmed=harmed: target.bring_archive(harmed, tail, paths.restore, transposed=False))  # type: ignore[misc]
        yield name, word, ""
        moved = moved or ("" if _state(target) == before else name)
    yield "untouched", moved or "all", "all"
    empty = _state(source.fork())
    target.cancel_in(2)
    word = _word(lambda: target.bring_archive(data, tail, paths.restore, transposed=False))
    target.cancel_in(-1)
    yield from _shelves(pages, source, data, source.page(transposed=False))
    yield "cancelled", "reset" if _state(target) == empty and word != "taken" else f"{word}, written", ""


def _shelves(pages: PageEngine, source: PageSession, data: bytes, exact: bytes) -> Iterator[Probe]:
    """A reader whose entry is evicted, and a process that is killed inside a publish."""
    with tempfile.TemporaryDirectory(prefix="kv-") as name:
        shelf = pages.shelf(Path(name) / "evicted", 1 << 30)
        shelf.publish("page", _identity(2, len(exact)), data, b"tail")
        gone: list[int] = []
        shelf.within("find", lambda: gone.append(shelf.evict()))
        found = _word(lambda: _none(None if shelf.find("page", "lossy") == (data, b"tail") else "another"))
        yield "evicted while read", f"{found}, {gone}, {shelf.find('page', 'lossy')}", "taken, [1], None"
        folder = Path(name) / "killed"
        killed = os.fork()
        if not killed:
            try:
                dying = pages.shelf(folder, 1 << 30)
                dying.within("publish", lambda: os.kill(os.getpid(), signal.SIGKILL))
                dying.publish("page", _identity(2, len(exact)), data, source.tail())
            finally:
                os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(killed, 0)[1])
        after = pages.shelf(folder, 1 << 30)
        missed = _word(lambda: after.find("page", "lossy"), done="missed")
        left = [one.name for one in folder.iterdir()]
        yield "killed in publish", f"{ended}, {missed}, {left}", "-9, missed, []"


def _none(found: object) -> None:
    """Do nothing if nothing was found."""
    if found is not None:
        raise ValueError("found something")


def _identity(version: int, length: int) -> Mapping[str, object]:
    return {
        "name": "lmcache-cachegen" if version else "raw", "version": version or 1,
        "class": "lossy" if version else "exact", "decoded_length": length, "calibration": _sha(b""),
    }  # fmt: skip


def harm(data: bytes, name: str) -> bytes:
    """An archive with one thing wrong; its first record begins at byte 16, the segment in it at 68."""
    second = 68 + struct.unpack_from("<Q", data, 60)[0]
    made = bytearray(data)
    writes: Mapping[str, tuple[str, int, int]] = {
        "magic": ("<B", 0, 0x44),
        "segment magic": ("<B", 68, 0x4D),
        "reserved": ("<B", 18, 1),
        "kind": ("<B", 16, 7),
        "raw too long": ("<Q", 4, 1 << 50),
        "count": ("<I", 12, 1 << 30),
        "payload": ("<Q", 60, 1 << 40),
        "bins": ("<B", 72, 17),
        "rows": ("<H", 74, 257),
        "overlap": ("<Q", second + 4, 1),
        "gap": ("<Q", second + 4, struct.unpack_from("<Q", data, second + 4)[0] + 2),
        "tokens": ("<Q", 36, 39),
    }
    if name == "cut":
        return bytes(made[:-1])
    if name == "trailing":
        return bytes(made) + b"\0"
    form, at, value = writes[name]
    struct.pack_into(form, made, at, value)
    return bytes(made)


def _pairs(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    for kind in ("bf16", "f8_e4m3", "i8", "i4"):
        source = _session(pages, {"k_type": "f16", "v_type": kind}, tokens=40)
        word = _word(lambda source=source: source.archive(2, paths.code, transposed=False))  # type: ignore[misc]
        yield f"coded {kind}", word, ""
    for kind in ("q8_0", "i8"):
        options: Mapping[str, str | int] = {**_ATTENTION, "v_type": kind, "v_pages": "transposed"}
        word = _word(lambda options=options: pages.open(options))  # type: ignore[misc]
        yield f"opened transposed {kind}", word, ""
    yield "opened index q8_0", _word(lambda: pages.open({**_ATTENTION, "index_type": "q8_0"})), ""
    yield "opened nameless", _word(lambda: pages.open({**_ATTENTION, "k_type": ""})), ""


def _apart(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    """The best of three imports beside the best of three runs of the oracle, which takes many times as long.

    Both are told in time of this process's processors: how long a busy machine keeps either waiting is no part of it.
    """
    source = _session(pages, {"k_type": "f16", "v_type": "f16"}, tokens=64)
    data, tail, target = source.archive(2, paths.code, transposed=False), source.tail(), source.fork()

    def tried() -> str:
        imports, oracles = [], []
        for _ in range(3):
            imports.append(_spent(lambda: target.bring_archive(data, tail, paths.restore, transposed=False)))
            oracles.append(_spent(lambda: decode_page(data, path=coder("oracle"))))
        return "apart" if 2 * min(imports) < min(oracles) else "inside"

    yield "import without the oracle", _told(tried), ""


def _spent(work: Callable[[], object]) -> int:
    """Nanoseconds that the processors spend on a piece of work of this process."""
    begin = time.process_time_ns()
    work()
    return time.process_time_ns() - begin


def _types(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    """Keys of the first layer depend on tokens alone: in every type they are those of f32, stored otherwise."""
    wide = _session(pages, {"k_type": "f32", "v_type": "f32"}, tokens=_MANY)
    kind, data = wide.parts()["layer0.k"]
    values = np.frombuffer(data, np.float32).reshape(-1, 32) if kind == "f32" else np.zeros((1, 32), np.float32)
    for name in TYPES:
        parts = _session(pages, {"k_type": name, "v_type": "f32"}, tokens=_MANY).parts()
        yield f"label {name}", parts["layer0.k"][0], name
        held = parts["layer0.k"][1] + parts.get("layer0.k_scale", ("", b""))[1]
        yield f"rows {name}", _sha(held), _sha(stored(name, values))
    source = _session(pages, {"k_type": "f16", "v_type": "q8_0"})
    archive = source.archive(1, paths.code, transposed=False)
    expected = _told(lambda: _sha(bytes(decode_page(archive, path=coder("numpy")))))
    target = source.fork()

    def restored() -> str:
        target.bring_archive(archive, source.tail(), paths.restore, transposed=False)
        return _sha(target.page(transposed=False))

    yield "restored f16/q8_0", _told(restored), expected


def stored(kind: str, values: np.ndarray[Any, np.dtype[np.float32]]) -> bytes:
    """Rows [n, 32] of one head as a type stores them, by rules of the harness's own: codes, then scales."""
    if kind in ("f32", "f16"):
        return values.astype("<f4" if kind == "f32" else "<f2").tobytes()
    if kind in blocks.BLOCK_BYTES:
        return blocks.quantise(kind, values).tobytes()
    if kind == "bf16":
        words = values.view(np.uint32).astype(np.uint64)
        rounded = (words + 0x7FFF + (words >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
        return bytes(rounded.astype("<u2").tobytes())
    if kind == "f8_e4m3":
        return _f8(values)
    reach = np.float32(127 if kind == "i8" else 7)
    scale = np.abs(values).max(axis=1, keepdims=True) / reach
    scaled = values * np.divide(np.float32(1), scale, where=scale != 0, out=np.zeros_like(scale))
    codes = np.trunc(scaled) + np.trunc(np.float32(2) * (scaled - np.trunc(scaled)))
    if kind == "i8":
        return bytes(codes.astype(np.int8).tobytes() + scale.astype("<f4").tobytes())
    nibbles = (codes + 8).astype(np.uint8)
    return bytes((nibbles[:, 0::2] | nibbles[:, 1::2] << 4).tobytes() + scale.astype("<f4").tobytes())


def _f8(values: np.ndarray[Any, np.dtype[np.float32]]) -> bytes:
    """The nearest code of e4m3, the even one of two equally near, at most 448."""
    code = np.arange(0x7F)
    number = np.where(code >> 3, np.ldexp(1 + (code & 7) / 8, (code >> 3) - 7), np.ldexp((code & 7) / 8, -6))
    size = np.minimum(np.abs(values).astype(np.float64), 448.0).reshape(-1)
    upper = np.searchsorted(number, size).clip(1, len(number) - 1)
    below, above = size - number[upper - 1], number[upper] - size
    chosen = np.where((below < above) | ((below == above) & (upper % 2 == 1)), upper - 1, upper)
    return bytes((chosen | np.signbit(values).reshape(-1) << 7).astype(np.uint8).tobytes())


def _identities(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    source = _session(pages, {"k_type": "f16", "v_type": "f16"}, tokens=40)
    data, tail = source.archive(2, paths.code, transposed=False), source.tail()
    exact = source.page(transposed=False)
    good = _identity(2, len(exact))
    with tempfile.TemporaryDirectory(prefix="kv-") as folder:
        shelf = pages.shelf(Path(folder), 1 << 30)
        shelf.publish("page", good, data, tail)
        yield "shelf lossy for exact", _word(lambda: _none(shelf.find("page", "exact")), done="miss"), ""
        yield "shelf lossy", "served" if shelf.find("page", "lossy") == (data, tail) else "other", ""
        shelf.publish("page", _identity(0, len(exact)), exact, tail)
        yield "shelf exact", "served" if shelf.find("page", "exact") == (exact, tail) else "other", ""
    changed: Mapping[str, Mapping[str, object]] = {
        "good": good,
        "unknown": {**good, "name": "cachegen-next"},
        "stripped": {name: value for name, value in good.items() if name != "calibration"},
        "newer": {**good, "version": 3},
        "length": {**good, "decoded_length": int(str(good["decoded_length"])) + 1},
        "class": {**good, "class": "exact"},
        "lossy for exact": good,
    }
    for name, identity in changed.items():
        wanted = "exact" if name == "lossy for exact" else "lossy"
        target = source.fork()
        word = _word(lambda t=target, i=identity, w=wanted: t.bring_stored(i, data, tail, paths.restore, w))  # type: ignore[misc]
        yield name, word, ""
