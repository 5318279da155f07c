"""Whatever byte or field of a valid folder is changed, the gate ends in 2."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness.certifying.ledger import regenerate, withdraw
from harness.deriving.ids import certificate_id, certificate_name
from harness.errors import ExitCode
from harness.gating.gate import gate
from harness.model.values import ReasonCode
from harness.wire import canonical
from tests.gating.fixtures import KEY, ids, only, the_event, the_evidence, valid

FLIPS = int(os.environ.get("STATECERT_FLIPS", "150"))
"""Flips in a file that is too long for all of them; more by environment, when there is time."""


def flips(size: int, seed: int) -> Iterator[tuple[int, int]]:
    """Byte and bit of each flip: every byte of a short file, a sample of a long one, always both ends."""
    random_bits = random.Random(seed)
    inside = (
        range(size)
        if size <= FLIPS * 2
        else sorted({0, 1, size - 2, size - 1, *random_bits.sample(range(size), FLIPS)})
    )
    for place in inside:
        yield place, 1 << random_bits.randrange(8)


def survivors(folder: Path, path: Path, seed: int) -> list[tuple[int, int]]:
    """Flips of one bit of a file after which the gate does not end in 2."""
    whole = path.read_bytes()
    found = []
    for place, bit in flips(len(whole), seed):
        changed = bytearray(whole)
        changed[place] ^= bit
        path.write_bytes(changed)
        if gate([folder]).exit_code is not ExitCode.INVALID:
            found.append((place, bit))
    path.write_bytes(whole)
    return found


def test_no_bit_of_a_certificate_can_be_flipped(tmp_path: Path) -> None:
    valid(tmp_path)

    assert survivors(tmp_path, only(tmp_path), 1) == []
    assert gate([tmp_path]).exit_code is ExitCode.GOOD


def test_no_bit_of_evidence_can_be_flipped(tmp_path: Path) -> None:
    valid(tmp_path)

    assert survivors(tmp_path, the_evidence(tmp_path), 2) == []


def test_no_bit_of_an_event_can_be_flipped(tmp_path: Path) -> None:
    valid(tmp_path)
    withdraw(tmp_path, ids(tmp_path)[0], ReasonCode.HARNESS_BUG, "2026-02-01T00:00:00Z")

    assert survivors(tmp_path, the_event(tmp_path), 3) == []


def test_no_bit_of_a_generated_page_can_be_flipped(tmp_path: Path) -> None:
    valid(tmp_path)

    assert survivors(tmp_path, tmp_path / KEY / "README.md", 4) == []


@pytest.mark.parametrize("keep", [0, 1, 1000])
def test_a_file_that_was_cut_is_refused(tmp_path: Path, keep: int) -> None:
    valid(tmp_path)
    for path in (only(tmp_path), the_evidence(tmp_path)):
        whole = path.read_bytes()
        path.write_bytes(whole[:keep])

        assert gate([tmp_path]).exit_code is ExitCode.INVALID
        path.write_bytes(whole)


def test_no_field_of_a_body_can_be_changed_with_its_digests(tmp_path: Path) -> None:
    valid(tmp_path)
    path = only(tmp_path)
    whole = path.read_bytes()
    survived, tried = [], set()
    for steps in leaves(json.loads(whole)["body"]):
        shape = tuple("#" if isinstance(step, int) else step for step in steps)
        if shape in tried:
            continue
        tried.add(shape)
        value = json.loads(whole)
        change(value["body"], steps)
        moved = refile(tmp_path, path, value)
        if gate([tmp_path]).exit_code is not ExitCode.INVALID:
            survived.append(steps)
        moved.unlink()
    path.write_bytes(whole)

    assert survived == []
    assert len(tried) > 80


def leaves(value: Any, steps: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of all scalars, empty lists and empty objects."""
    if isinstance(value, (dict, list)) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*steps, key))
    else:
        yield steps


def change(body: Any, steps: tuple[str | int, ...]) -> None:
    """Change one value to another one of its kind that is as plausible as can be."""
    for step in steps[:-1]:
        body = body[step]
    body[steps[-1]] = other(body[steps[-1]])


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        vocabulary = {"pass": "stop", "excluded": "not_run", "clean": "no_repository", "host": "parent", "": "x"}
        return vocabulary.get(value, value[:-1] + ("0" if value[-1:] != "0" else "1"))
    return {**value, "more": 1} if isinstance(value, dict) else [*value, "more"]


def refile(folder: Path, path: Path, value: dict[str, Any]) -> Path:
    """Write a certificate under the name that its changed body has; generate its page if it can be read."""
    path.unlink(missing_ok=True)
    moved = path.with_name(certificate_name(str(value["body"]["run"]["created"]), certificate_id(value["body"])))
    moved.write_bytes(canonical.render(value))
    with suppress(Exception):  # what the producer refuses to read is a finding of the gate anyway
        regenerate(folder, KEY)
    return moved
