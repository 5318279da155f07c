"""The ledger commands as a person types them: exit codes, ids by their heads, what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli import main
from tests.ledger.support import by_run, file, good, states, stop


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    file(tmp_path, stop(1), good(2))
    return tmp_path


def command(folder: Path, *words: str) -> int:
    try:
        return main([*words, "--folder", str(folder)])
    except SystemExit as ended:
        return int(str(ended.code))


def test_history_as_json_has_words_and_whole_ids(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = by_run(folder, 1).id, by_run(folder, 2).id

    assert command(folder, "history", second[:6], "--json") == 0

    found = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in found["chain"]] == [first, second]
    assert found["chain"][0]["overall"] == "stop"
    assert found["chain"][0]["status"]["superseded_by"] == second
    (event,) = found["chain"][0]["events"]
    assert (event["by"], event["reason_code"]) == (second, "rerun_same_inputs")
    assert event["words"][0].endswith("the same inputs were run again.")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("withdraw", "{2}", "--reason", "harness_bug"), 0),
        (("withdraw", "{1}", "--reason", "harness_bug"), 2),
        (("withdraw", "{1}", "--reason", "harness_bug", "--mend"), 0),
        (("withdraw", "{2}", "--reason", "no_such_reason"), 4),
        (("withdraw", "{2}"), 4),
        (("withdraw", "123", "--reason", "harness_bug"), 4),
        (("withdraw", "0123456789", "--reason", "harness_bug"), 4),
        (("reinstate", "{1}", "--reason", "record_error"), 2),
        (("reinstate", "{2}", "--reason", "record_error"), 2),
        (("supersede", "{2}", "--by", "{1}", "--reason", "record_error"), 2),
        (("supersede", "{1}", "--by", "{2}", "--reason", "record_error"), 2),
        (("waive", "{2}", "--rule", "CG605", "--reason", "environment_changed", "--until", "2999-12-31"), 0),
        (("waive", "{2}", "--rule", "CG605", "--reason", "environment_changed", "--until", "2020-12-31"), 4),
        (("waive", "{2}", "--rule", "everything", "--reason", "environment_changed"), 4),
        (("annotate", "{2}", "--note-code", "harness_bug"), 0),
        (("annotate", "{2}", "--note-code", "harness_bug", "--note", "written in /home/someone"), 4),
        (("history", "{1}"), 0),
    ],
)
def test_exit_codes(folder: Path, words: tuple[str, ...], code: int) -> None:
    heads = {f"{{{run}}}": by_run(folder, run).id[:6] for run in (1, 2)}
    before = states(folder)

    assert command(folder, *(heads.get(word, word) for word in words)) == code

    if code:
        assert states(folder) == before


@pytest.mark.parametrize(
    "words",
    [
        ("history", "0123456789"),
        ("supersede", "0123456789", "--by", "9876543210", "--reason", "harness_bug"),
        ("withdraw", "0123456789", "--reason", "harness_bug"),
        ("reinstate", "0123456789", "--reason", "harness_bug"),
        ("waive", "0123456789", "--rule", "CG605", "--reason", "harness_bug"),
        ("annotate", "0123456789", "--note-code", "harness_bug"),
    ],
)
def test_a_folder_that_is_absent_or_empty(tmp_path: Path, folder: Path, words: tuple[str, ...]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()

    assert command(tmp_path / "none", *words) == 4
    assert command(empty, *words) == 5
    assert command(folder, *words) == 4
