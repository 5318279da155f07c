"""Certificates folders for the gate: valid ones, and ones with exactly one thing wrong.

A fixture starts from a folder that the product itself issued, and changes one thing. Where the change would make other
digests or names wrong, these are put right again, so that only the rule under test has something to say. Rules that look
at evidence by their own logic cannot be reached without CG301 (a body is nothing but its evidence): such fixtures name it
in ``besides``, and the tests leave it out to see the rule alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from harness.certifying.issue import issue
from harness.certifying.ledger import regenerate, supersede_event, write_event, write_once
from harness.certifying.store import certificate_path, evidence_path, read_store
from harness.deriving.ids import certificate_id
from harness.model.certificate import Certificate, Event, Status
from harness.model.evidence import CellEvent, PartRow, PartTable, Point, StepRecord, Trust, Turn
from harness.model.scenario import Scenario
from harness.model.values import CellId, CertificateState, Phase, ReasonCode, Sha256
from harness.wire import canonical
from harness.wire.certificate_doc import format_certificate
from harness.wire.event_doc import event_id
from harness.wire.evidence_doc import part_table, read_evidence
from tests.fakes.evidence import Recorded, recorded, scenario

SCENARIO = b"""
schema: statecert/scenario/v1
id: T02
title: One restore in three places
why: The smallest run that a gate has every question about.
suites: {default: [16]}
procedure:
  observability: parts
  requires: [parts, logits, boundaries, prefix_cache, store]
  families: [kv, recurrent]
  chunk: 64
  engine: {arch: hybrid}
  axes: {at: [1, 2]}
  exclude:
    - {when: {at: 2}, reason: no_such_place}
  prompts:
    A: [{seed: 1, length: {chunks: 1, plus: 2}}]
    wrong: [{seed: 1, length: {chunks: 1, plus: 2}, change_at: 1}]
  arms:
    - id: cold
      role: reference
      steps: [{run: {prompt: A, decode: 2, as: a}}]
    - id: warm
      role: candidate
      steps:
        - {run: {prompt: A, cache: true, as: first}}
        - {run: {prompt: A, cache: true, decode: 2, as: again}}
    - id: other
      role: control
      steps: [{run: {prompt: wrong, decode: 2, as: a}}]
  checks:
    - {id: again, exact: {candidate: warm.again, reference: cold.a, witness: copied}}
    - {id: cached, cached: {at: warm.again, equals: {chunks: 1}}}
    - {id: other-seen, seen: {candidate: other.a, reference: cold.a}}
"""

KEY = "T02/fake-digests/cpu-x86_64"
NOBODY = Sha256("ab" * 32)
HOME = "/" + "home/somebody/engine.so"
"""A private path, put together so that no committed text holds one."""
OTHER_MACHINE = {"machine": "c4" * 32, "facts": {"os": "linux", "cores": 4}}

Body = dict[str, Any]
Change = Callable[[Path], None]


def _nothing(_: Path) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Fixture:
    """One folder, and what must be said of it."""

    name: str
    rule: str
    """The rule that must fire."""
    build: Change
    besides: Sequence[str] = ()
    """Rules that cannot but fire too."""
    require_pass: bool = False
    options: Callable[[], dict[str, Any]] = dict
    """What the gate is asked for besides."""
    about: Callable[[Path], dict[str, Any]] = _nothing
    """The same, where it depends on the folder."""


FIXTURES: dict[str, Fixture] = {}
"""All failing folders, by name."""


def fixture(
    rule: str,
    *besides: str,
    require_pass: bool = False,
    options: Callable[[], dict[str, Any]] = dict,
    about: Callable[[Path], dict[str, Any]] = _nothing,
) -> Callable[[Change], Change]:
    """Register a function that makes a failing folder; the fixture has the function's name."""

    def register(build: Change) -> Change:
        name = build.__name__
        FIXTURES[name] = Fixture(
            name=name,
            rule=rule,
            build=build,
            besides=besides,
            require_pass=require_pass,
            options=options,
            about=about,
        )
        return build

    return register


# -- valid folders -----------------------------------------------------------------------------


@cache
def the_scenario() -> Scenario:
    return scenario(SCENARIO)


@cache
def a_run(number: int = 1, day: int = 1) -> Recorded:
    """A run in which everything passes."""
    return recorded(the_scenario(), run=number, day=day)


