"""Folders with certificates of campaigns: valid ones, and ones with exactly one thing wrong.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from harness.certifying.issue import issue
from harness.certifying.ledger import write_once
from harness.certifying.store import evidence_path
from harness.wire import canonical
from tests.fakes.campaign import Flown, digest, flown
from tests.gating.fixtures import HOME, OTHER_MACHINE, VALID, Body, a_run, file_body, fixture
from tests.gating.policy_fixtures import asks

CAMPAIGN_KEY = "faults/fake-digests/cpu-x86_64"
ELSEWHERE = digest("elsewhere")


def a_campaign() -> Flown:
    """A campaign that located every flip."""
    return flown()


def a_missing_campaign() -> Flown:
    """A campaign in which one flip was located in another byte than the flipped one."""
    return _located_elsewhere(a_campaign())


def _located_elsewhere(of: Flown) -> Flown:
    first = next(line for line in of.lines if line["type"] == "flip")
    return of.with_line("flip", located={**first["located"], "byte": first["byte"] + 1})


def valid_campaign(folder: Path) -> None:
    """A campaign's certificate beside one of a run."""
    issue(a_run().data(), folder)
    issue(a_campaign().data(), folder)


def valid_campaign_ledger(folder: Path) -> None:
    """A campaign, its successor with the event between them, and another machine's."""
    issue(flown(run=1, day=1).data(), folder)
    issue(flown(flips=6, run=2, day=2).data(), folder)
    issue(flown(run=3, day=3, environment=OTHER_MACHINE).data(), folder)


def valid_campaign_stop(folder: Path) -> None:
    """An honest stop."""
    issue(a_missing_campaign().data(), folder)


def valid_campaign_error(folder: Path) -> None:
    """A campaign that proves nothing, and says so."""
    issue(a_campaign().with_line("reference", 1, logits=ELSEWHERE).data(), folder)


VALID.update(
    {
        "valid_campaign": valid_campaign,
        "valid_campaign_ledger": valid_campaign_ledger,
        "valid_campaign_stop": valid_campaign_stop,
        "valid_campaign_error": valid_campaign_error,
    }
)


def campaign_body(of: Flown | None = None) -> Body:
    """The body of a campaign, to be changed."""
    body: Body = json.loads(canonical.canonical((of or a_campaign()).body()))
    return body


def file_campaign(folder: Path, of: Flown, body: Body | None = None) -> Path:
    """File a campaign past every refusal of the producer, with a body of one's own if given."""
    data = of.data()
    found = of.records()
    made = body if body is not None else campaign_body(of)
    made["run"]["evidence"] = {
        "sha256": found.sha256,
        "bytes": found.bytes,
        "records": found.end["records"],
    }
    write_once(folder / evidence_path(found.sha256), data)
    return file_body(folder, made)


def edited(folder: Path, change: Callable[[Body], None], of: Flown | None = None) -> None:
    """A body changed by hand, every name and digest put right."""
    made = of or a_campaign()
    body = campaign_body(made)
    change(body)
    file_campaign(folder, made, body)


@fixture("CG010", require_pass=True)
def campaign_misses(folder: Path) -> None:
    valid_campaign_stop(folder)


@fixture("CG203")
def campaign_twice(folder: Path) -> None:
    issue(flown(run=1, day=1).data(), folder)
    file_campaign(folder, flown(run=1, day=2, environment=OTHER_MACHINE))


@fixture("CG204")
def campaign_line_dropped(folder: Path) -> None:
    valid_campaign(folder)
    path = _evidence(folder)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-3] + lines[-1:]))


@fixture("CG301")
def campaign_seed_edited(folder: Path) -> None:
    def change(body: Body) -> None:
        body["procedure"]["seed"] = 2

    edited(folder, change)


@fixture("CG301")
def campaign_on_evidence_of_a_run(folder: Path) -> None:
    data = a_run().data()
    body = campaign_body()
    body["run"]["evidence"] = {"sha256": a_run().evidence().sha256, "bytes": len(data), "records": 1}
    write_once(folder / evidence_path(a_run().evidence().sha256), data)
    file_body(folder, body)


@fixture("CG301")
def campaign_that_contradicts_itself(folder: Path) -> None:
    lying = a_campaign().with_line("flip", 1, restored=ELSEWHERE)
    file_campaign(folder, lying, campaign_body())


@fixture("CG301")
def campaign_asks_for_too_much(folder: Path) -> None:
    file_campaign(folder, a_campaign().with_header(procedure={"flips": 1_000_000}), campaign_body())


@fixture("CG310", "CG301")
def campaign_raised(folder: Path) -> None:
    def change(body: Body) -> None:
        body["decision"] = {"overall": "pass", "reasons": []}

    edited(folder, change, a_missing_campaign())


