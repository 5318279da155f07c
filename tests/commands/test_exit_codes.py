"""Walks docs/exit-codes.md, line by line: each ending is brought about by a test that says so, here or where it names."""

from __future__ import annotations

import errno
import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from tests.commands.command_support import FAKES, ROOT, TOY_SCENARIO, certificates_of, evidence_of, statecert, toy_run

TABLE = ROOT / "docs" / "exit-codes.md"
ELSEWHERE = {
    "conform": "tests/conform",
    "faults": "tests/faults",
    **dict.fromkeys(("soak", "kill", "matrix", "kv"), "tests/campaigns"),
    "fuzz": "tests/fuzz",
    "import": "tests/foreign",
    "selftest": "tests/selftest",
    "new": "tests/commands_new",
    "mutants": "tests/mutants",
    "pack": "tests/certifying",
    "claims": "tests/claims",
    **dict.fromkeys(("history", "supersede", "withdraw", "reinstate", "waive", "annotate"), "tests/ledger"),
    **dict.fromkeys(("sign", "verify", "trust", "export"), "tests/signing"),
}
"""Commands whose endings are brought about beside their own tests."""
BESIDE = {
    ("any", "full disk"): "commands/test_bad_input.py::test_a_really_full_disk_loses_nothing_that_was_closed",
    ("run", "the child did not"): "commands/test_bad_input.py::test_a_child_that_ends_badly_when_all_is_done_makes",
    ("run", "files of"): "commands/test_filing.py::test_a_run_whose_files_or_clock",
    ("run --certify", "another run"): "commands/test_filing.py::test_a_run_in_whose_place",
    ("run --certify", "the folder takes"): "commands/test_filing.py::test_a_certificate_that_its_folder_refuses",
    ("run --certify", "the folder cannot"): "commands/test_filing.py::test_a_folder_that_cannot_be_trusted",
    ("gate --require-pass", "the same, and a waiver"): "gating/test_forge.py::test_waivers_by_the_command",
    ("gate --require-pass", "a waiver of a"): "gating/test_forge.py::test_waivers_by_the_command",
    ("gate --signers", "a signature"): "gating/test_forge.py::test_signers_by_the_command",
    ("gate --signers", "no such file"): "gating/test_forge.py::test_signers_by_the_command",
    ("gate --policy", "what the policy"): "gating/test_gate_command.py::test_a_policy",
    ("gate --policy", "no such file"): "gating/test_gate_command.py::test_a_policy",
    ("gate --since", "a record of the base"): "gating/test_gate_command.py::test_a_change_that_takes_a_record_away",
    ("gate --since", "the change edits"): "gating/test_gate_command.py::test_a_change_that_edits_the_policy",
    ("gate --since", "no such commit"): "gating/test_gate_command.py::test_a_base_that_is_not_there",
    ("gate --fresh", "files of"): "gating/test_fresh.py::test_by_the_command",
    ("gate --fresh", "a --root"): "gating/test_fresh.py::test_by_the_command",
    ("gate --fix", "what is generated"): "gating/test_forge.py::test_fix_writes_what_is_generated",
    ("gate --junit, --summary", "the file"): "gating/test_forge.py::test_a_file_that_cannot_be_written",
}
"""Command and how its ending begins to the test, in another file, that brings it about."""
WALKED: dict[tuple[str, str], str] = {}
"""The same, of the tests below: to their names."""
TOY = ("--target", "toy", "--preset", "toy", "--quiet")
ONE_CELL = ("--scenarios", ".", "A90[scale=1,part=kv]")
Test = TypeVar("Test", bound=Callable[..., None])


def ends(command: str, *endings: str) -> Callable[[Test], Test]:
    """Say which lines of the table a test brings about: the command, and how the endings begin."""

    def note(test: Test) -> Test:
        WALKED.update(dict.fromkeys([(command, ending) for ending in endings], test.__name__))
        return test

    return note


def rows() -> list[tuple[str, str, str]]:
    lines = TABLE.read_text("utf-8").splitlines()
    found = [re.fullmatch(r"\| (.+?) \| (.+) \| (.+) \|", line) for line in lines]
    cells = [row.groups() for row in found if row and row[1] not in {"command", "---"}]
    return [(command.replace("`", ""), ending.replace("`", ""), code) for command, ending, code in cells]


def copied(good: Path, tmp_path: Path) -> Path:
    target = tmp_path / "certificates"
    shutil.copytree(certificates_of(good), target)
    return target


@ends("any", "unknown command")
def test_unknown_command_option_or_argument(tmp_path: Path) -> None:
    assert statecert("certifi", cwd=tmp_path).returncode == 4
    assert statecert("gate", "--no-such-option", cwd=tmp_path).returncode == 4
    assert statecert("judge", cwd=tmp_path).returncode == 4


