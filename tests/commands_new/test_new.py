"""What ``statecert new`` writes works at once, and never takes the place of something that is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness import cli
from harness.commands.new import adapter_files, new_adapter, new_driver, new_scenario
from harness.deriving.product import expand
from harness.errors import ExitCode, StorageError, UsageError
from harness.model.values import ArmRole
from harness.pipeline import available_scenarios, read_scenario
from tests.howto.following import offline_pip

REPOSITORY = Path(__file__).parents[2]


def test_a_new_scenario_fits_its_schema_and_has_a_control(tmp_path: Path) -> None:
    path = new_scenario("A30", "It's served: twice", tmp_path)

    scenario = read_scenario(path)
    assert path == tmp_path / "A" / "A30-it-s-served-twice.yaml"
    assert (scenario.id, scenario.title) == ("A30", "It's served: twice")
    [cell] = expand(scenario, [16], suite="default").cells
    assert ArmRole.CONTROL in {arm.role for arm in cell.arms}
    assert available_scenarios(tmp_path).keys() == {"A30"}


def test_a_new_scenario_passes_on_the_torch_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert cli.main(["new", "scenario", "A30"]) == ExitCode.GOOD
    assert cli.main(["run", "A30", "--scenarios", "scenarios", "--device", "cpu", "--quiet"]) == ExitCode.GOOD


def test_an_id_that_is_taken_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = new_scenario("A30", "One", tmp_path)
    before = path.read_bytes()

    assert cli.main(["new", "scenario", "A30", "--title", "Other", "--dir", str(tmp_path)]) == ExitCode.USAGE
    assert "taken by" in capsys.readouterr().err
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == [path]
    assert path.read_bytes() == before


@pytest.mark.parametrize("identity", ["a30", "A3", "A3000", "AA30", "A30\n", "../A30", ""])
def test_an_id_that_is_none_is_refused(identity: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="allowed are a capital letter"):
        new_scenario(identity, "One", tmp_path)


@pytest.mark.parametrize("title", ["", " ", "two\nlines", "x" * 201])
def test_a_title_that_is_none_is_refused(title: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="title"):
        new_scenario("A30", title, tmp_path)


def test_a_title_without_letters_has_a_file_name_too(tmp_path: Path) -> None:
    assert new_scenario("A30", "???", tmp_path).name == "A30-scenario.yaml"


def test_a_folder_that_is_a_file_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")

    with pytest.raises(StorageError, match="cannot make"):
        new_scenario("A30", "One", tmp_path / "taken")
    with pytest.raises(StorageError, match="cannot make"):
        new_adapter("mine", tmp_path / "taken")


def test_a_new_adapter_meets_every_obligation_and_passes_its_scenario(tmp_path: Path) -> None:
    folder = new_adapter("my-engine", tmp_path)
    environment = offline_pip(tmp_path / "tools")

    for command in (
        "pip install -e .",
        "statecert conform my-engine",
        "statecert run scenarios/Z/Z01-a-prompt-served-twice.yaml --target my-engine --quiet",
    ):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_new_adapter_is_clean_code(tmp_path: Path) -> None:
    folder = new_adapter("mine", tmp_path)
    ruff = [sys.executable, "-m", "ruff"]
    config = ["--config", str(REPOSITORY / "pyproject.toml"), "--no-cache", str(folder)]
    for action in (["check"], ["format", "--check"]):
        done = subprocess.run([*ruff, *action, *config], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_new_adapter_names_nothing_of_the_start() -> None:
    text = "".join(adapter_files("mine").values()).lower()

    assert "starter" not in text
    assert "@" not in "".join(adapter_files("mine")[name] for name in ("pyproject.toml", "README.md"))


def test_a_folder_that_is_there_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "statecert-mine").mkdir()

    assert cli.main(["new", "adapter", "mine", "--dir", str(tmp_path)]) == ExitCode.USAGE
    assert "is there already" in capsys.readouterr().err
    assert [one.name for one in tmp_path.rglob("*")] == ["statecert-mine"]


def test_a_failure_in_the_middle_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("harness.commands.new.os.rename", fails)

    with pytest.raises(StorageError, match="No space left"):
        new_adapter("mine", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["Mine", "my_engine", "-x", "x-", "a--b", "../up", "", "x" * 41])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="allowed are lower-case"):
        new_adapter(name, tmp_path)


def test_an_engine_that_is_installed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="installed already"):
        new_adapter("torch", tmp_path)


@pytest.mark.parametrize("words", [["new"], ["new", "thing"], ["new", "scenario"], ["new", "adapter"]])
def test_missing_words_are_usage_errors(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == ExitCode.USAGE


@pytest.mark.parametrize(("language", "ending"), [("c", "c"), ("rust", "rs")])
def test_a_new_driver_names_itself_and_is_never_written_over(language: str, ending: str, tmp_path: Path) -> None:
    folder = new_driver("my-engine", language, tmp_path)

    source = (folder / f"driver.{ending}").read_text("utf-8")
    assert folder == tmp_path / "my-engine"
    assert "'engine':'my_engine'" in source
    assert f"toy_{language}" not in source
    assert {path.stem for path in folder.iterdir()} == {"driver", "protocol", "cachegen", "toy"}
    with pytest.raises(UsageError, match="already"):
        new_driver("my-engine", language, tmp_path)
    with pytest.raises(UsageError, match="lower-case"):
        new_driver("My Engine", language, tmp_path)
