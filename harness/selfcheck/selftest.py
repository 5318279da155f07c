"""The questions of a self-test, group by group; each answer is one record."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from harness.deriving.bodies import body_of
from harness.deriving.selfcheck import GROUPS
from harness.errors import ExitCode, StatecertError
from harness.gating.gate import gate
from harness.gating.rules import RULES
from harness.selfcheck import specimens
from harness.selfcheck.references import Asked, NotHereError, ask, references, require
from harness.wire import canonical
from harness.wire.observed import read_observed

MUTANTS: Final = (
    "K01.recurrent-kept",
    "K02.row-short",
    "K03.conv-missing",
    "K04.bytes-of-leaf",
    "K05.pending-visible",
    "K06.identity-unchecked",
    "K07.snapshot-views",
    "K08.fingerprint-short",
    "K09.window-not-restored",
    "K10.keys-narrowed",
    "K11.drafts-believed",
    "K13.chunks-shift-on-hit",
    "K14.stale-rows-read",
    "K15.evict-root",
)
"""One of each kind of fault, on small cells: what fits into half a minute. `statecert mutants` runs all."""
_NEEDS_GIT: Final = frozenset({"CG002", "CG202"})
_JUDGE: Final = """
import sys
from pathlib import Path
from harness.deriving.bodies import body_of
from harness.wire import canonical
from harness.wire.observed import read_observed
for name in sys.argv[1:]:
    print(canonical.digest(body_of(read_observed(Path(name).read_bytes(), "evidence"))))
"""


def questions(scratch: Path, groups: Sequence[str]) -> Iterator[Asked]:
    """Ask everything but the mutants.

    Args:
        scratch: An empty folder.
        groups: Of :data:`harness.deriving.selfcheck.GROUPS`.
    """
    seeds = scratch / "seeds"
    seeds.mkdir()
    held = specimens.folders()
    held.VALID["valid_ledger"](seeds)
    if "rules" in groups:
        yield from _rules(scratch, held)
    if "references" in groups:
        yield from references([path.read_bytes() for path in sorted(seeds.glob("T*/*/*/*.json"))])
    if "determinism" in groups:
        yield from _determinism(sorted(seeds.glob("evidence/*.jsonl")))
    if "hostile" in groups:
        yield from _hostile(scratch, held)


def _rules(scratch: Path, held: Any) -> Iterator[Asked]:
    """Every rule fires on each of its broken folders, and the folder would be good without it."""
    by_rule: dict[str, list[Any]] = defaultdict(list)
    for fixture in held.FIXTURES.values():
        by_rule[fixture.rule].append(fixture)
    for rule in RULES:
        own = by_rule[rule.id]
        yield ask("rules", rule.id, lambda rule=rule, own=own: sum(_fires(scratch, rule, one) for one in own))  # type: ignore[misc]
    yield ask("rules", "good folders", lambda: sum(_is_good(scratch, held, name) for name in held.VALID))


def _fires(scratch: Path, rule: Any, fixture: Any) -> int:
    if rule.id in _NEEDS_GIT and shutil.which("git") is None:
        raise NotHereError("git_not_installed")
    with tempfile.TemporaryDirectory(dir=scratch) as around:
        folder = Path(around) / "certificates"
        folder.mkdir()
        fixture.build(folder)
        asked = {"require_pass": fixture.require_pass, **fixture.options(), **fixture.about(folder)}
        whole = gate([folder], **asked)
        left = [one for one in RULES if one.id not in (rule.id, *fixture.besides)]
        require(rule.id in {one.rule for one in whole.findings}, f"silent_on_{fixture.name}")
        require(whole.exit_code is not ExitCode.GOOD, f"green_on_{fixture.name}")
        require(gate([folder], **asked, rules=left).exit_code is ExitCode.GOOD, f"others_fire_on_{fixture.name}")
    return 1


def _is_good(scratch: Path, held: Any, name: str) -> int:
    with tempfile.TemporaryDirectory(dir=scratch) as around:
        folder = Path(around) / "certificates"
        folder.mkdir()
        held.VALID[name](folder)
        report = gate([folder], **(held.ASKED[name](folder) if name in held.ASKED else {}))
        require(report.exit_code is ExitCode.GOOD, f"not_good_{name}")
    return 1


def _determinism(evidence: Sequence[Path]) -> Iterator[Asked]:
    """Judging gives the same bytes again, and in another process with other hashes of texts."""
    here = [canonical.digest(body_of(read_observed(path.read_bytes(), "evidence"))) for path in evidence]
    again = [canonical.digest(body_of(read_observed(path.read_bytes(), "evidence"))) for path in evidence]

    def in_another(seed: str) -> int:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        command = [sys.executable, "-c", _JUDGE, *map(str, evidence)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
        require(done.stdout.split() == here, "another_process_differs")
        return len(here)

    def twice() -> int:
        require(here == again, "second_time_differs")
        return len(here)

    yield ask("determinism", "judged twice", twice)
    for seed in ("1", "4711"):
        yield ask("determinism", f"judged in a process with hash seed {seed}", lambda seed=seed: in_another(seed))  # type: ignore[misc]


def _hostile(scratch: Path, held: Any) -> Iterator[Asked]:
    """Every hostile record ends in its finding and exit code 2."""
    attempts = specimens.module("gating.hostile_fixtures").HOSTILE

    def refused(name: str) -> int:
        fixture = held.FIXTURES[name]
        with tempfile.TemporaryDirectory(dir=scratch) as around:
            folder = Path(around) / "certificates"
            folder.mkdir()
            fixture.build(folder)
            report = gate([folder], **fixture.options(), **fixture.about(folder))
        require(report.exit_code is ExitCode.INVALID, f"ended_in_{int(report.exit_code)}")
        require(fixture.rule in {one.rule for one in report.findings}, "another_finding")
        return 1

    for attempt, name in attempts.items():
        yield ask("hostile", attempt.replace(",", ""), lambda name=name: refused(name))  # type: ignore[misc]


def mutants(names: Sequence[str], folder: Path) -> Iterator[Asked]:
    """Run engines with one planted fault each; each must be stopped by its check at its place.

    Raises:
        StatecertError: The engine does not start.
    """
    from harness.mutation.trying import Serial, runs_of, try_all
    from harness.mutation.workshops import expectations, workshops
    from harness.pipeline import available_scenarios

    with workshops(folder, 1, engine="torch", device="cpu", preset="tiny") as shops:
        runs = runs_of(expectations(shops[0], names), available_scenarios())
        for one in try_all(shops, runs, Serial(_Silent())):
            outcome = "pass" if one.stopped else "fail"
            yield Asked("mutants", one.expected.id, outcome, int(one.stopped), "" if one.stopped else "not_stopped")


class _Silent:
    """Tells nobody."""

    def cell_begin(self, cell: str) -> None:
        """A run begins."""

    def cell_end(self, cell: str, outcome: str, reason: str = "") -> None:
        """A run ended."""


def mutants_or_why(names: Sequence[str], folder: Path) -> Iterator[Asked]:
    """Run mutants; where no engine starts here, none could be asked."""
    try:
        yield from mutants(names, folder)
    except StatecertError:
        yield from (Asked("mutants", name, "not_run", 0, "no_engine") for name in names)


__all__ = ["GROUPS", "MUTANTS", "mutants_or_why", "questions"]
