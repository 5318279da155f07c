"""Certificates of soaks and kills for the gate: valid ones, and ones with exactly one thing wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.certifying.issue import issue
from harness.wire import canonical
from tests.fakes.campaign import Flown, digest
from tests.fakes.crossed import check, crossed
from tests.fakes.soaked import killed, soaked
from tests.gating.campaign_fixtures import file_campaign
from tests.gating.fixtures import VALID, Body, fixture

ELSEWHERE = digest("elsewhere")


def valid_counts(folder: Path) -> None:
    """A soak and a campaign of kills that passed, and the stop of another one."""
    issue(soaked().data(), folder)
    issue(killed().data(), folder)
    issue(crossed().data(), folder)


def valid_counts_stop(folder: Path) -> None:
    """Honest stops."""
    issue(grown().data(), folder)
    issue(torn().data(), folder)
    issue(survived().data(), folder)


def valid_counts_error(folder: Path) -> None:
    """Campaigns that prove nothing, and say so."""
    issue(blind().data(), folder)
    issue(unseen().data(), folder)
    issue(unsound().data(), folder)


VALID.update(
    {"valid_counts": valid_counts, "valid_counts_stop": valid_counts_stop, "valid_counts_error": valid_counts_error}
)


def grown() -> Flown:
    """A soak whose last turns have more memory than is allowed."""
    made = soaked()
    for number in range(16, 20):
        made = made.with_line("turn", number, rss_kib=5200)
    return made


def blind() -> Flown:
    """A soak in which snapshots kept on purpose are not seen."""
    made = soaked()
    for number in range(6):
        made = made.with_line("leak", number, rss_kib=5000)
    return made


def torn() -> Flown:
    """Kills after one of which a restore had another state."""
    return changed_again(killed(), 2, restored=ELSEWHERE)


def lost() -> Flown:
    """Kills after one of which less was restored than had been published."""
    made = killed()
    again = next(line for line in made.lines if line.get("number") == 1 and line["type"] == "kill")["again"]
    last = next(line for line in made.lines if line.get("number") == 5)
    turn = {**last["again"], "cached": 4, "restored": last["roots"][0]}
    assert again["cached"] == 4
    return made.with_line("kill", 5, again=turn)


def unseen() -> Flown:
    """Kills in which a bit flipped on purpose came back unseen."""
    made = killed()
    control = next(line for line in made.lines if line["type"] == "planted")
    return made.with_line("planted", restored=control["root"])


def survived() -> Flown:
    """A matrix in which a mutant was stopped at another part than it names."""
    made = crossed()
    cells = next(line for line in made.lines if line["type"] == "pair")["cells"]
    elsewhere = check("exact", part="layer0.state", family="recurrent", reason="parts_differ")
    return made.with_line("pair", cells=[{**cells[0], "checks": [elsewhere]}])


def unsound() -> Flown:
    """A matrix in which the clean engine fails where a mutant was stopped."""
    return crossed().with_line("sound", outcome="fail")


def changed_again(of: Flown, number: int, **changes: Any) -> Flown:
    """Change what the next process found of a kill's prompt."""
    line = next(line for line in of.lines if line["type"] == "kill" and line["number"] == number)
    return of.with_line("kill", number, again={**line["again"], **changes})


def body_of(of: Flown) -> Body:
    """The body of a campaign, to be changed."""
    body: Body = json.loads(canonical.canonical(of.body()))
    return body


def edited(folder: Path, of: Flown, change: Callable[[Body], None]) -> None:
    """A body changed by hand, every name and digest put right."""
    body = body_of(of)
    change(body)
    file_campaign(folder, of, body)


def passed(body: Body) -> None:
    """Raise the decision to a pass."""
    body["decision"] = {"overall": "pass", "reasons": []}


@fixture("CG310", "CG301", "CG311")
def soak_growth_hidden(folder: Path) -> None:
    def change(body: Body) -> None:
        body["results"][0]["rss_growth_kib"] = 1
        passed(body)

    edited(folder, grown(), change)


@fixture("CG310", "CG301")
def soak_raised(folder: Path) -> None:
    edited(folder, blind(), passed)


@fixture("CG310", "CG301")
def kill_raised(folder: Path) -> None:
    edited(folder, torn(), passed)


@fixture("CG310", "CG301")
def kill_depths_wrong(folder: Path) -> None:
    def change(body: Body) -> None:
        body["results"][0]["restored_partly"] += 1

    edited(folder, killed(), change)


@fixture("CG311", "CG301")
def soak_memory_grew(folder: Path) -> None:
    file_campaign(folder, grown(), body_of(soaked()))


@fixture("CG311", "CG301")
def soak_step_over_budget(folder: Path) -> None:
    file_campaign(folder, soaked().with_line("turn", 9, held=[1000, 1001]), body_of(soaked()))


@fixture("CG311", "CG301")
def soak_turn_differs(folder: Path) -> None:
    file_campaign(folder, soaked().with_line("cold", 3, output=ELSEWHERE), body_of(soaked()))


@fixture("CG311", "CG301")
def kill_torn(folder: Path) -> None:
    file_campaign(folder, torn(), body_of(killed()))


@fixture("CG311", "CG301")
def kill_lost(folder: Path) -> None:
    file_campaign(folder, lost(), body_of(killed()))


@fixture("CG311", "CG301")
def kill_control_unseen(folder: Path) -> None:
    file_campaign(folder, unseen(), body_of(killed()))


@fixture("CG310", "CG301", "CG311")
def matrix_survivor_hidden(folder: Path) -> None:
    def change(body: Body) -> None:
        body["mutants"][0]["named"] = "stopped"
        passed(body)

    edited(folder, survived(), change)


@fixture("CG310", "CG301")
def matrix_raised(folder: Path) -> None:
    edited(folder, unsound(), passed)


@fixture("CG311", "CG301")
def matrix_named_elsewhere(folder: Path) -> None:
    file_campaign(folder, survived(), body_of(crossed()))


@fixture("CG311", "CG301")
def matrix_clean_engine_fails(folder: Path) -> None:
    file_campaign(folder, unsound(), body_of(crossed()))