@fixture("CG310", "CG301")
def campaign_miss_hidden(folder: Path) -> None:
    def change(body: Body) -> None:
        body["missed"] = []

    edited(folder, change, a_missing_campaign())


@fixture("CG310", "CG301", "CG311")
def campaign_flips_added(folder: Path) -> None:
    def change(body: Body) -> None:
        body["results"][0]["flips"] = body["results"][0]["located"] = 240

    edited(folder, change)


@fixture("CG310", "CG301", "CG311")
def campaign_of_no_flips(folder: Path) -> None:
    def change(body: Body) -> None:
        for row in (*body["results"], *body["by_family"], *body["by_bits"]):
            row.update({name: 0 for name, value in row.items() if isinstance(value, int)} | {"repeatable": True})
            row.pop("repeatable", "") if "family" in row or "bits" in row else None

    edited(folder, change)


@fixture("CG310", "CG301")
def campaign_split_wrong(folder: Path) -> None:
    def change(body: Body) -> None:
        body["by_family"][0]["tokens"] += 1

    edited(folder, change)


@fixture("CG310", "CG301")
def campaign_untrusted(folder: Path) -> None:
    def change(body: Body) -> None:
        body["decision"] = {"overall": "pass", "reasons": []}

    edited(folder, change, a_campaign().with_line("trust", mismatches=1))


@fixture("CG310", "CG301")
def campaign_reason_added(folder: Path) -> None:
    def change(body: Body) -> None:
        body["decision"]["reasons"] = ["close_enough"]

    edited(folder, change)


@fixture("CG311", "CG301")
def campaign_located_elsewhere(folder: Path) -> None:
    file_campaign(folder, a_missing_campaign(), campaign_body())


@fixture("CG311", "CG301")
def campaign_located_in_another_row(folder: Path) -> None:
    first = next(line for line in a_campaign().lines if line["type"] == "flip")
    found = {**first["located"], "row": first["located"]["row"] + 1}
    file_campaign(folder, a_campaign().with_line("flip", located=found), campaign_body())


@fixture("CG311", "CG301")
def campaign_two_bits(folder: Path) -> None:
    first = next(line for line in a_campaign().lines if line["type"] == "flip")
    found = {**first["located"], "candidate": "ff" * (len(first["located"]["candidate"]) // 2)}
    file_campaign(folder, a_campaign().with_line("flip", located=found), campaign_body())


@fixture("CG311", "CG301")
def campaign_not_repeated(folder: Path) -> None:
    file_campaign(folder, a_campaign().with_line("reference", 1, logits=ELSEWHERE), campaign_body())


@fixture("CG311", "CG301")
def campaign_clean_run_differs(folder: Path) -> None:
    file_campaign(folder, a_campaign().with_line("clean", 1, tokens=ELSEWHERE), campaign_body())


@fixture("CG311", "CG301")
def campaign_tokens_told_wrong(folder: Path) -> None:
    file_campaign(folder, a_campaign().with_line("flip", 1, tokens=ELSEWHERE), campaign_body())


@fixture("CG502")
def campaign_status_edited(folder: Path) -> None:
    valid_campaign_ledger(folder)
    path = next(one for one in folder.glob("faults/*/*/*.json") if b'"superseded"' in one.read_bytes())
    value = json.loads(path.read_bytes())
    value["status"] = {"state": "current", "events": []}
    path.write_bytes(canonical.render(value))


@fixture("CG503")
def campaign_two_current(folder: Path) -> None:
    issue(flown(run=1, day=1).data(), folder)
    file_campaign(folder, flown(run=2, day=2))


@fixture("CG604")
def campaign_of_changed_files(folder: Path) -> None:
    file_campaign(folder, a_campaign().with_header(source={"tree": "dirty"}))


@fixture("CG604")
def campaign_of_a_mutant(folder: Path) -> None:
    file_campaign(folder, a_campaign().with_header(target={"group": "harness.mutants"}))


@fixture("CG903")
def campaign_path_in_evidence(folder: Path) -> None:
    file_campaign(folder, a_campaign().with_header(target={"identity": {"library": HOME}}))


def _evidence(folder: Path) -> Path:
    """The evidence file of the campaign."""
    return next(path for path in (folder / "evidence").iterdir() if path.read_bytes().startswith(b'{"campaign"'))


@fixture("CG011", about=asks(f"claims: [{{claim: {CAMPAIGN_KEY}, least: {{flips: 240}}}}]\n"))
def required_campaign_too_small(folder: Path) -> None:
    """Every flip was located: all few of them."""
    issue(a_campaign().data(), folder)
