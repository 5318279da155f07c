"""Certificates folders whose files are written otherwise than they must be: JSON, schema, one rendering.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from harness.certifying.ledger import write_event
from harness.model.certificate import Event
from harness.model.values import ReasonCode, Sha256
from harness.wire import canonical
from harness.wire.event_doc import event_id
from tests.gating.fixtures import NOBODY, fixture, only, rewrite, the_event, the_evidence, valid, valid_ledger


@fixture("CG101", "CG204", "CG502")
def duplicate_key(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b'"overall": "pass"', b'"overall": "stop",\n      "overall": "pass"')


@fixture("CG101", "CG204", "CG502")
def not_a_number(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b'"children": 1', b'"children": NaN')


@fixture("CG101", "CG204", "CG502")
def overflow(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b'"children": 1', b'"children": 1e999')


@fixture("CG101", "CG204", "CG502")
def a_null(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b'"children": 1', b'"children": null')


@fixture("CG101", "CG204", "CG502")
def deep_nesting(folder: Path) -> None:
    valid(folder)
    only(folder).write_bytes(b"[" * 100_000)


@fixture("CG101", "CG204", "CG502")
def huge_integer(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b'"children": 1', b'"children": ' + b"1" * 5001)


@fixture("CG101", "CG204", "CG502")
def byte_order_mark(folder: Path) -> None:
    valid(folder)
    only(folder).write_bytes(b"\xef\xbb\xbf" + only(folder).read_bytes())


@fixture("CG101", "CG204", "CG502")
def utf_16(folder: Path) -> None:
    valid(folder)
    only(folder).write_bytes(only(folder).read_text().encode("utf-16"))


@fixture("CG101", "CG204", "CG502")
def lone_surrogate(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b'"overall": "pass"', b'"overall": "\\ud800"')


@fixture("CG101", "CG204", "CG502")
def trailing_garbage(folder: Path) -> None:
    valid(folder)
    only(folder).write_bytes(only(folder).read_bytes() + b"x")


@fixture("CG101", "CG502", "CG503")
def null_in_event(folder: Path) -> None:
    valid_ledger(folder)
    rewrite(the_event(folder), b'"dropped_cells": []', b'"dropped_cells": null')


@fixture("CG101", "CG204")
def float_in_evidence(folder: Path) -> None:
    valid(folder)
    rewrite(the_evidence(folder), b'"records":', b'"elapsed":1.5,"records":')


@fixture("CG102", "CG204", "CG502")
def event_as_certificate(folder: Path) -> None:
    valid(folder)
    issued = Event(
        id=Sha256(""),
        kind="withdraw",
        target=NOBODY,
        reason_code=ReasonCode.RECORD_ERROR,
        created="2026-01-09T00:00:00Z",
    )
    write_event(folder, replace(issued, id=event_id(issued)))
    only(folder).write_bytes(the_event(folder).read_bytes())
    the_event(folder).unlink()


@fixture("CG102", "CG204", "CG502")
def undeclared_field(folder: Path) -> None:
    valid(folder)
    value = json.loads(only(folder).read_bytes())
    value["body"]["remark"] = "looks fine"
    only(folder).write_bytes(canonical.render(value))


@fixture("CG102", "CG204", "CG502")
def newer_version(folder: Path) -> None:
    valid(folder)
    rewrite(only(folder), b"statecert/certificate/v1", b"statecert/certificate/v2")


@fixture("CG104")
def crlf(folder: Path) -> None:
    valid(folder)
    only(folder).write_bytes(only(folder).read_bytes().replace(b"\n", b"\r\n"))


@fixture("CG104")
def reformatted(folder: Path) -> None:
    valid(folder)
    only(folder).write_text(json.dumps(json.loads(only(folder).read_bytes()), indent=4, sort_keys=True) + "\n")


@fixture("CG104")
def reformatted_event(folder: Path) -> None:
    valid_ledger(folder)
    the_event(folder).write_bytes(canonical.line(json.loads(the_event(folder).read_bytes())))
