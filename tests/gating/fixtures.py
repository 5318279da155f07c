"""Certificates folders for the gate: valid ones, and ones with exactly one thing wrong.

A fixture starts from a folder that the product itself issued, and changes one thing. Where the change would make other
digests or names wrong, these are put right again, so that only the rule under test has something to say. Rules that look
at evidence by their own logic cannot be reached without CG301 (a body is nothing but its evidence): such fixtures name it
in ``besides``, and the tests leave it out to see the rule alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from harness.certifying.issue import issue
from harness.certifying.ledger import regenerate, write_event, write_once
from harness.certifying.store import certificate_path, evidence_path, read_store
from harness.deriving.ids import certificate_id
from harness.model.certificate import Certificate, Event, Status
from harness.model.evidence import Distance, PartRow, PartTable, Point
from harness.model.scenario import Scenario
from harness.model.values import NO_LAYER, CertificateState, Family, Phase, ReasonCode, Sha256
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


_EXACT = b"exact: {candidate: warm.again, reference: cold.a, witness: copied}"
_OTHER = b"seen: {candidate: other.a, reference: cold.a}"
_LIMITS = b"{recurrent: {ulp: 100}, logits: {ulp: 100}}"


@cache
def a_near_run() -> Recorded:
    """A run whose restored session ends in a recurrent state that lies within the limits of its scenario."""
    return _lying_near(
        recorded(
            scenario(SCENARIO.replace(_EXACT, _EXACT[:-1].replace(b"exact", b"near") + b", limits: " + _LIMITS + b"}"))
        )
    )


def a_run_that_may_reorder(number: int, *, told: bool) -> Recorded:
    """A run by a scenario with limits for engines that sum in another order; ``told``: of such an engine."""
    text = SCENARIO.replace(_EXACT, _EXACT[:-1] + b", if_reordered: " + _LIMITS + b"}")
    run = recorded(scenario(text), run=number, day=number)
    if not told:
        return run
    identity = {**run.header.target["identity"], "reordered_families": "recurrent"}  # type: ignore[dict-item]
    return _lying_near(run.with_target(identity=identity))


def a_run_with_a_control_beyond(ulp: int, logits: int = 0) -> Recorded:
    """A near run whose other text must lie beyond the limits, and lies so many places away; its logits maybe others."""
    text = SCENARIO.replace(_EXACT, _EXACT[:-1].replace(b"exact", b"near") + b", limits: " + _LIMITS + b"}")
    text = text.replace(_OTHER, _OTHER[:-1] + b", beyond: again}")
    run = _lying_near(recorded(scenario(text)))
    for part, places in ((part_name("recurrent"), ulp), (Family.LOGITS, logits or ulp)):
        run = _measured(run, "other-seen", part, ulp=places)
    return run


def _lying_near(run: Recorded) -> Recorded:
    part = part_name("recurrent")
    return _measured(run.with_part("warm", "again", Phase.END, part), "again", part, ulp=7)


def _measured(run: Recorded, check: str, part: str, *, ulp: int) -> Recorded:
    """A run with one more distance, of a part at the end."""
    tables = [one for one in run.observations if isinstance(one, PartTable)]
    row = next((row for one in tables for row in one.rows if row.name == part), None)
    found = Distance(
        cell=next(one.cell for one in run.observations if isinstance(one, Point)),
        check=check,
        phase=Phase.END,
        part=part,
        family=row.family if row else Family.LOGITS,
        layer=row.layer if row else NO_LAYER,
        element_type=row.element_type if row else "f32",
        elements=prod(row.shape) if row else 512,
        differing_elements=1,
        ulp=ulp,
        relative_ppb=90,
        absolute_nano=90,
        finite=True,
    )
    return replace(run, observations=(*run.observations[:-2], found, *run.observations[-2:]))


def valid_beyond(folder: Path) -> None:
    """A near run whose control lies beyond its limits."""
    issue(a_run_with_a_control_beyond(ulp=101).data(), folder)


def valid_near(folder: Path) -> None:
    """Two numeric paths that lie within the limits of their scenario."""
    issue(a_near_run().data(), folder)


def valid_reordered(folder: Path) -> None:
    """Two engines by one scenario: one is held to equality, the other one, which sums in another order, to limits."""
    issue(a_run_that_may_reorder(1, told=False).data(), folder)
    issue(a_run_that_may_reorder(2, told=True).data(), folder)


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
    "valid_near": valid_near,
    "valid_beyond": valid_beyond,
    "valid_reordered": valid_reordered,
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