@cache
def a_run_elsewhere(number: int, day: int) -> Recorded:
    """The same on another machine."""
    return recorded(the_scenario(), run=number, day=day, environment=OTHER_MACHINE)


@cache
def a_failing_run() -> Recorded:
    """A run whose restored session ends in another recurrent state."""
    return a_run().with_part("warm", "again", Phase.END, part_name("recurrent"))


@cache
def a_varying_run() -> Recorded:
    """A run whose reference does not repeat itself."""
    return a_run().with_point("cold", "a", Phase.END, rep=1, logits=NOBODY)


def valid(folder: Path) -> None:
    """One certificate, issued by the product."""
    issue(a_run().data(), folder)


def valid_ledger(folder: Path) -> None:
    """A certificate, its successor, the event between them, and another machine's certificate."""
    issue(a_run(1, 1).data(), folder)
    issue(a_run(2, 2).data(), folder)
    issue(a_run_elsewhere(3, 3).data(), folder)


def valid_stop(folder: Path) -> None:
    """An honest stop."""
    issue(a_failing_run().data(), folder)


def valid_tokens(folder: Path) -> None:
    """A black-box server: token ids are all that can be seen of it."""
    text = (
        SCENARIO.replace(b"observability: parts", b"observability: tokens")
        .replace(b"[parts, logits, boundaries, prefix_cache, store]", b"[prefix_cache]")
        .replace(b"  families: [kv, recurrent]\n", b"")
        .replace(b"witness: copied}", b"witness: copied, guarantee: tokens_only}")
    )
    run = relabelled(recorded(scenario(text)), lambda _: None)
    looks = [replace(one, logits="") if isinstance(one, Point) else one for one in run.observations]
    blind = replace(run, observations=tuple(looks)).with_target(observability="tokens", capabilities=["prefix_cache"])
    issue(blind.data(), folder)


VALID: dict[str, Change] = {
    "valid": valid,
    "valid_ledger": valid_ledger,
    "valid_stop": valid_stop,
    "valid_tokens": valid_tokens,
}
"""Folders on which no rule has anything to say."""
ASKED: dict[str, Callable[[Path], dict[str, Any]]] = {}
"""What the gate is asked of some of them, besides what always holds."""


# -- tools -------------------------------------------------------------------------------------


def part_name(family: str) -> str:
    """Name of the first part of a family in the recorded runs."""
    tables = (one for one in a_run().observations if isinstance(one, PartTable))
    return next(row.name for table in tables for row in table.rows if row.family == family)


def file_run(folder: Path, run: Recorded, body: Body | None = None) -> Path:
    """File a run past every refusal of the producer, with a body of one's own if given; return the certificate."""
    data = run.data()
    evidence = read_evidence(data, "")
    made = body if body is not None else json.loads(canonical.canonical(run.body()))
    made["run"]["evidence"] = {
        "sha256": evidence.sha256,
        "bytes": len(data),
        "records": evidence.end.records if evidence.end else 1,
    }
    write_once(folder / evidence_path(evidence.sha256), data)
    return file_body(folder, made)


def file_body(folder: Path, body: Body) -> Path:
    """Write a certificate with this body under the name that it must have, and everything generated."""
    certificate = Certificate(id=certificate_id(body), body=body, status=Status(state=CertificateState.CURRENT))
    path = folder / certificate_path(certificate)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(format_certificate(certificate))
    regenerate(folder, body["claim_key"])
    return path


def good_body(run: Recorded | None = None) -> Body:
    """The body of a run, to be changed."""
    body: Body = json.loads(canonical.canonical((run or a_run()).body()))
    return body


def swapped(folder: Path, run: Recorded) -> None:
    """Evidence of one run under the claims of a good one, every digest put right."""
    file_run(folder, run, good_body())


def edited(folder: Path, change: Callable[[Body], None], run: Recorded | None = None) -> None:
    """A body changed by hand, every name and digest put right."""
    made = run or a_run()
    body = good_body(made)
    change(body)
    file_run(folder, made, body)


def certificates(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("T*/*/*/*.json"))


def only(folder: Path) -> Path:
    (path,) = certificates(folder)
    return path


def the_evidence(folder: Path) -> Path:
    (path,) = sorted((folder / "evidence").iterdir())
    return path


