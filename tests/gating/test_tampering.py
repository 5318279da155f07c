"""The committed certificates, changed at random: whatever was touched, and however well it was covered up, the gate sees it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.certifying.ledger import regenerate
from harness.certifying.store import certificate_path, evidence_path, read_evidence, read_store
from harness.deriving.ids import certificate_id
from harness.errors import ExitCode, StatecertError
from harness.gating.gate import gate
from harness.model.certificate import Certificate, Status
from harness.model.values import CertificateState
from harness.wire.certificate_doc import format_certificate

COMMITTED = Path(__file__).parents[2] / "certificates"
TRIES = 25
Body = dict[str, Any]
Place = tuple[str | int, ...]
DROPPED = "<one of these left out>"


@cache
def committed() -> tuple[Certificate, ...]:
    """Those that speak now: a superseded one, alone in a folder, is stale by its former procedure."""
    every = read_store(COMMITTED).certificates.values()
    return tuple(one for one in every if one.status.state is CertificateState.CURRENT)


def evidence_of(certificate: Certificate) -> Path:
    body: Any = certificate.body
    return Path(evidence_path(body["run"]["evidence"]["sha256"]))


def written(folder: Path, certificate: Certificate) -> Path:
    """A folder that holds this one certificate, and everything that goes with it."""
    blob = evidence_of(certificate)
    (folder / blob).parent.mkdir(parents=True, exist_ok=True)
    (folder / blob).write_bytes(read_evidence(COMMITTED, blob.stem))
    (folder / ".gitattributes").write_bytes((COMMITTED / ".gitattributes").read_bytes())
    return filed(folder, certificate)


def filed(folder: Path, certificate: Certificate) -> Path:
    body: Any = certificate.body
    path = folder / certificate_path(certificate)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(format_certificate(certificate))
    regenerate(folder, body["claim_key"])
    return path


def flip(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= draw.randrange(1, 256)
    path.write_bytes(bytes(data))


def places(value: object, at: Place = ()) -> Iterator[Place]:
    """Every place of a body at which something can be changed or left out."""
    if isinstance(value, dict | list) and value:
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, below in inner:
            yield from places(below, (*at, key))
        yield (*at, DROPPED)
    elif not isinstance(value, dict | list):
        yield at


def changed(certificate: Certificate, place: Place, draw: random.Random) -> Body:
    """The body with one thing changed, of the same type and plausible."""
    body: Body = json.loads(json.dumps(json.loads(format_certificate(certificate))["body"]))
    holder: Any = body
    for key in place[:-1]:
        holder = holder[key]
    last = place[-1]
    if last == DROPPED:
        del holder[draw.choice(sorted(holder) if isinstance(holder, dict) else range(len(holder)))]
    else:
        holder[last] = another(holder[last])
    return body


def another(value: bool | int | str) -> bool | int | str:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    words = {"pass": "fail", "fail": "pass", "stop": "pass"}
    return words.get(value) or (value[:-1] + ("1" if value.endswith("0") else "0") if value else "x")


@pytest.mark.parametrize("seed", range(TRIES))
@pytest.mark.parametrize("what", ["certificate", "evidence"])
def test_any_byte_that_is_flipped_makes_the_gate_end_in_2(tmp_path: Path, what: str, seed: int) -> None:
    draw = random.Random(f"{what} {seed}")
    certificate = draw.choice(committed())
    path = written(tmp_path, certificate)
    assert gate([tmp_path]).exit_code is ExitCode.GOOD

    flip(path if what == "certificate" else tmp_path / evidence_of(certificate), draw)

    assert gate([tmp_path]).exit_code is ExitCode.INVALID


@pytest.mark.parametrize("seed", range(TRIES))
def test_any_field_that_is_changed_with_its_digests_makes_the_gate_end_in_2(tmp_path: Path, seed: int) -> None:
    draw = random.Random(f"field {seed}")
    certificate = draw.choice(committed())
    place = draw.choice([*places(certificate.body)])
    body = changed(certificate, place, draw)
    written(tmp_path, certificate).unlink()
    try:
        forged = Certificate(id=certificate_id(body), body=body, status=Status(state=CertificateState.CURRENT))
        filed(tmp_path, forged)
    except (KeyError, StatecertError):  # no name follows from it: it stands under the old one
        (tmp_path / certificate_path(certificate)).write_text(json.dumps({"body": body}))

    assert gate([tmp_path]).exit_code is ExitCode.INVALID, place
