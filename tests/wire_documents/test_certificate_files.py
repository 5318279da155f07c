"""Certificates and events as files: strict, closed, one rendering."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.deriving.ids import certificate_id, claim_key, slug
from harness.errors import InvalidDocumentError
from harness.model.certificate import Certificate, Event, Status
from harness.model.values import CertificateState, ReasonCode, Sha256
from harness.wire import canonical
from harness.wire.certificate_doc import format_certificate, parse_certificate
from harness.wire.event_doc import event_id, format_event, parse_event
from tests.fakes.evidence import recorded

BODY = recorded().body()
CERTIFICATE = Certificate(id=certificate_id(BODY), body=BODY, status=Status(state=CertificateState.CURRENT))
PLAIN = Event(
    id=Sha256(""),
    kind="supersede",
    target=Sha256("a" * 64),
    by="b" * 64,
    reason_code=ReasonCode.SOURCE_CHANGED,
    created="2026-01-01T00:00:00Z",
    differs=("subject.commit",),
)
EVENT = replace(PLAIN, id=event_id(PLAIN))


def test_a_certificate_reads_back_as_it_was() -> None:
    data = format_certificate(CERTIFICATE)

    found = parse_certificate(data, "x.json")

    assert found == CERTIFICATE
    assert format_certificate(found) == data


def test_a_status_with_a_successor_reads_back() -> None:
    status = Status(
        state=CertificateState.SUPERSEDED, since="2026-01-02T00:00:00Z", superseded_by="b" * 64,
        reason_code="source_changed", events=(EVENT.id,),
    )  # fmt: skip

    assert parse_certificate(format_certificate(replace(CERTIFICATE, status=status)), "x").status == status


def test_a_certificate_under_another_id_is_not_written() -> None:
    with pytest.raises(InvalidDocumentError, match="not the digest"):
        format_certificate(replace(CERTIFICATE, id=Sha256("0" * 64)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"outcome": "pass"', b'"outcome": "passed"'),
        (b'"schema": "statecert/certificate/v1"', b'"schema": "statecert/certificate/v2"'),
        (b'"state": "current"', b'"state": "fresh"'),
        (b'"partial": false', b'"partial": 0'),
        (b'"elapsed_ns": 3600000000000', b'"elapsed_ns": 1.5'),
        (b'"elapsed_ns": 3600000000000', b'"elapsed_ns": null'),
        (b'"kind": "qualification"', b'"kind": "qualification", "note": "x"'),
        (b'  "status"', b'   "status"'),
        (b"}\n", b"}"),
    ],
)
def test_a_changed_certificate_has_a_named_error(old: bytes, new: bytes) -> None:
    data = format_certificate(CERTIFICATE)
    head, _, tail = data.rpartition(old)
    assert old in data

    with pytest.raises(InvalidDocumentError, match=r"x\.json"):
        parse_certificate(head + new + tail, "x.json")


def test_an_event_reads_back_and_cannot_be_changed_or_posed() -> None:
    data = format_event(EVENT)

    assert parse_event(data, "e.json") == EVENT
    with pytest.raises(InvalidDocumentError):
        parse_event(data.replace(b"supersede", b"delete"), "e.json")
    with pytest.raises(InvalidDocumentError):
        parse_certificate(data, "e.json")
    with pytest.raises(InvalidDocumentError):
        parse_event(format_certificate(CERTIFICATE), "e.json")
    with pytest.raises(InvalidDocumentError, match="another one"):
        format_event(replace(EVENT, differs=()))


def test_only_a_supersede_event_names_a_successor() -> None:
    value = json.loads(format_event(EVENT))
    without = {key: item for key, item in value.items() if key != "by"}

    with pytest.raises(InvalidDocumentError):
        parse_event(canonical.render(without), "e.json")
    with pytest.raises(InvalidDocumentError):
        parse_event(canonical.render({**value, "kind": "withdraw"}), "e.json")


def test_claim_keys_are_slugs_and_nothing_is_repaired() -> None:
    assert claim_key("A01", "torch", "tiny-q8_0", "cuda-sm_90") == "A01/torch-tiny-q8_0/cuda-sm_90"
    for pieces in (("a01", "t", "m", "h"), ("A01", "../x", "m", "h"), ("A01", "T", "m", "h"), ("A01", "t", "", "h")):
        with pytest.raises(InvalidDocumentError):
            claim_key(*pieces)
    assert slug("NVIDIA H200 (SXM)") == "nvidia-h200-sxm"
