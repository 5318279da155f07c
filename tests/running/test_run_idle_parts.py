"""Parts that the engine does not work on: never written, or the same whatever was run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.deriving.body import derive_body
from tests.fakes.toy_support import COLD, EXACT, FLIPPED, SEEN, WARM, run_toy, toy_host, toy_plan, toy_procedure
from tests.fakes.toy_support import toy_target as target

pytestmark = pytest.mark.usefixtures("forked_toys")

OTHER: dict[str, object] = {
    "id": "other",
    "role": "control",
    "steps": [{"run": {"prompt": "more", "decode": 4, "as": "a"}}],
}
PROCEDURE = toy_procedure([COLD, WARM, FLIPPED, OTHER], [EXACT, SEEN])


def _inventory(folder: Path, fault: str) -> Mapping[str, str]:
    with toy_host(folder, target(fault=fault)) as host:
        body = derive_body(run_toy(host, toy_plan(PROCEDURE), folder))
    cells = body["cells"]
    assert isinstance(cells, list)
    found: Mapping[str, str] = next(check for check in cells[0]["checks"] if check["id"] == "inventory")
    return found


@pytest.mark.parametrize(
    ("fault", "reason", "part"),
    [
        ("constant_rows", "part_never_written", "layer1.k"),
        ("constant_logits", "part_never_changes", "logits"),
    ],
)
def test_a_part_that_is_not_the_state_fails_by_its_name(tmp_path: Path, fault: str, reason: str, part: str) -> None:
    found = _inventory(tmp_path, fault)

    assert (found["outcome"], found["reason"], found["observed"]) == ("fail", reason, part)


def test_parts_that_change_pass(tmp_path: Path) -> None:
    assert _inventory(tmp_path, "")["outcome"] == "pass"
