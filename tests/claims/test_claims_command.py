"""`statecert claims`: a text is held to the certificates that it speaks of, and a published matrix to what was published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli import main
from tests.gating.claim_fixtures import BLOCK, END, current, honest, row
from tests.gating.fixtures import valid
from tests.gating.foreign_fixtures import valid_foreign

MATRIX = """
# Bring it to the cache

## Qualification

| backend | K/V | result |
|---|---|---|
| Metal | F32/F32 | pass |
| Metal | Q8_0/Q8_0 | pass |
| Metal | Q4_0/Q4_0 | pass |
| Metal | Q8_0/F16 | pass |
| Metal | Q4_0/F16 | pass |
| CUDA | Q8_0/Q8_0 | pass |
| CUDA | F16/F16 | 64/64 |

On Metal F16/F16 agrees in 61/64 tokens.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "certificates"
    valid(made)
    return made


def claims(folder: Path, text: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    path = folder.parent / "text.md"
    path.write_text(text)
    code = main(["claims", str(path), "--certificates", str(folder), *words])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_an_honest_text_is_good(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = claims(folder, honest(folder), capsys)

    assert code == 0, said
    assert "1 texts with 8 citations and blocks" in said


def test_a_wrong_number_is_named_with_its_line_and_both_values(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = claims(folder, f"One.\n\nTwo [17 ms](cert:{current(folder)}#/run/elapsed_ns).\n", capsys)

    assert code == 1
    assert "text.md#L3 says 17 ms; the certificate has 3600000000000" in said


def test_fix_writes_blocks_and_nothing_else(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"before\n{BLOCK}\nold\nlines\nhere\n{END}\nafter\n{BLOCK}\n{END}\n"

    code, said = claims(folder, text, capsys, "--fix")

    assert code == 0, said
    written = (folder.parent / "text.md").read_text()
    assert written == f"before\n{BLOCK}\n{row(folder)}{END}\nafter\n{BLOCK}\n{row(folder)}{END}\n"


def test_a_text_that_speaks_of_no_certificate_is_nothing_to_check(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert claims(folder, "Nothing is said.\n", capsys)[0] == 5


def test_a_certificate_that_cannot_be_trusted_supports_no_text(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = next(folder.glob("T02/*/*/*.json"))
    text = honest(folder)
    path.write_bytes(path.read_bytes().replace(b'"at": 1', b'"at": 3', 1))

    assert claims(folder, text, capsys)[0] == 2


def test_what_is_not_there_is_a_usage_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "nowhere.md", "--certificates", str(folder)]) == 4
    assert main(["claims", str(folder), "--certificates", "nowhere"]) == 4
    assert claims(folder, "x\n", capsys, "--root", ".")[0] == 4
    assert main(["gate", str(folder), str(folder), "--claims", str(folder)]) in (4, 5)


def test_a_gate_asks_the_same(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.md"
    text.write_text(f"It [stopped](cert:{current(folder)}).\n")

    assert main(["gate", str(folder), "--claims", str(text), "--github"]) == 1
    said = capsys.readouterr().out
    assert "CG802 error" in said
    assert "::error file=" in said


def test_a_published_matrix_is_held_to_the_published_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "certificates"
    valid_foreign(folder)

    code, said = claims(folder, MATRIX, capsys, "--json")

    found = json.loads(said[: said.rindex("}") + 1])["findings"]
    contradicted = [one["message"] for one in found if "; certificate " in one["message"]]
    uncited = [one["message"] for one in found if "cites no certificate" in one["message"]]
    assert code == 1
    assert len(contradicted) == 5
    assert sum("Q4_0" in one for one in contradicted) == 2
    assert len(uncited) == 3
    assert any("CUDA | Q8_0/Q8_0" in one for one in uncited)
    assert any("64/64" in one for one in uncited)
    assert any("61/64" in one for one in uncited)
    assert all(one["severity"] == "error" for one in found)


def test_outside_of_a_qualification_an_uncited_claim_is_a_note(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = claims(folder, honest(folder) + "\nOn CUDA f16/f16 passes.\n", capsys)

    assert code == 0
    assert "CG804 warning" in said