def the_event(folder: Path) -> Path:
    (path,) = sorted((folder / "ledger").glob("*/*.json"))
    return path


def relabelled(run: Recorded, change: Callable[[PartRow], PartRow | None]) -> Recorded:
    """Change rows of all part tables alike, roots put right; None leaves a row out."""
    roots: dict[str, Sha256] = {}
    observations: list[Any] = []
    for one in run.observations:
        if isinstance(one, PartTable):
            table = part_table([new for row in one.rows if (new := change(row)) is not None])
            roots[one.root] = table.root
            observations.append(table)
        else:
            observations.append(replace(one, root=roots[one.root]) if isinstance(one, Point) else one)
    return replace(run, observations=tuple(observations))


def rewrite(path: Path, old: bytes, new: bytes) -> None:
    """Change bytes of a file, once."""
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


def add_event(folder: Path, **fields: Any) -> None:
    """Write an event of any content under its right name, and generate what follows from it."""
    event = Event(
        **{
            "id": Sha256(""),
            "kind": "withdraw",
            "target": NOBODY,
            "reason_code": ReasonCode.RECORD_ERROR,
            "created": "2026-01-09T00:00:00Z",
            **fields,
        }
    )
    write_event(folder, replace(event, id=event_id(event)))
    regenerate(folder, KEY)


def ids(folder: Path) -> list[Sha256]:
    """Ids of the certificates, oldest run first."""
    return [one.id for one in read_store(folder).of_claim(KEY)]


# -- CG001, CG010 ------------------------------------------------------------------------------


@fixture("CG001")
def empty(folder: Path) -> None:
    (folder / ".gitattributes").write_bytes(b"* -text\n")


@fixture("CG001")
def all_withdrawn(folder: Path) -> None:
    valid(folder)
    add_event(folder, target=ids(folder)[0])


@fixture("CG010", require_pass=True)
def cell_fails(folder: Path) -> None:
    valid_stop(folder)


@fixture("CG010", require_pass=True)
def draft(folder: Path) -> None:
    valid(folder)
    (folder / f"draft-T02-{7:032x}.json").write_bytes(b"{}\n")


# -- CG101, CG102, CG104: how it is written ----------------------------------------------------


@fixture("CG101", "CG204", "CG502")
def duplicate_key(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b'"overall": "pass"', b'"overall": "stop",\n      "overall": "pass"')


@fixture("CG101", "CG204", "CG502")
def not_a_number(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b'"children": 1', b'"children": NaN')


@fixture("CG101", "CG204", "CG502")
def overflow(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b'"children": 1', b'"children": 1e999')


@fixture("CG101", "CG204", "CG502")
def a_null(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b'"children": 1', b'"children": null')


@fixture("CG101", "CG204", "CG502")
def deep_nesting(folder: Path) -> None:
    valid(folder)
    only(folder).write_bytes(b"[" * 100_000)


@fixture("CG101", "CG204", "CG502")
def huge_integer(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b'"children": 1', b'"children": ' + b"1" * 5001)


@fixture("CG101", "CG204", "CG502")
def byte_order_mark(folder: Path) -> None:
    valid(folder)
    only(folder).write_bytes(b"\xef\xbb\xbf" + only(folder).read_bytes())


@fixture("CG101", "CG204", "CG502")
def utf_16(folder: Path) -> None:
    valid(folder)
    only(folder).write_bytes(only(folder).read_text().encode("utf-16"))


@fixture("CG101", "CG204", "CG502")
def lone_surrogate(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b'"overall": "pass"', b'"overall": "\\ud800"')


@fixture("CG101", "CG204", "CG502")
def trailing_garbage(folder: Path) -> None:
    valid(folder)
    only(folder).write_bytes(only(folder).read_bytes() + b"x")


@fixture("CG101", "CG502", "CG503")
def null_in_event(folder: Path) -> None:
    valid_ledger(folder)
    rewrite(the_event(folder), b'"dropped_cells": []', b'"dropped_cells": null')


@fixture("CG101", "CG204")
def float_in_evidence(folder: Path) -> None:
    valid(folder)
    rewrite(the_evidence(folder), b'"records":', b'"elapsed":1.5,"records":')


