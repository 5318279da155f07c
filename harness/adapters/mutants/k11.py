"""K11: target and draft state are rolled back, saved or brought back by different amounts."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.mutants.tools import names, restore_without
from harness.torch_engine.buffers import SessionBuffers
from harness.torch_engine.handles import SavedSession
from harness.torch_engine.sampling import Sampler
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import Snapshot, Snapshotter
from harness.torch_engine.speculating import Speculator, TargetCopy
from harness.torch_engine.state import FixedPart, StateLayout


class _KeepsFixed(Speculator):
    family = ""

    def put_back(self, step: TargetCopy) -> None:
        parts = [part for part in self.buffers.layout("session").fixed if part.family == self.family]
        ahead = [(part.tensor, part.tensor.clone()) for part in parts]
        super().put_back(step)
        for live, kept in ahead:
            live.copy_(kept)


class _KeepsRecurrent(_KeepsFixed):
    family = "recurrent"


class RecurrentNotRolledBack(Mutant):
    """After a rejected draft the rows go back and the recurrent state stays with the words that were never said."""

    mutant_id = "K11.recurrent-not-rolled-back"
    stopped_by = Stop(scenario="A20", cell={"drafts": "rejected"}, check="first-tokens", part="recurrent", phase="end")
    speculator = _KeepsRecurrent


class _KeepsConv(_KeepsFixed):
    family = "conv"


class ConvNotRolledBack(Mutant):
    """After a rejected draft the convolution window still holds its columns."""

    mutant_id = "K11.conv-not-rolled-back"
    stopped_by = Stop(scenario="A20", cell={"drafts": "free"}, check="first-tokens", part="recurrent", phase="end")
    speculator = _KeepsConv


class _OneStepFurther(Speculator):
    def verify(self, tokens: Sequence[int]) -> list[TargetCopy]:
        steps = super().verify(tokens)
        later = [*steps[1:-1], *steps[-2:-1]]
        return [*(self._with_state_of(a, b) for a, b in zip(steps, later, strict=False)), *steps[len(later) :]]

    def _with_state_of(self, step: TargetCopy, other: TargetCopy) -> TargetCopy:
        return TargetCopy(fixed=other.fixed, lengths=step.lengths, hidden=step.hidden, logits=step.logits)


class RolledBackOneShort(Mutant):
    """A rollback of several steps leaves the recurrent state one step further than the rows."""

    mutant_id = "K11.rolled-back-one-short"
    stopped_by = Stop(scenario="A20", cell={"drafts": "partial"}, check="goes-on", part="recurrent", phase="end")
    speculator = _OneStepFurther


class _KeepsRows(Speculator):
    def put_back(self, step: TargetCopy) -> None:
        ahead = self.buffers.lengths()[: len(self.buffers.layers)]
        super().put_back(TargetCopy(fixed=step.fixed, lengths=ahead, hidden=step.hidden, logits=step.logits))


class RowsNotRolledBack(Mutant):
    """After a rejected draft the recurrent state goes back and the rows of its words stay valid."""

    mutant_id = "K11.rows-not-rolled-back"
    stopped_by = Stop(scenario="A20", cell={"drafts": "rejected"}, check="first-tokens", part="meta", phase="end")
    speculator = _KeepsRows


class _Believes(Speculator):
    def judge(self, sampler: Sampler) -> tuple[int, bool]:
        drafts = self.state.drafts()
        token, accepted = super().judge(sampler)
        if accepted or not drafts:
            return token, accepted
        b = self.buffers
        b.history[b.history_rows - 1] = drafts[0]
        self.state.set_drafts(drafts[1:])
        return drafts[0], True


class DraftsBelieved(Mutant):
    """Drafts are taken for the answer without a look at what the target would have said."""

    mutant_id = "K11.drafts-believed"
    stopped_by = Stop(scenario="A20", cell={"drafts": "free"}, check="first-tokens", part="recurrent", phase="end")
    speculator = _Believes


class _NoDraft(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        return restore_without(self, chain, layout, names(layout, "draft"))


class DraftNotRestored(Mutant):
    """A restore brings the target back and leaves the draft head with the text before."""

    mutant_id = "K11.draft-not-restored"
    stopped_by = Stop(scenario="A19", cell={"drafts": "free"}, check="again", part="draft", phase="restored")
    snapshotter = _NoDraft


class _NoCarry(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        return restore_without(self, chain, layout, {"draft.carry"})


class CarryNotRestored(Mutant):
    """The rows of the draft head come back, and not the hidden row that it goes on from."""

    mutant_id = "K11.carry-not-restored"
    stopped_by = Stop(scenario="A19", cell={"drafts": "accepted"}, check="again", part="draft.carry", phase="restored")
    snapshotter = _NoCarry


class _NoSelection(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        return restore_without(self, chain, layout, {"draft.selection"})


class SelectionNotRestored(Mutant):
    """The draft head's choice of blocks is not brought back."""

    mutant_id = "K11.selection-not-restored"
    stopped_by = Stop(
        scenario="A19", cell={"drafts": "rejected"}, check="again", part="draft.selection", phase="restored"
    )
    snapshotter = _NoSelection


