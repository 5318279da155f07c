"""Certificates of the matrix of element types for the gate: valid ones, and ones with exactly one thing wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.certifying.issue import issue
from tests.fakes.campaign import Flown
from tests.fakes.kv import altered, measured, of_version, timed
from tests.gating.campaign_fixtures import file_campaign
from tests.gating.count_fixtures import body_of, edited, passed
from tests.gating.fixtures import VALID, Body, fixture
from tests.gating.policy_fixtures import asks


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


@fixture("CG310")
def kv_limits_loosened(folder: Path) -> None:
    """A dearer form, by a procedure of its own that allows a thousand times the cost."""
    lines = [dict(line) for line in dearer().lines]
    procedure = lines[0]["procedure"]
    lines[0]["procedure"] = {**procedure, "limits": {**procedure["limits"], "total_ppm": 1_000_000_000}}
    issue(Flown(lines=lines).data(), folder)


@fixture("CG310")
def kv_version_dropped(folder: Path) -> None:
    """A matrix whose procedure names no version, and asks for less because of it."""
    issue(of_version(1).data(), folder)


@fixture("CG310")
def kv_version_before_paths(folder: Path) -> None:
    """A matrix that declared no path of a restore, and names its version."""
    issue(of_version(2).data(), folder)


@fixture("CG310", "CG301", "CG311")
def kv_path_hidden(folder: Path) -> None:
    """Another path took the place of the declared one, and the cell says that it passed."""

    def change(body: Body) -> None:
        body["results"][1]["restored"] = "torch"

    edited(folder, measured(), change)


@fixture("CG310", "CG301", "CG311")
def kv_percentile_of_too_few(folder: Path) -> None:
    """The 90th percentile of ten restores, which shows nothing."""

    def change(body: Body) -> None:
        body["results"][1]["lossy_restore_p90_ns"] = 2300

    edited(folder, measured(), change)


@fixture("CG311", "CG301")
def kv_percentile_told_wrong(folder: Path) -> None:
    def change(body: Body) -> None:
        body["results"][1]["lossy_decode_p90_ns"] -= 1

    edited(folder, measured(), change)


def _promotes(k: str, v: str) -> Callable[[Path], dict[str, Any]]:
    row = f"{{engine: fake, device: cpu-*, k: {k}, v: {v}, level: experimental}}"
    return asks(f"levels: {{experimental: {{certificates: [kv_slice]}}}}\npromotions: [{row}]\n")


@fixture("CG702", about=_promotes("q4_0", "q4_0"))
def promoted_pair_of_another_row(folder: Path) -> None:
    """The matrix passed, and has f16/f16 alone."""
    valid_kv(folder)


@fixture("CG702", about=_promotes("f16", "f16"))
def promoted_stop_of_its_row(folder: Path) -> None:
    valid_kv_stop(folder)