@fixture("CG102", "CG204", "CG502")
def event_as_certificate(folder: Path) -> None:
    valid(folder)
    issued = Event(
        id=Sha256(""),
        kind="withdraw",
        target=NOBODY,
        reason_code=ReasonCode.RECORD_ERROR,
        created="2026-01-09T00:00:00Z",
    )
    write_event(folder, replace(issued, id=event_id(issued)))
    only(folder).write_bytes(the_event(folder).read_bytes())
    the_event(folder).unlink()


@fixture("CG102", "CG204", "CG502")
def undeclared_field(folder: Path) -> None:
    valid(folder)
    value = json.loads(only(folder).read_bytes())
    value["body"]["remark"] = "looks fine"
    only(folder).write_bytes(canonical.render(value))


@fixture("CG102", "CG204", "CG502")
def newer_version(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b"statecert/certificate/v1", b"statecert/certificate/v2")


@fixture("CG104")
def crlf(folder: Path) -> None:
    valid(folder)
    only(folder).write_bytes(only(folder).read_bytes().replace(b"\n", b"\r\n"))


@fixture("CG104")
def reformatted(folder: Path) -> None:
    valid(folder)
    only(folder).write_text(json.dumps(json.loads(only(folder).read_bytes()), indent=4, sort_keys=True) + "\n")


@fixture("CG104")
def reformatted_event(folder: Path) -> None:
    valid_ledger(folder)
    the_event(folder).write_bytes(canonical.line(json.loads(the_event(folder).read_bytes())))


# -- CG103: files ------------------------------------------------------------------------------


@fixture("CG103", "CG001", "CG204", "CG502")
def symlink(folder: Path) -> None:
    valid(folder)
    elsewhere = folder.parent / f"{folder.name}-elsewhere.json"
    only(folder).rename(elsewhere)
    (folder / KEY / "2026-01-01-0123456789ab.json").symlink_to(elsewhere)


@fixture("CG103")
def executable(folder: Path) -> None:
    valid(folder)
    only(folder).chmod(0o755)


@fixture("CG103")
def stray_file(folder: Path) -> None:
    valid(folder)
    (folder / KEY / "notes.txt").write_text("all passed\n")


@fixture("CG103")
def stray_name_with_escapes(folder: Path) -> None:
    valid(folder)
    (folder / "\x1b[2J\u202egreen\n::error::.json").write_text("{}")


@fixture("CG103")
def overlong_name(folder: Path) -> None:
    valid(folder)
    (folder / KEY / ("x" * 250 + ".json")).write_text("{}")


@fixture("CG103")
def deep_folder(folder: Path) -> None:
    valid(folder)
    (folder / "/".join("abcdefghijkl")).mkdir(parents=True)


@fixture("CG103", "CG502")
def wrong_folder(folder: Path) -> None:
    valid(folder)
    (folder / KEY).rename(folder / "T02/fake-digests/cpu-arm64")


@fixture("CG103")
def wrong_day(folder: Path) -> None:
    valid(folder)
    only(folder).rename(only(folder).with_name(only(folder).name.replace("2026-01-01", "2026-01-02")))


@fixture("CG103")
def event_of_another_year(folder: Path) -> None:
    valid_ledger(folder)
    (folder / "ledger/2026").rename(folder / "ledger/2025")


@fixture("CG103")
def attributes_edited(folder: Path) -> None:
    valid(folder)
    (folder / ".gitattributes").write_bytes(b"* text=auto\n")


@fixture("CG103")
def signature_of_nothing(folder: Path) -> None:
    valid(folder)
    (folder / KEY / "2026-01-01-0123456789ab.json.sig").write_bytes(b"signature")


@fixture("CG103")
def unreadable_pipe(folder: Path) -> None:
    valid(folder)
    os.mkfifo(folder / "pipe")


# -- CG2xx: names, runs, blobs -----------------------------------------------------------------


@fixture("CG201")
def renamed(folder: Path) -> None:
    valid(folder)
    only(folder).rename(only(folder).with_name("2026-01-01-0123456789ab.json"))


@fixture("CG201", "CG301", "CG502")
def edited_body(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b'"version": "1.0"', b'"version": "1.1"')


@fixture("CG201")
def renamed_event(folder: Path) -> None:
    valid_ledger(folder)
    the_event(folder).rename(the_event(folder).with_name(f"{NOBODY}.json"))


