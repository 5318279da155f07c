"""Certificates with a verdict on a time: a good one, and ones whose evidence does not bear it.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules.
"""

from __future__ import annotations

from pathlib import Path

from harness.certifying.issue import issue
from tests.fakes.evidence import Recorded
from tests.fakes.timed import COLD, WARM, another_engine_behind_the_restart, timed, with_times
from tests.foreign import published
from tests.foreign.support import imported
from tests.gating.campaign_fixtures import campaign_body
from tests.gating.fixtures import VALID, Body, edited, file_run, fixture, good_body
from tests.gating.foreign_fixtures import filed


def valid_timed(folder: Path) -> None:
    issue(timed().data(), folder)


def valid_restarted(folder: Path) -> None:
    """Behind a restart another architecture lists other parts under a session's name."""
    issue(another_engine_behind_the_restart(timed()).data(), folder)


VALID.update(valid_timed=valid_timed, valid_restarted=valid_restarted)


def under_it(folder: Path, run: Recorded) -> None:
    """Evidence of another run under the verdict of a good one."""
    file_run(folder, run, good_body(timed()))


@fixture("CG401", "CG301")
def verdict_of_one_process(folder: Path) -> None:
    under_it(folder, timed(process=lambda _: 1))


@fixture("CG401", "CG301")
def verdict_of_pairs_in_two_processes(folder: Path) -> None:
    under_it(folder, timed().with_turn("timed", "w2", process=2))


@fixture("CG406", "CG301")
def constant_passes(folder: Path) -> None:
    under_it(folder, with_times(timed(), 990_000, *COLD))


@fixture("CG406", "CG301")
def longer_than_the_run_passes(folder: Path) -> None:
    """Cold turns of a minute, one behind the other, in a run of a second."""
    run = timed()
    for label in COLD:
        run = with_times(run, 60_000_000_000 + int(label[1]), label)
    quick = with_times(run, 10_000_000_000, *WARM)
    under_it(folder, quick)


@fixture("CG401", "CG301", "CG402")
def verdict_without_pairs(folder: Path) -> None:
    def change(body: Body) -> None:
        for check in body["cells"][0]["checks"]:
            if check["axis"] == "latency":
                check["code"] = "LAT.MEAN@1"

    edited(folder, change, timed())


@fixture("CG402", "CG301")
def slower_passes(folder: Path) -> None:
    under_it(folder, with_times(timed(), 5_000_000, *WARM))


@fixture("CG402", "CG301")
def unclear_passes(folder: Path) -> None:
    under_it(folder, with_times(timed(), 5_000_000, "w3"))


@fixture("CG405", "CG301")
def reference_drifts(folder: Path) -> None:
    under_it(folder, with_times(timed(), 3_000_000, "c4", "c5", "c6"))


@fixture("CG406", "CG301")
def too_quick_passes(folder: Path) -> None:
    under_it(folder, with_times(timed(), 0, *WARM, begin_ns=0))


def _beside(folder: Path, **facts: int) -> None:
    environment = {"machine": "c3" * 32, "facts": {"os": "linux", "cores": 4, **facts}}
    body = good_body(timed())
    body["environment"]["facts"] |= facts
    file_run(folder, timed().with_header(environment=environment), body)


@fixture("CG407", "CG301")
def judged_beside_other_jobs(folder: Path) -> None:
    _beside(folder, jobs=2)


@fixture("CG407", "CG301")
def judged_under_load(folder: Path) -> None:
    _beside(folder, load_1min_milli=4001, cores_usable=4)


def _row(folder: Path, check: str, outcome: str, matching: int = 64) -> None:
    """One question of a published pair gets another answer, and all sums are put right."""
    lines = imported(published.one_pair(matching=matching))
    body = campaign_body(lines)
    (found,) = body["results"]
    for one in found["checks"]:
        if one["id"] == check:
            one["outcome"] = outcome
            one.pop("reason", None)
    words = {one["outcome"] for one in found["checks"]}
    worst = next(word for word in ("error", "fail", "inconclusive", "pass") if word in words)
    found["judged"] = worst
    body["totals"]["judged"] = {word: int(word == worst) for word in ("error", "fail", "inconclusive", "pass")}
    overall = {"fail": "stop"}.get(worst, worst)
    body["decision"] |= {"overall": overall}
    for axis in {one["axis"] for one in found["checks"]}:
        own = {one["outcome"] for one in found["checks"] if one["axis"] == axis}
        said = next(word for word in ("error", "fail", "inconclusive", "pass") if word in own)
        body["decision"]["by_axis"][axis] = {"fail": "stop"}.get(said, said)
    filed(folder, body, lines)


@fixture("CG403", "CG301", "CG313")
def percentile_of_few(folder: Path) -> None:
    _row(folder, "p99_step", "pass")


@fixture("CG404", "CG301", "CG313")
def share_by_its_ratio(folder: Path) -> None:
    _row(folder, "agreement", "pass", matching=61)
