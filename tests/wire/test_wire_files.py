from __future__ import annotations

import hashlib
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import StorageError
from harness.wire import canonical, files

AS_ROOT = os.geteuid() == 0


@pytest.fixture
def small_disk() -> Iterator[int]:
    """Make every file larger than the yielded bytes fail, as a full disk does."""
    limit = 4096
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_new_file_holds_the_bytes_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json"

    files.write_new(path, b"one\n")

    assert path.read_bytes() == b"one\n"
    assert names(tmp_path) == ["a.json"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o111 == 0


def test_a_taken_name_is_refused_and_its_content_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"one\n")

    with pytest.raises(StorageError, match="the name is taken"):
        files.write_new(path, b"two\n")

    assert path.read_bytes() == b"one\n"
    assert names(tmp_path) == ["a.json"]


def test_a_dangling_link_counts_as_a_taken_name(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StorageError, match="the name is taken"):
        files.write_new(path, b"two\n")

    assert not (tmp_path / "elsewhere").exists()


def test_replace_puts_new_bytes_in_place_of_old_or_none(tmp_path: Path) -> None:
    path = tmp_path / "a.json"

    files.replace(path, b"one\n")
    files.replace(path, b"two\n")

    assert path.read_bytes() == b"two\n"
    assert names(tmp_path) == ["a.json"]


def test_a_full_disk_leaves_no_file_behind(tmp_path: Path, small_disk: int) -> None:
    with pytest.raises(StorageError, match=r"a\.json: creating it failed \(File too large\); no file"):
        files.write_new(tmp_path / "a.json", b"x" * (small_disk + 1))

    assert names(tmp_path) == []


def test_a_full_disk_leaves_the_earlier_content(tmp_path: Path, small_disk: int) -> None:
    path = tmp_path / "a.json"
    files.replace(path, b"one\n")

    with pytest.raises(StorageError, match="its earlier content is intact"):
        files.replace(path, b"x" * (small_disk + 1))

    assert path.read_bytes() == b"one\n"
    assert names(tmp_path) == ["a.json"]


def test_a_full_disk_says_nothing_of_content_where_there_was_none(tmp_path: Path, small_disk: int) -> None:
    path = tmp_path / "a.json"

    with pytest.raises(StorageError, match="no file of that name was made"):
        files.replace(path, b"x" * (small_disk + 1))
    assert names(tmp_path) == []

    with pytest.raises(StorageError, match="there was none before; it may hold a part now"):
        files.append(path, b"x" * (small_disk + 1))


@pytest.mark.skipif(AS_ROOT, reason="root may write into any folder")
def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(StorageError, match="Permission denied"):
        files.write_new(tmp_path / "a.json", b"one\n")

    tmp_path.chmod(0o700)


def test_an_absent_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file or directory"):
        files.write_new(tmp_path / "none" / "a.json", b"one\n")


def test_a_very_long_name_is_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="File name too long"):
        files.write_new(tmp_path / ("x" * 300), b"one\n")

    assert names(tmp_path) == []


def test_reading_stops_one_byte_after_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"x" * 100)

    assert files.read(path, max_bytes=100) == b"x" * 100
    assert files.read(path, max_bytes=10) == b"x" * 11


def test_reading_what_is_not_a_file_is_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Is a directory"):
        files.read(tmp_path, max_bytes=10)
    with pytest.raises(StorageError, match="No such file"):
        files.read(tmp_path / "none", max_bytes=10)


def filled(path: Path, count: int = 3) -> files.AppendLog:
    log = files.AppendLog(path)
    for number in range(count):
        log.append(canonical.line({"type": "point", "n": number}))
    return log


def end_line(log: files.AppendLog) -> bytes:
    return canonical.line({"type": "end", "records": log.records, "sha256": log.sha256})


def test_a_log_with_its_ending_record_reads_as_closed(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with filled(path) as log:
        log.append(end_line(log))

    found = files.read_lines(path)

    assert found.closed
    assert found.torn == b""
    assert len(found.lines) == 4
    assert found.lines[0] == b'{"n":0,"type":"point"}'
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest() == log.sha256
    assert found.size == log.size == path.stat().st_size


def test_every_cut_of_a_closed_log_reads_as_partial(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with filled(path) as log:
        log.append(end_line(log))
    whole = path.read_bytes()

    for size in range(len(whole)):
        found = files.split_lines(whole[:size])
        assert not found.closed
        assert b"".join(line + b"\n" for line in found.lines) + found.torn == whole[:size]


def test_an_edited_or_lengthened_log_reads_as_partial(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with filled(path) as log:
        log.append(end_line(log))
    whole = path.read_bytes()

    assert not files.split_lines(whole.replace(b'"n":1', b'"n":7')).closed
    assert not files.split_lines(whole + b"{}\n").closed
    assert not files.split_lines(b"").closed
    assert not files.split_lines(b"[1]\n").closed


def test_a_log_never_starts_on_an_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    filled(path).close()

    with pytest.raises(StorageError, match="the name is taken"):
        files.AppendLog(path)


def test_a_record_that_is_not_one_line_is_refused(tmp_path: Path) -> None:
    with filled(tmp_path / "run.jsonl") as log:
        for record in (b"", b"{}", b"{}\n{}\n", b"\n{}\n"):
            with pytest.raises(StorageError, match="must be one line"):
                log.append(record)

    assert log.records == 3


def test_a_closed_log_takes_no_more_lines_and_closes_twice(tmp_path: Path) -> None:
    log = filled(tmp_path / "run.jsonl")

    log.close()
    log.close()

    with pytest.raises(StorageError, match="takes no more lines"):
        log.append(b"{}\n")


def test_a_full_disk_cuts_a_log_back_to_its_last_whole_line(tmp_path: Path, small_disk: int) -> None:
    path = tmp_path / "run.jsonl"
    log = filled(path)
    before = path.read_bytes()

    with pytest.raises(StorageError, match="all earlier lines are intact"):
        log.append(b"x" * (2 * small_disk) + b"\n")
    assert path.read_bytes() == before
    log.append(b"{}\n")
    log.close()

    assert path.read_bytes() == before + b"{}\n"
    assert log.records == 4


def test_a_killed_writer_loses_no_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    program = (
        "import os, signal, sys; from pathlib import Path; from harness.wire.files import AppendLog\n"
        "log = AppendLog(Path(sys.argv[1]))\n"
        "for n in range(5): log.append(b'{\"n\":%d}\\n' % n)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    found = files.read_lines(path)

    assert found.lines == tuple(b'{"n":%d}' % number for number in range(5))
    assert not found.closed


def test_an_interrupted_write_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.jsonl"
    log = filled(path)
    real = os.write

    def half(descriptor: int, data: memoryview) -> int:
        real(descriptor, data[: len(data) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(KeyboardInterrupt):
        log.append(b'{"n":9}\n')
    monkeypatch.undo()
    log.append(end_line(log))
    log.close()

    assert files.read_lines(path).closed


def test_an_interruption_after_the_last_byte_keeps_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.jsonl"
    log = filled(path)
    real = os.write

    def late(descriptor: int, data: memoryview) -> int:
        real(descriptor, data)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", late)
    with pytest.raises(KeyboardInterrupt):
        log.append(b'{"n":9}\n')
    monkeypatch.undo()
    log.append(end_line(log))
    log.close()

    assert log.records == 5
    assert files.read_lines(path).closed
