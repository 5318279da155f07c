"""A campaign becomes a certificate from a clean tree, a draft from another, and its ledger holds."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness import cli
from harness.certifying.issue import draft, issue, why_draft
from harness.certifying.store import read_store
from harness.deriving.ids import campaign_key
from harness.errors import ExitCode, InvalidDocumentError
from harness.gating.gate import gate
from harness.model.certificate import Certificate
from harness.model.target import Source
from harness.model.values import CertificateState, ReasonCode, TreeState
from harness.running import source
from tests.fakes.campaign import Flown, flown
from tests.fakes.evidence import recorded
from tests.gating.campaign_fixtures import CAMPAIGN_KEY, a_missing_campaign

ADAPTERS = Path(__file__).parents[1] / "conform" / "adapters"
OTHER_MACHINE = {"machine": "c4" * 32}


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> list[TreeState]:
    """What the source says of the tree; whatever the present checkout looks like."""
    state = [TreeState.CLEAN]
    real = source.source_of

    def told(path_sets: object) -> Source:
        return replace(real(path_sets), tree=state[0])  # type: ignore[arg-type]

    monkeypatch.setattr(source, "source_of", told)
    monkeypatch.setattr(sys, "path", [*sys.path, str(ADAPTERS)])
    return state


def certify(folder: Path, *words: str) -> int:
    options = ["--target", "starter", "--type", "native", "--flips", "2", "--out", str(folder / "runs"), *words]
    return cli.main(["faults", *options])


def test_a_clean_tree_gives_a_certificate_that_the_gate_takes(
    tmp_path: Path, tree: list[TreeState], capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "certificates"

    assert certify(tmp_path, "--certify", str(folder)) == ExitCode.GOOD

    [certificate] = folder.glob("faults/starter-*/*/*.json")
    assert str(certificate) in capfd.readouterr().out
    assert (certificate.parent / "README.md").is_file()
    assert gate([folder], require_pass=True).exit_code is ExitCode.GOOD
    assert cli.main(["judge", "--check", str(folder)]) == ExitCode.GOOD
    body = json.loads(certificate.read_bytes())["body"]
    [summary] = tmp_path.glob("runs/*/faults.json")
    assert json.loads(summary.read_bytes()) == body
    assert cli.main(["judge", *map(str, folder.glob("evidence/*.jsonl"))]) == ExitCode.GOOD
    assert "2 of 2 located" in capfd.readouterr().out


def test_a_changed_tree_gives_a_draft_with_the_reason(
    tmp_path: Path, tree: list[TreeState], capfd: pytest.CaptureFixture[str]
) -> None:
    tree[0] = TreeState.DIRTY

    assert certify(tmp_path, "--certify", str(tmp_path / "certificates")) == ExitCode.GOOD

    told = capfd.readouterr()
    assert "this will be a draft" in told.err
    assert "(dirty_tree)" in told.out
    assert not (tmp_path / "certificates").exists()
    [left] = tmp_path.glob("runs/*/drafts/draft-faults-*.json")
    assert json.loads(left.read_bytes())["why"] == "dirty_tree"


def test_an_absent_device_and_a_check_beside_certify(tmp_path: Path, tree: list[TreeState]) -> None:
    assert cli.main(["faults", "--target", "absent", "--out", str(tmp_path)]) == ExitCode.NOTHING
    with pytest.raises(SystemExit) as refused:
        certify(tmp_path, "--certify", "x", "--check", "y")
    assert refused.value.code == ExitCode.USAGE


def issued(folder: Path, of: Flown) -> Certificate:
    issue(of.data(), folder)
    return read_store(folder).of_claim(CAMPAIGN_KEY)[-1]


def test_a_second_run_supersedes_the_first_and_says_what_differs(tmp_path: Path) -> None:
    issued(tmp_path, flown(run=1, day=1))
    issued(tmp_path, flown(run=2, day=2, flips=6))
    issued(tmp_path, flown(run=3, day=3, environment=OTHER_MACHINE))

    old, new, elsewhere = read_store(tmp_path).of_claim(CAMPAIGN_KEY)
    [event] = read_store(tmp_path).events
    assert (event.target, event.by, list(event.differs)) == (old.id, new.id, ["procedure"])
    assert event.reason_code is ReasonCode.SCENARIO_CHANGED
    assert old.status.state is CertificateState.SUPERSEDED
    assert elsewhere.status.state is CertificateState.CURRENT
    assert issue(flown(run=2, day=2, flips=6).data(), tmp_path) == []


def test_the_same_procedure_again_is_a_rerun(tmp_path: Path) -> None:
    issued(tmp_path, flown(run=1, day=1))
    issued(tmp_path, flown(run=2, day=2))

    assert [event.reason_code for event in read_store(tmp_path).events] == [ReasonCode.RERUN_SAME_INPUTS]


def test_a_stop_does_not_give_way_to_a_smaller_campaign(tmp_path: Path) -> None:
    issued(tmp_path, a_missing_campaign())

    with pytest.raises(InvalidDocumentError, match="faults bf16 did not run again"):
        issue(flown(flips=3, run=2, day=2).data(), tmp_path)


def test_a_stop_does_not_give_way_to_a_campaign_that_leaves_its_element_type_out(tmp_path: Path) -> None:
    issued(tmp_path, a_missing_campaign())

    with pytest.raises(InvalidDocumentError, match="faults bf16 did not run again"):
        issue(flown(flips=9, kinds=("f32",), run=2, day=2).data(), tmp_path)
    issued(tmp_path, flown(flips=9, kinds=("bf16",), run=3, day=3))


def test_why_a_campaign_is_a_draft(tmp_path: Path) -> None:
    assert why_draft(flown().data()) == ""
    assert why_draft(flown().with_header(source={"tree": "dirty"}).data()) == "dirty_tree"
    mutant = flown().with_header(target={"group": "harness.mutants"}).data()
    assert why_draft(mutant) == "mutant"
    with pytest.raises(InvalidDocumentError, match="mutant"):
        issue(mutant, tmp_path / "certificates")
    [left] = draft(flown().data(), tmp_path)
    assert json.loads(left.read_bytes())["why"] == "asked_for"
    with pytest.raises(InvalidDocumentError, match="cut off"):
        why_draft(flown().data()[:-1])


def test_a_run_and_a_campaign_lie_side_by_side(tmp_path: Path) -> None:
    issue(recorded().data(), tmp_path)
    issue(flown().data(), tmp_path)

    assert gate([tmp_path], require_pass=True).exit_code is ExitCode.GOOD


@pytest.mark.parametrize("name", ["A01", "Faults", "evidence", "ledger", "", "a/b", "..", "x" * 40])
def test_a_campaign_is_not_named_like_a_scenario_or_another_folder(name: str) -> None:
    with pytest.raises(InvalidDocumentError, match="found campaign"):
        campaign_key(name, "torch", "tiny", "cpu-x86_64")
    assert campaign_key("faults", "torch", "tiny", "cpu-x86_64") == "faults/torch-tiny/cpu-x86_64"
