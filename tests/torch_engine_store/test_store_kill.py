"""A process that dies while it publishes leaves the old links, the new one, or neither; never half."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torch_engine_store.kill_rounds import ROOT, run_rounds
from tests.torch_engine_store.store_samples import CUT, exact, fill, key, open_store, record

DYING = """
import os, pathlib, signal, sys
from harness.torch_engine import store_files
from harness.torch_engine.store import DiskStore
from tests.torch_engine_store.store_samples import BUILD, BUDGET, CUT, payload, record

step, when = sys.argv[2].split()

class Dying(store_files.StoreFolder):
    pass

class Store(DiskStore):
    folder_class = Dying

def die(*arguments):
    if when == "after":
        before(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

before = getattr(store_files.StoreFolder, step, None)
setattr(Dying, step, die)
if step == "header":
    store_files.build_header = die
with Store.open(pathlib.Path(sys.argv[1]), build=BUILD, budget_bytes=BUDGET) as store:
    store.put(record(2 * CUT), payload(record(2 * CUT)))
"""


def test_a_killed_publisher_never_leaves_a_torn_link(tmp_path: Path) -> None:
    found = run_rounds(tmp_path, rounds=20, seed=1)

    assert found["rounds"] == 20
    assert found["links"] > 0


@pytest.mark.parametrize(
    ("step", "published"),
    [
        ("write before", False),
        ("header before", False),
        ("write after", False),
        ("sync after", False),
        ("rename before", False),
        ("rename after", True),
        ("sync_folder after", True),
    ],
)
def test_a_death_at_any_step_of_a_publish_leaves_all_or_nothing(tmp_path: Path, step: str, published: bool) -> None:
    with open_store(tmp_path) as store:
        fill(store, 1)

    died = subprocess.run([sys.executable, "-c", DYING, str(tmp_path), step], check=False, cwd=ROOT)

    assert died.returncode == -signal.SIGKILL
    with open_store(tmp_path) as store:
        assert (store.find(key(2 * CUT)) == record(2 * CUT)) == published
        assert exact(store, key(2 * CUT if published else CUT))
        assert store.counters()["temporaries_removed"] == (not published)
        assert not store.quarantined()
        fill(store, 2, seed="after")
