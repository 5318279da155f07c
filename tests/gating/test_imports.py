"""A gate run on good records starts fast: it imports no heavy library."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.gating.all_fixtures import FIXTURES
from tests.gating.fixtures import valid

HEAVY = ("torch", "numpy", "pandas", "jinja2", "rich", "yaml")
SLOW = (
    "_hashlib", "asyncio", "copy", "cryptography", "dataclasses", "email", "fractions", "inspect", "jsonschema_rs", "logging", "nacl", "orjson",
    "pathlib", "random", "socket", "statistics", "subprocess", "tempfile", "threading", "urllib", "uuid",
)  # fmt: skip
"""What a gate of a few records gets along without, since each takes a good part of its time."""
ONLY_TO_EXPLAIN = ("jsonschema", "referencing")

CODE = """
import sys
from harness.gating.gate import gate
from harness.gating.outputs import text, to_json
report = gate([sys.argv[1]])
text(report), to_json(report)
print(int(report.exit_code), *(name for name in sys.argv[2:] if name in sys.modules))
"""

PLAIN = """
import sys
from harness.cli import main
slow, sys.argv = sys.argv[2:], ["statecert", "gate", sys.argv[1]]
print(main(), *(name for name in slow if name in sys.modules))
"""


def loaded(folder: Path, *names: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(folder), *names], capture_output=True, text=True, check=True, timeout=600
    )
    return done.stdout.strip()


def test_a_good_record_needs_no_heavy_library(tmp_path: Path) -> None:
    valid(tmp_path)

    assert loaded(tmp_path, *HEAVY, *ONLY_TO_EXPLAIN) == "0"


def test_a_few_good_records_are_judged_without_any_slow_import(tmp_path: Path) -> None:
    valid(tmp_path)
    path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), sysconfig.get_path("purelib")])

    # -S, so that the finder of an editable installation imports nothing of its own
    done = subprocess.run(
        [sys.executable, "-S", "-c", PLAIN, str(tmp_path), *SLOW],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip

    assert done.stdout.splitlines()[-1] == "0"


@pytest.mark.parametrize("name", ["undeclared_field", "duplicate_key"])
def test_a_bad_record_needs_none_of_the_heavy_ones_either(tmp_path: Path, name: str) -> None:
    FIXTURES[name].build(tmp_path)

    assert loaded(tmp_path, *HEAVY) == "2"
