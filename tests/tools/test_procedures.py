"""The list of procedures: an edit of one scenario says nothing of the others."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tools import procedures


def test_a_new_scenario_takes_no_former_procedures_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "procedures.json"
    shutil.copy(procedures.FILE, file)
    former, replaced = procedures.known()
    changed = next(name for name, held in former.items() if len(held) == 1)
    file.write_bytes(file.read_bytes().replace(former[changed][0].encode(), b"0" * 64))
    monkeypatch.setattr(procedures, "FILE", file)
    monkeypatch.setattr(sys, "argv", ["procedures"])

    assert procedures.main() == 0

    assert procedures.known() == (former, replaced)


def test_a_changed_procedure_leaves_its_former_one_behind_where_that_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "procedures.json"
    shutil.copy(procedures.FILE, file)
    former, _ = procedures.known()
    changed = next(name for name, held in former.items() if len(held) == 1)
    file.write_bytes(file.read_bytes().replace(former[changed][0].encode(), b"0" * 64))
    monkeypatch.setattr(procedures, "FILE", file)
    monkeypatch.setattr(sys, "argv", ["procedures", "--keep"])

    assert procedures.main() == 0

    assert procedures.known()[0] == {**former, changed: [former[changed][0], "0" * 64]}
