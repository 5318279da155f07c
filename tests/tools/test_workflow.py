"""The example workflow: of the form that a forge knows, pinned, without a right to write, with nothing pasted into a shell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cli import COMMANDS
from harness.commands import gate as command
from harness.commands.parser import Parser

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "gate-workflow.yaml").read_text()
KEYS = {
    "top": {"name", "on", "permissions", "jobs"},
    "job": {"runs-on", "timeout-minutes", "steps", "permissions", "env"},
    "step": {"name", "uses", "with", "env", "run", "if", "id"},
    "checkout": {"fetch-depth", "persist-credentials", "ref"},
    "setup-python": {"python-version"},
    "upload-artifact": {"name", "path"},
}


def workflow(text: str = TEXT) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(text, Loader=yaml.BaseLoader)
    return found


def faults(text: str) -> Iterator[str]:
    """What a forge or a reviewer would say against a workflow."""
    found = workflow(text)
    yield from (f"unknown key {key}" for key in set(found) - KEYS["top"])
    if "pull_request_target" in found["on"]:
        yield "runs with the rights of the base on what a fork sent"
    if found.get("permissions") != {"contents": "read"}:
        yield "may write"
    for job in found["jobs"].values():
        yield from (f"unknown key {key}" for key in set(job) - KEYS["job"])
        if not str(job.get("timeout-minutes", "")).isdigit():
            yield "may run for ever"
        for step in job["steps"]:
            yield from _of_step(step)


def _of_step(step: dict[str, Any]) -> Iterator[str]:
    yield from (f"unknown key {key}" for key in set(step) - KEYS["step"])
    if ("uses" in step) == ("run" in step):
        yield "neither one action nor one script"
    if "uses" in step:
        action, _, version = step["uses"].partition("@")
        if re.fullmatch(r"[0-9a-f]{40}", version) is None:
            yield f"{action} is not pinned"
        known = KEYS.get(action.rpartition("/")[2], set())
        yield from (f"unknown input {key} of {action}" for key in set(step.get("with", {})) - known)
    elif "${{" in step["run"]:
        yield "pastes an expression into a script"
    if "checkout" in step.get("uses", "") and step["with"].get("persist-credentials") != "false":
        yield "leaves a token behind"


def test_nothing_speaks_against_the_workflow() -> None:
    assert list(faults(TEXT)) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("contents: read", "contents: write", "may write"),
        ("  pull_request:", "  pull_request_target:", "with the rights of the base"),
        ("@11bd71901bbe5b1630ceea73d27597364c9af683", "@v4", "not pinned"),
        ('"$BASE"', "${{ github.head_ref }}", "pastes an expression"),
        ("persist-credentials: false", "persist-credentials: true", "token"),
        ("    timeout-minutes: 10\n", "", "for ever"),
        ("fetch-depth", "fetch_depth", "unknown input"),
        ("runs-on", "run-on", "unknown key"),
    ],
)
def test_each_of_these_would_be_seen(old: str, new: str, said: str) -> None:
    assert old in TEXT

    assert any(said in fault for fault in faults(TEXT.replace(old, new)))


def test_it_needs_python_and_git_and_nothing_else() -> None:
    scripts = "\n".join(step["run"] for job in workflow()["jobs"].values() for step in job["steps"] if "run" in step)
    programs = {
        line.split()[0].rpartition("/")[2] for line in scripts.replace("\\\n", " ").splitlines() if line.strip()
    }

    assert programs == {"git", "python", "pip", "statecert"}
    assert "torch" not in scripts


def test_the_gate_that_it_runs_is_one_that_there_is() -> None:
    (line,) = [one for one in TEXT.replace("\\\n", " ").splitlines() if "bin/statecert" in one]
    words = line.split("statecert ", 1)[1].replace('"', "").split()
    parser = Parser(prog="statecert gate")
    command.configure(parser)

    assert words[0] in COMMANDS
    args = parser.parse_args(words[1:])
    assert (args.since, args.policy, args.signers) == ("$BASE", "trust/policy.yaml", "trust/allowed_signers")
    assert args.github
    assert args.summary


def test_it_fetches_the_whole_history_and_installs_the_gate_of_the_base() -> None:
    (job,) = workflow()["jobs"].values()

    assert job["steps"][0]["with"]["fetch-depth"] == "0"
    assert "git worktree add --detach ../base" in TEXT
    assert "pip install --no-deps ../base" in TEXT
