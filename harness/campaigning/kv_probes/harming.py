"""Probes of harm: archives with something wrong, an import that is broken off, a shelf in the middle of a call: H05."""

from __future__ import annotations

import os
import signal
import struct
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from harness.campaigning.kv_probes.tools import (
    Paths,
    Probe,
    identity_of,
    require_none,
    session_of,
    state_of,
    word_of,
)
from harness.deriving.kv_entries import HARMS
from harness.engines.pages import PageEngine, PageSession

HEADS: Final = 16 + 52 + 16
"""Bytes of the heads of an archive, of its first record, and of that one's segment."""
FLIPS: Final = 48
"""Bits of a stored entry that are flipped, one at a time."""


def harms(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    """H05: what is wrong with an archive is named and nothing is written; what is broken off is reset."""
    source = session_of(pages, {"k_type": "f16", "v_type": "f16"}, tokens=40)
    other = session_of(pages, {"k_type": "f16", "v_type": "f16"}, tokens=41)
    data, tail = source.archive(2, paths.code, transposed=False), source.tail()
    target = source.fork()
    target.prefill(list(range(8, 72)))
    before, moved = state_of(target), ""
    for name in HARMS:
        harmed = other.archive(2, paths.code, transposed=False) if name == "other page" else harm(data, name)
        word = word_of(lambda harmed=harmed: target.bring_archive(harmed, tail, paths.restore, transposed=False))  # type: ignore[misc]
        yield name, word, ""
        moved = moved or ("" if state_of(target) == before else name)
    yield "untouched", moved or "all", "all"
    empty = state_of(source.fork())
    target.cancel_in(2)
    word = word_of(lambda: target.bring_archive(data, tail, paths.restore, transposed=False))
    target.cancel_in(-1)
    yield "flipped bits of a head", _flipped_heads(source, target, tail, paths), ""
    yield from _shelves(pages, source, data, source.page(transposed=False))
    yield "cancelled", "reset" if state_of(target) == empty and word != "taken" else f"{word}, written", ""


def _shelves(pages: PageEngine, source: PageSession, data: bytes, exact: bytes) -> Iterator[Probe]:
    """A reader whose entry is evicted, and a process that is killed inside a publish."""
    with tempfile.TemporaryDirectory(prefix="kv-") as name:
        shelf = pages.shelf(Path(name) / "evicted", 1 << 30)
        shelf.publish("page", identity_of(2, len(exact)), data, b"tail")
        gone: list[int] = []
        shelf.within("find", lambda: gone.append(shelf.evict()))
        found = word_of(lambda: require_none(None if shelf.find("page", "lossy") == (data, b"tail") else "another"))
        yield "evicted while read", f"{found}, {gone}, {shelf.find('page', 'lossy')}", "taken, [1], None"
        folder = Path(name) / "killed"
        killed = os.fork()
        if not killed:
            try:
                dying = pages.shelf(folder, 1 << 30)
                dying.within("publish", lambda: os.kill(os.getpid(), signal.SIGKILL))
                dying.publish("page", identity_of(2, len(exact)), data, source.tail())
            finally:
                os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(killed, 0)[1])
        after = pages.shelf(folder, 1 << 30)
        missed = word_of(lambda: after.find("page", "lossy"), done="missed")
        left = [one.name for one in folder.iterdir()]
        yield "killed in publish", f"{ended}, {missed}, {left}", "-9, missed, []"
        yield "flipped bits of an entry", _flipped_entries(pages, Path(name) / "flipped", data, len(exact)), ""


def _flipped_heads(source: PageSession, target: PageSession, tail: bytes, paths: Paths) -> str:
    """Archives of both versions with each bit flipped of their head, of the first record's head and of its segment's.

    None of these bits is without meaning; one that is taken was not looked at.
    """
    tried = refused = 0
    for version in (1, 2):
        data = source.archive(version, paths.code, transposed=False)
        for bit in range(8 * HEADS):
            harmed = flipped(data, bit)
            word = word_of(lambda harmed=harmed: target.bring_archive(harmed, tail, paths.restore, transposed=False))  # type: ignore[misc]
            tried, refused = tried + 1, refused + word.startswith("codec.")
    return f"{refused} of {tried} refused"


def _flipped_entries(pages: PageEngine, folder: Path, data: bytes, length: int) -> str:
    """A stored page with one bit flipped in its file, here and there from its first byte to its last."""
    served = 0
    for number in range(FLIPS):
        own = folder / str(number)
        shelf = pages.shelf(own, 1 << 30)
        shelf.publish("page", identity_of(2, length), data, b"tail")
        file = max((one for one in own.rglob("*") if one.is_file()), key=lambda one: one.stat().st_size)
        whole = file.read_bytes()
        at = number * (len(whole) - 1) // (FLIPS - 1)
        file.write_bytes(flipped(whole, 8 * at + number % 8))
        word = word_of(lambda shelf=shelf: require_none(shelf.find("page", "lossy")), done="missed")  # type: ignore[misc]
        served += word.startswith("crash:")
    return f"{served} of {FLIPS} served"


def flipped(data: bytes, bit: int) -> bytes:
    """The same with one bit the other way round; bit 0 is the lowest one of byte 0."""
    made = bytearray(data)
    made[bit // 8] ^= 1 << bit % 8
    return bytes(made)


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
