"""Certificates whose body does not follow from their evidence.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules.
"""

from __future__ import annotations

from pathlib import Path

from tests.gating.fixtures import NOBODY, Body, a_run, edited, fixture, swapped


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
