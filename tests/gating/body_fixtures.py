"""Certificates whose body contradicts itself.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from harness.model.evidence import PartRow
from harness.model.values import Sha256
from tests.gating.fixtures import (
    Body,
    a_failing_run,
    a_near_run,
    a_run,
    a_varying_run,
    edited,
    file_run,
    fixture,
    relabelled,
    swapped,
)


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


@fixture("CG302", "CG301")
def axis_hidden(folder: Path) -> None:
    def change(body: Body) -> None:
        del body["decision"]["by_axis"]["tolerance"]

    edited(folder, change, a_near_run())


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
def rows_of_another_type_than_told(folder: Path) -> None:
    """The engine says f16 and has f32."""
    swapped(folder, a_run().with_target(identity={"kv_type": "f16"}))


@fixture("CG303", "CG301")
def types_of_k_and_v_swapped(folder: Path) -> None:
    swapped(folder, a_run().with_target(identity={"k_type": "f16", "v_type": "f32"}))


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
