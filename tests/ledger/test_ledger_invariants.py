"""Contradictions as merges make them: each is found, names both ids, and can be mended by further events alone."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.deriving.body import certificate_id
from harness.deriving.changes import cells_run, differs, dropped_cells, is_stop, not_run_again
from harness.deriving.status import derive_status, ledger_problems
from harness.errors import InvalidDocumentError
from harness.model.certificate import Event
from harness.model.values import CertificateState, ReasonCode, Sha256
from harness.wire.event_doc import event_id, format_event, parse_event
from tests.ledger.support import good, stop

BODIES = {certificate_id(body): body for body in (stop(1).body(), good(2).body(), good(3).body())}
A, B, C = sorted(BODIES, key=lambda one: BODIES[one]["run"]["created"])  # type: ignore[index]


def event(kind: str, target: str, by: str = "", day: int = 4, **changes: Any) -> Event:
    made = Event(
        id=Sha256(""), kind=kind, target=Sha256(target), by=by, reason_code=ReasonCode.RECORD_ERROR,
        created=f"2026-01-{day:02d}T00:00:00Z", **changes,
    )  # fmt: skip
    return replace(made, id=event_id(made))


def found(*events: Event) -> dict[str, str]:
    return {one.code: one.message for one in ledger_problems(BODIES, events)}


def test_a_chain_is_sound() -> None:
    assert found(event("supersede", A, B, 4), event("supersede", B, C, 5)) == {}


def test_two_successors_that_hold_are_a_fork_until_one_replaces_the_other() -> None:
    fork = (event("supersede", A, B, 4), event("supersede", A, C, 5))

    told = found(*fork)
    assert set(told) == {"two_successors", "two_current"}
    for message in told.values():
        assert B in message
        assert C in message
    assert A in told["two_successors"]
    assert found(*fork, event("supersede", B, C, 6)) == {}


@pytest.mark.parametrize("withdrawn_first", [True, False])
def test_withdrawn_on_one_branch_and_superseded_on_the_other(*, withdrawn_first: bool) -> None:
    days = (4, 5) if withdrawn_first else (5, 4)
    merged = (event("withdraw", B, day=days[0]), event("supersede", B, C, days[1]), event("supersede", A, C, 6))

    told = found(*merged)
    (code,) = set(told) - {"stop_hidden"}
    assert code in ("two_successors", "superseded_and_withdrawn")
    assert B in told[code]
    mended = (*merged, event("reinstate", B, day=7), event("supersede", B, C, 8))
    assert found(*mended) == {}


def test_a_stop_does_not_stay_hidden_behind_a_withdrawn_record() -> None:
    hidden = (event("supersede", A, C, 4), event("supersede", B, C, 4), event("withdraw", C, day=5))

    told = found(*hidden)
    assert set(told) == {"stop_hidden"}
    assert A in told["stop_hidden"]
    assert C in told["stop_hidden"]
    assert found(*hidden, event("reinstate", A, day=6)) == {}


def test_a_stop_does_not_stay_hidden_at_the_start_of_a_chain() -> None:
    chain = (event("supersede", A, B, 4), event("supersede", B, C, 5), event("withdraw", C, day=6))

    assert set(found(*chain)) == {"stop_hidden"}
    assert found(*chain, event("reinstate", A, day=7)) == {}


def test_a_withdrawn_stop_needs_a_later_record_that_holds() -> None:
    assert set(found(event("supersede", B, C, 4), event("withdraw", A, day=4))) == set()
    assert set(found(event("withdraw", A), event("withdraw", B), event("withdraw", C))) == {"stop_hidden"}


@pytest.mark.parametrize("outcome", ["fail", "error"])
def test_any_cell_that_failed_makes_a_stop_and_must_run_again(outcome: str) -> None:
    old: Any = copy.deepcopy(BODIES[B])
    old["decision"]["overall"] = "inconclusive"
    old["cells"] = [dict(old["cells"][0], id=f"T01[scale=16,size={size}]", outcome="pass") for size in (1, 2)]
    new = copy.deepcopy(old)
    new["run"] = {**new["run"], "created": "2026-01-03T00:00:00Z"}
    old["cells"][1]["outcome"] = outcome
    new["cells"][1]["id"] = "T01[scale=16,size=3]"

    assert is_stop(old)
    assert not is_stop(new)
    assert not_run_again(old, new) == ("T01[scale=16,size=2]",)
    one, other = certificate_id(old), certificate_id(new)
    made = event("supersede", one, other, differs=differs(old, new), dropped_cells=dropped_cells(old, new))
    told = {problem.code: problem.message for problem in ledger_problems({one: old, other: new}, [made])}
    assert set(told) == {"failed_cells_not_run_again"}
    assert "size=2" in told["failed_cells_not_run_again"]


@pytest.mark.parametrize(
    ("events", "code", "ids"),
    [
        ([event("supersede", "0" * 64, B)], "target_missing", ["0" * 64, B]),
        ([event("supersede", A, "0" * 64)], "successor_missing", [A, "0" * 64]),
        ([event("supersede", A, A)], "circle", [A]),
        ([event("supersede", A, B), event("supersede", B, A, 5)], "circle", [A, B]),
        ([event("supersede", B, A)], "older_successor", [A, B]),
        ([event("supersede", A, B, differs=("subject.commit",))], "differs_wrong", [A, B]),
        ([event("supersede", A, B, dropped_cells=("T01[scale=16]",))], "dropped_cells_wrong", [A, B]),
        ([event("withdraw", A), event("withdraw", A, day=5)], "withdrawn_twice", [A]),
        ([event("supersede", A, B), event("supersede", A, B, 5)], "two_successors", [A, B]),
        ([event("withdraw", A), event("supersede", A, B, 5)], "two_successors", [A, B]),
        ([event("supersede", A, B), event("withdraw", A, day=5)], "superseded_and_withdrawn", [A, B]),
    ],
)
def test_every_refusal_names_both_ids(events: list[Event], code: str, ids: list[str]) -> None:
    told = found(*events)

    assert code in told
    for identity in ids:
        assert identity in told[code]


def test_keys_machines_and_cells_of_a_pair_must_fit() -> None:
    for path, value, code in (
        (("claim_key",), "T02/fake-digests/cpu-x86_64", "other_claim_key"),
        (("environment", "machine"), "99" * 32, "other_machine"),
        (("subject", "engine", "name"), "other", "other_subject"),
        (("subject", "model", "name"), "other", "other_subject"),
        (("cells", 0, "outcome"), "not_run", "fewer_cells"),
    ):
        body: Any = copy.deepcopy(BODIES[B])
        inner = body
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value
        other = certificate_id(body)
        made = event("supersede", A, other, differs=differs(BODIES[A], body))
        told = {one.code: one.message for one in ledger_problems({A: BODIES[A], other: body}, [made])}
        assert code in told
        assert A in told[code]
        assert other in told[code]
    assert cells_run(BODIES[A]) == 1


@given(
    acts=st.lists(
        st.tuples(
            st.sampled_from(["supersede", "withdraw", "reinstate"]),
            st.sampled_from([A, B, C]),
            st.sampled_from([A, B, C]),
        ),
        max_size=8,
    )
)
@settings(max_examples=150, deadline=None)
def test_a_ledger_without_problems_leaves_one_answer(acts: list[tuple[str, str, str]]) -> None:
    """Whatever the events: if no invariant is broken, one record holds at most, and no stop is behind a withdrawn one."""
    events = [
        event(kind, target, by if kind == "supersede" else "", 4 + index)
        for index, (kind, target, by) in enumerate(acts)
    ]
    if ledger_problems(BODIES, events):
        return
    statuses = {one: derive_status(one, events) for one in BODIES}
    assert sum(one.state is CertificateState.CURRENT for one in statuses.values()) <= 1
    for identity, status in statuses.items():
        if identity == A and status.superseded_by:
            assert statuses[Sha256(status.superseded_by)].state is not CertificateState.WITHDRAWN


def test_fields_of_one_kind_of_event_are_refused_in_another() -> None:
    cases: list[tuple[str, dict[str, Any]]] = [
        ("waive", {"rule": "CG605", "until": "2026-12-31"}),
        ("annotate", {"note": "driver update pending"}),
    ]
    for kind, fields in cases:
        made = event(kind, A, **fields)
        assert parse_event(format_event(made), "e") == made
        with pytest.raises(InvalidDocumentError):
            format_event(event("withdraw", A, **fields))
    wrong: list[dict[str, Any]] = [
        {"rule": "cg605"},
        {"rule": "CG605", "until": "soon"},
        {"rule": "CG605", "note": "x"},
    ]
    for fields in wrong:
        with pytest.raises(InvalidDocumentError):
            format_event(event("waive", A, **fields))
