"""Walks docs/exit-codes.md: every line of the table is an ending that is brought about here."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.command_support import ROOT, TOY_SCENARIO, statecert, toy_run

Ending = Callable[[Path], int]
TABLE = ROOT / "docs" / "exit-codes.md"
ELSEWHERE = {
    "conform": "tests/conform",
    "faults": "tests/faults",
    "new": "tests/commands_new",
    "mutants": "tests/mutants",
    **dict.fromkeys(("history", "supersede", "withdraw", "reinstate", "waive", "annotate"), "tests/ledger"),
    **dict.fromkeys(("sign", "verify", "trust", "export"), "tests/signing"),
}
"""Commands whose endings are brought about beside their own tests."""


def rows() -> list[tuple[str, str, str]]:
    lines = TABLE.read_text("utf-8").splitlines()
    found = [re.fullmatch(r"\| (.+?) \| (.+) \| (.+) \|", line) for line in lines]
    return [(row[1].replace("`", ""), row[2], row[3]) for row in found if row and row[1] not in {"command", "---"}]


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of the toy engine that passed."""
    folder = tmp_path_factory.mktemp("good")
    done = toy_run(folder)
    assert done.returncode == 0, done.stderr + done.stdout
    return folder


def evidence(folder: Path) -> Path:
    return next(folder.glob("runs/*/evidence/*.jsonl"))


def certificates(folder: Path) -> Path:
    return next(folder.glob("runs/*/certificates"))


def copied(good: Path, tmp_path: Path) -> Path:
    target = tmp_path / "certificates"
    shutil.copytree(certificates(good), target)
    return target


def test_unknown_command_option_or_argument(tmp_path: Path) -> None:
    assert statecert("certifi", cwd=tmp_path).returncode == 4
    assert statecert("gate", "--no-such-option", cwd=tmp_path).returncode == 4
    assert statecert("judge", cwd=tmp_path).returncode == 4


def test_malformed_scenario_or_unknown_name(tmp_path: Path) -> None:
    (tmp_path / "A91-bad.yaml").write_text(TOY_SCENARIO.replace("role: reference", "role: reverence"))

    bad = statecert("plan", "A91-bad.yaml", cwd=tmp_path)

    assert bad.returncode == 4
    assert "A91-bad.yaml" in bad.stderr
    assert "reverence" in bad.stderr
    assert statecert("plan", "Z99", cwd=tmp_path).returncode == 4
    assert statecert("plan", "A01", "--suite", "nightly", cwd=tmp_path).returncode == 4
    assert toy_run(tmp_path, "--device", "mars").returncode == 4
    assert statecert("run", "A01", "--target", "nothing", cwd=tmp_path).returncode == 4


