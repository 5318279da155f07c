"""Records of a fuzzing campaign and of a self-test in memory, and the same with one thing changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.wire.records import record_to_mapping
from tests.fakes.campaign import Flown, Line, digest
from tests.fakes.evidence import header as header_of_run
from tests.fakes.evidence import scenario

GROUPS = ("rules", "references", "determinism", "hostile", "mutants")
MUTANTS = ("K01.recurrent-kept", "K02.row-short")
FUZZED = {
    "seed": 1,
    "minutes": 30,
    "round": 10,
    "targets": ["json", "folder"],
    "controls": ["last_key_wins"],
    "slow_ns": 1_000_000_000,
    "large_kib": 65_536,
}


def header(campaign: str, procedure: Mapping[str, Any], *, run: int = 1, day: int = 1) -> Line:
    like: Any = record_to_mapping(header_of_run(scenario(), run=2000 + run, day=day))
    return {
        "type": "header",
        "schema": "statecert/selfcheck/v1",
        "campaign": campaign,
        "procedure": procedure,
        **{name: like[name] for name in ("run_id", "created", "environment", "source")},
        "target": {
            "adapter": "none",
            "group": "harness.engines",
            "engine": "statecert",
            "engine_version": "0.1.0",
            "model": "gate",
            "model_digest": digest("rules"),
            "hw_class": "cpu-x86_64",
            "capabilities": [],
            "identity": {"library.orjson": "3"},
            "device": {"type": "cpu"},
            "path_sets": like["target"]["path_sets"],
        },
    }


def fuzzed(rounds: int = 3, *, run: int = 1, day: int = 1, found: bool = True) -> Flown:
    """A campaign in which nothing was wrong."""
    lines: list[Line] = [header("fuzz", FUZZED, run=run, day=day)]
    lines.append({"type": "control", "name": "last_key_wins", "found": found, "cases": 50})
    lines += [a_round(number) for number in range(rounds)]
    return Flown(lines=lines)


def a_round(number: int, wrong: Mapping[str, int] | None = None) -> Line:
    return {
        "type": "round",
        "number": number,
        "cases": 10,
        "by_target": {"json": 6, "folder": 4},
        "accepted": 3,
        "refused": 7,
        "wrong": dict(wrong or {}),
        "new": 2,
        "slowest_ns": 5_000_000 + number,
        "largest_kib": 12,
        "digest": digest(f"round {number}"),
    }


def self_tested(*, run: int = 1, day: int = 1, groups: Sequence[str] = GROUPS) -> Flown:
    """A self-test in which everything was as it should be, and one reference was not at hand."""
    lines: list[Line] = [header("selftest", {"groups": list(groups), "mutants": list(MUTANTS)}, run=run, day=day)]
    for group in groups:
        names = MUTANTS if group == "mutants" else (f"{group} one", f"{group} two")
        lines += [{"type": "asked", "group": group, "name": name, "outcome": "pass", "count": 3} for name in names]
    away = {"group": "references", "name": "ssh-keygen", "outcome": "not_run", "count": 0, "reason": "not_installed"}
    lines += [{"type": "asked", **away}] if "references" in groups else []
    return Flown(lines=lines)
