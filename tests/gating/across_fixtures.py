"""Certificates that claim something of another build which the evidence does not show."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from harness.certifying.issue import issue
from harness.model.evidence import Point, Turn
from harness.model.values import Phase
from tests.fakes.evidence import Recorded, recorded, scenario
from tests.gating.fixtures import VALID, file_run, fixture, good_body, part_name

SCENARIO = b"""
schema: statecert/scenario/v1
id: T03
title: One image into another build
why: The smallest run that a gate has every question about across builds.
suites: {default: [16]}
procedure:
  observability: parts
  requires: [parts, logits, boundaries, image, builds]
  families: [kv, recurrent]
  chunk: 64
  engine: {arch: hybrid}
  axes: {}
  prompts:
    A: [{seed: 1, length: {chunks: 1, plus: 2}}]
    wrong: [{seed: 1, length: {chunks: 1, plus: 2}, change_at: 1}]
  arms:
    - id: stayed
      role: reference
      steps: [{run: {prompt: A, decode: 2, as: a}}]
    - id: moved
      role: candidate
      steps:
        - {run: {prompt: A, decode: 2, as: a}}
        - {export: {image: i, as: out}}
        - {restart: {how: stop, engine: {build: other}, as: changed}}
        - {import: {image: i, session: second, may_refuse: true, as: in}}
    - id: other_text
      role: control
      steps: [{run: {prompt: wrong, decode: 2, as: a}}]
  checks:
    - id: across
      across:
        restarted: moved.changed
        at: moved.in
        codes: [format, layout]
        candidate: moved.in
        reference: stayed.a
        fields: [parts, logits]
        limits: {recurrent: {ulp: 100}, logits: {ulp: 100}}
    - {id: other-seen, seen: {candidate: other_text.a, reference: stayed.a}}
"""
OLD, NEW = "a7" * 32, "b8" * 32
"""Digests of what the two builds have loaded."""


@cache
def a_move(before: str = OLD, after: str = NEW) -> Recorded:
    """A run in which the other build holds what the first one wrote."""
    return recorded(scenario(SCENARIO)).with_step("moved", "changed", detail=_builds(before, after))


def a_refusal(code: str) -> Recorded:
    """A run in which the other build refuses the image."""
    gone = lambda one: isinstance(one, Point | Turn) and (one.arm, one.label) == ("moved", "in")  # noqa: E731
    return a_move().without(gone).with_step("moved", "in", ended="refused", code=code, detail={})


def _builds(before: str, after: str) -> dict[str, Any]:
    told = {"build_before": before, "build": after}
    return {"how": "stop", "before": 1, "process": 2, **{name: build for name, build in told.items() if build}}


def valid_across(folder: Path) -> None:
    """An image that another build took, and one that it refused by name."""
    issue(a_move().data(), folder)
    later = replace(a_refusal("format"), header=recorded(scenario(SCENARIO), run=2, day=2).header)
    issue(later.data(), folder)


VALID["valid_across"] = valid_across


def claimed(folder: Path, run: Recorded, good: Recorded) -> None:
    """Evidence of one run under the claims of a good one, every digest put right."""
    file_run(folder, run, good_body(good))


@fixture("CG314", "CG301")
def one_build_twice(folder: Path) -> None:
    claimed(folder, a_move(OLD, OLD), a_move())


@fixture("CG314", "CG301")
def build_not_told(folder: Path) -> None:
    claimed(folder, a_move("", ""), a_move())


@fixture("CG314", "CG301")
def refused_without_a_name(folder: Path) -> None:
    claimed(folder, a_refusal("short_buffer"), a_refusal("format"))


@fixture("CG314", "CG301")
def taken_and_far_away(folder: Path) -> None:
    claimed(folder, a_move().with_part("moved", "in", Phase.RESTORED, part_name("recurrent")), a_move())


@fixture("CG314", "CG301", "CG307")
def taken_and_not_looked_at(folder: Path) -> None:
    claimed(folder, a_move().without_point("moved", "in", Phase.RESTORED), a_move())
