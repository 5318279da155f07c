"""The fuzzer finds what is planted, makes the same cases again, and what it once found new is still refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli import main
from harness.deriving.campaign import derive_campaign
from harness.selfcheck.assault import Answer, Target, essence, readers
from harness.selfcheck.fuzz import CONTROLS, TARGETS, Walk
from harness.selfcheck.specimens import folders
from harness.wire.campaign_doc import read_campaign
from tests.fakes.selfcheck import fuzzed

CORPUS = Path(__file__).parent / "corpus"


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    folder = tmp_path_factory.mktemp("seeds")
    folders().VALID["valid_signed"](folder)
    return {one.name: one for one in readers(folder)}


def test_two_walks_of_one_seed_make_the_same_cases(tmp_path: Path) -> None:
    rounds = [Walk(5, tmp_path / name).round(0, 40) for name in ("one", "two")]

    assert rounds[0].digest == rounds[1].digest
    assert rounds[0].by_target == rounds[1].by_target
    assert Walk(6, tmp_path / "three").round(0, 40).digest != rounds[0].digest


def test_a_short_walk_over_all_targets_finds_nothing_wrong(tmp_path: Path) -> None:
    walk = Walk(7, tmp_path)

    found = walk.round(0, 250)

    assert [(one.target, one.number, one.wrong, one.signature) for one in walk.crashers] == []
    assert set(found.by_target) == set(TARGETS)
    assert found.accepted
    assert found.refused


def test_what_was_new_once_is_read_or_refused_by_name(targets: dict[str, Target]) -> None:
    kept = sorted(CORPUS.iterdir())
    assert len(kept) > 50
    wrong = {}
    for path in kept:
        answer: Answer = targets[path.name.split("-")[0]].judge(path.read_bytes())
        if answer.wrong:
            wrong[path.name] = answer
    assert wrong == {}


def test_a_signature_leaves_out_what_a_message_quotes() -> None:
    first = essence("found 'abc' 12 times in a/b.json; allowed is \"x\"")

    assert first == essence("found 'z' 7 times in c/d.json; allowed is \"y\"")
    assert first == "found times in allowed is"


@pytest.mark.parametrize(
    ("records", "overall", "reasons"),
    [
        (fuzzed(), "pass", []),
        (fuzzed(found=False), "error", ["control_not_found"]),
        (fuzzed(rounds=0), "error", ["nothing_tried"]),
        (fuzzed().with_line("round", 1, wrong={"raised": 2}), "stop", ["raised"]),
        (fuzzed().with_header(procedure={"minutes": 90}), "error", ["ended_early"]),
    ],
    ids=["good", "blind", "nothing", "raised", "short"],
)
def test_a_decision_follows_from_the_records(records: object, overall: str, reasons: list[str]) -> None:
    body = records.body()  # type: ignore[attr-defined]

    assert body["decision"] == {"overall": overall, "reasons": reasons}


def test_rounds_out_of_order_are_refused() -> None:
    first, control, *rounds = fuzzed().lines
    swapped = replace(fuzzed(), lines=[first, control, *reversed(rounds)])

    with pytest.raises(Exception, match="out of order"):
        derive_campaign(swapped.records())


def test_every_planted_hole_is_found_by_the_command_that_files_a_draft_of_changed_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Walk.round, "__defaults__", (100,))  # cases after the controls; another test walks on
    code = main(["fuzz", "--seconds", "0", "--out", str(tmp_path / "runs"), "--corpus", str(tmp_path / "corpus")])

    assert code == 0
    assert "fuzz: pass" in " ".join(capsys.readouterr().out.split())
    assert len(list((tmp_path / "corpus").iterdir())) > 20
    evidence = next(tmp_path.glob("runs/*/fuzz.jsonl"))
    records = read_campaign(evidence.read_bytes(), evidence.name).records
    planted = {str(one["name"]): one["found"] for one in records if one["type"] == "control"}
    assert planted == dict.fromkeys(CONTROLS, True)
    assert main(["fuzz", "--from", str(evidence)]) == 4
    assert main(["fuzz", "--from", str(evidence), "--certify", str(tmp_path / "c")]) == 0


def test_a_negative_time_is_a_usage_error() -> None:
    assert main(["fuzz", "--minutes", "-1"]) == 4
