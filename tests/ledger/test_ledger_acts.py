"""What a person does to certificates: each act with what it writes, what it refuses, and both ids in the refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.certifying import ledger
from harness.certifying.events import event_time
from harness.certifying.issue import draft, why_draft
from harness.certifying.regenerating import read_bodies
from harness.certifying.store import read_store
from harness.errors import InvalidDocumentError, StorageError, UsageError
from harness.gating.gate import gate
from harness.model.values import ReasonCode
from harness.wire import files
from tests.fakes.evidence import recorded
from tests.ledger.support import KEY, TWO_CELLS, by_run, file, good, problems, states, stop

WHY = ReasonCode.RECORD_ERROR
WHOLE = {
    "withdraw": {1: "current", 2: "withdrawn"},
    "mend": {1: "withdrawn", 2: "current"},
    "reinstate": {1: "superseded", 2: "current"},
}
"""States after each act of several events, by run."""


def at(day: int) -> str:
    return f"2026-02-{day:02d}T00:00:00Z"


def test_a_superseded_record_is_not_superseded_again(tmp_path: Path) -> None:
    file(tmp_path, good(1), good(2), good(3))
    first, second, third = (by_run(tmp_path, run) for run in (1, 2, 3))

    with pytest.raises(InvalidDocumentError, match="two_successors") as refused:
        ledger.supersede(tmp_path, first.id, third.id, WHY, at(1))

    assert first.id in str(refused.value)
    assert second.id in str(refused.value)
    assert str(refused.value).endswith("; the event is not written")


def test_a_withdrawn_record_replaces_nothing(tmp_path: Path) -> None:
    file(tmp_path, good(1), good(2))
    old, new = by_run(tmp_path, 1), by_run(tmp_path, 2)
    ledger.withdraw(tmp_path, new.id, WHY, at(1))
    ledger.reinstate(tmp_path, old.id, WHY, at(2))

    with pytest.raises(InvalidDocumentError, match="successor_withdrawn") as refused:
        ledger.supersede(tmp_path, old.id, new.id, WHY, at(3))

    assert new.id in str(refused.value)


def test_a_superseded_record_is_not_withdrawn_as_well_unless_that_is_put_aside(tmp_path: Path) -> None:
    file(tmp_path, good(1), good(2))
    old, new = by_run(tmp_path, 1), by_run(tmp_path, 2)

    with pytest.raises(InvalidDocumentError, match="superseded_and_withdrawn") as refused:
        ledger.withdraw(tmp_path, old.id, WHY, at(1))
    assert old.id in str(refused.value)
    assert new.id in str(refused.value)

    ledger.withdraw(tmp_path, old.id, WHY, at(1), mend=True)
    assert states(tmp_path) == {1: "withdrawn", 2: "current"}
    assert problems(tmp_path) == {}


def test_withdrawing_what_replaced_a_stop_brings_the_stop_back(tmp_path: Path) -> None:
    file(tmp_path, stop(1), good(2))
    new = by_run(tmp_path, 2)
    assert states(tmp_path) == {1: "superseded", 2: "current"}

    ledger.withdraw(tmp_path, new.id, ReasonCode.MEASUREMENT_INVALID, at(1))
    assert states(tmp_path) == {1: "current", 2: "withdrawn"}
    assert gate([tmp_path]).stops

    ledger.reinstate(tmp_path, new.id, WHY, at(2))
    assert states(tmp_path) == {1: "superseded", 2: "current"}
    assert gate([tmp_path]).findings == ()


def test_a_withdrawn_middle_of_a_chain_hands_its_stop_on(tmp_path: Path) -> None:
    file(tmp_path, stop(1), good(2), good(3))

    ledger.withdraw(tmp_path, by_run(tmp_path, 2).id, WHY, at(1), mend=True)

    assert states(tmp_path) == {1: "superseded", 2: "withdrawn", 3: "current"}
    assert by_run(tmp_path, 1).status.superseded_by == by_run(tmp_path, 3).id
    assert problems(tmp_path) == {}


def test_a_stop_does_not_give_way_to_fewer_cells(tmp_path: Path) -> None:
    from harness.model.values import Phase

    two = recorded(TWO_CELLS, run=1, day=1).with_part("warm", "again", Phase.RESTORED, "layer0.recurrent")
    file(tmp_path, two)

    with pytest.raises(InvalidDocumentError, match="does_not_cover_the_stop") as refused:
        file(tmp_path, good(2))

    assert by_run(tmp_path, 1).id in str(refused.value)
    assert why_draft(good(2).data(), tmp_path) == "does_not_cover_the_stop"
    assert why_draft(good(2).data()) == ""
    [left] = draft(good(2).data(), tmp_path / "drafts", "does_not_cover_the_stop")
    assert '"why": "does_not_cover_the_stop"' in left.read_text()


def test_a_stop_is_not_taken_back_unless_a_later_record_of_its_cells_holds(tmp_path: Path) -> None:
    file(tmp_path, stop(1))
    first = by_run(tmp_path, 1).id

    with pytest.raises(InvalidDocumentError, match=r"stop_hidden: .* run its cells again"):
        ledger.withdraw(tmp_path, first, WHY, at(1))

    file(tmp_path, good(2))
    ledger.withdraw(tmp_path, first, WHY, at(2), mend=True)
    assert states(tmp_path) == {1: "withdrawn", 2: "current"}
    assert problems(tmp_path) == {}
    assert gate([tmp_path]).findings == ()


def test_an_earlier_pass_does_not_stand_in_for_a_withdrawn_stop(tmp_path: Path) -> None:
    file(tmp_path, good(1), stop(2))

    with pytest.raises(InvalidDocumentError, match="stop_hidden"):
        ledger.withdraw(tmp_path, by_run(tmp_path, 2).id, WHY, at(1))


def test_withdrawing_the_end_of_a_chain_brings_its_stop_back(tmp_path: Path) -> None:
    file(tmp_path, stop(1), good(2), good(3))

    ledger.withdraw(tmp_path, by_run(tmp_path, 3).id, WHY, at(1))

    assert states(tmp_path) == {1: "current", 2: "superseded", 3: "withdrawn"}
    assert problems(tmp_path) == {}


def test_reinstating_beside_a_newer_current_record_is_refused(tmp_path: Path) -> None:
    file(tmp_path, good(1), good(2))
    old, new = by_run(tmp_path, 1), by_run(tmp_path, 2)

    with pytest.raises(InvalidDocumentError, match="two_current") as refused:
        ledger.reinstate(tmp_path, old.id, WHY, at(1))

    assert old.id in str(refused.value)
    assert new.id in str(refused.value)


def test_a_waiver_names_rule_and_last_day(tmp_path: Path) -> None:
    file(tmp_path, good(1))
    identity = by_run(tmp_path, 1).id

    ledger.waive(tmp_path, identity, "CG605", ReasonCode.ENVIRONMENT_CHANGED, at(1), until="2026-12-31")

    (event,) = read_store(tmp_path).events
    assert (event.kind, event.rule, event.until) == ("waive", "CG605", "2026-12-31")
    assert states(tmp_path) == {1: "current"}
    assert gate([tmp_path]).findings == ()
    for rule, until in (("cg605", ""), ("CG605", "2026-02-30"), ("CG605", "2026-01-31"), ("CG605", "soon")):
        with pytest.raises(UsageError):
            ledger.waive(tmp_path, identity, rule, WHY, at(1), until=until)


def test_a_note_is_short_plain_and_names_nobody(tmp_path: Path) -> None:
    file(tmp_path, good(1))
    identity = by_run(tmp_path, 1).id

    ledger.annotate(tmp_path, identity, ReasonCode.ENVIRONMENT_CHANGED, at(1), note="driver update pending")

    assert read_store(tmp_path).events[0].note == "driver update pending"
    for note in ("x" * 201, "two\nlines", "caf\N{LATIN SMALL LETTER E WITH ACUTE}", "see /home/someone/x", "a@b.org"):
        with pytest.raises(UsageError):
            ledger.annotate(tmp_path, identity, WHY, at(2), note=note)


@pytest.mark.parametrize("writes", range(1, 6))
@pytest.mark.parametrize("act", ["withdraw", "mend", "reinstate"])
def test_an_act_of_several_events_is_completed_by_the_same_call(
    tmp_path: Path, writes: int, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file(tmp_path, stop(1), good(2))
    new = by_run(tmp_path, 2).id
    if act == "reinstate":
        ledger.withdraw(tmp_path, new, WHY, at(1))
    left = [writes]

    def failing(real: Callable[[Path, bytes], None]) -> Callable[[Path, bytes], None]:
        def write(path: Path, data: bytes) -> None:
            if left[0] == 0:
                raise StorageError("no space")
            left[0] -= 1
            real(path, data)

        return write

    def do(folder: Path) -> None:
        if act == "withdraw":
            ledger.withdraw(folder, new, WHY, at(3))
        elif act == "mend":
            ledger.withdraw(folder, by_run(folder, 1).id, WHY, at(3), mend=True)
        else:
            ledger.reinstate(folder, new, WHY, at(3))

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_new", failing(files.write_new))
        patch.setattr(files, "replace", failing(files.replace))
        try:
            do(tmp_path)
        except StorageError:
            stopped = True
        else:
            stopped = False
    if stopped:
        try:
            do(tmp_path)
        except InvalidDocumentError:
            ledger.regenerate(tmp_path, KEY)  # every event was there; only what follows from them was not

    assert states(tmp_path) == WHOLE[act]
    assert problems(tmp_path) == {}


def test_an_answer_to_an_event_never_shares_its_second(tmp_path: Path) -> None:
    file(tmp_path, good(1))
    one = by_run(tmp_path, 1)
    ledger.withdraw(tmp_path, one.id, WHY, at(1))

    store = read_bodies(tmp_path)
    assert event_time(store, [one.id], at(1)) == "2026-02-01T00:00:01Z"
    assert event_time(store, [one.id], "2026-01-31T23:59:58Z") == "2026-02-01T00:00:01Z"
    assert event_time(store, [one.id], at(2)) == at(2)
    with pytest.raises(UsageError, match="clocks"):
        event_time(store, [one.id], "2026-01-30T00:00:00Z")


def test_the_head_of_an_id_must_be_one_and_long_enough(tmp_path: Path) -> None:
    file(tmp_path, good(1), good(2))
    store = read_store(tmp_path)
    identity = by_run(tmp_path, 1).id

    assert store.find(identity[:6]).id == identity
    assert store.find(identity).id == identity
    for head in (identity[:5], "zzzzzz", "0" * 64, identity[:12].upper() + "G"):
        with pytest.raises(UsageError):
            store.find(head)
