"""Drafters with one planted fault each: the comparison of parts must see it, at its part."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest
from torch import Tensor

from harness.torch_engine import TorchEngine, TorchSession
from harness.torch_engine.errors import SessionStateError
from harness.torch_engine.models.config import TILE
from harness.torch_engine.speculating import RoundMark, Speculator, TargetCopy
from tests.torch_engine.support import options, parts, tokens

PROMPT = tokens(5, 4 * TILE)


class RowsOnly(Speculator):
    """Truncates rows and leaves what is overwritten in place."""

    def rollback_target(self, step: TargetCopy) -> None:
        self.buffers.set_lengths((*step.lengths, *self.state.lengths()))


class FixedOnly(Speculator):
    """Brings back what is overwritten in place and leaves the rows."""

    def rollback_target(self, step: TargetCopy) -> None:
        for live, kept in zip(self.target_fixed(), step.fixed, strict=True):
            live.copy_(kept)


class FullRejectionOnly(Speculator):
    """Rolls back when no draft was right, and not on partial acceptance."""

    def rollback_target(self, step: TargetCopy) -> None:
        if self.state.word("accepted") % 2 == 0:
            super().rollback_target(step)


class ChoiceKept(Speculator):
    """Truncates the head's rows and keeps the blocks that a guess chose."""

    def rollback_draft(self, rows: int, selection: Tensor) -> None:
        super().rollback_draft(rows, self.state.selection.clone())


class HeadKept(Speculator):
    """Keeps the head's rows of guesses."""

    def rollback_draft(self, rows: int, selection: Tensor) -> None:
        self.state.selection.copy_(selection)


class CarryOfTheLast(Speculator):
    """Carries the hidden row of the last step that ran, accepted or not."""

    def verify(self, tokens: Sequence[int]) -> list[TargetCopy]:
        steps = super().verify(tokens)
        return [TargetCopy(s.fixed, s.lengths, steps[-1].hidden, s.logits) for s in steps]


class UndoesTargetOnly(Speculator):
    """After an error inside a verify only the target is what it was."""

    def undo(self, mark: RoundMark) -> None:
        pending, policy = self.state.pending.clone(), self.state.policy.clone()
        super().undo(mark)
        self.state.pending.copy_(pending)
        self.state.policy.copy_(policy)


def saved(session: TorchSession) -> None:
    """Ask for a snapshot and let its refusal end the call."""
    session.snapshot()


def wrong(kind: type[Speculator], force: str, count: int = 12, *, broken: bool = False) -> list[str]:
    """Parts that differ between a faulty session and a right one after some tokens."""

    class Faulty(TorchEngine):
        speculator_class = kind

    found = []
    for engine in (TorchEngine(options()), Faulty(options())):
        session = engine.open_session(route="mtp", draft_force=force)
        session.begin(PROMPT, use_cache=False)
        session.prefill(len(PROMPT))
        session.on_progress = saved if broken else None
        with contextlib.suppress(SessionStateError):
            session.decode(count)
        found.append(parts(session))
    return [name for name in found[0] if found[0][name] != found[1][name]]


def test_a_right_drafter_has_no_wrong_part() -> None:
    assert wrong(Speculator, "partial") == []


@pytest.mark.parametrize("force", ["reject", "partial"])
def test_a_rollback_of_rows_alone_is_seen_in_the_recurrent_state(force: str) -> None:
    assert {"layer0.recurrent", "layer0.conv"} <= set(wrong(RowsOnly, force))


def test_a_rollback_of_fixed_parts_alone_is_seen_in_the_rows_and_their_lengths() -> None:
    assert {"metadata", "layer1.k", "layer1.index_raw"} <= set(wrong(FixedOnly, "reject"))


def test_a_rollback_that_is_left_out_after_partial_acceptance_is_seen() -> None:
    assert wrong(FullRejectionOnly, "reject") == []
    assert "layer0.recurrent" in wrong(FullRejectionOnly, "partial")


def test_a_choice_of_blocks_that_is_not_rolled_back_is_seen_there_alone() -> None:
    assert wrong(ChoiceKept, "accept", count=1) == ["draft.selection"]


def test_rows_of_guesses_that_are_kept_are_seen_in_the_head() -> None:
    assert {"metadata", "draft.k", "draft.index_raw"} <= set(wrong(HeadKept, "reject"))


def test_a_carry_of_a_rejected_draft_is_seen_in_the_head_and_not_in_the_target() -> None:
    found = wrong(CarryOfTheLast, "reject")

    assert {"draft.k", "draft.v"} <= set(found)
    assert all(name.startswith("draft.") for name in found)


def test_a_drafter_that_an_error_moves_on_is_seen_in_its_policy() -> None:
    found = wrong(UndoesTargetOnly, "accept", broken=True)

    assert {"draft.policy", "draft.pending"} <= set(found)
