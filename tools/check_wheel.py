"""Shows that the wheel is enough: no checkout, no settings, an empty environment in another folder.

Builds the wheel from a copy of the sources, installs it with the pins of ``constraints.txt``, runs and gates the
default suite from an empty folder, and runs ``pytest`` in a foreign repository that has ``scenarios/`` of its own.
Prints each step with its time, ends with the code of the first step that failed, and leaves nothing behind.

Standard library only; run by ``make wheel-check``. ``--keep`` leaves the folder for a look.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("harness", "schemas", "scenarios", "examples", "tests/fakes", "tests/gating")
FILES = (
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "CHANGELOG.md",
    "constraints.txt",
    "tests/__init__.py",
)
KINDS = ("schemas", "scenarios")
ENDINGS = frozenset({".json", ".yaml"})
FOREIGN = ("python", "pytest", "virtual_env")
"""Beginnings of variables that could bring a checkout or another environment in through the back door."""


SCENARIO = """\
schema: statecert/scenario/v1
id: X01
title: A scenario of somebody else
why: Another project keeps scenarios of its own beside its own code.
faults: []
suites: {default: [1]}
procedure:
  observability: parts
  requires: [parts, logits, boundaries, prefix_cache]
  families: [kv]
  chunk: 64
  engine: {arch: $arch}
  axes: {arch: [attention, hybrid]}
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
    - {id: other-seen, seen: {candidate: other_text.a, reference: cold.a}}
"""

WHERE = """\
import sys
from harness.wire import resources
for kind in ("schemas", "scenarios"):
    print(kind, resources.folder(kind))
    for name in resources.resource_names(kind):
        print("=", kind, name)
