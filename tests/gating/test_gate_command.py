"""What ``statecert gate --policy`` and ``--since`` end in, through the command line."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from harness.cli import main
from harness.commands.gate import teller
from harness.gating.gate import gate
from tests.gating.change_fixtures import based, changing, committed, valid_since
from tests.gating.fixtures import valid
from tests.gating.policy_fixtures import DAY, HEAD, WHOLE

AT = f"{DAY}T00:00:00Z"


def policy(folder: Path, text: str) -> str:
    path = folder / "policy.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (HEAD + WHOLE, 0),
        (HEAD + "claims: [{claim: T99/fake-digests/cpu-*}]\n", 1),
        (HEAD + "claimed: []\n", 4),
        (HEAD + "signatures: true\n", 4),
    ],
    ids=["met", "not-met", "not-its-schema", "signatures-of-nobody"],
)
def test_a_policy(tmp_path: Path, text: str, code: int) -> None:
    folder = tmp_path / "certificates"
    valid(folder)

    assert main(["gate", str(folder), "--policy", policy(tmp_path, text), "--at", AT]) == code


def test_a_policy_that_is_not_there(tmp_path: Path) -> None:
    valid(tmp_path)

    assert main(["gate", str(tmp_path), "--policy", str(tmp_path / "none.yaml")]) == 4


def test_a_change_that_only_adds(tmp_path: Path) -> None:
    folder = tmp_path / "repository" / "certificates"
    valid_since(folder)

    assert main(["gate", str(folder), "--since", "base", "--root", str(folder.parent)]) == 0


def test_a_change_that_takes_a_record_away(tmp_path: Path) -> None:
    folder = tmp_path / "repository" / "certificates"
    changing(folder, lambda _: next(folder.glob("T*/*/*/*.json")).unlink())

    assert main(["gate", str(folder), "--since", "base", "--root", str(folder.parent)]) == 2


def test_a_change_that_edits_the_policy_and_adds_records(tmp_path: Path) -> None:
    folder = tmp_path / "repository" / "certificates"
    valid_since(folder)
    rules = folder.parent / "trust" / "policy.yaml"
    rules.write_text(rules.read_text().replace("A test", "A nicer test"))
    committed(folder.parent, "nicer")
    words = ["--since", "base", "--root", str(folder.parent), "--policy", str(rules)]

    assert main(["gate", str(folder), *words]) == 1


def test_a_base_that_is_not_there(tmp_path: Path) -> None:
    folder = tmp_path / "repository" / "certificates"
    based(folder)
    outside = tmp_path / "outside"
    valid(outside)

    assert main(["gate", str(folder), "--since", "nowhere"]) == 4
    assert main(["gate", str(outside), "--since", "base"]) == 4


def test_a_long_gate_says_how_far_it_is_and_a_short_one_is_silent(tmp_path: Path) -> None:
    stream, seconds = StringIO(), iter([0.0, 1.0, 15.0, 15.0, 16.0, 31.0])

    tell = teller(stream, lambda: next(seconds))
    for done in (1, 2, 3, 4):
        tell(done, 4)

    assert stream.getvalue() == "judged 2 of 4 certificates\n"
    valid(tmp_path)
    heard: list[tuple[int, int]] = []
    gate([tmp_path], tell=lambda done, of: heard.append((done, of)))
    assert heard == [(1, 1)]