@ends("any", "a package that")
def test_a_package_that_is_not_there_is_named_and_a_module_that_is_none_is_a_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from harness.cli import main

    def absent(*words: object) -> int:
        raise ModuleNotFoundError("No module named 'rich'", name=next(names))

    names = iter(["rich.text", "yaml", "ric", "harness.commands.nothing"])
    monkeypatch.setattr("harness.commands.gate.run_plain", absent)

    assert [main(["gate", str(tmp_path)]) for _ in range(4)] == [4, 4, 3, 3]
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "statecert: gate needs the package rich, which is not installed here: pip install rich"
    assert lines[1].endswith("pip install pyyaml")
    assert lines[2].startswith("statecert: internal error: ModuleNotFoundError")


@ends("any", "a scenario, target")
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


@pytest.mark.parametrize("lab", ["targets: [", "schema: statecert/lab/v1\ntargets: {mine: {engine: toy}}\n"])
def test_a_lab_file_that_is_none_is_a_mistake_of_the_caller_and_nothing_runs(tmp_path: Path, lab: str) -> None:
    (tmp_path / "lab.yaml").write_text(lab)

    done = toy_run(tmp_path)

    assert done.returncode == 4
    assert "lab.yaml" in done.stderr
    assert not (tmp_path / "runs").exists()


@ends("any", "a preset or an option")
def test_a_file_where_a_folder_should_go_is_refused_before_any_work(good: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file in the way")
    folder = certificates_of(good)

    for done in (
        toy_run(tmp_path),
        toy_run(tmp_path, "--out", "others", "--certify", "runs"),
        statecert("report", folder, "--format", "md", "--out", "runs", cwd=tmp_path),
    ):
        assert done.returncode == 4
        assert "runs is a file" in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "others").exists()


def test_a_bug_is_exit_3_with_one_line_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from harness.cli import main
    from harness.reporting import site

    def broken(*_: object, **__: object) -> object:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(site, "read_archive", broken)

    assert main(["report", str(tmp_path)]) == 3
    assert capsys.readouterr().err.startswith("statecert: internal error: ZeroDivisionError: by nothing\n")


def test_a_place_that_the_system_refuses_is_named_and_is_no_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from harness.cli import main
    from harness.reporting import site

    def refused(*_: object, **__: object) -> object:
        raise OSError(errno.EROFS, "Read-only file system", "ro/x")

    monkeypatch.setattr(site, "read_archive", refused)

    assert main(["report", str(tmp_path)]) == 3
    said = capsys.readouterr().err
    assert said == "statecert: the system refused ro/x: Read-only file system; choose another place\n"


def test_what_the_engine_refuses_at_its_start_is_usage_and_leaves_no_run_folder(tmp_path: Path) -> None:
    done = toy_run(tmp_path, "--option", "depht=3")

    assert done.returncode == 4, done.stderr
    assert "toy refuses" in done.stderr
    assert not list(tmp_path.glob("runs/*"))


