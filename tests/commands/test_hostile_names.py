"""Names that a stranger chose, of files and of signers, are shown by every command and act nowhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import main
from tests.gating.fixtures import certificates, valid_ledger
from tests.signing.support import make_key, public

EVIL = "::error::\x1b[2J\u202eown"
"""A command of a workflow log, an escape sequence, a mark that turns a line around."""


def renamed(folder: Path) -> None:
    path = certificates(folder)[0]
    place = folder / EVIL / "a" / "b"
    place.mkdir(parents=True)
    shutil.copy(path, place / path.name)


def broken(folder: Path) -> None:
    place = folder / EVIL / "a" / "b"
    place.mkdir(parents=True)
    (place / certificates(folder)[0].name).write_text(f'{{"{EVIL}": 1}}')


def signed_nothing(folder: Path) -> None:
    place = folder / EVIL / "a" / "b"
    place.mkdir(parents=True)
    (place / "x.json.sig").write_text("x")


def an_event(folder: Path) -> None:
    place = folder / "ledger" / f"{EVIL}\n::error::second"
    place.mkdir(parents=True)
    (place / "x.json").write_text("{}")


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    folder = tmp_path / "certificates"
    folder.mkdir()
    valid_ledger(folder)
    key = make_key(tmp_path)
    (tmp_path / "signers").write_text(f'"{EVIL}" namespaces="{EVIL},*" {public(key)}\n')
    return folder


def assert_harmless(shown: str) -> None:
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert not any(line.lstrip().startswith("::") for line in shown.splitlines())


@pytest.mark.parametrize(
    "command", ["gate", "gate --json", "fix", "verify", "verify --json", "report", "pack", "sign", "history", "judge"]
)
@pytest.mark.parametrize("spoil", [renamed, broken, signed_nothing, an_event])
def test_a_name_of_a_file_acts_nowhere(
    lab: Path, spoil: Callable[[Path], None], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(lab)
    root = lab.parent
    words = {
        "gate": ["gate", str(lab)],
        "gate --json": ["gate", "--json", str(lab)],
        "verify --json": ["verify", "--json", str(lab), "--signers", str(root / "signers")],
        "fix": ["gate", "--fix", str(lab)],
        "verify": ["verify", str(lab), "--signers", str(root / "signers")],
        "sign": ["sign", "--key", str(root / "key"), "--folder", str(lab)],
        "history": ["history", "00000000", "--folder", str(lab)],
    }.get(command, [command, str(lab)])

    code = main(words)

    said = capsys.readouterr()
    assert_harmless(said.out + said.err)
    assert code or command in ("report", "pack", "sign")


def test_a_word_that_no_command_knows_acts_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    """Words of a command line can be names of files, too."""
    with pytest.raises(SystemExit):
        main(["gate", f"--{EVIL}\n::error::second"])

    assert_harmless(capsys.readouterr().err)


def test_a_name_of_a_signer_acts_nowhere(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    signers = str(lab.parent / "signers")
    assert main(["sign", "--key", str(lab.parent / "key"), "--folder", str(lab)]) == 0

    assert main(["trust", "--signers", signers, "list"]) == 0
    assert main(["verify", str(lab), "--signers", signers]) == 0

    said = capsys.readouterr().out
    assert said.count(": :error: :") >= 3
    assert_harmless(said)
