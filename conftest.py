"""Patience and order of the tests; the plugin comes by its entry point: a plugin loaded twice is an error."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# how long a made-up input takes says how busy the machine is, not whether a property holds
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

ROOT = Path(__file__).parent
LONG = (
    "tests/deriving/test_course.py",
    "tests/plugin/test_pytest_plugin.py",
    "tests/campaigns/test_kv.py",
    "tests/howto/test_pages.py",
    "tests/real_engines/test_transformers.py",
    "tests/variations/test_variations.py",
    "tests/commands/test_exit_codes.py",
    "tests/stdio/test_example_drivers.py",
    "tests/howto/test_engine_pages.py",
    "tests/gating/test_rules.py",
    "tests/conform/test_conform.py",
    "tests/campaigns/test_kv_resuming.py",
    "tests/howto/test_pages_of_own_engines.py",
    "tests/real_engines/test_mlx.py",
    "tests/llamacpp/test_llamacpp_engine.py",
    "tests/server/test_ladder.py",
    "tests/server/test_real_server.py",
    "tests/engines/test_forking.py",
    "tests/fuzz/test_fuzz.py",
    "tests/commands/test_bad_input.py",
    "tests/running/test_jobs.py",
    "tests/selftest/test_selftest.py",
    "tests/campaigns/test_campaign_counts.py",
    "tests/campaigns/test_campaign_matrix.py",
    "tests/faults/test_faults.py",
    "tests/mutants/test_mutants_command.py",
    "tests/codec/test_paths.py",
    "tests/gating/test_attacks.py",
    "tests/fuzz/test_fuzz_codec.py",
    "tests/commands_new/test_new.py",
)
"""Files that take longest. With ``--dist loadfile --no-loadscope-reorder`` files are begun in the order of their items:
a long one that is begun last leaves the other processor idle until it ends."""


def pytest_sessionstart() -> None:
    """Take Ctrl-C again where a script started this in its background: tests send it to programs that inherit this.

    Tables that are read in tests are as wide as those that nobody looks on at, whatever a worker of xdist says.
    """
    os.environ.pop("COLUMNS", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long files first; everything else stays in its order."""
    rank = {ROOT / name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.path, len(LONG)))
