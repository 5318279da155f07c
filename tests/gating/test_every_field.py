"""Whatever stands in any text of any record, what a gate prints shows it and does nothing else."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from harness.errors import ExitCode
from harness.gating import forge, outputs
from harness.gating.gate import gate
from harness.wire import canonical, schemas
from tests.gating.fixtures import certificates, valid_ledger
from tests.gating.hostile_fixtures import MARKUP
from tests.gating.ledger_fixtures import waive

COMMAND = re.compile(r"^::(?!error |warning |notice )", re.MULTILINE)


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of every text, and of every mapping whose keys could be one."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        yield (*path, "")
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value[:3]):
            yield from places(item, (*path, index))


def poisoned(value: Any, path: tuple[str | int, ...], text: str) -> Any:
    if not path:
        return text
    step, *rest = path
    if isinstance(value, list):
        return [poisoned(item, tuple(rest), text) if index == step else item for index, item in enumerate(value)]
    if step == "":
        return {**value, text: text}
    return {key: poisoned(item, tuple(rest), text) if key == step else item for key, item in value.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("every")
    valid_ledger(made)
    waive(made, until="2026-12-31")
    return made


@pytest.mark.parametrize("kind", ["certificate", "event"])
def test_no_text_of_a_record_acts_where_it_is_shown(kind: str, folder: Path) -> None:
    path = certificates(folder)[0] if kind == "certificate" else sorted(folder.glob("ledger/*/*.json"))[0]
    held = path.read_bytes()
    value = json.loads(held)
    found = list(places(value))
    assert len(found) > (100 if kind == "certificate" else 4)
    try:
        for number, place in enumerate(found):
            text = MARKUP[number % len(MARKUP)]
            path.write_bytes(json.dumps(poisoned(value, place, text), indent=2, sort_keys=True).encode() + b"\n")
            assert_inert(folder, place)
    finally:
        path.write_bytes(held)
    assert gate([folder], day="2026-06-01").exit_code is ExitCode.GOOD


def assert_inert(folder: Path, place: object) -> None:
    report = gate([folder], day="2026-06-01")
    assert report.exit_code is ExitCode.INVALID, place
    for line in outputs.text(report).splitlines():
        assert line.isprintable(), place
        assert line.isascii(), place
        assert not line.lstrip().startswith("::"), place
    schemas.validate(json.loads(outputs.to_json(report)), "gate.v1", "report")
    assert canonical.render(json.loads(outputs.to_json(report))) == outputs.to_json(report)
    tree = ET.fromstring(forge.junit(report))
    assert {one.tag for one in tree.iter()} <= {
        "testsuites",
        "testsuite",
        "testcase",
        "failure",
        "error",
        "skipped",
        "properties",
        "property",
        "system-out",
    }
    assert COMMAND.search(forge.workflow_commands(report)) is None, place
    page = MarkdownIt("commonmark").enable("table").parse(forge.summary(report).decode())
    kinds = {one.type for token in page for one in (token, *(token.children or ()))}
    assert not {kind for kind in kinds if kind.startswith(("html", "link", "image", "fence", "code_block"))}, place