def test_scenario_names_are_forgiving(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Notes")

    assert statecert("plan", "a01", cwd=tmp_path).returncode == 0
    assert "did you mean A11?" in statecert("plan", "A011", cwd=tmp_path).stderr
    assert "--scenarios" in statecert("plan", tmp_path, cwd=tmp_path).stderr
    assert "README.md is no scenario" in statecert("plan", "README.md", cwd=tmp_path).stderr


@ends("plan", "the plan", "nothing matches")
def test_plan(tmp_path: Path) -> None:
    assert statecert("plan", "A01", cwd=tmp_path).returncode == 0
    (tmp_path / "none").mkdir()
    assert statecert("plan", "--scenarios", "none", cwd=tmp_path).returncode == 5


@ends("run", "every cell")
def test_run_passes(good: Path, tmp_path: Path) -> None:
    assert list(good.glob("runs/*/certificates/A90/*/*/*.json"))

    (tmp_path / "A90-toy.yaml").write_text(TOY_SCENARIO)
    done = statecert("run", *ONE_CELL, *TOY, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "draft: partial" in done.stdout


@ends("run --certify, run --gate", "what ran")
@pytest.mark.parametrize("words", [("--certify", "c"), ("--gate",), ("--certify", "c", "--gate")])
def test_a_draft_is_a_finding_where_a_certificate_was_asked_for(
    good: Path, tmp_path: Path, words: Sequence[str]
) -> None:
    shutil.copytree(certificates_of(good), tmp_path / "c")
    (tmp_path / "A90-toy.yaml").write_text(TOY_SCENARIO)

    done = statecert("run", *ONE_CELL, *TOY, *words, cwd=tmp_path)

    assert done.returncode == 1, done.stdout
    assert "draft: partial" in done.stdout


@ends("run", "a cell is fail")
def test_run_finds_a_fault(tmp_path: Path) -> None:
    done = toy_run(tmp_path, "--option", "fault=forget_recurrent")

    assert done.returncode == 1
    assert "fail" in done.stdout


@ends("run", "a cell is error")
def test_run_on_an_engine_that_crashes_is_an_error(tmp_path: Path) -> None:
    done = toy_run(tmp_path, "--option", "misbehave=abort", "--option", "after=1")

    assert done.returncode == 3
    assert "crash" in done.stdout


@ends("run", "no cell ran")
def test_run_without_the_hardware(tmp_path: Path) -> None:
    assert toy_run(tmp_path, "--device", "moon").returncode == 5


def test_a_run_of_which_every_cell_is_not_supported_ends_with_5_and_in_the_words_of_the_engine(tmp_path: Path) -> None:
    done = toy_run(tmp_path, scenario=TOY_SCENARIO.replace("engine: {}", "engine: {wings: 2}"))

    assert done.returncode == 5
    assert "engine_options: unknown options" in done.stdout
    assert "wings" in done.stdout
    assert '"words":"unknown options' in evidence_of(tmp_path).read_text("utf-8")


def test_a_cell_for_which_a_capability_is_missing_says_that_it_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_LACKS", "prefix_cache")

    done = toy_run(tmp_path, "--json")

    assert done.returncode == 5
    assert "prefix_cache: a capability that the target does not declare" in done.stdout


def test_a_run_with_a_cell_that_is_not_supported_beside_one_that_ran_ends_with_1(tmp_path: Path) -> None:
    winged = TOY_SCENARIO.replace("engine: {}", "engine: {wings: 2}").replace("A90", "A91")
    (tmp_path / "A91-winged.yaml").write_text(winged)

    (tmp_path / "A90-toy.yaml").write_text(TOY_SCENARIO)

    done = statecert("run", "A90-toy.yaml", "A91-winged.yaml", "--target", "toy", "--preset", "toy", cwd=tmp_path)

    assert done.returncode == 1, done.stderr
    assert "not_supported" in done.stdout


@ends("run --gate", "the gate on")
def test_run_and_gate(tmp_path: Path) -> None:
    assert toy_run(tmp_path, "--gate").returncode == 0
    assert toy_run(tmp_path, "--gate", "--option", "fault=forget_recurrent").returncode == 1


@ends("judge", "every decision", "evidence cut off")
def test_judge(good: Path, tmp_path: Path) -> None:
    assert statecert("judge", evidence_of(good), cwd=tmp_path).returncode == 0
    whole = evidence_of(good).read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(whole[: len(whole) // 2])
    assert statecert("judge", "cut.jsonl", cwd=tmp_path).returncode == 2
    (tmp_path / "changed.jsonl").write_bytes(whole.replace(b'"cached":128', b'"cached":64', 1))
    assert statecert("judge", "changed.jsonl", cwd=tmp_path).returncode == 2


@ends("judge", "a decision is stop", "a decision is error")
def test_judge_of_a_stop_and_of_an_error(tmp_path: Path) -> None:
    stop, error = tmp_path / "stop", tmp_path / "error"
    for folder, option in ((stop, "fault=forget_recurrent"), (error, "misbehave=raise")):
        folder.mkdir()
        toy_run(folder, "--option", option)

    assert statecert("judge", evidence_of(stop), cwd=tmp_path).returncode == 1
    assert statecert("judge", evidence_of(error), cwd=tmp_path).returncode == 3


@ends("judge --check", "all committed", "a body differs")
def test_judge_check(good: Path, tmp_path: Path) -> None:
    folder = copied(good, tmp_path)

    assert statecert("judge", "--check", folder, cwd=tmp_path).returncode == 0
    next(folder.glob("evidence/*.jsonl")).unlink()
    assert statecert("judge", "--check", folder, cwd=tmp_path).returncode == 2


@ends("gate", "all records", "a record, a blob")
def test_gate(good: Path, tmp_path: Path) -> None:
    folder = copied(good, tmp_path)

    assert statecert("gate", folder, "--require-pass", cwd=tmp_path).returncode == 0
    certificate = next(folder.glob("A90/*/*/*.json"))
    certificate.write_bytes(certificate.read_bytes().replace(b'"pass"', b'"stop"', 1))
    assert statecert("gate", folder, cwd=tmp_path).returncode == 2


def test_gate_of_the_folder_of_a_run_says_where_the_certificates_are(good: Path, tmp_path: Path) -> None:
    for command in ("gate", "report"):
        done = statecert(command, certificates_of(good).parent, cwd=tmp_path)

        assert done.returncode == 4
        assert f"try: statecert {command} {certificates_of(good)}" in done.stderr


def test_tables_say_what_was_seen_and_demanded_and_keep_the_names_of_cells_whole(tmp_path: Path) -> None:
    check = "    - {id: reused, cached: {at: warm.again, equals: 64}}\n"

    ran = toy_run(tmp_path, scenario=TOY_SCENARIO + check)
    judged = statecert("judge", evidence_of(tmp_path), cwd=tmp_path)
    explained = statecert("explain", evidence_of(tmp_path), "--check", "reused", cwd=tmp_path)

    assert ran.returncode == judged.returncode == 1
    assert "reused: 128 tokens, demanded 64 (other_count)" in ran.stdout
    for done in (ran, judged):
        assert "A90[scale=1,part=recurrent]" in done.stdout
        assert "demanded" in done.stdout
    assert "128 tokens" in explained.stdout


@ends("gate --require-pass", "a cell of a")
def test_gate_requires_passes(tmp_path: Path) -> None:
    toy_run(tmp_path, "--option", "fault=forget_recurrent")

    assert statecert("gate", certificates_of(tmp_path), cwd=tmp_path).returncode == 0
    assert statecert("gate", certificates_of(tmp_path), "--require-pass", cwd=tmp_path).returncode == 1


@ends("gate", "a rule broke")
def test_a_broken_gate_rule_is_exit_3(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    from harness.gating import rules
    from harness.gating.gate import gate

    def broken(*_: object) -> object:
        raise ZeroDivisionError

    first = next(rule for rule in rules.RULES if rule.document is not None)
    report = gate([certificates_of(good)], rules=[first._replace(document=broken)])  # type: ignore[arg-type]

    assert report.exit_code == 3


@ends("gate", "an empty folder", "a folder that")
def test_gate_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "certificates").mkdir()

    assert statecert("gate", cwd=tmp_path).returncode == 5
    assert statecert("gate", "elsewhere", cwd=tmp_path).returncode == 4


@ends("report", "rendered", "a certificate cannot", "no certificates", "--out without")
@ends("report --check", "the pages")
def test_report(good: Path, tmp_path: Path) -> None:
    folder = copied(good, tmp_path)

    assert statecert("report", folder, cwd=tmp_path).returncode == 0
    assert statecert("report", folder, "--format", "md", "--out", "pages", cwd=tmp_path).returncode == 0
    assert statecert("report", folder, "--format", "md", "--out", "pages", "--check", cwd=tmp_path).returncode == 0
    assert statecert("report", folder, "--out", "pages", "--check", cwd=tmp_path).returncode == 0
    assert statecert("report", folder, "--out", "pages", cwd=tmp_path).returncode == 4
    assert statecert("report", folder, "--format", "html", "--check", cwd=tmp_path).returncode == 4
    (tmp_path / "pages" / "README.md").write_text("by hand")
    assert statecert("report", folder, "--out", "pages", "--check", cwd=tmp_path).returncode == 1
    certificate = next(folder.glob("A90/*/*/*.json"))
    certificate.write_bytes(certificate.read_bytes()[:-20])
    assert statecert("report", folder, cwd=tmp_path).returncode == 2
    (tmp_path / "empty").mkdir()
    assert statecert("report", "empty", cwd=tmp_path).returncode == 5


def test_report_touches_only_pages_that_it_made(good: Path, tmp_path: Path) -> None:
    folder = copied(good, tmp_path)
    pages = tmp_path / "pages"
    write = ("report", folder, "--format", "md", "--out", pages)
    assert statecert(*write, cwd=tmp_path).returncode == 0
    made = next(pages.rglob("A90/**/*.md"))
    (pages / "old.md").write_bytes(made.read_bytes())
    (pages / "notes.md").write_text("# Mine\n")

    assert statecert(*write, cwd=tmp_path).returncode == 0

    assert not (pages / "old.md").exists()
    assert (pages / "notes.md").read_text() == "# Mine\n"
    made.write_text("# Mine too\n")
    refused = statecert(*write, cwd=tmp_path)
    assert refused.returncode == 4
    assert made.name in refused.stderr
    assert made.read_text() == "# Mine too\n"


@ends("explain", "nothing in")
def test_explain(good: Path, tmp_path: Path) -> None:
    done = statecert("explain", evidence_of(good), cwd=tmp_path)

    assert done.returncode == 0
    assert "layer1.k" in done.stdout or "layer0.recurrent" in done.stdout
    assert statecert("explain", evidence_of(good), "--check", "no-such", cwd=tmp_path).returncode == 5
    assert "evidence" in statecert("explain", evidence_of(good).parent.parent, cwd=tmp_path).stderr
    certificate = next(certificates_of(good).glob("A90/*/*/*.json"))
    assert "is no evidence file" in statecert("judge", certificate, cwd=tmp_path).stderr


@ends("explain", "the difference", "two files")
def test_explain_of_two_files(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(8))
    (tmp_path / "b.bin").write_bytes(bytes(7) + b"\x01")
    words = ("explain", "--files", "a.bin", "b.bin")

    assert statecert(*words, cwd=tmp_path).returncode == 0
    assert statecert(*words, "--type", "f32", cwd=tmp_path).returncode == 0
    unknown = statecert(*words, "--type", "f33", cwd=tmp_path)
    assert unknown.returncode == 4
    assert "bf16" in unknown.stderr
    assert statecert(*words, "--type", "f32", "--shape", "3", cwd=tmp_path).returncode == 4
    assert statecert("explain", "--files", "a.bin", "none.bin", cwd=tmp_path).returncode == 4


@ends("doctor", "a device and")
def test_doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from harness.cli import main

    monkeypatch.syspath_prepend(str(FAKES))

    assert main(["doctor", "--json", "--engine", "stdio", "--engine", "toy"]) == 0
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["device toy:cpu"]["state"] == "pass"
    assert rows["engine stdio"]["state"] == "not_run", "it wants a command; nothing is broken"
    assert "--command" in rows["engine stdio"]["detail"]
    assert rows["engines"]["detail"] == "stdio, toy"


@ends("doctor", "--engine")
def test_doctor_of_an_engine_that_is_not_installed(capsys: pytest.CaptureFixture[str]) -> None:
    from harness.cli import main

    assert main(["doctor", "--engine", "torch", "--engine", "torhc"]) == 4
    assert "no engine 'torhc'; installed are: " in capsys.readouterr().err


@pytest.mark.usefixtures("forked_toys")
def test_doctor_plans_memory_where_an_engine_says_how(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from harness.cli import main

    monkeypatch.syspath_prepend(str(FAKES))

    def plan(memory: int) -> dict[str, dict[str, object]]:
        assert main(["doctor", "--json", "--engine", "toy", "--memory", str(memory), "--context", "8192"]) == 0
        rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
        return {name.partition(": ")[2]: row for name, row in rows.items() if name.startswith("plan toy-cpu: ")}

    roomy, tight = plan(24_000_000), plan(12_000_000)
    parts = ("weights", "workspace", "session", "snapshots")

    assert sum(int(str(roomy[name]["number"])) for name in parts) == roomy["memory"]["number"] == 24_000_000
    assert (roomy["prefixes"]["state"], tight["prefixes"]["state"]) == ("pass", "not_run")
    assert "nothing this long is kept" in str(tight["prefixes"]["detail"])
    assert 0 < int(str(tight["longest"]["number"])) < 8192 < int(str(roomy["longest"]["number"]))


@ends("doctor", "no engine")
def test_doctor_without_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.cli import main
    from harness.engines import registry

    monkeypatch.setattr(registry, "names", lambda group="": ())

    assert main(["doctor"]) == 1


def lines_of(command: str, beginning: str) -> list[tuple[str, str, str]]:
    return [row for row in rows() if row[0] == command and row[1].startswith(beginning)]


@pytest.mark.parametrize("place", [*WALKED, *BESIDE], ids=" ".join)
def test_what_a_test_brings_about_is_one_line_of_the_table_and_its_code(place: tuple[str, str]) -> None:
    [(_, ending, code)] = lines_of(*place)
    file, _, name = BESIDE.get(place, f"commands/{Path(__file__).name}::{WALKED.get(place)}").partition("::")
    blocks = (ROOT / "tests" / file).read_text("utf-8").split("\n\n\n")

    block = next((one for one in blocks if re.search(rf"^def {name}", one, re.MULTILINE)), "")

    assert block, f"no test {name} in {file}"
    if len(code) == 1 and place != ("run", "every cell"):  # whose fixture looks at it
        assert re.search(rf"\b{code}\b", block), f"{ending}: {name} looks for no {code}"


def test_every_line_of_the_table_belongs_to_a_test() -> None:
    walked = {line for place in (*WALKED, *BESIDE) for line in lines_of(*place)}

    rest = [line for line in rows() if line not in walked and line[0].split()[0] not in ELSEWHERE]

    assert not rest
