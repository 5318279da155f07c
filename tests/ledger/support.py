"""Certificates in a folder, by the run that made them."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from harness.certifying.issue import issue
from harness.certifying.regenerating import read_bodies
from harness.deriving.fields import text_at
from harness.deriving.status import ledger_problems
from harness.model.certificate import Certificate
from harness.model.values import Phase
from tests.fakes.evidence import Recorded, recorded, scenario, sized

KEY = "T01/fake-digests/cpu-x86_64"
TWO_CELLS = scenario(sized(b"axes: {size: [1, 2]}"))


@cache
def good(run: int, day: int = 0) -> Recorded:
    return recorded(run=run, day=day or run)


@cache
def stop(run: int, day: int = 0) -> Recorded:
    return good(run, day).with_part("warm", "again", Phase.RESTORED, "layer0.recurrent")


def file(folder: Path, *runs: Recorded) -> None:
    """Issue runs into a folder; what was issued into an empty one before is copied."""
    if any(folder.iterdir()):
        for one in runs:
            issue(one.data(), folder)
    else:
        shutil.copytree(_issued(tuple(one.data() for one in runs)), folder, dirs_exist_ok=True)


@cache
def _issued(runs: tuple[bytes, ...]) -> Path:
    made = Path(tempfile.mkdtemp(prefix="statecert-issued-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    for one in runs:
        issue(one, made)
    return made


def by_run(folder: Path, run: int) -> Certificate:
    found = read_bodies(folder).certificates.values()
    return next(one for one in found if text_at(one.body, "run", "run_id") == f"{run:032x}")


def states(folder: Path) -> dict[int, str]:
    """Run number to state, as the files say it."""
    found = read_bodies(folder).certificates.values()
    return {int(text_at(one.body, "run", "run_id"), 16): str(one.status.state) for one in found}


def problems(folder: Path) -> dict[str, str]:
    """Code to message of every invariant that does not hold."""
    store = read_bodies(folder)
    return {one.code: one.message for one in ledger_problems(store.bodies(), store.events)}