@fixture("CG201", "CG501", "CG502")
def edited_event(folder: Path) -> None:
    valid_ledger(folder)
    rewrite(the_event(folder), b"rerun_same_inputs", b"measurement_invalid")


@fixture("CG203")
def same_run_twice(folder: Path) -> None:
    issue(a_run(1, 1).data(), folder)
    file_run(folder, a_run_elsewhere(1, 2))


@fixture("CG203", "CG301")
def same_evidence_twice(folder: Path) -> None:
    issue(a_run(1, 1).data(), folder)
    body = good_body()
    body["run"]["run_id"] = f"{9:032x}"
    body["environment"]["machine"] = "c4" * 32
    file_run(folder, a_run(1, 1), body)


@fixture("CG203")
def same_observations_twice(folder: Path) -> None:
    issue(a_run(1, 1).data(), folder)
    again = a_run_elsewhere(2, 2)
    issue(replace(again, observations=a_run(1, 1).observations).data(), folder)


@fixture("CG902")
def ended_before_it_began(folder: Path) -> None:
    edited_times(folder, finished="2026-01-01T07:59:59Z")


@fixture("CG902")
def lasted_too_long(folder: Path) -> None:
    edited_times(folder, finished="2026-01-01T10:00:01Z")


@fixture("CG902")
def no_such_day(folder: Path) -> None:
    edited_times(folder, finished="2026-02-31T09:00:00Z")


def edited_times(folder: Path, finished: str) -> None:
    """A run whose evidence itself has times that cannot be."""
    file_run(folder, a_run().with_end(finished))


@fixture("CG204")
def evidence_missing(folder: Path) -> None:
    valid(folder)
    the_evidence(folder).unlink()


@fixture("CG204")
def evidence_appended(folder: Path) -> None:
    valid(folder)
    the_evidence(folder).write_bytes(the_evidence(folder).read_bytes() + b"{}")


@fixture("CG204")
def evidence_line_dropped(folder: Path) -> None:
    valid(folder)
    lines = the_evidence(folder).read_bytes().splitlines(keepends=True)
    the_evidence(folder).write_bytes(b"".join(lines[:-3] + lines[-1:]))


@fixture("CG204")
def evidence_cut_off(folder: Path) -> None:
    file_run(folder, replace(a_run(), closed=False), good_body())


@fixture("CG204", "CG301")
def evidence_exchanged(folder: Path) -> None:
    valid(folder)
    the_evidence(folder).write_bytes(a_run(2, 1).data())


@fixture("CG204")
def orphan_evidence(folder: Path) -> None:
    valid(folder)
    data = a_run(2, 2).data()
    write_once(folder / evidence_path(read_evidence(data, "").sha256), data)


# -- CG301: what follows from evidence ---------------------------------------------------------


@fixture("CG301")
def edited_with_digests(folder: Path) -> None:
    def change(body: Body) -> None:
        body["subject"]["model"]["digest"] = "b3" * 32

    edited(folder, change)


@fixture("CG301")
def truth_for_one(folder: Path) -> None:
    def change(body: Body) -> None:
        body["environment"]["device"]["unified"] = 1

    run = a_run().with_target(device={"name": "none", "unified": True})
    edited(folder, change, run)


@fixture("CG301")
def evidence_makes_no_sense(folder: Path) -> None:
    swapped(folder, a_run().with_header(procedure_digest=NOBODY))


@fixture("CG301")
def hostile_procedure(folder: Path) -> None:
    swapped(folder, a_run().with_procedure({"axes": [[["x"]]], "checks": {"again": 1}}))


# -- CG302 to CG306: the body by itself --------------------------------------------------------


@fixture("CG302", "CG301")
def overall_raised(folder: Path) -> None:
    def change(body: Body) -> None:
        body["decision"]["overall"] = "pass"

    edited(folder, change, a_failing_run())


@fixture("CG302", "CG301")
def axis_raised(folder: Path) -> None:
    def change(body: Body) -> None:
        body["decision"]["by_axis"]["exactness"] = "pass"

    edited(folder, change, a_failing_run())


@fixture("CG302", "CG301", "CG305")
def cell_raised(folder: Path) -> None:
    def change(body: Body) -> None:
        cell = body["cells"][0]
        cell["outcome"] = "pass"
        cell["failure_reasons"] = []
        body["totals"].update({"fail": 0, "pass": 1})
        body["decision"]["overall"] = "pass"

    edited(folder, change, a_failing_run())