print("harness", sys.modules["harness"].__file__)
"""


class FailedError(Exception):
    """A step went wrong.

    Args:
        code: What this program ends with.
        message: What was expected and what was found.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """The folders of one check; all of them go at the end."""

    base: Path

    @property
    def source(self) -> Path:
        """Copy of what a wheel is built from: no old ``build/`` can leak into it."""
        return self.base / "source"

    @property
    def wheels(self) -> Path:
        """Where the wheel is put."""
        return self.base / "wheels"

    @property
    def home(self) -> Path:
        """The new environment."""
        return self.base / "environment"

    @property
    def empty(self) -> Path:
        """The folder that the suite is run from."""
        return self.base / "empty"

    @property
    def foreign(self) -> Path:
        """Somebody else's repository."""
        return self.base / "foreign"

    def program(self, name: str) -> str:
        """Path of a program of the new environment."""
        return str(self.home / ("Scripts" if os.name == "nt" else "bin") / name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all steps; the code of the first one that fails."""
    parser = argparse.ArgumentParser(description="check that the wheel works without the checkout")
    parser.add_argument("--keep", action="store_true", help="leave the folder with the environment")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    base = Path(tempfile.mkdtemp(prefix="statecert-wheel-"))
    try:
        return steps(Places(base=base))
    finally:
        if options.keep:
            say(f"kept {base}")
        else:
            shutil.rmtree(base, ignore_errors=True)


def steps(places: Places) -> int:
    """The steps in order, each with its time."""
    todo = {
        "wheel built from a copy of the sources": build,
        "installed into an empty environment": install,
        "schemas and scenarios come from the wheel": check_resources,
        "default suite run and gated in an empty folder": run_suite,
        "written certificates gated once more": gate,
        "two cells of a foreign repository pass under pytest": run_foreign,
    }
    began = time.monotonic()
    for title, step in todo.items():
        start = time.monotonic()
        try:
            detail = step(places)
        except FailedError as problem:
            say(f"FAILED {title}\n{problem}")
            return problem.code
        except KeyboardInterrupt:
            say("interrupted")
            return 3
        say(f"{time.monotonic() - start:6.1f} s  {title}{f' ({detail})' if detail else ''}")
    say(f"{time.monotonic() - began:6.1f} s  in all")
    return 0


def build(places: Places) -> str:
    """Copy the sources and build the wheel from the copy."""
    skip = shutil.ignore_patterns("__pycache__", "_data")
    for name in SOURCES:
        shutil.copytree(ROOT / name, places.source / name, ignore=skip)
    for name in FILES:
        if (ROOT / name).is_file():
            shutil.copy2(ROOT / name, places.source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    call([*pip, "--wheel-dir", str(places.wheels), str(places.source)], cwd=places.base)
    wheel = _wheel(places)
    return f"{wheel.name}, {wheel.stat().st_size >> 10} KiB"


def install(places: Places) -> str:
    """Make an environment that has nothing, and install the wheel with the pins."""
    venv.EnvBuilder(with_pip=False, symlinks=os.name != "nt").create(places.home)
    pip = [sys.executable, "-m", "pip", "--python", places.program("python"), "--disable-pip-version-check"]
    pip += ["install", "--quiet", "--no-compile"]  # most of what is installed is never imported here
    call([*pip, "-c", str(ROOT / "constraints.txt"), str(_wheel(places))], cwd=places.base)
    places.empty.mkdir()
    said = call([places.program("statecert"), "--version"], cwd=places.empty)
    return said.strip()


def check_resources(places: Places) -> str:
    """The loader finds the wheel's own copies, and as many as the checkout has."""
    said = call([places.program("python"), "-c", WHERE], cwd=places.empty).splitlines()
    for line in said:
        word, _, rest = line.partition(" ")
        if word != "=" and not Path(rest).resolve().is_relative_to(places.home.resolve()):
            raise FailedError(3, f"{word} came from {rest}; expected a place in the new environment")
    if not all(any(line.startswith(kind) and "_data" in line for line in said) for kind in KINDS):
        raise FailedError(3, "the data folders are not those under harness/_data")
    found = {line.removeprefix("= ") for line in said if line.startswith("= ")}
    wanted = {
        f"{kind} {path.relative_to(ROOT / kind).as_posix()}"
        for kind in KINDS
        for path in (ROOT / kind).rglob("*")
        if path.suffix in ENDINGS
    }
    if found != wanted:
        raise FailedError(3, f"only in the wheel: {sorted(found - wanted)}; missing: {sorted(wanted - found)}")
    return f"{len(found)} files"


def run_suite(places: Places) -> str:
    """The default suite, as a newcomer with nothing but the wheel would run it."""
    words = ["run", "--suite", "default", "--quiet", "--gate"]
    said = call([places.program("statecert"), *words], cwd=places.empty)
    return next((line.strip() for line in said.splitlines() if line.strip().endswith(" cells")), "")


def gate(places: Places) -> str:
    """The certificates that were written, gated by a process of its own."""
    folders = sorted(places.empty.glob("runs/*/certificates"))
    if not folders:
        raise FailedError(5, "the run wrote no certificates folder")
    call([places.program("statecert"), "gate", *map(str, folders), "--require-pass"], cwd=places.empty)
    count = sum(1 for folder in folders for path in folder.glob("*/*/*/*.json"))
    if not count:
        raise FailedError(5, "the certificates folder is empty")
    return f"{count} certificates"


def run_foreign(places: Places) -> str:
    """A repository that knows nothing of this one but the package."""
    (places.foreign / "scenarios").mkdir(parents=True)
    (places.foreign / "scenarios" / "X01-foreign.yaml").write_text(SCENARIO)
    (places.foreign / "test_own.py").write_text("def test_own() -> None:\n    assert True\n")
    if shutil.which("git"):
        call(["git", "init", "--quiet"], cwd=places.foreign)
    python = places.program("python")
    said = call([python, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=places.foreign)
    if "3 passed" not in said:
        raise FailedError(3, f"expected two cells and one test to pass; pytest said:\n{said}")
    if not list(places.foreign.glob("runs/*/certificates/X01/*/*/*.json")):
        raise FailedError(3, f"the two cells passed, but no certificate was written; pytest said:\n{said}")
    return said.strip().splitlines()[-1].strip("= ")


def call(command: Sequence[str], *, cwd: Path) -> str:
    """Run a command and return what it said; where it fails, its own code is passed on.

    Raises:
        FailedError: It ended in another code than 0.
    """
    cwd.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        command, cwd=cwd, env=_environment(os.environ), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        said, _ = process.communicate()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if process.returncode:
        shown = " ".join([Path(command[0]).name, *command[1:]])
        code = process.returncode if process.returncode > 0 else 3
        raise FailedError(code, f"{shown}\nended in {process.returncode}; its last lines:\n{said[-4000:]}")
    return said


def _environment(present: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in present.items() if not name.lower().startswith(FOREIGN)}


def _wheel(places: Places) -> Path:
    wheels = sorted(places.wheels.glob("statecert-*.whl"))
    if len(wheels) != 1:
        raise FailedError(3, f"expected one wheel; found {[path.name for path in wheels]}")
    return wheels[0]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def say(text: str) -> None:
    """One line to standard error."""
    print(f"wheel-check: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
