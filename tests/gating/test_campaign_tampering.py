"""Committed campaigns with one line left out or doubled, or one field of the body changed: judge or gate refuses it."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from harness.deriving.ids import certificate_id
from harness.errors import ExitCode, StatecertError
from harness.gating.campaigns import QUESTIONS
from harness.gating.gate import gate
from harness.model.certificate import Certificate, Status
from harness.model.values import CertificateState
from tests.gating.tampered_lines import EXCEPTIONS, current, decision, lines_of, survivors
from tests.gating.test_tampering import DROPPED, changed, filed, places, written

CAMPAIGNS = sorted(current())
QUICK = 2
"""Lines of each type that are tried here; ``python -m tests.gating.tampered_lines`` tries all."""


def test_every_kind_of_campaign_has_a_current_record() -> None:
    assert {name.partition("/")[0] for name in CAMPAIGNS} >= {
        "faults", "fuzz", "kill", "kv", "kv_slice", "matrix", "selftest", "soak",
    }  # fmt: skip


@pytest.mark.parametrize("name", [name for name in CAMPAIGNS if not name.startswith("kv/")])
def test_no_line_can_be_left_out_or_doubled(name: str) -> None:
    assert [found for found in survivors(current()[name], QUICK) if found[0] not in EXCEPTIONS] == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [name for name in CAMPAIGNS if not name.startswith("kv/")])
def test_a_changed_field_with_its_digests_makes_the_gate_end_in_2(tmp_path: Path, name: str, seed: int) -> None:
    draw = random.Random(f"{name} {seed}")
    body = current()[name]
    certificate = Certificate(id=certificate_id(body), body=body, status=Status(state=CertificateState.CURRENT))
    other = changed(certificate, draw.choice([*places(body)]), draw)
    written(tmp_path, certificate).unlink()
    try:
        filed(tmp_path, Certificate(id=certificate_id(other), body=other, status=certificate.status))
    except (StatecertError, KeyError, TypeError, ValueError):
        return  # cannot even be named or shown

    assert gate([tmp_path]).exit_code is ExitCode.INVALID


@pytest.mark.parametrize("name", [name for name in CAMPAIGNS if not name.startswith(("kv/", "selftest/"))])
def test_no_changed_field_breaks_the_questions_of_a_campaign(name: str) -> None:
    draw, body = random.Random(name), current()[name]
    certificate = Certificate(id=certificate_id(body), body=body, status=Status(state=CertificateState.CURRENT))
    records = [json.loads(line) for line in lines_of(body)]
    kinds = {tuple("" if isinstance(key, int) else key for key in place): place for place in places(body)}

    for place in kinds.values():
        if place[-1] == DROPPED:
            continue  # what lacks a field fits no schema, so that nobody is asked
        other: Any = changed(certificate, place, draw)
        list(QUESTIONS[body["campaign"]].in_records(other, records))


def test_a_mutant_and_a_code_that_no_record_has_are_told() -> None:
    matrix, table = copy.deepcopy(current()["matrix/torch-tiny"]), copy.deepcopy(current()["kv_slice/torch-tiny"])
    matrix["mutants"][3]["id"] = "K01.unknown"
    table["results"][0]["codec"] = "lcg0"
    table["results"][1]["name"] = table["results"][1]["name"].rpartition("=")[0] + "=lcg9"

    found = [
        problem.at
        for body in (matrix, table)
        for problem in QUESTIONS[body["campaign"]].in_records(body, [json.loads(line) for line in lines_of(body)])
    ]

    assert found == ["/body/mutants/3/id", "/body/results/0/codec", "/body/results/1/codec"]


def without(name: str, kind: str, place: int) -> object:
    lines = lines_of(current()[name])
    gone = [line for line in lines[1:-1] if json.loads(line)["type"] == kind][place]
    return decision([line for line in lines if line is not gone])


def test_a_restore_without_a_flip_cannot_be_left_out_of_the_single_bit_campaign() -> None:
    assert without("faults/torch-tiny", "clean", 1) is None


def test_a_child_in_the_middle_of_a_lane_cannot_lose_its_trust() -> None:
    assert without("kill/torch-tiny", "trust", 40) is None


def test_a_question_asked_twice_is_refused() -> None:
    lines = lines_of(current()["selftest/statecert-gate"])

    assert decision([*lines[:2], *lines[1:]]) is None


@pytest.mark.parametrize("kind", ["kv_oracle", "kv_memory"])
def test_a_measurement_that_nothing_is_judged_by_cannot_be_left_out_of_the_matrix_of_element_types(kind: str) -> None:
    lines = lines_of(current()["kv_slice/torch-tiny"])
    gone: Any = [line for line in lines[1:-1] if json.loads(line)["type"] == kind][-1]

    assert decision([line for line in lines if line is not gone]) is None
