"""K11: target and draft state are rolled back, saved or brought back by different amounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.mutants.tools import ResetKeeps, RestoresWithout, ReturnsWithout
from harness.torch_engine.buffers import SessionBuffers
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.errors import CapacityError
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.sampling import Sampler
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import Snapshot, Snapshotter
from harness.torch_engine.speculating import Speculator, TargetCopy
from harness.torch_engine.state import StateLayout


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


class _NoDraft(RestoresWithout):
    left_out = "draft"


class DraftNotRestored(Mutant):
    """A restore brings the target back and leaves the draft head with the text before."""

    mutant_id = "K11.draft-not-restored"
    stopped_by = Stop(scenario="A19", cell={"drafts": "free"}, check="again", part="draft", phase="restored")
    snapshotter = _NoDraft


class _NoCarry(RestoresWithout):
    left_out = "draft.carry"


class CarryNotRestored(Mutant):
    """The rows of the draft head come back, and not the hidden row that it goes on from."""

    mutant_id = "K11.carry-not-restored"
    stopped_by = Stop(scenario="A19", cell={"drafts": "accepted"}, check="again", part="draft.carry", phase="restored")
    snapshotter = _NoCarry


class _NoSelection(RestoresWithout):
    left_out = "draft.selection"


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


class _KeepsPolicy(ResetKeeps):
    kept = "draft.policy"


class ResetKeepsPolicy(Mutant):
    """A reset session drafts as deep as the conversation before had come to."""

    mutant_id = "K11.reset-keeps-policy"
    stopped_by = Stop(scenario="D08", cell={"tokens": 5}, check="nothing-left", part="meta", phase="seen")
    buffers = _KeepsPolicy


class _KeepsCarry(ResetKeeps):
    kept = "draft.carry"


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


class _HandleWithoutDraft(ReturnsWithout):
    left_out = "draft"


class DraftNotInHandle(Mutant):
    """A saved session holds the target only; drafts of the text in between are judged after it comes back."""

    mutant_id = "K11.draft-not-in-handle"
    stopped_by = Stop(
        scenario="A20", cell={"drafts": "accepted"}, check="goes-on-restored", part="recurrent", phase="end"
    )
    session = _HandleWithoutDraft


class _SavesInVerify(TorchSession):
    def idle(self, what: str) -> None:
        if what != "snapshot" or self.doing != "verify":
            super().idle(what)


class SnapshotInVerify(Mutant):
    """A snapshot may be taken inside a verify, of a target that is further than the text."""

    mutant_id = "K11.snapshot-in-verify"
    stopped_by = Stop(scenario="D10", cell={"route": "mtp"}, check="decode-snapshot", reason="not_refused")
    session = _SavesInVerify


class _KeepsPle(_KeepsFixed):
    family = "ple"


class PleNotRolledBack(Mutant):
    """After a rejected draft the per-layer embeddings are looked up as if its words had been said."""

    mutant_id = "K11.ple-not-rolled-back"
    stopped_by = Stop(scenario="D09", cell={"drafts": "rejected"}, check="as-plain", part="recurrent", phase="end")
    speculator = _KeepsPle


class _NoRollbackAfterAcceptance(Speculator):
    kept = 0

    def verify(self, tokens: Sequence[int]) -> list[TargetCopy]:
        self.kept = 0
        return super().verify(tokens)

    def keep(self, step: TargetCopy) -> None:
        self.kept += 1
        super().keep(step)

    def rollback_target(self, step: TargetCopy) -> None:
        whole = self.kept < 2
        fixed = step.fixed if whole else tuple(tensor.clone() for tensor in self.target_fixed())
        super().rollback_target(replace(step, fixed=fixed))


class PartialNotRolledBack(Mutant):
    """Where a part of a draft was accepted, the rows of the rest are taken back and the recurrent state is not."""

    mutant_id = "K11.partial-not-rolled-back"
    stopped_by = Stop(scenario="D09", cell={"drafts": "partial"}, check="as-plain", part="recurrent", phase="end")
    speculator = _NoRollbackAfterAcceptance


class _CountsRejectedAsRight(Speculator):
    def _book(self, what: str, count: int) -> None:
        super()._book("accepted" if what == "rejected" else what, count)


class RejectedCountedRight(Mutant):
    """Rejected drafts are counted as accepted: the rate looks fine and the drafter drafts ever deeper."""

    mutant_id = "K11.rejected-counted-right"
    stopped_by = Stop(scenario="D09", cell={"drafts": "rejected"}, check="none-accepted", reason="other_count")
    speculator = _CountsRejectedAsRight


class _IdentityWithout(TorchEngine):
    left_out: Sequence[str] = ()

    def session_identity(self, options: SessionOptions) -> dict[str, str | int | bool]:
        about = super().session_identity(options)
        return {name: value for name, value in about.items() if name not in self.left_out}


class _AnyDepth(_IdentityWithout):
    left_out = ("draft_depth",)


class DepthUnchecked(Mutant):
    """A session that drafts four tokens is put back into one that has room for two."""

    mutant_id = "K11.depth-unchecked"
    stopped_by = Stop(scenario="F12", cell={"other": "depth"}, check="image-refused", reason="not_refused")
    engine = _AnyDepth


class _AnyForce(_IdentityWithout):
    left_out = ("draft_force",)


class ForceUnchecked(Mutant):
    """A session whose drafts are judged is put back into one whose drafts are always right."""

    mutant_id = "K11.force-unchecked"
    stopped_by = Stop(scenario="F12", cell={"other": "forced"}, check="handle-refused", reason="not_refused")
    engine = _AnyForce


class _CarryOfCutBefore(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        copied = super().restore(chain, layout)
        if len(chain) > 1:
            for part, (live, before) in zip(layout.fixed, self.fixed_pairs(chain[-2], layout), strict=True):
                if part.name == "draft.carry":
                    live.copy_(before)
        return copied


class CarryOfCutBefore(Mutant):
    """The draft head goes on from the hidden row of the cut before the one that is restored."""

    mutant_id = "K11.carry-of-cut-before"
    stopped_by = Stop(
        scenario="A22", cell={"route": "mtp"}, check="user-turn-exact", part="draft.carry", phase="restored"
    )
    snapshotter = _CarryOfCutBefore


class _CancelKeepsDrafter(ResetKeeps):
    kept = "draft.policy"
    cancelled = False

    def reset(self) -> None:
        if self.cancelled:
            super().reset()
        else:
            SessionBuffers.reset(self)
        self.cancelled = False


class _TellsOfCancel(TorchSession):
    def cancel(self) -> int:
        published = super().cancel()
        if isinstance(self.buffers, _CancelKeepsDrafter):
            self.buffers.cancelled = True
        return published


class CancelKeepsDrafter(Mutant):
    """The conversation after a cancelled one drafts as deep as that had come to."""

    mutant_id = "K11.cancel-keeps-drafter"
    stopped_by = Stop(
        scenario="D03", cell={"at": "on", "route": "mtp"}, check="cancel-unnoticed", part="meta", phase="prefilled"
    )
    buffers = _CancelKeepsDrafter
    session = _TellsOfCancel


class _RunsAhead(Speculator):
    ahead: tuple[int, ...] = ()

    def forwarded(self, *, last: bool) -> None:
        self.ahead = ()
        super().forwarded(last=last)

    def decode(self, count: int, sampler: Sampler) -> list[int]:
        told = list(self.ahead[:count])
        self.ahead = self.ahead[count:]
        told += super().decode(count - len(told), sampler)
        if not self.ahead and self.state.drafts():
            self.ahead = tuple(super().decode(1, sampler))
        return told


class RunsAhead(Mutant):
    """While a draft is left the next token is made before it is asked for: at a stop the target is past the text."""

    mutant_id = "K11.runs-ahead"
    stopped_by = Stop(
        scenario="D03", cell={"at": "on", "route": "mtp"}, check="stop-as-plain", part="meta", phase="end"
    )
    speculator = _RunsAhead


class _RefusedDecodeVoids(TorchSession):
    def decode(self, count: int, sampler: Sampler | None = None) -> list[int]:
        try:
            return super().decode(count, sampler)
        except CapacityError:
            if self.buffers.draft is not None:
                self.buffers.draft.set_drafts(())
            raise


class RefusedDecodeVoidsDrafts(Mutant):
    """A decode for which there is no room is refused, and the drafts that were left from the one before are dropped."""

    mutant_id = "K11.refused-decode-voids-drafts"
    stopped_by = Stop(
        scenario="D03", cell={"at": "on", "route": "mtp"}, check="error-goes-on", part="meta", phase="seen"
    )
    session = _RefusedDecodeVoids


class _HandleWithoutSeed(ReturnsWithout):
    left_out = "draft.seed"


class SeedNotInHandle(Mutant):
    """A saved session comes back without the token that its draft head would go on with."""

    mutant_id = "K11.seed-not-in-handle"
    stopped_by = Stop(scenario="D11", cell={"route": "mtp"}, check="by-handle-there", part="draft.seed", phase="seen")
    session = _HandleWithoutSeed
