"""Certificates folders whose evidence lies in packs: good ones, and packs with one thing wrong."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Callable
from pathlib import Path

from harness.certifying.packing import pack_folder
from harness.wire import canonical, packs
from tests.gating.fixtures import VALID, Change, fixture, valid, valid_ledger


def valid_packed(folder: Path) -> None:
    """Three certificates, their evidence in one pack."""
    valid_ledger(folder)
    pack_folder(folder)


VALID.update(valid_packed=valid_packed)


def the_pack(folder: Path) -> Path:
    (path,) = (folder / packs.FOLDER).iterdir()
    return path


def inside(folder: Path) -> bytes:
    return lzma.decompress(the_pack(folder).read_bytes())


def put(folder: Path, whole: bytes) -> None:
    """Make the pack anew, of other bytes, under their name."""
    the_pack(folder).unlink()
    name = hashlib.sha256(whole).hexdigest() + packs.SUFFIX
    (folder / packs.FOLDER / name).write_bytes(lzma.compress(whole))


def in_pack(change: Callable[[bytes], bytes]) -> Change:
    def build(folder: Path) -> None:
        valid_packed(folder)
        put(folder, change(inside(folder)))

    return build


def listing(files: list[dict[str, object]]) -> bytes:
    return canonical.canonical({"files": files, "schema": packs.SCHEMA}) + b"\n"


@fixture("CG205", "CG204")
def pack_cut_off(folder: Path) -> None:
    valid_packed(folder)
    path = the_pack(folder)
    path.write_bytes(path.read_bytes()[:-20])


@fixture("CG205", "CG204")
def pack_exchanged(folder: Path) -> None:
    valid_packed(folder)
    path = the_pack(folder)
    path.write_bytes(lzma.compress(inside(folder) + b"\n"))


@fixture("CG205", "CG204")
def pack_with_something_behind(folder: Path) -> None:
    valid_packed(folder)
    path = the_pack(folder)
    path.write_bytes(path.read_bytes() + b"more")


@fixture("CG205", "CG204")
def pack_with_a_gap(folder: Path) -> None:
    in_pack(lambda whole: whole + b"nobody looks here")(folder)


@fixture("CG205", "CG204")
def pack_of_other_files(folder: Path) -> None:
    in_pack(lambda whole: whole.replace(b"evidence/", b"../trust/", 1))(folder)


@fixture("CG205", "CG204")
def pack_of_nothing(folder: Path) -> None:
    in_pack(lambda _: listing([]))(folder)


@fixture("CG205", "CG204")
def pack_too_large(folder: Path) -> None:
    in_pack(lambda whole: whole + b"0" * packs.MAX_BYTES)(folder)


@fixture("CG205")
def pack_and_another_beside(folder: Path) -> None:
    """The plain file is the good one; the pack has other bytes under its name."""
    valid_packed(folder)
    pack = packs.unpack(the_pack(folder).read_bytes(), f"packs/{the_pack(folder).name}")
    name = next(iter(pack.members))
    (folder / "evidence").mkdir()
    (folder / name).write_bytes(pack.read(name))
    put(folder, inside(folder).replace(b'"cached":', b'"hached":', 1))


@fixture("CG205", "CG101", "CG102", "CG104", "CG204", "CG301")
def pack_and_another_pack(folder: Path) -> None:
    valid_packed(folder)
    before = the_pack(folder)
    data = before.read_bytes()
    put(folder, inside(folder).replace(b'"cached":', b'"hached":', 1))
    before.write_bytes(data)


@fixture("CG205")
def packs_that_grow(folder: Path) -> None:
    """Sixty packs of a kilobyte each that list six hundred thousand files."""
    valid(folder)
    (folder / packs.FOLDER).mkdir()
    for number in range(60):
        numbers = range(number * packs.MAX_MEMBERS, (number + 1) * packs.MAX_MEMBERS)
        whole = listing([{"bytes": 0, "path": f"evidence/{one:064x}.jsonl"} for one in numbers])
        path = folder / packs.FOLDER / (hashlib.sha256(whole).hexdigest() + packs.SUFFIX)
        path.write_bytes(lzma.compress(whole, preset=1))
