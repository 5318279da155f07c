"""`statecert report --json`: what the terminal shows, as data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.reporting import building, site, terminal

ALL = Path(__file__).parents[2] / "certificates"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Committed certificates of a scenario and of a campaign: every kind of row, and quickly read."""
    folder = tmp_path_factory.mktemp("some") / "certificates"
    for name in ("A01", "faults"):
        shutil.copytree(ALL / name, folder / name)
    return folder


def _said(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, Any]:
    code = main([str(word) for word in words])
    return code, json.loads(capsys.readouterr().out)


def test_the_overview_has_every_claim_key_with_its_state(
    certificates: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overview = building.overview(site.read_archive(certificates))

    code, found = _said(capsys, "report", certificates, "--json")

    assert code == 0
    assert found["title"] == overview.sentence
    assert [(row["claim_key"], row["state"], row["overall"], row["id"]) for row in found["rows"]] == [
        (row.claim_key, row.state, row.overall, row.id) for row in overview.rows
    ]


def test_one_certificate_has_all_that_the_terminal_shows_of_it(
    certificates: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = site.read_archive(certificates)
    views = (building.certificate_view(found, archive) for found in archive.certificates)
    one = next(view for view in views if view.claims and view.matrix)
    shown = terminal.render_certificate(one, colour=False, width=10_000)

    code, found = _said(capsys, "report", certificates, "--certificate", one.id, "--json")

    assert code == 0
    assert (found["id"], found["claim_key"], found["sentence"]) == (one.id, one.claim_key, one.sentence)
    assert len(found["matrix"]["rows"]) == len(one.matrix.rows if one.matrix else ())
    assert all(sentence in shown for sentence in (*found["claims"], *found["no_claims"], *found["limits"]))
    for section in found["sections"]:
        assert section["title"] in shown


def test_pages_that_are_out_of_date_are_rows(
    certificates: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, written = _said(capsys, "report", certificates, "--format", "md", "--out", tmp_path, "--json")
    assert code == 0
    assert {row["page"] for row in written["rows"]} == {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md")
    }
    (tmp_path / "README.md").unlink()

    code, found = _said(capsys, "report", certificates, "--check", "--out", tmp_path, "--json")

    assert code == 1
    assert found["rows"] == [{"page": "README.md", "words": "is missing"}]
    assert "1 not as in" in found["title"]
