from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.errors import NothingToDoError
from harness.model.evidence import Evidence, Header, Turn
from harness.model.values import CellId, Sha256
from harness.reporting.comparing import compare_turns
from harness.reporting.tables import render_terminal

NONE = Sha256("0" * 64)
CELL = CellId("A02[scale=16]")


def turn(label: str, ns: int, *, rep: int = 0) -> Turn:
    return Turn(
        cell=CELL, arm="warm", rep=rep, label=label, prompt_tokens=8, prompt_digest=NONE, cached=0, prefilled=8,
        decoded=1, restored_bytes=0, begin_ns=1, prefill_ns=1, commit_ns=1, decode_ns=1, first_token_ns=ns,
    )  # fmt: skip


def run(turns: Sequence[Turn]) -> Evidence:
    header = Header(
        run_id="0" * 32, created="2026-01-01T00:00:00Z", suite="default", scales=(16,), selected=(CELL,),
        scenario_id="A02", procedure={}, procedure_digest=NONE, target={}, environment={}, source={},
    )  # fmt: skip
    return Evidence(header=header, observations=turns, end=None, sha256=NONE, bytes=0)


def test_turns_stand_side_by_side_with_their_share_and_count() -> None:
    runs = {
        "old": run([turn("a", 10_000_000), turn("a", 30_000_000, rep=1), turn("b", 5_000_000)]),
        "new": run([turn("a", 10_000_000)]),
    }

    table = compare_turns(runs)

    assert table.rows == [
        {"cell": CELL, "turn": "warm.a", "old": "20.0 ms (n=2)", "new": "10.0 ms (n=1)", "share:new": "50 %"},
        {"cell": CELL, "turn": "warm.b", "old": "5.00 ms (n=1)"},
    ]
    assert "of old" in render_terminal(table, colour=False, width=80)


def test_runs_without_a_first_token_have_nothing_to_compare() -> None:
    with pytest.raises(NothingToDoError):
        compare_turns({"one": run([turn("a", 0)])})
