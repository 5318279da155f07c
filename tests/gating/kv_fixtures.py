"""Certificates of the matrix of element types for the gate: valid ones, and ones with exactly one thing wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.certifying.issue import issue
from tests.fakes.campaign import Flown
from tests.fakes.kv import altered, measured, timed
from tests.gating.campaign_fixtures import file_campaign
from tests.gating.count_fixtures import body_of, edited, passed
from tests.gating.fixtures import VALID, Body, fixture


def dearer() -> Flown:
    """A lossy form that is smaller and costs more in all."""
    return timed("lossy_lcg2", encode=9000)


def moved() -> Flown:
    """An exact arm that differs from itself, so that nothing can be said."""
    return timed("exact_again", **{"import": 900})


def served() -> Flown:
    """An engine that answers an exact lookup with a lossy page."""

    def taken(line: dict[str, Any]) -> None:
        line["observed"] = "taken"

    return altered(measured(), lambda one: one.get("name") == "lossy for exact", taken)


def valid_kv(folder: Path) -> None:
    """A matrix within its limits."""
    issue(measured().data(), folder)


def valid_kv_stop(folder: Path) -> None:
    """An honest stop of a dearer form."""
    issue(dearer().data(), folder)


def valid_kv_served(folder: Path) -> None:
    """An honest stop of an engine that takes lossy for exact."""
    issue(served().data(), folder)


def valid_kv_inconclusive(folder: Path) -> None:
    """A matrix inside the noise, which says so."""
    issue(moved().data(), folder)


VALID.update(
    {
        "valid_kv": valid_kv,
        "valid_kv_stop": valid_kv_stop,
        "valid_kv_served": valid_kv_served,
        "valid_kv_inconclusive": valid_kv_inconclusive,
    }
)


@fixture("CG310", "CG301")
def kv_dearer_hidden(folder: Path) -> None:
    def change(body: Body) -> None:
        body["results"][1] |= {"outcome": "pass", "reasons": []}
        passed(body)

    edited(folder, dearer(), change)


@fixture("CG310", "CG301")
def kv_raised(folder: Path) -> None:
    edited(folder, moved(), passed)


@fixture("CG310", "CG301")
def kv_cell_left_out(folder: Path) -> None:
    def change(body: Body) -> None:
        del body["results"][1]

    edited(folder, measured(), change)


@fixture("CG310", "CG301", "CG311")
def kv_size_told_wrong(folder: Path) -> None:
    def change(body: Body) -> None:
        body["results"][1]["lossy_bytes"] -= 1
        body["results"][1]["formula_bytes"] -= 1

    edited(folder, measured(), change)


@fixture("CG311", "CG301")
def kv_slower_than_told(folder: Path) -> None:
    file_campaign(folder, dearer(), body_of(measured()))


@fixture("CG311", "CG301")
def kv_probe_did_not_hold(folder: Path) -> None:
    def other(line: dict[str, Any]) -> None:
        line["observed"] = "other rows"

    harmed = altered(measured(), lambda one: one.get("name") == "transposed f16", other)
    file_campaign(folder, harmed, body_of(measured()))
