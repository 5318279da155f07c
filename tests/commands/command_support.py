"""Runs the command line as a user does: a process of its own, in a folder of its own, with the fakes' engines."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.fakes import warm

ROOT = Path(__file__).resolve().parents[2]
FAKES = ROOT / "tests" / "fakes"


@cache
def outside() -> Path:
    """A copy of the product outside any work tree, so that a changed checkout makes no drafts of these runs."""
    folder = Path(tempfile.mkdtemp(prefix="statecert-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in ("harness", "schemas", "scenarios"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


_COMMANDS = (
    "run",
    "plan",
    "judge",
    "gate",
    "report",
    "explain",
    "history",
    "withdraw",
    "supersede",
    "waive",
    "annotate",
)
_PARTS = (
    "reporting.progress",
    "reporting.tables",
    "running.run",
    "gating.gate",
    "certifying.issue",
    "engines.client",
    "engines.template",
)
USUAL = (
    "harness.cli",
    *(f"harness.commands.{name}" for name in _COMMANDS),
    *(f"harness.{name}" for name in _PARTS),
    *("orjson", "yaml", "rich.console", "rich.table", "jsonschema_rs", "hashlib"),
)
"""What most commands import."""

TOY_SCENARIO = """\
schema: statecert/scenario/v1
id: A90
title: Toy continuation
why: A fast cell for tests of the command line.
faults: []
suites: {default: [1]}
procedure:
  observability: parts
  requires: [parts, logits, boundaries, prefix_cache]
  families: [kv, recurrent]
  chunk: 64
  engine: {}
  axes: {part: [recurrent, kv]}
  prompts:
    A: [{seed: 1, length: {chunks: 2, tokens: 20}}]
    B: [{seed: 1, length: {chunks: 2, tokens: 20}, change_at: 3}]
  arms:
    - id: cold
      role: reference
      steps: [{run: {prompt: A, decode: 4, as: a}}]
    - id: warm
      role: candidate
      steps:
        - {run: {prompt: A, cache: true, decode: 4, as: first}}
        - {run: {prompt: A, cache: true, decode: 4, as: again}}
    - id: other_text
      role: control
      steps: [{run: {prompt: B, decode: 4, as: a}}]
  checks:
    - {id: again, exact: {candidate: warm.again, reference: cold.a, witness: copied}}
    - {id: other-seen, seen: {candidate: other_text.a, reference: cold.a, part: $part}}
"""


def statecert(
    *words: str | Path, cwd: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m harness``, with engines in forked children, and return what it said."""
    path = os.pathsep.join([str(outside()), str(FAKES)])
    everything = {**os.environ, "PYTHONPATH": path, **(environment or {})}
    return warm.ran("harness", *map(str, words), cwd=cwd, environment=everything, imports=USUAL, engine="toy")


def toy_run(folder: Path, *words: str, scenario: str = TOY_SCENARIO) -> subprocess.CompletedProcess[str]:
    """Run the toy scenario on the toy engine."""
    file = folder / "A90-toy.yaml"
    if not file.exists():
        file.write_text(scenario)
    return statecert("run", file, "--target", "toy", "--preset", "toy", "--quiet", *words, cwd=folder)


def evidence_of(folder: Path) -> Path:
    """The evidence of the toy run in a folder."""
    return next(folder.glob("runs/*/evidence/A90*.jsonl"))


def certificates_of(folder: Path) -> Path:
    """The certificates that a run in this folder has issued."""
    return next(folder.glob("runs/*/certificates"))