@fixture("CG302", "CG301")
def cell_without_checks(folder: Path) -> None:
    def change(body: Body) -> None:
        body["cells"][0]["checks"] = []
        body["decision"]["by_axis"] = dict.fromkeys(body["decision"]["by_axis"], "not_evaluated")

    edited(folder, change)


@fixture("CG302", "CG301")
def totals_wrong(folder: Path) -> None:
    def change(body: Body) -> None:
        body["totals"]["pass"] = 7

    edited(folder, change)


@fixture("CG303", "CG301")
def label_of_another_type(folder: Path) -> None:
    def half(row: PartRow) -> PartRow:
        return replace(row, element_type="f16") if row.element_type == "f32" else row

    swapped(folder, relabelled(a_run(), half))


@fixture("CG303", "CG301")
def digest_of_nothing(folder: Path) -> None:
    nothing = Sha256(hashlib.sha256(b"").hexdigest())
    swapped(folder, relabelled(a_run(), lambda row: replace(row, sha256=nothing) if row.layer == 0 else row))


@fixture("CG304")
def composed_time_impossible(folder: Path) -> None:
    file_run(folder, a_run().with_turn("warm", "again", first_token_ns=10_000_000))


@fixture("CG304", "CG301", "CG302")
def latency_verdict(folder: Path) -> None:
    def change(body: Body) -> None:
        body["decision"]["by_axis"]["latency"] = "pass"

    edited(folder, change)


@fixture("CG305", "CG301")
def failure_reason_dropped(folder: Path) -> None:
    def change(body: Body) -> None:
        body["cells"][0]["failure_reasons"] = []

    edited(folder, change, a_failing_run())


@fixture("CG305", "CG301")
def failure_reason_added(folder: Path) -> None:
    def change(body: Body) -> None:
        body["cells"][0]["failure_reasons"] = [{"check": "again", "code": "EXACT.STATE@1", "reason": "parts_differ"}]

    edited(folder, change)


@fixture("CG306", "CG301")
def reason_dropped(folder: Path) -> None:
    def change(body: Body) -> None:
        del body["cells"][0]["reason"]

    edited(folder, change, a_varying_run())


@fixture("CG306", "CG301")
def reason_added(folder: Path) -> None:
    def change(body: Body) -> None:
        body["cells"][0]["reason"] = "close_enough"

    edited(folder, change)


# -- CG307 to CG309: body against evidence, by the gate's own logic ----------------------------


@fixture("CG307", "CG301")
def differing_part_passes(folder: Path) -> None:
    swapped(folder, a_failing_run())


@fixture("CG307", "CG301")
def differing_tokens_pass(folder: Path) -> None:
    swapped(folder, a_run().with_point("warm", "again", Phase.END, tokens=(9, 9)))


@fixture("CG307", "CG301")
def differing_logits_pass(folder: Path) -> None:
    swapped(folder, a_run().with_point("warm", "again", Phase.PREFILLED, logits=NOBODY))


@fixture("CG307", "CG301")
def logits_not_finite(folder: Path) -> None:
    run = a_run()
    looks = [replace(one, logits_finite=False) if isinstance(one, Point) else one for one in run.observations]
    swapped(folder, replace(run, observations=tuple(looks)))


@fixture("CG307", "CG301")
def reference_varies(folder: Path) -> None:
    swapped(folder, a_varying_run())


@fixture("CG307", "CG301")
def look_left_out(folder: Path) -> None:
    swapped(folder, a_run().without_point("warm", "again", Phase.PREFILLED))


@fixture("CG307", "CG301")
def reference_not_looked_at(folder: Path) -> None:
    swapped(folder, a_run().without_point("cold", "a", Phase.PREFILLED))


@fixture("CG307", "CG301")
def reference_varies_at_a_pause(folder: Path) -> None:
    swapped(folder, a_run().with_point("cold", "a", Phase.BOUNDARY, rep=1, logits=NOBODY))


@fixture("CG307", "CG301")
def turn_left_out(folder: Path) -> None:
    swapped(folder, a_run().without(lambda one: isinstance(one, Turn) and (one.arm, one.label) == ("warm", "first")))


