"""Imports in memory: a published record to the file of observations that an import writes, without a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from harness.deriving.foreign import FOREIGN, PROCEDURE, SCHEMA
from harness.deriving.foreign.facts import created_of, machine_of, target_of
from harness.deriving.foreign.shapes import read_record
from harness.wire.published import read_published
from harness.wire.records import record_to_mapping
from tests.fakes.campaign import Flown
from tests.fakes.evidence import header as header_of_run
from tests.fakes.evidence import scenario
from tests.foreign.published import written

TOLD = {"engine": "someones"}
REST = {**TOLD, "published": "2026-03-03T08:00:00Z", "model": "Some/Model-1B-GGUF:Q8_0", "hardware": "Metal Some Chip"}
"""What has to be told of a record that names neither day nor model nor hardware."""


@cache
def _source() -> tuple[Any, Any]:
    like: Any = record_to_mapping(header_of_run(scenario(), run=1, day=1))
    return like["source"], like["target"]["path_sets"]


def imported(
    record: Mapping[str, Any], told: Mapping[str, str] = TOLD, known: Mapping[str, str] | None = None
) -> Flown:
    """The lines of an import; ``known`` has certificates with the digests of their models."""
    data = written(record)
    digest = hashlib.sha256(data).hexdigest()
    found = read_record(read_published(data, "record"), "record")
    target = target_of(found, told)
    source, path_sets = _source()
    header = {
        "type": "header",
        "schema": SCHEMA,
        "campaign": FOREIGN,
        "run_id": digest[:32],
        "created": created_of(found, told),
        "procedure": PROCEDURE,
        "target": {**target, "path_sets": path_sets},
        "environment": {"machine": machine_of(target), "facts": {}},
        "source": source,
        "record": {"sha256": digest, "bytes": len(data)},
        "told": dict(told),
        "known_models": [{"certificate": name, "digest": one} for name, one in (known or {}).items()],
    }
    return Flown(lines=[header, {"type": "text", "number": 0, "text": data.decode()}])


def body_of(record: Mapping[str, Any], told: Mapping[str, str] = TOLD, known: Mapping[str, str] | None = None) -> Any:
    """The body that follows from a record."""
    return imported(record, told, known).body()


def codes(body: Any) -> set[str]:
    """Codes of the findings of a body."""
    return {one["code"] for one in body["findings"]}


def row(body: Any, name: str) -> Any:
    """One row of a body."""
    return next(one for one in body["results"] if one["name"] == name)
