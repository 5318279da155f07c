"""Folders with certificates of the harness itself: valid ones, and ones with exactly one thing wrong.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules.
"""

from __future__ import annotations

from pathlib import Path

from harness.certifying.issue import issue
from tests.fakes.campaign import Flown
from tests.fakes.selfcheck import fuzzed, self_tested
from tests.gating.campaign_fixtures import campaign_body, file_campaign
from tests.gating.fixtures import VALID, Body, a_run, fixture


def valid_fuzz(folder: Path) -> None:
    """A fuzzing campaign beside a run."""
    issue(a_run().data(), folder)
    issue(fuzzed().data(), folder)


def valid_selftest(folder: Path) -> None:
    issue(a_run().data(), folder)
    issue(self_tested().data(), folder)


VALID.update(valid_fuzz=valid_fuzz, valid_selftest=valid_selftest)


def failing_selftest() -> Flown:
    return self_tested().with_line("asked", outcome="fail", reason="did_not_fire")


def changed(of: Flown, **changes: object) -> Body:
    return {**campaign_body(of), **changes}


PASS = {"overall": "pass", "reasons": []}


@fixture("CG310", "CG301")
def fuzz_raised(folder: Path) -> None:
    """What raised in one case of thirty is called a pass."""
    lines = fuzzed().with_line("round", 1, wrong={"raised": 1})
    file_campaign(folder, lines, changed(lines, decision=PASS))


@fixture("CG310", "CG301")
def fuzz_control_not_found(folder: Path) -> None:
    blind = fuzzed(found=False)
    file_campaign(folder, blind, changed(blind, decision=PASS))


@fixture("CG311", "CG301")
def fuzz_cases_added(folder: Path) -> None:
    body = campaign_body(fuzzed())
    body["totals"] |= {"cases": 3000, "accepted": 900, "refused": 2100}
    body["results"] = [{"target": "json", "cases": 1800}, {"target": "folder", "cases": 1200}]
    file_campaign(folder, fuzzed(), body)


@fixture("CG312", "CG301")
def selftest_raised(folder: Path) -> None:
    file_campaign(folder, failing_selftest(), changed(failing_selftest(), decision=PASS))


@fixture("CG312", "CG301")
def selftest_failure_hidden(folder: Path) -> None:
    """The body of a good self-test on the records of one that failed."""
    file_campaign(folder, failing_selftest(), campaign_body(self_tested()))


@fixture("CG312", "CG301")
def selftest_of_nothing(folder: Path) -> None:
    empty = self_tested().without(lambda line: line["type"] == "asked" and line["group"] == "rules")
    file_campaign(folder, empty, changed(empty, decision=PASS))


@fixture("CG312")
def selftest_mutant_left_out(folder: Path) -> None:
    """Two mutants were announced, and one was run."""
    short = self_tested().without(lambda line: line.get("name") == "K02.row-short")
    file_campaign(folder, short)
