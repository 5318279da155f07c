"""A matrix that was broken off keeps the pages that it measured, and goes on from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.adapters.torch_adapter import TorchAdapter
from harness.campaigning.kv_resuming import kept_of
from harness.errors import ExitCode, InvalidDocumentError, ProtocolError, UsageError
from tests.campaigns.test_kv import told
from tests.fakes.kv import measured

pytestmark = pytest.mark.usefixtures("forked")

WORDS = ["--scale", "1000", "--type", "f16", "--model", "wide", "--steps", "2", "--lcg", "2", "--json"]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    """The records as a writer makes them, in another file."""
    path.write_text("".join(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Records of a matrix of four pages that was broken off after three, and what was said then."""
    folder = tmp_path_factory.mktemp("cut")
    said = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(said):
        path = broken_off(folder, after=3, monkeypatch=patch)
        yield path, said.getvalue()


def broken_off(folder: Path, *, after: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Break a matrix of four pages off after so many of them; one that follows is measured in this process as well."""
    seen = 0

    def until(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        nonlocal seen
        for line in told(TorchAdapter(), job):
            yield line
            seen += line["type"] == "kv_page"
            if seen == after:
                raise KeyboardInterrupt

    monkeypatch.setattr("harness.campaigning.kv_child.DECODES", 1)
    monkeypatch.setattr("harness.campaigning.kv.child", until)
    assert cli.main(["kv", *WORDS, "--out", str(folder)]) == ExitCode.BROKEN
    [path] = folder.rglob("kv.jsonl")
    monkeypatch.setattr("harness.campaigning.kv.child", lambda job: iter(told(TorchAdapter(), job)))
    return path


def test_pages_that_were_measured_are_kept_and_the_others_measured(cut: tuple[Path, str], tmp_path: Path) -> None:
    path, said = cut
    assert f"3 of 4 pages are kept; `statecert kv --resume {path}` goes on" in said

    code = cli.main(["kv", "--resume", str(path), "--json", "--out", str(tmp_path)])
    [whole] = tmp_path.rglob("kv.jsonl")
    before, after = lines_of(path), lines_of(whole)
    body = json.loads(whole.with_name("kv.json").read_text())

    assert code != ExitCode.USAGE
    rounds = [line for line in after if line["type"] == "kv_round"]
    assert [line for line in rounds if line in before] == [line for line in before if line["type"] == "kv_round"]
    assert len(rounds) == 2 * 2 * 5
    assert [line["pages"] for line in after if line["type"] == "kv_sitting"] == [3]
    assert "measured_in_sittings" in body["limits"]
    assert len(body["results"]) == 2


def test_a_process_that_ends_by_itself_leaves_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same as Ctrl-C, but that nobody asked for it: killed in the middle of its second page."""

    def killed(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        seen = 0
        for line in told(TorchAdapter(), job):
            if seen and line["type"] == "kv_round":
                raise ProtocolError("a process of the matrix ended with -9: nothing")
            yield line
            seen += line["type"] == "kv_page"

    monkeypatch.setattr("harness.campaigning.kv_child.DECODES", 1)
    monkeypatch.setattr("harness.campaigning.kv.child", killed)

    assert cli.main(["kv", *WORDS, "--out", str(tmp_path)]) == ExitCode.BROKEN
    [path] = tmp_path.rglob("kv.jsonl")
    said = capsys.readouterr().err
    assert f"ended with -9: nothing; 1 of 4 pages are kept; `statecert kv --resume {path}` goes on" in said
    assert [len(pages) for pages in kept_of(path).done.values()] == [1, 0]


def test_a_page_without_its_continuation_is_measured_again(cut: tuple[Path, str], tmp_path: Path) -> None:
    [*_, last] = [line for line in lines_of(cut[0]) if line["type"] == "kv_walk"]
    path = written(tmp_path / "kv.jsonl", [line for line in lines_of(cut[0]) if line != last])

    assert [len(pages) for pages in kept_of(cut[0]).done.values()] == [2, 1]
    assert [len(pages) for pages in kept_of(path).done.values()] == [1, 1]


def test_a_last_line_that_was_torn_is_left_out(cut: tuple[Path, str], tmp_path: Path) -> None:
    path = tmp_path / "kv.jsonl"
    path.write_bytes(cut[0].read_bytes()[:-3])

    assert len(kept_of(path).records) == len(kept_of(cut[0]).records) - 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda head: head["target"].update(engine_version="another"), "expected the target"),
        (lambda head: head["source"].update(commit="0" * 40), "expected the source"),
        (lambda head: head["environment"].update(machine="0" * 64), "expected the machine"),
    ],
)
def test_what_was_measured_elsewhere_does_not_go_on_here(
    change: Any, words: str, cut: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_of(cut[0])
    change(lines[0])
    path = written(tmp_path / "kv.jsonl", lines)

    assert cli.main(["kv", "--resume", str(path), "--out", str(tmp_path / "second")]) == ExitCode.USAGE
    assert words in capsys.readouterr().err


def test_a_clock_that_was_started_again_is_another_one(
    cut: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.campaigning.kv_resuming.time.monotonic_ns", lambda: 1)

    assert cli.main(["kv", "--resume", str(cut[0]), "--out", str(tmp_path)]) == ExitCode.USAGE


def test_a_campaign_that_is_closed_does_not_go_on(tmp_path: Path) -> None:
    path = tmp_path / "kv.jsonl"
    path.write_bytes(measured().data())

    with pytest.raises(InvalidDocumentError, match="nothing was broken off"):
        kept_of(path)
    with pytest.raises(UsageError, match="no file"):
        kept_of(tmp_path / "none.jsonl")
