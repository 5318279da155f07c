"""Status from events alone, and every invariant of the ledger shown to fire."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.deriving.body import certificate_id
from harness.deriving.changes import differs, dropped_cells
from harness.deriving.status import derive_status, ledger_problems
from harness.model.certificate import Event
from harness.model.values import CertificateState, ReasonCode, Sha256
from harness.wire.event_doc import event_id
from tests.fakes.evidence import recorded

OLD, NEW = recorded(run=1, day=1).body(), recorded(run=2, day=2).body()
A, B = certificate_id(OLD), certificate_id(NEW)
BODIES = {A: OLD, B: NEW}


def event(kind: str = "supersede", target: str = A, by: str = B, day: int = 3, **changes: Any) -> Event:
    made = Event(
        id=Sha256(""), kind=kind, target=Sha256(target), by=by if kind == "supersede" else "",
        reason_code=ReasonCode.RERUN_SAME_INPUTS, created=f"2026-01-{day:02d}T00:00:00Z", **changes,
    )  # fmt: skip
    return replace(made, id=event_id(made))


def codes(events: list[Event], bodies: dict[Sha256, Any] | None = None) -> set[str]:
    return {problem.code for problem in ledger_problems(bodies or BODIES, events)}


def changed(body: dict[str, object], *path: str, value: object) -> dict[str, object]:
    found = copy.deepcopy(body)
    inner: Any = found
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return found


def test_a_sound_ledger_has_no_problems() -> None:
    assert codes([event()]) == set()
    assert derive_status(A, [event()]).state is CertificateState.SUPERSEDED
    assert derive_status(B, [event()]).state is CertificateState.CURRENT


def test_without_an_event_two_are_current() -> None:
    assert codes([]) == {"two_current"}


@pytest.mark.parametrize(
    ("events", "code"),
    [
        ([event(target="0" * 64)], "target_missing"),
        ([event(by="0" * 64)], "successor_missing"),
        ([event(by=A)], "circle"),
        ([event(), event(target=B, by=A, day=4)], "circle"),
        ([event(), event(day=4)], "two_successors"),
        ([event("withdraw"), event(day=4)], "two_successors"),
        ([event(), event("withdraw", day=4), event("withdraw", day=5)], "withdrawn_twice"),
        ([event("reinstate", target=B)], "nothing_to_reinstate"),
        ([event(differs=("subject.commit",))], "differs_wrong"),
        ([event(dropped_cells=("T01[scale=16]",))], "dropped_cells_wrong"),
        ([event("withdraw", differs=("x",))], "successor_not_allowed"),
        ([event(target=B, by=A)], "older_successor"),
        ([event(), event("reinstate", day=4)], "two_current"),
        ([replace(event(), created="2025-01-01T00:00:00Z")], "too_early"),
    ],
)
def test_each_invariant_fires(events: list[Event], code: str) -> None:
    assert code in codes(events)


def test_a_successor_speaks_of_the_same_claim_on_the_same_machine() -> None:
    other_key = changed(NEW, "claim_key", value="T02/fake-digests/cpu-x86_64")
    other_box = changed(NEW, "environment", "machine", value="99" * 32)

    for body, code in ((other_key, "other_claim_key"), (other_box, "other_machine")):
        identity = certificate_id(body)
        made = event(by=identity, differs=differs(OLD, body))
        assert code in codes([made], {A: OLD, identity: body})


@given(order=st.permutations(range(4)))
def test_a_status_does_not_depend_on_the_order_in_which_files_are_read(order: list[int]) -> None:
    events = [event(), event("withdraw", day=4), event("reinstate", day=5), event("annotate", day=6)]

    found = derive_status(A, [events[index] for index in order])

    assert found.state is CertificateState.CURRENT
    assert found.since == "2026-01-05T00:00:00Z"
    assert list(found.events) == [one.id for one in events]


def test_measured_values_are_no_difference() -> None:
    assert differs(OLD, NEW) == ()
    assert dropped_cells(OLD, NEW) == ()
    assert differs(OLD, changed(NEW, "subject", "commit", value="")) == ("subject.commit",)
