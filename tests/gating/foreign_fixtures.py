"""Folders with records that others published: a valid one, and ones with exactly one thing wrong.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules.
"""

from __future__ import annotations

from pathlib import Path

from harness.certifying.issue import issue
from harness.certifying.ledger import write_once
from tests.fakes.campaign import Flown
from tests.foreign import published
from tests.foreign.support import REST, imported
from tests.gating.campaign_fixtures import campaign_body, file_campaign
from tests.gating.fixtures import VALID, Body, a_run, fixture
from tests.gating.policy_fixtures import asks

KEY = "foreign/someones-some-model-1b-gguf-q8_0/metal-some-chip"


def a_record() -> Flown:
    return imported(published.typed())


def valid_foreign(folder: Path) -> None:
    """Two published records, one superseded by the other, beside a run."""
    issue(a_run().data(), folder)
    issue(imported(published.one_pair()).data(), folder)
    issue(a_record().data(), folder)


VALID.update(valid_foreign=valid_foreign)


def filed(folder: Path, body: Body, of: Flown | None = None) -> None:
    """A record with a body of one's own, and the record beside it."""
    lines = of or a_record()
    text = lines.lines[1]["text"].encode()
    write_once(folder / "evidence" / f"{lines.lines[0]['record']['sha256']}.json", text)
    file_campaign(folder, lines, body)


def the_record(folder: Path) -> Path:
    (path,) = (folder / "evidence").glob("*.json")
    return path


@fixture("CG204")
def foreign_record_missing(folder: Path) -> None:
    issue(a_record().data(), folder)
    the_record(folder).unlink()


@fixture("CG204")
def foreign_record_edited(folder: Path) -> None:
    issue(a_record().data(), folder)
    path = the_record(folder)
    path.write_bytes(path.read_bytes().replace(b'"passed": false', b'"passed": true ', 1))


@fixture("CG204")
def foreign_record_of_nothing(folder: Path) -> None:
    issue(a_run().data(), folder)
    (folder / "evidence" / f"{'ab' * 32}.json").write_bytes(b"{}")


@fixture("CG313", "CG301")
def foreign_raised(folder: Path) -> None:
    """What is a stop by the rules is called a pass."""
    body = campaign_body(a_record())
    body["decision"] |= {"overall": "pass", "reasons": []}
    filed(folder, body)


@fixture("CG313", "CG301", "CG403")
def foreign_time_judged(folder: Path) -> None:
    """A time of one sample becomes a pass, and all sums are put right."""
    lines = imported(published.one_pair(scalar=False, matching=64))
    body = campaign_body(lines)
    (row,) = body["results"]
    for check in row["checks"]:
        check["outcome"] = "pass"
        check.pop("reason", None)
    row["judged"] = "pass"
    body["totals"]["judged"] = {"error": 0, "fail": 0, "inconclusive": 0, "pass": 1}
    body["decision"] |= {"overall": "pass", "reasons": []}
    body["decision"]["by_axis"]["latency"] = "pass"
    filed(folder, body, lines)


@fixture("CG313", "CG301")
def foreign_number_edited(folder: Path) -> None:
    body = campaign_body(a_record())
    body["results"][0]["values"]["cachegen_storage_bytes"] -= 1
    filed(folder, body)


@fixture("CG313", "CG301")
def foreign_stop_hidden(folder: Path) -> None:
    """A pair that the record stopped is shown as recorded pass."""
    body = campaign_body(a_record())
    body["results"][4]["recorded"] = "pass"
    body["totals"]["recorded"] |= {"pass": 4, "stop": 4}
    filed(folder, body)


PASSING = imported(published.handoff(), REST)
"""A record that is a pass by the rules, so that nothing but its origin speaks against it."""


@fixture("CG011", about=asks(f"claims: [{{claim: {KEY}}}]\n"))
def required_claim_foreign(folder: Path) -> None:
    issue(PASSING.data(), folder)


LEVELS = "levels: {experimental: {certificates: [foreign]}}\n"
ROW = "promotions: [{engine: someones, device: metal-*, k: f16, v: f16, level: experimental}]\n"


@fixture("CG702", about=asks(LEVELS + ROW))
def promoted_foreign(folder: Path) -> None:
    issue(PASSING.data(), folder)


@fixture("CG702", about=asks("foreign: accepted\n" + LEVELS + ROW.replace("k: f16, v: f16", "k: q4_0, v: q4_0")))
def promoted_foreign_of_another_pair(folder: Path) -> None:
    """A handoff that others published, of no pair of element types at all."""
    issue(PASSING.data(), folder)
