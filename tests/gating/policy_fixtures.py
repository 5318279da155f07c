"""Folders and policies that fit, and ones in which exactly one demand of the policy is not met.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.certifying.issue import issue
from harness.wire.policy_doc import parse_policy
from tests.fakes.evidence import recorded
from tests.gating.fixtures import (
    ASKED,
    KEY,
    VALID,
    a_failing_run,
    a_run,
    a_run_elsewhere,
    fixture,
    valid,
    valid_stop,
    valid_tokens,
)
from tests.gating.ledger_fixtures import waive

HEAD = "schema: statecert/policy/v1\nwhy: A test asks for one thing.\n"
WHOLE = """
claims: [{claim: T02/fake-digests/cpu-*, cells: ["T02[scale=16,at=1]"], observability: parts}]
observability: tokens
max_age_days: 400
max_folder_bytes: 16777216
runtimes:
  - {device: cpu-*, facts: {name: [none, other]}}
  - {device: cuda-*, facts: {driver: ["535.*"]}}
waivers: {rules: [CG010], max_days: 366}
levels:
  experimental: {}
  opt-in: {certificates: [T02], axes: [exactness]}
  default: {axes: [robustness], reuse: told}
promotions:
  - {engine: fake, device: cpu-*, k: f32, v: f32, level: default}
  - {engine: other, device: cuda-*, k: q8_0, v: f16, level: experimental}
"""
"""Asks for everything that the valid folder has."""
DAY = "2026-06-01"


def asks(text: str) -> Callable[[Path], dict[str, Any]]:
    """What a gate is asked by a policy, on a day."""
    return lambda _: {"policy": parse_policy((HEAD + text).encode(), "policy.yaml"), "day": DAY}


def promotes(**row: str) -> Callable[[Path], dict[str, Any]]:
    """The whole policy, with another row in its promotion table."""
    whole = {"engine": "fake", "device": "cpu-*", "k": "f32", "v": "f32", "level": "default", **row}
    fields = ", ".join(f"{name}: {value}" for name, value in whole.items())
    levels = WHOLE[WHOLE.index("levels:") : WHOLE.index("promotions:")]
    return asks(f"{levels}promotions: [{{{fields}}}]\n")


def valid_policy(folder: Path) -> None:
    valid(folder)


def valid_policy_waived(folder: Path) -> None:
    valid(folder)
    waive(folder, until="2026-12-31")


VALID.update(valid_policy=valid_policy, valid_policy_waived=valid_policy_waived)
ASKED.update(valid_policy=asks(WHOLE), valid_policy_waived=asks(WHOLE))


@fixture("CG011", about=asks("claims: [{claim: T99/fake-digests/cpu-*}]\n"))
def required_claim_missing(folder: Path) -> None:
    valid(folder)


@fixture("CG011", about=asks(f"claims: [{{claim: {KEY}}}]\n"))
def required_claim_stops(folder: Path) -> None:
    valid_stop(folder)


@fixture("CG011", about=asks(f'claims: [{{claim: {KEY}, cells: ["T02[scale=16,at=2]"]}}]\n'))
def required_cell_missing(folder: Path) -> None:
    """The scenario excludes it, so it never passed."""
    valid(folder)


@fixture("CG011", about=asks(f"claims: [{{claim: {KEY}, observability: parts}}]\n"))
def required_grade_not_met(folder: Path) -> None:
    valid_tokens(folder)


@fixture("CG012", about=asks("observability: image\n"))
def grade_not_met(folder: Path) -> None:
    valid_tokens(folder)


@fixture("CG013", about=asks("waivers: {rules: [CG601]}\n"))
def waiver_of_a_rule_not_allowed(folder: Path) -> None:
    valid_policy_waived(folder)


@fixture("CG013", about=asks("waivers: {rules: [CG010], max_days: 30}\n"))
def waiver_too_long(folder: Path) -> None:
    valid(folder)
    waive(folder)


@fixture("CG505", "CG011", about=asks("claims: [{claim: T02/*/cpu-*}]\n"))
def required_claim_contested(folder: Path) -> None:
    issue(a_run(1, 1).data(), folder)
    stop_elsewhere(folder)


def stop_elsewhere(folder: Path) -> None:
    failing = a_failing_run()
    machine = a_run_elsewhere(2, 2).header
    issue(
        failing.with_header(run_id=machine.run_id, created=machine.created, environment=machine.environment).data(),
        folder,
    )


@fixture("CG605", about=asks("max_age_days: 100\n"))
def expired(folder: Path) -> None:
    """Of 1 January, on 1 June."""
    valid(folder)


@fixture("CG605", about=lambda _: {**asks("max_age_days: 100\n")(Path()), "day": "2025-12-01"})
def of_a_day_to_come(folder: Path) -> None:
    valid(folder)


@fixture("CG605", about=asks("runtimes: [{device: cpu-*, facts: {driver: ['535.*', '550.*']}}]\n"))
def of_another_driver(folder: Path) -> None:
    valid(folder)


@fixture("CG014", about=asks("max_folder_bytes: 1000\n"))
def folder_too_large(folder: Path) -> None:
    valid(folder)


@fixture("CG702", about=promotes(device="cuda-*"))
def promoted_without_certificate(folder: Path) -> None:
    valid(folder)


@fixture("CG702", about=promotes(level="opt-in"))
def promoted_stop(folder: Path) -> None:
    valid_stop(folder)


LATENCY = """
levels: {opt-in: {certificates: [T02], axes: [latency]}}
promotions: [{engine: fake, device: cpu-*, k: f32, v: f32, level: opt-in}]
"""


@fixture("CG702", about=asks(LATENCY))
def promoted_axis_not_evaluated(folder: Path) -> None:
    valid(folder)


SHOWN = """
levels: {default: {certificates: [CERTIFICATE], axes: [exactness]}}
promotions: [{engine: fake, device: cpu-*, k: f32, v: f32, level: default}]
"""


def valid_shown(folder: Path) -> None:
    """Promoted as the default: a flipped bit came back through a restore."""
    issue(recorded().data(), folder)


VALID.update(valid_shown=valid_shown)
ASKED.update(valid_shown=asks(SHOWN.replace("CERTIFICATE", "T01")))


@fixture("CG702", about=asks(SHOWN.replace("CERTIFICATE", "T02")))
def promoted_on_the_engines_word(folder: Path) -> None:
    """Its one control is another text: an engine that computes all again passes as well."""
    valid(folder)


@fixture("CG702", about=promotes())
def promoted_contested(folder: Path) -> None:
    issue(a_run(1, 1).data(), folder)
    stop_elsewhere(folder)