@fixture("CG307", "CG301")
def part_unlisted(folder: Path) -> None:
    unlisted = part_name("recurrent")
    swapped(folder, relabelled(a_run(), lambda row: None if row.name == unlisted else row))


@fixture("CG307", "CG301")
def difference_invented(folder: Path) -> None:
    file_run(folder, a_run(), good_body(a_failing_run()))


@fixture("CG308", "CG301", "CG307")
def restore_of_nothing(folder: Path) -> None:
    swapped(folder, a_run().with_turn("warm", "again", cached=0, prefilled=66))


@fixture("CG308", "CG301")
def no_bytes_copied(folder: Path) -> None:
    swapped(folder, a_run().with_turn("warm", "again", restored_bytes=0))


@fixture("CG308", "CG301")
def tokens_unaccounted(folder: Path) -> None:
    swapped(folder, a_run().with_turn("warm", "again", prefilled=1))


@fixture("CG308", "CG301")
def nobody_looked(folder: Path) -> None:
    swapped(folder, a_run().without_point("warm", "again", Phase.RESTORED))


@fixture("CG309", "CG301")
def control_not_seen(folder: Path) -> None:
    run = a_run()
    cold = {one.phase: one for one in run.observations if isinstance(one, Point) and (one.arm, one.rep) == ("cold", 0)}
    blind = [
        replace(one, root=cold[one.phase].root, logits=cold[one.phase].logits, tokens=cold[one.phase].tokens)
        if isinstance(one, Point) and one.arm == "other"
        else one
        for one in run.observations
    ]
    swapped(folder, replace(run, observations=tuple(blind)))


@fixture("CG309", "CG301")
def control_missing(folder: Path) -> None:
    def change(body: Body) -> None:
        cell = body["cells"][0]
        cell["checks"] = [check for check in cell["checks"] if not check["code"].startswith("CTRL.")]

    edited(folder, change)


# -- CG5xx: the ledger -------------------------------------------------------------------------


@fixture("CG501")
def event_without_target(folder: Path) -> None:
    valid(folder)
    add_event(folder, target=NOBODY)


@fixture("CG501")
def event_without_successor(folder: Path) -> None:
    valid(folder)
    issue(a_run_elsewhere(3, 3).data(), folder)
    add_event(folder, kind="supersede", target=ids(folder)[0], by=NOBODY)


@fixture("CG501")
def ledger_circle(folder: Path) -> None:
    valid_ledger(folder)
    old, new = ids(folder)[:2]
    add_event(folder, kind="supersede", target=new, by=old)


@fixture("CG501")
def differs_wrong(folder: Path) -> None:
    issue(a_run(1, 1).data(), folder)
    file_run(folder, a_run(2, 2))
    old, new = ids(folder)
    add_event(folder, kind="supersede", target=old, by=new, differs=("subject.model.digest",))


@fixture("CG501")
def withdrawn_twice(folder: Path) -> None:
    valid(folder)
    issue(a_run_elsewhere(3, 3).data(), folder)
    for hour in (1, 2):
        add_event(folder, target=ids(folder)[0], created=f"2026-01-09T0{hour}:00:00Z")


@fixture("CG501")
def stop_withdrawn(folder: Path) -> None:
    valid_stop(folder)
    issue(a_run_elsewhere(3, 3).data(), folder)
    add_event(folder, target=ids(folder)[0])


@fixture("CG501")
def stop_behind_a_chain(folder: Path) -> None:
    valid_stop(folder)
    for day in (2, 3):
        issue(a_run(day, day).data(), folder)
    issue(a_run_elsewhere(4, 4).data(), folder)
    add_event(folder, target=ids(folder)[2])


@fixture("CG501")
def failed_cell_not_run_again(folder: Path) -> None:
    text = SCENARIO.replace(b"{at: [1, 2]}", b"{at: [1, 2, 3]}").replace(b"{at: 2}", b"{at: [1, 2]}")
    other_cells = recorded(scenario(text), run=2, day=2)
    valid_stop(folder)
    file_run(folder, other_cells)
    old, new = read_store(folder).of_claim(KEY)
    event = supersede_event(old, new, "2026-01-09T00:00:00Z")
    write_event(folder, event)
    regenerate(folder, KEY)