class _DraftRowShort(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        kept = [(s.tensor, s.rows - 1, s.tensor[s.rows - 1].clone()) for s in layout.rows if s.name == "draft.k"]
        copied = super().restore(chain, layout)
        for tensor, row, before in kept:
            tensor[row] = before
        return copied


class DraftRowShort(Mutant):
    """The draft head's last key is not brought back: the head is counted from the target's position."""

    mutant_id = "K11.draft-row-short"
    stopped_by = Stop(scenario="A19", cell={"drafts": "partial"}, check="again", part="draft.k", phase="restored")
    snapshotter = _DraftRowShort


class _KeepsDraft(SessionBuffers):
    kept: Sequence[str] = ()

    def reset(self) -> None:
        before = [(part.tensor, part.tensor.clone()) for part in self._parts()]
        super().reset()
        for live, was in before:
            live.copy_(was)

    def _parts(self) -> list[FixedPart]:
        parts = [] if getattr(self, "draft", None) is None else self.layout("session").fixed
        return [part for part in parts if part.name in self.kept]


class _KeepsPolicy(_KeepsDraft):
    kept = ("draft.policy",)


class ResetKeepsPolicy(Mutant):
    """A reset session drafts as deep as the conversation before had come to."""

    mutant_id = "K11.reset-keeps-policy"
    stopped_by = Stop(scenario="D08", cell={"tokens": 5}, check="nothing-left", part="meta", phase="seen")
    buffers = _KeepsPolicy


class _KeepsCarry(_KeepsDraft):
    kept = ("draft.carry",)


class ResetKeepsCarry(Mutant):
    """A reset session's draft head still has the hidden row that it went on from in the conversation before."""

    mutant_id = "K11.reset-keeps-carry"
    stopped_by = Stop(scenario="D08", cell={"tokens": 2}, check="nothing-left", part="draft.carry", phase="seen")
    buffers = _KeepsCarry


class _HeadForgotten(Speculator):
    def follow(self, tokens: Tensor, start: int, hidden: Tensor) -> None:
        if start > 0 and self._restored_to(start):
            self.state.carry.zero_()
        super().follow(tokens, start, hidden)

    def _restored_to(self, start: int) -> bool:
        return self.session.turn.source is not None and self.session.turn.source.boundary == start


class HeadStartsAnew(Mutant):
    """The first panel after a restore brings the draft head along as if nothing came before it."""

    mutant_id = "K11.head-starts-anew"
    stopped_by = Stop(scenario="A19", cell={"drafts": "free"}, check="again", part="draft.k", phase="prefilled")
    speculator = _HeadForgotten


class _HandleWithoutDraft(TorchSession):
    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        restore_without(self.snapshotter, [saved.snapshot], layout, names(layout, "draft"))


class DraftNotInHandle(Mutant):
    """A saved session holds the target only; drafts of the text in between are judged after it comes back."""

    mutant_id = "K11.draft-not-in-handle"
    stopped_by = Stop(
        scenario="A20", cell={"drafts": "accepted"}, check="goes-on-restored", part="recurrent", phase="end"
    )
    session = _HandleWithoutDraft