def test_a_folder_that_cannot_be_made_is_the_harness_s_trouble(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file in the way")

    done = toy_run(tmp_path)

    assert done.returncode == 3
    assert "runs" in done.stderr
    assert "Traceback" not in done.stderr


def test_plan(tmp_path: Path) -> None:
    assert statecert("plan", "A01", cwd=tmp_path).returncode == 0
    (tmp_path / "none").mkdir()
    assert statecert("plan", "--scenarios", "none", cwd=tmp_path).returncode == 5


def test_run_passes(good: Path) -> None:
    assert list(good.glob("runs/*/certificates/A90/*/*/*.json"))


def test_run_finds_a_fault(tmp_path: Path) -> None:
    done = toy_run(tmp_path, "--option", "fault=forget_recurrent")

    assert done.returncode == 1
    assert "fail" in done.stdout


def test_run_on_an_engine_that_crashes_is_an_error(tmp_path: Path) -> None:
    done = toy_run(tmp_path, "--option", "misbehave=abort", "--option", "after=1")

    assert done.returncode == 3
    assert "crash" in done.stdout


def test_run_without_the_hardware(tmp_path: Path) -> None:
    assert toy_run(tmp_path, "--device", "moon").returncode == 5


def test_run_and_gate(tmp_path: Path) -> None:
    assert toy_run(tmp_path, "--gate").returncode == 0
    assert toy_run(tmp_path, "--gate", "--option", "fault=forget_recurrent").returncode == 1


def test_judge(good: Path, tmp_path: Path) -> None:
    assert statecert("judge", evidence(good), cwd=tmp_path).returncode == 0
    whole = evidence(good).read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(whole[: len(whole) // 2])
    assert statecert("judge", "cut.jsonl", cwd=tmp_path).returncode == 2
    (tmp_path / "changed.jsonl").write_bytes(whole.replace(b'"cached":128', b'"cached":64', 1))
    assert statecert("judge", "changed.jsonl", cwd=tmp_path).returncode == 2


def test_judge_of_a_stop_and_of_an_error(tmp_path: Path) -> None:
    stop, error = tmp_path / "stop", tmp_path / "error"
    for folder, option in ((stop, "fault=forget_recurrent"), (error, "misbehave=raise")):
        folder.mkdir()
        toy_run(folder, "--option", option)

    assert statecert("judge", evidence(stop), cwd=tmp_path).returncode == 1
    assert statecert("judge", evidence(error), cwd=tmp_path).returncode == 3


def test_judge_check(good: Path, tmp_path: Path) -> None:
    folder = copied(good, tmp_path)

    assert statecert("judge", "--check", folder, cwd=tmp_path).returncode == 0
    next(folder.glob("evidence/*.jsonl")).unlink()
    assert statecert("judge", "--check", folder, cwd=tmp_path).returncode == 2


def test_gate(good: Path, tmp_path: Path) -> None:
    folder = copied(good, tmp_path)

    assert statecert("gate", folder, "--require-pass", cwd=tmp_path).returncode == 0
    certificate = next(folder.glob("A90/*/*/*.json"))
    certificate.write_bytes(certificate.read_bytes().replace(b'"pass"', b'"stop"', 1))
    assert statecert("gate", folder, cwd=tmp_path).returncode == 2


def test_gate_requires_passes(tmp_path: Path) -> None:
    toy_run(tmp_path, "--option", "fault=forget_recurrent")

    assert statecert("gate", certificates(tmp_path), cwd=tmp_path).returncode == 0
    assert statecert("gate", certificates(tmp_path), "--require-pass", cwd=tmp_path).returncode == 1


def test_a_broken_gate_rule_is_exit_3(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    from harness.gating import rules
    from harness.gating.gate import gate

    def broken(*_: object) -> object:
        raise ZeroDivisionError

    first = next(rule for rule in rules.RULES if rule.document is not None)
    report = gate([certificates(good)], rules=[first._replace(document=broken)])  # type: ignore[arg-type]

    assert report.exit_code == 3


def test_gate_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "certificates").mkdir()

    assert statecert("gate", cwd=tmp_path).returncode == 5
    assert statecert("gate", "elsewhere", cwd=tmp_path).returncode == 4


def test_report(good: Path, tmp_path: Path) -> None:
    folder = copied(good, tmp_path)

    assert statecert("report", folder, cwd=tmp_path).returncode == 0
    assert statecert("report", folder, "--format", "md", "--out", "pages", cwd=tmp_path).returncode == 0
    assert statecert("report", folder, "--format", "md", "--out", "pages", "--check", cwd=tmp_path).returncode == 0
    (tmp_path / "pages" / "README.md").write_text("by hand")
    assert statecert("report", folder, "--format", "md", "--out", "pages", "--check", cwd=tmp_path).returncode == 1
    certificate = next(folder.glob("A90/*/*/*.json"))
    certificate.write_bytes(certificate.read_bytes()[:-20])
    assert statecert("report", folder, cwd=tmp_path).returncode == 2
    (tmp_path / "empty").mkdir()
    assert statecert("report", "empty", cwd=tmp_path).returncode == 5


def test_explain(good: Path, tmp_path: Path) -> None:
    done = statecert("explain", evidence(good), cwd=tmp_path)

    assert done.returncode == 0
    assert "layer1.k" in done.stdout or "layer0.recurrent" in done.stdout
    assert statecert("explain", evidence(good), "--check", "no-such", cwd=tmp_path).returncode == 5


def test_doctor(tmp_path: Path) -> None:
    done = statecert("doctor", "--json", cwd=tmp_path)

    assert done.returncode == 0
    assert "device toy:cpu" in done.stdout


def test_doctor_without_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.cli import main
    from harness.engines import registry

    monkeypatch.setattr(registry, "names", lambda group="": ())

    assert main(["doctor"]) == 1


def test_every_line_of_the_table_belongs_to_a_test() -> None:
    told = {command for command, _, _ in rows()}
    mine = Path(__file__).read_text("utf-8")

    for command in told:
        word = command.split()[0]
        assert word in ELSEWHERE or word == "any" or f'"{word}"' in mine or f"def test_{word}" in mine, command