@fixture("CG502")
def status_edited(folder: Path) -> None:
    valid_ledger(folder)
    old = next(path for path in certificates(folder) if b'"superseded"' in path.read_bytes())
    value = json.loads(old.read_bytes())
    value["status"] = {"state": "current", "events": []}
    old.write_bytes(canonical.render(value))


@fixture("CG502", "CG503")
def event_deleted(folder: Path) -> None:
    valid_ledger(folder)
    the_event(folder).unlink()


@fixture("CG502")
def readme_edited(folder: Path) -> None:
    valid_ledger(folder)
    rewrite(folder / KEY / "README.md", b"superseded", b"current")


@fixture("CG502")
def readme_missing(folder: Path) -> None:
    valid(folder)
    (folder / KEY / "README.md").unlink()


@fixture("CG502")
def readme_of_nothing(folder: Path) -> None:
    valid(folder)
    (folder / "README.md").write_text("# All certificates passed\n")


@fixture("CG503")
def two_current(folder: Path) -> None:
    issue(a_run(1, 1).data(), folder)
    file_run(folder, a_run(2, 2))


@fixture("CG504", "CG502")
def stop_hidden_by_hand(folder: Path) -> None:
    valid_stop(folder)
    value = json.loads(only(folder).read_bytes())
    value["status"] = {"state": "withdrawn", "events": []}
    only(folder).write_bytes(canonical.render(value))


@fixture("CG602")
def unknown_algorithm(folder: Path) -> None:
    run = a_run()
    told = [replace(one, algorithm="md5-part-v1") if isinstance(one, Trust) else one for one in run.observations]
    file_run(folder, replace(run, observations=tuple(told)))


# -- CG604, CG701, CG903 -----------------------------------------------------------------------


@fixture("CG603")
def another_procedure(folder: Path) -> None:
    file_run(folder, recorded(scenario(SCENARIO.replace(b"id: T02", b"id: A01"))))


@fixture("CG604")
def dirty_tree(folder: Path) -> None:
    file_run(folder, a_run().with_header(source={**a_run().header.source, "tree": "dirty"}))


@fixture("CG604")
def mutant(folder: Path) -> None:
    file_run(folder, a_run().with_target(group="harness.mutants"))


@fixture("CG604")
def partial_run(folder: Path) -> None:
    file_run(folder, a_run().with_header(selected=(a_run().header.selected[0],)))


@fixture("CG604")
def interrupted(folder: Path) -> None:
    file_run(folder, replace(a_run(), interrupted=True))


@fixture("CG604")
def nothing_ran(folder: Path) -> None:
    absent = CellEvent(cell=CellId("T02[scale=16,at=1]"), event="not_run", reason="hardware_absent")
    file_run(folder, replace(a_run(), observations=(absent,)))


@fixture("CG701", "CG301")
def cell_dropped(folder: Path) -> None:
    def change(body: Body) -> None:
        body["cells"].pop()
        body["totals"].update({"planned": 1, "excluded": 0})

    edited(folder, change)


@fixture("CG701", "CG301")
def cell_twice(folder: Path) -> None:
    def change(body: Body) -> None:
        body["cells"].append(body["cells"][0])
        body["totals"].update({"planned": 3, "pass": 2})

    edited(folder, change)


@fixture("CG701", "CG301")
def axis_shortened(folder: Path) -> None:
    def change(body: Body) -> None:
        body["axes"][1]["values"].pop()

    edited(folder, change)


@fixture("CG701", "CG301")
def cell_excluded_by_hand(folder: Path) -> None:
    def change(body: Body) -> None:
        passed, excluded = body["cells"]
        excluded.update({"outcome": "not_run", "reason": "hardware_absent"})
        body["totals"].update({"excluded": 0, "not_run": 1})
        body["decision"]["overall"] = "inconclusive"
        assert passed["outcome"] == "pass"

    edited(folder, change)


@fixture("CG903")
def path_in_evidence(folder: Path) -> None:
    run = a_run()
    turn = next(one for one in run.observations if isinstance(one, Turn))
    told = StepRecord(
        cell=turn.cell, arm="warm", rep=0, label="first", kind="run", ended="done", detail={"library": HOME}
    )
    file_run(folder, replace(run, observations=(*run.observations, told)))


@fixture("CG903")
def path_in_body(folder: Path) -> None:
    file_run(folder, a_run().with_target(identity={"library": HOME}))
