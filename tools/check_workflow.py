"""Runs the steps of docs/gate-workflow.yaml, word for word, on a scratch clone: an honest change and a forged one.

What a forge gives a step is given here: the commit of the base, a file for the summary, a shell that stops at the first
failure. Steps that `use` an action are the forge's; what they do (a whole history, a Python) is there already.
Packages come from the index that pip knows. Run by ``make workflow-check``; ``--keep`` leaves the folder for a look.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.certifying.store import (
    certificate_files,
    event_path,
    evidence_path,
    parse_in_place,
    read_events,
    read_evidence,
)
from harness.deriving.fields import text_at

ROOT = Path(__file__).resolve().parent.parent
WORKFLOW = ROOT / "docs" / "gate-workflow.yaml"
BASE_OF_EVENT = "${{ github.event.pull_request.base.sha }}"
FOREIGN = ("PYTHON", "PYTEST", "VIRTUAL_ENV", "GIT_")
KEPT = ("A01", "A02", "B01", "E01", "faults", "R04")
"""Folders of certificates: those that the policy asks for, and one in which an engine is stopped."""
_LONGEST_S = 900


def steps() -> Sequence[Mapping[str, Any]]:
    """Return the steps of the workflow that run something, in their order."""
    workflow = yaml.safe_load(WORKFLOW.read_bytes())
    (job,) = workflow["jobs"].values()
    return [step for step in job["steps"] if "run" in step]


def git(root: Path, *words: str) -> str:
    """Run git, as somebody."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(root), *identity, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def clone(into: Path) -> Path:
    """Return a clone whose main branch has a few of the certificates here, and a change that adds a file on top.

    ``make gate`` judges all of them; what is asked here is what the steps do with a change.
    """
    root = into / "repository"
    git(into, "clone", "-q", str(ROOT), str(root))
    thin(root / "certificates", KEPT)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "fewer certificates")
    git(root, "checkout", "-q", "-b", "change")
    (root / "docs" / "note.md").write_text("A change.\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "a change")
    return root


def thin(folder: Path, kept: Sequence[str]) -> None:
    """Leave only the certificates of some folders, with their evidence by itself and the events that speak of them."""
    evidence: dict[Path, bytes] = {}
    ids: set[str] = set()
    for path in certificate_files(folder):
        if path.relative_to(folder).parts[0] not in kept:
            continue
        one = parse_in_place(folder, path, path.read_bytes())
        sha256 = text_at(one.body, "run", "evidence", "sha256")
        evidence[folder / evidence_path(sha256)] = read_evidence(folder, sha256)
        ids.add(one.id)
    for event in read_events(folder):
        if event.target not in ids:
            path = folder / event_path(event)
            path.unlink()
            path.with_name(f"{path.name}.sig").unlink(missing_ok=True)
    for other in folder.iterdir():
        if other.is_dir() and other.name not in (*kept, "ledger"):
            shutil.rmtree(other)
    for path, data in evidence.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)


def run(root: Path, base: str, only: str = "") -> Mapping[str, int]:
    """Run the steps as a forge does; return name to exit code, up to the first that fails."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    codes: dict[str, int] = {}
    for step in steps():
        if only and step["name"] != only:
            continue
        own = {name: str(value).replace(BASE_OF_EVENT, base) for name, value in step.get("env", {}).items()}
        environment = {**kept, "GITHUB_STEP_SUMMARY": str(root.parent / "summary.md"), **own}
        environment["PATH"] = f"{python_folder(root.parent)}{os.pathsep}{kept['PATH']}"
        began = time.monotonic()
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(command, cwd=root, env=environment, check=False, timeout=_LONGEST_S)
        codes[step["name"]] = done.returncode
        print(f"{step['name']}: {done.returncode}, {time.monotonic() - began:.0f} s", flush=True)
        if done.returncode:
            break
    return codes


def python_folder(scratch: Path) -> Path:
    """Return a folder with this Python as ``python``, as setup-python makes one."""
    folder = scratch / "bin"
    folder.mkdir(exist_ok=True)
    link = folder / "python"
    if not link.exists():
        link.symlink_to(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    return folder


def forge(root: Path) -> None:
    """Edit a stop of the base, as a fork would."""
    path = next(
        one for one in sorted(root.glob("certificates/*/*/*/*.json")) if b'"overall": "stop"' in one.read_bytes()
    )
    path.write_bytes(path.read_bytes().replace(b'"overall": "stop"', b'"overall": "pass"'))
    git(root, "commit", "-q", "-am", "a kinder record")


def main() -> int:
    """Run both changes; say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    keep = parser.parse_args().keep
    scratch = Path(tempfile.mkdtemp(prefix="statecert-workflow-"))
    try:
        root = clone(scratch)
        base = git(root, "rev-parse", "HEAD~1")
        honest = run(root, base)
        names = [step["name"] for step in steps()]
        wrong = [] if honest == dict.fromkeys(names, 0) else [f"an honest change ended in {dict(honest)}"]
        wrong += [f"nothing at {path}" for path in ("summary.md", "verdict") if not (scratch / path).exists()]
        forge(root)
        forged = run(root, base, names[-1])
        wrong += [] if forged == {names[-1]: 2} else [f"a forged change ended in {dict(forged)}, not in 2"]
    finally:
        if keep:
            print(f"left {scratch}")
        else:
            shutil.rmtree(scratch, ignore_errors=True)
    print("\n".join(wrong) or "the workflow gates: an honest change is good, a forged one is refused")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
