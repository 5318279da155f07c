"""Scenario cells as pytest items (entry point ``pytest11``). Light to import: only pytest and the standard library.

- Every YAML file that begins with ``schema: statecert/scenario/`` is a collector; each of its cells is an item whose
  name is the cell's id. It works in any repository that has such files.
- Plain ``pytest`` runs the ``default`` suite on the CPU; ``pytest -m hw`` runs the ``hw`` suite on an accelerator of
  this machine. Missing hardware is skipped with its reason and recorded ``not_run``. Where cells were chosen, or a
  suite or ``-m hw`` was asked for, and no cell ran, the session ends with exit code 5, whatever else passed.
- A cell runs once in a session: whoever asks again gets its first verdict, so that no rerun turns a difference green.
- Evidence and certificates go to a run folder. A subset (``-k``) is a partial run and makes drafts only.
- Under xdist the cells of one scenario stay on one worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from harness.live import CellVerdict, LiveRuns
    from harness.model.scenario import CellPlan, Plan

MARK: Final = re.compile(rb"""(?m)^[{ \t]*["']?schema["']?[ \t]*:[ \t]+["']?statecert/scenario/""")
"""What a scenario file says of itself, in any spelling that its reader takes."""
MARK_WITHIN: Final = 64 << 10
"""Bytes in which it must say so: room for a licence in front of it."""
NOT_HW: Final = re.compile(r"\bnot\b[\s(]*\bhw\b")
HW: Final = re.compile(r"\bhw\b")
NOTHING_RAN: Final = 5
RUNS: Final = pytest.StashKey["LiveRuns"]()
RAN: Final = pytest.StashKey[list[str]]()
SKIPPED: Final = pytest.StashKey[list[str]]()
FOUND: Final = pytest.StashKey[dict[str, int]]()
"""Scenario files that were collected, and their cells in the suite, before anything was deselected."""
WRITTEN: Final = pytest.StashKey[list[str]]()
LOST: Final = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the plugin."""
    group = parser.getgroup("statecert", "qualification of session state")
    group.addoption("--statecert-suite", default="", help="suite of scenario cells (default: default; hw with -m hw)")
    group.addoption("--statecert-target", default="torch", help="engine (default: torch)")
    group.addoption("--statecert-preset", default="tiny", help="model preset (default: tiny)")
    group.addoption("--statecert-device", default="", help="device (default: cpu; the best accelerator with -m hw)")
    group.addoption("--statecert-out", default="runs", help="where run folders go (default: runs)")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; keep the cells of a scenario together under xdist."""
    config.addinivalue_line("markers", "hw: scenario cells on an accelerator or a configured engine of this machine")
    config.stash[RAN] = []
    config.stash[SKIPPED] = []
    config.stash[FOUND] = {"files": 0, "cells": 0}
    config.stash[WRITTEN] = []
    config.stash[LOST] = False
    if getattr(config.option, "dist", "no") == "load":
        config.option.dist = "loadfile"  # a scenario is one file; its evidence is written by one worker


def wants_hardware(config: pytest.Config) -> bool:
    """Whether ``-m`` asks for hardware cells."""
    return HW.search(NOT_HW.sub("", config.option.markexpr or "")) is not None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect scenario files, told by their schema."""
    if file_path.suffix not in {".yaml", ".yml"} or not is_scenario(file_path):
        return None
    return ScenarioFile.from_parent(parent, path=file_path)


def is_scenario(path: Path) -> bool:
    """Whether a file says that it is a scenario."""
    try:
        with path.open("rb") as file:
            return MARK.search(file.read(MARK_WITHIN)) is not None
    except OSError:
        return False


LEFT_OUT: Final = frozenset({"not_run", "not_supported"})
"""Outcomes of cells that did not run."""


class ScenarioFile(pytest.File):
    """One scenario file."""

    plan: Plan

    def collect(self) -> Iterator[pytest.Item]:
        """One item for each cell of the suite that is not excluded."""
        from harness.errors import StatecertError
        from harness.pipeline import make_plans, read_scenario

        hardware = wants_hardware(self.config)
        suite = self.config.option.statecert_suite or ("hw" if hardware else "default")
        found = self.config.stash[FOUND]
        found["files"] += 1
        try:
            scenario = read_scenario(self.path)
            if suite not in scenario.suites:
                return
            (self.plan,) = make_plans([(scenario, ())], suite)
        except StatecertError as problem:
            raise self.CollectError(str(problem)) from problem
        for cell in self.plan.cells:
            if not cell.excluded:
                found["cells"] += 1
                item: CellItem = CellItem.from_parent(self, name=cell.id, cell=cell)
                if hardware:
                    item.add_marker("hw")
                yield item


class CellFailedError(Exception):
    """A cell did not pass; carries its verdict."""

    def __init__(self, verdict: CellVerdict) -> None:
        super().__init__(verdict.text())
        self.verdict = verdict


class CellItem(pytest.Item):
    """One cell of one scenario."""

    parent: ScenarioFile

    def __init__(self, *, cell: CellPlan, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.cell = cell

    def runtest(self) -> None:
        """Run the cell and judge what was seen."""
        verdict = live_runs(self.config).run_cell(self.parent.plan, self.cell)
        self.user_properties[:] = [("statecert", str(verdict.outcome))]
        if verdict.outcome in LEFT_OUT:
            pytest.skip(f"{verdict.outcome}: {verdict.reason}")
        if verdict.outcome != "pass":
            raise CellFailedError(verdict)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """Say which checks failed, and where the first difference is."""
        if isinstance(excinfo.value, CellFailedError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the cell comes from."""
        return self.path, None, self.name


def live_runs(config: pytest.Config) -> LiveRuns:
    """The runs of this session, opened at the first cell."""
    if RUNS not in config.stash:
        from harness.live import LiveRuns

        option = config.option
        hardware = wants_hardware(config)
        config.stash[RUNS] = LiveRuns(
            adapter=option.statecert_target,
            preset=option.statecert_preset,
            device=option.statecert_device or ("accelerator" if hardware else "cpu"),
            out=Path(option.statecert_out),
            jobs=getattr(config, "workerinput", {}).get("workercount", 1),
        )
    return config.stash[RUNS]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note which cells of each scenario were asked for, so that a subset is known as one."""
    chosen: dict[ScenarioFile, list[str]] = {}
    for item in session.items:
        if isinstance(item, CellItem):
            chosen.setdefault(item.parent, []).append(item.name)
    for file, cells in chosen.items():
        from dataclasses import replace

        file.plan = replace(file.plan, selected=tuple(cell.id for cell in file.plan.cells if cell.id in set(cells)))


class Counter:
    """Counts cells that ran, also those of xdist workers."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a cell that really ran, and one that was skipped."""
        if report.when == "call":
            for word in [str(value) for key, value in report.user_properties if key == "statecert"]:
                self.config.stash[SKIPPED if word in LEFT_OUT else RAN].append(word)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker wrote."""
        told = getattr(node, "workeroutput", {})
        self.config.stash[WRITTEN].extend(told.get("statecert", ()))
        self.config.stash[LOST] |= told.get("statecert_lost", False)
        self.config.stash[FOUND].update(told.get("statecert_found", {}))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin to count."""
    session.config.pluginmanager.register(Counter(session.config), "statecert-counter")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Close evidence, file certificates; a child lost at its end is exit code 1, cells of which none ran are 5."""
    config = session.config
    if RUNS in config.stash:
        config.stash[WRITTEN].extend(config.stash[RUNS].close())
        config.stash[LOST] |= config.stash[RUNS].lost
    if hasattr(config, "workeroutput"):
        found = {"statecert_lost": config.stash[LOST], "statecert_found": config.stash[FOUND]}
        config.workeroutput |= {"statecert": config.stash[WRITTEN], **found}
        return
    if exitstatus == 0 and config.stash[LOST]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if exitstatus == 0 and not config.stash[RAN] and asked_in_vain(config):
        session.exitstatus = NOTHING_RAN


def asked_in_vain(config: pytest.Config) -> bool:
    """Whether cells were wanted, where none ran: all were skipped, or the suite that was asked for has none."""
    found = config.stash[FOUND]
    empty = bool(config.option.statecert_suite) and found["files"] > 0 and not found["cells"]
    return wants_hardware(config) or bool(config.stash[SKIPPED]) or empty


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what was written."""
    written = config.stash.get(WRITTEN, [])
    if written:
        terminalreporter.section("statecert")
        for line in written:
            terminalreporter.line(line)
