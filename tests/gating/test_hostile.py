"""Records that were made to break the reader end in their finding: quickly, in little memory, without a traceback."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.gating.all_fixtures import FIXTURES
from tests.gating.fixtures import valid
from tests.gating.hostile_fixtures import HOSTILE

MOST_S = 1.0
MOST_KIB = 64 * 1024
CODE = """
import json, os, sys
from harness.cli import main
from harness.gating.gate import gate
gate([sys.argv[1]])  # everything is imported, so that a child shows what the folder takes and nothing else
told = {}
for folder in sys.argv[2:]:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(writer, 1), os.dup2(writer, 2), os.close(reader)
        os._exit(main(["gate", folder]))
    os.close(writer)
    said = os.fdopen(reader, "rb").read()
    _, status, used = os.wait4(child, 0)
    told[folder] = [os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss, said.decode()]
print(json.dumps(told))
"""
"""One process for each folder, forked from one that has gated a good folder already."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, float, int, str]]:
    """Exit code, seconds of processor time, peak in KiB and output, by name of the fixture."""
    root = tmp_path_factory.mktemp("hostile")
    names = ["good", *dict.fromkeys(name for name in HOSTILE.values() if not FIXTURES[name].options())]
    for name in names:
        (root / name / "certificates").mkdir(parents=True)
        (valid if name == "good" else FIXTURES[name].build)(root / name / "certificates")
    folders = {str(root / name / "certificates"): name for name in names}
    done = subprocess.run(
        [sys.executable, "-c", CODE, next(iter(folders)), *folders],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return {folders[folder]: tuple(found) for folder, found in json.loads(done.stdout).items()}


def test_a_good_folder_is_good(told: dict[str, tuple[int, float, int, str]]) -> None:
    assert told["good"][0] == 0


@pytest.mark.parametrize("attempt", HOSTILE)
def test_an_attempt_ends_in_its_finding_and_2(attempt: str, told: dict[str, tuple[int, float, int, str]]) -> None:
    name = HOSTILE[attempt]
    if FIXTURES[name].options():
        pytest.skip("needs keys on the command line; tests of rules have it")
    code, seconds, peak, said = told[name]

    assert code == 2
    assert f"{FIXTURES[name].rule} error" in said
    assert "Traceback" not in said
    assert all(line.isprintable() for line in said.splitlines())
    assert seconds - told["good"][1] < MOST_S
    assert peak - told["good"][2] < MOST_KIB
