"""A word that is none of the known ones: what may have been meant, and no more than that."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cli
from harness.commands.meant import meant
from harness.errors import ExitCode

SCENARIOS = ("A01", "A02", "A10", "A11", "A12", "A61", "B01", "R61")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("A1", " (did you mean A01, A10 or A11?)"),
        ("a1", " (did you mean A01, A10 or A11?)"),
        ("A001", " (did you mean A01?)"),
        ("B", " (did you mean B01?)"),
        ("R16", " (did you mean R61?)"),
        ("zebra", ""),
        ("", ""),
    ],
)
def test_the_same_number_comes_first_then_a_beginning_and_only_then_what_looks_alike(word: str, said: str) -> None:
    assert meant(word, SCENARIOS) == said


def test_a_number_in_the_middle_is_not_shortened() -> None:
    assert meant("A100", ("A10", "A01")) == " (did you mean A10?)"
    assert meant("llama", ("llamacpp", "mlx")) == " (did you mean llamacpp?)"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnu"], "(did you mean run?)"),
        (["gat"], "(did you mean gate?)"),
        (["run", "A1"], "(did you mean A01, A10 or A11?)"),
        (["run", "A01", "--target", "toch"], "(did you mean torch?)"),
        (["run", "--devise", "cpu"], "(did you mean --device?)"),
        (["report", "--format", "htm"], "(did you mean html?)"),
        (["plan", "A01", "--suite", "defalt"], "(did you mean default?)"),
    ],
)
def test_a_wrong_word_is_met_with_the_nearest_right_one_before_anything_is_made(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    try:
        code = cli.main(words)
    except SystemExit as end:
        code = int(str(end.code))

    assert code == ExitCode.USAGE
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_word_that_looks_like_none_is_met_with_the_list_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["frobnicate"]) == ExitCode.USAGE

    assert "did you mean" not in capsys.readouterr().err
