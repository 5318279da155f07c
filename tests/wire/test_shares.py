"""Work that several processes share."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

import pytest

from harness.errors import InvalidDocumentError, StatecertError
from harness.wire import shares


@pytest.fixture(autouse=True)
def _as_many_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "processes", lambda wanted: wanted)


def _whole(places: range) -> Sequence[tuple[int, int]]:
    return [(place, os.getpid()) for place in places]


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("jobs", [1, 2, 5, 40])
def test_shares_cover_the_list_in_its_order(count: int, jobs: int) -> None:
    found = [one for share in shares.shared(_whole, count, jobs) for one in share]
    assert [place for place, _ in found] == list(range(count))


def test_little_work_stays_in_this_process() -> None:
    found = [one for share in shares.shared(_whole, shares.LEAST - 1, 2) for one in share]
    assert {process for _, process in found} == {os.getpid()}


def _slow_here(here: int) -> None:
    if os.getpid() == here:
        time.sleep(0.02)  # so that the other process takes a share


def test_more_work_is_done_by_another_process_too() -> None:
    here = os.getpid()

    def work(places: range) -> Sequence[tuple[int, int]]:
        _slow_here(here)
        return _whole(places)

    found = [one for share in shares.shared(work, 640, 2) for one in share]
    assert [place for place, _ in found] == list(range(640))
    assert len({process for _, process in found}) == 2


def test_an_error_of_another_process_is_raised_here_with_its_words() -> None:
    here = os.getpid()

    def work(places: range) -> int:
        _slow_here(here)
        if os.getpid() != here:
            raise InvalidDocumentError("cannot be read", where="a.json")
        return len(places)

    with pytest.raises(InvalidDocumentError, match=r"^a\.json: cannot be read$") as found:
        list(shares.shared(work, 640, 2))
    assert found.value.where == "a.json"


def test_a_process_that_is_killed_is_an_error_and_no_shorter_list() -> None:
    here = os.getpid()

    def work(places: range) -> int:
        _slow_here(here)
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return len(places)

    with pytest.raises(StatecertError, match="ended before its work did"):
        list(shares.shared(work, 640, 2))


def test_an_error_of_this_process_is_raised_and_leaves_no_process_behind() -> None:
    here = os.getpid()

    def work(places: range) -> int:
        if os.getpid() == here:
            raise InvalidDocumentError("cannot be read", where=f"{places.start}.json")
        time.sleep(0.02)  # so that this process takes a share
        return len(places)

    with pytest.raises(InvalidDocumentError):
        list(shares.shared(work, 640, 3))
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_process_that_has_imported_torch_is_not_forked() -> None:
    import torch  # noqa: F401

    assert _PROCESSES(8) == 1


_PROCESSES = shares.processes
