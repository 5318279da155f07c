"""Packing changes where evidence lies and nothing else; what is interrupted loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.certifying.issue import issue
from harness.certifying.packing import folder_bytes, pack_folder
from harness.certifying.store import read_evidence
from harness.cli import main
from harness.errors import InvalidDocumentError, StorageError
from harness.gating.gate import gate
from harness.pipeline import rejudge
from harness.wire import packs
from tests.gating.fixtures import a_run, valid_ledger


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "certificates"
    valid_ledger(made)
    return made


def evidence(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("evidence/*.jsonl")}


def test_every_file_is_found_again_where_it_was_by_gate_and_judge(folder: Path) -> None:
    before, size = evidence(folder), folder_bytes(folder)

    done = pack_folder(folder)

    assert len(done.taken_away) == len(before) == 3
    assert not (folder / "evidence").exists()
    assert {f"{name}.jsonl": read_evidence(folder, name) for name in (one[:64] for one in before)} == before
    report = gate([folder])
    assert (report.exit_code, report.evidence_files) == (0, 3)
    assert [same for _, same in rejudge(folder)] == [True] * 3
    assert folder_bytes(folder) < size


def test_packing_again_changes_nothing(folder: Path) -> None:
    pack_folder(folder)
    before = sorted(folder.rglob("*"))

    assert pack_folder(folder).written == []
    assert sorted(folder.rglob("*")) == before


def test_only_superseded_evidence_moves_where_that_is_asked(folder: Path) -> None:
    done = pack_folder(folder, superseded_only=True)

    assert len(done.taken_away) == 1
    assert len(evidence(folder)) == 2
    assert gate([folder]).exit_code == 0


def test_a_later_run_is_issued_beside_packs_and_an_issued_one_is_not_written_again(folder: Path) -> None:
    pack_folder(folder)

    assert issue(a_run(2, 2).data(), folder) == []
    issue(a_run(4, 4).data(), folder)

    assert len(evidence(folder)) == 1
    assert gate([folder]).exit_code == 0
    pack_folder(folder)
    assert len(list((folder / packs.FOLDER).iterdir())) == 2
    assert gate([folder]).exit_code == 0


def test_large_folders_get_several_packs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "WANTED_BYTES", 1)

    assert len(pack_folder(folder).written) == 3
    assert gate([folder]).exit_code == 0


def test_a_changed_evidence_file_is_not_packed(folder: Path) -> None:
    path = next(folder.glob("evidence/*.jsonl"))
    path.write_bytes(path.read_bytes() + b"x")

    with pytest.raises(InvalidDocumentError, match="not what its name says"):
        pack_folder(folder)
    assert len(evidence(folder)) == 3


def test_a_pack_that_does_not_read_back_takes_no_file_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = packs.Pack(b"", dict.fromkeys((f"evidence/{name}" for name in evidence(folder)), (0, 0)))
    monkeypatch.setattr(packs, "opened", lambda *_: empty)

    with pytest.raises(StorageError, match="does not read back"):
        pack_folder(folder)
    assert len(evidence(folder)) == 3


def test_an_interruption_between_pack_and_removal_leaves_a_good_folder(folder: Path) -> None:
    before = evidence(folder)
    pack_folder(folder)
    (folder / "evidence").mkdir()
    for name, data in before.items():
        (folder / "evidence" / name).write_bytes(data)

    assert gate([folder]).exit_code == 0
    pack_folder(folder)
    assert evidence(folder) == {}
    assert len(list((folder / packs.FOLDER).iterdir())) == 1


def test_the_command_tells_sizes_and_takes_a_file_out(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    name, data = next(iter(evidence(folder).items()))

    assert main(["pack", str(folder)]) == 0
    assert b"3 evidence files of" in capfdbinary.readouterr().out
    assert main(["pack", str(folder)]) == 0
    assert b"nothing to pack" in capfdbinary.readouterr().out
    assert main(["pack", str(folder), "--extract", name[:64]]) == 0
    assert capfdbinary.readouterr().out == data


@pytest.mark.parametrize(
    ("words", "code"),
    [(["nowhere"], 4), (["--extract", "12"], 4), (["--extract", "0" * 64], 2)],
)
def test_what_cannot_be_packed_or_taken_out_says_so(folder: Path, words: list[str], code: int) -> None:
    place = [] if words[0] == "nowhere" else [str(folder)]

    assert main(["pack", *place, *words]) == code


def test_a_broken_pack_stops_packing(folder: Path) -> None:
    pack_folder(folder)
    path = next((folder / packs.FOLDER).iterdir())
    path.write_bytes(path.read_bytes()[:-1])

    assert main(["pack", str(folder), "--extract", "0" * 64]) == 2
