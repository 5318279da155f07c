"""A pack gives its files back, and nothing else is one."""

from __future__ import annotations

import hashlib
import lzma
from pathlib import Path

import pytest

from harness.errors import InvalidDocumentError
from harness.wire import canonical, packs

FILES = [(f"evidence/{hashlib.sha256(text).hexdigest()}.jsonl", text) for text in (b"one\n", b"", b"three lines\n" * 3)]


def head(**changes: object) -> bytes:
    listed = [{"bytes": len(data), "path": path} for path, data in FILES]
    return canonical.canonical({"files": listed, "schema": packs.SCHEMA, **changes}) + b"\n"


def named(whole: bytes) -> tuple[bytes, str]:
    return lzma.compress(whole), f"packs/{hashlib.sha256(whole).hexdigest()}.xz"


def test_files_come_back_byte_for_byte() -> None:
    name, data = packs.pack(FILES)
    found = packs.unpack(data, name)

    assert {path: found.read(path) for path in found.members} == dict(FILES)
    assert hashlib.sha256(lzma.decompress(data)).hexdigest() == name[len("packs/") : -len(".xz")]


def test_the_same_files_make_the_same_name() -> None:
    assert packs.pack(FILES)[0] == packs.pack(list(FILES))[0]
    assert packs.pack(FILES)[0] != packs.pack(FILES[:2])[0]


BODY = b"".join(data for _, data in FILES)
HOSTILE = {
    "nothing": b"",
    "no list": BODY.replace(b"\n", b" "),
    "list of another kind": head(schema="statecert/pack/v2") + BODY,
    "a member more": head(note="x") + BODY,
    "no files": head(files=[]),
    "files that are none": head(files="evidence") + BODY,
    "a path twice": head(files=[{"bytes": 0, "path": FILES[0][0]}] * 2),
    "a path elsewhere": head(files=[{"bytes": 0, "path": f"evidence/../{'a' * 64}.jsonl"}]),
    "a certificate": head(files=[{"bytes": 0, "path": "A01/x-y/cpu/2026-01-01-0123456789ab.json"}]),
    "a size that is text": head(files=[{"bytes": "0", "path": FILES[0][0]}]),
    "a size below zero": head(files=[{"bytes": -1, "path": FILES[0][0]}]),
    "a size that is true": head(files=[{"bytes": True, "path": FILES[0][0]}]) + b"x",
    "a row that is a number": head(files=[3]),
    "less than listed": head() + BODY[:-1],
    "more than listed": head() + BODY + b"x",
    "another spelling": head().replace(b'{"bytes"', b'{ "bytes"', 1) + BODY,
    "a key twice": head().replace(b'"schema"', b'"schema":"x","schema"') + BODY,
    "a bomb": head() + b"0" * (packs.MAX_BYTES + 1),
}


@pytest.mark.parametrize("whole", HOSTILE.values(), ids=HOSTILE)
def test_what_is_not_made_of_its_files_is_refused(whole: bytes) -> None:
    with pytest.raises(InvalidDocumentError):
        packs.unpack(*named(whole))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text",
        lzma.compress(head() + BODY)[:-1],
        lzma.compress(head() + BODY) * 2,
        lzma.compress(BODY) + b"\0" * 4,
    ],
    ids=["empty", "no stream", "cut off", "two streams", "padded"],
)
def test_what_is_no_whole_stream_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidDocumentError):
        packs.unpack(data, named(head() + BODY)[1])


def test_a_stream_that_asks_for_much_memory_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 256 * 1024 * 1024}]
    data = lzma.compress(head() + BODY, format=lzma.FORMAT_XZ, filters=filters)

    with pytest.raises(InvalidDocumentError, match="no xz stream that may be read"):
        packs.unpack(data, named(head() + BODY)[1])


def test_a_pack_under_another_name_is_refused() -> None:
    name, data = packs.pack(FILES)

    with pytest.raises(InvalidDocumentError, match="holds bytes with the digest"):
        packs.unpack(data, name.replace(name[6], "0" if name[6] != "0" else "1", 1))


def test_a_folder_tells_where_each_file_lies_and_looks_again_when_a_pack_changes(tmp_path: Path) -> None:
    assert packs.places(str(tmp_path)) == {}
    name, data = packs.pack(FILES)
    (tmp_path / "packs").mkdir()
    (tmp_path / name).write_bytes(data)
    (tmp_path / "packs" / "notes.txt").write_text("x")

    assert packs.places(str(tmp_path)) == {path: name for path, _ in FILES}

    (tmp_path / name).write_bytes(data[:-1])
    with pytest.raises(InvalidDocumentError):
        packs.places(str(tmp_path))


def written(folder: Path) -> tuple[str, str]:
    name, data = packs.pack(FILES)
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return str(path), name


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the packs that were unpacked, since nothing was held."""
    seen: list[str] = []

    def unpack(packed: bytes, name: str) -> packs.Pack:
        seen.append(name)
        return whole(packed, name)

    whole = packs.unpack
    monkeypatch.setattr(packs, "unpack", unpack)
    monkeypatch.setattr(packs, "_SPOOL", packs._Spool())
    packs._opened.cache_clear()
    return seen


def test_a_pack_is_unpacked_once_though_many_others_were_read_between(tmp_path: Path, unpacked: list[str]) -> None:
    folders = [tmp_path / str(number) for number in range(5)]
    for folder in folders:
        folder.mkdir()
    held = [written(folder) for folder in folders]
    unpacked.clear()

    for path, data in (*FILES, *reversed(FILES)):
        assert [packs.member(file, name, path) for file, name in held] == [data] * 5
    assert len(unpacked) == 5


def test_without_room_for_what_was_unpacked_files_come_back_all_the_same(
    tmp_path: Path, unpacked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "_SPOOLED_BYTES", 10)
    file, name = written(tmp_path)
    unpacked.clear()

    for path, data in FILES:
        packs._opened.cache_clear()
        assert packs.member(file, name, path) == data
    assert len(unpacked) == len(FILES)


def test_a_pack_that_was_changed_since_is_not_answered_from_what_was_held(tmp_path: Path, unpacked: list[str]) -> None:
    file, name = written(tmp_path)
    assert packs.member(file, name, FILES[0][0]) == FILES[0][1]
    assert unpacked
    Path(file).write_bytes(lzma.compress(b"another thing\n"))

    with pytest.raises(InvalidDocumentError):
        packs.member(file, name, FILES[0][0])
