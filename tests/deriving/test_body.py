"""The body is a function of the evidence bytes; whoever changes a derived field is found out."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.deriving.body import certificate_id, derive_body
from harness.deriving.fields import mappings_at
from harness.wire import canonical
from harness.wire.certificate_doc import require_body
from harness.wire.evidence_doc import read_evidence
from tests.fakes.evidence import recorded

BASE = recorded()
BODY = BASE.body()
BYTES = canonical.canonical(derive_body(BASE.evidence()))


def leaves(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of all scalars."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path


def test_the_body_fits_its_schema_and_is_the_same_each_time() -> None:
    again = derive_body(read_evidence(BASE.data(), "elsewhere.jsonl"), "elsewhere.jsonl")

    require_body(BODY, "body")
    assert canonical.canonical(again) == canonical.canonical(BODY)


@given(path=st.sampled_from(sorted(leaves(BODY), key=str)))
@settings(max_examples=40, deadline=None)
def test_a_flipped_field_is_another_body(path: tuple[str | int, ...]) -> None:
    changed = copy.deepcopy(BODY)
    inner: object = changed
    for step in path[:-1]:
        inner = inner[step]  # type: ignore[index]
    old = inner[path[-1]]  # type: ignore[index]
    inner[path[-1]] = (not old) if isinstance(old, bool) else old + 1 if isinstance(old, int) else f"{old}x"  # type: ignore[index]

    assert certificate_id(changed) != certificate_id(BODY)
    assert canonical.canonical(changed) != BYTES


def test_roots_show_equality_and_limits_show_what_is_not_covered() -> None:
    (cell,) = mappings_at(BODY, "cells")
    again = [one for one in mappings_at(cell, "comparisons") if one["check"] == "again"]

    assert [one["phase"] for one in again] == ["restored", "prefilled", "end"]
    assert all(one["candidate"] == one["reference"] for one in again)
    assert BODY["limits"] == ["latency_not_evaluated", "quality_not_evaluated"]


def test_every_check_that_did_not_pass_has_a_failure_reason() -> None:
    from harness.model.values import Phase

    body = BASE.with_part("warm", "again", Phase.END, "layer1.k").body()
    (cell,) = mappings_at(body, "cells")

    require_body(body, "body")
    assert cell["outcome"] == "fail"
    assert cell["failure_reasons"] == [{"check": "again", "code": "EXACT.STATE@1", "reason": "parts_differ"}]
