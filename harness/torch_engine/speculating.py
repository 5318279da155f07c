"""Speculative decoding: the head drafts, the target verifies, and what was not accepted is rolled back.

The target forwards the seed token and the drafts after it one by one, by the same calls as plain decoding,
and keeps a copy of everything that each step overwrites. Then tokens are sampled from the logits one by
one, by the same calls in the same order as plain decoding; a draft counts as accepted if it is the token
that was sampled. So tokens and target state are those of route ``ar``, whatever was drafted.

A draft is made when a token is sampled that no earlier draft foretold, and drafts that are left when a call
ends stay pending. So the drafter's state depends on the tokens, not on how calls divide them.

One round is atomic: an error inside it leaves the session as it was before the round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from harness.torch_engine.buffers import Lengths, SessionBuffers
from harness.torch_engine.draft_state import DraftState
from harness.torch_engine.models.draft import DraftHead
from harness.torch_engine.sampling import Greedy, Sampler, SamplerState
from harness.torch_engine.settings import use_threads

if TYPE_CHECKING:
    from harness.torch_engine.session import TorchSession

_NOT_OF_LAYERS = ("draft", "logits", "sampler")
VerifyHook = Callable[["TorchSession", int], None]
"""Called inside a verify after each target step, with the session and the step's number from 0."""


@dataclass(frozen=True, slots=True)
class TargetCopy:
    """Everything of the target that a step overwrites, as it was after one step."""

    fixed: tuple[Tensor, ...]
    """Recurrent states, convolutions and windows of all layers."""
    lengths: Lengths
    """Rows of all layers; rows above them mean nothing."""
    hidden: Tensor
    """(1, d), the last hidden row."""
    logits: Tensor
    """(vocab,), the logits after the step."""


@dataclass(frozen=True, slots=True)
class RoundMark:
    """A session before a round."""

    fixed: tuple[Tensor, ...]
    """Every fixed part, of the target, the head, the logits and the sampler."""
    lengths: Lengths
    position: int
    decoded: int
    history_rows: int
    owed: bool
    logits_valid: bool


class Speculator:
    """Drafts and verifies for one session; its state lies in the session's buffers."""

    def __init__(self, session: TorchSession, head: DraftHead) -> None:
        self.session = session
        self.head = head
        self.force = session.options.draft_force
        self.on_verify: VerifyHook | None = None
        """Called inside each verify; may look, and may raise."""
        self._tally: Counter[str] = Counter()

    @property
    def buffers(self) -> SessionBuffers:
        """The session's memory."""
        return self.session.buffers

    @property
    def state(self) -> DraftState:
        """The head's part of it."""
        draft = self.buffers.draft
        assert draft is not None  # route mtp allocates it  # noqa: S101
        return draft

    # -- prefill -------------------------------------------------------------------------------

    def follow(self, tokens: Tensor, start: int, hidden: Tensor) -> None:
        """Bring the head along after a panel of a prefill.

        Args:
            tokens: (n,) i64 of the panel.
            start: position of the first.
            hidden: (n, d), the target's last hidden rows.
        """
        state, first = self.state, int(start == 0)
        before = hidden[:-1] if first else torch.cat((state.carry, hidden[:-1]))
        self.head.absorb(tokens[first:], before, max(0, start - 1), state.rows, state.selection)
        state.carry.copy_(hidden[-1:])

    def forwarded(self, *, last: bool) -> None:
        """A span of a prompt has been forwarded: pending drafts are void."""
        self.state.void()
        if last:
            self.state.seed.fill_(best(self.buffers.logits))

    # -- decoding ------------------------------------------------------------------------------

    def decode(self, count: int, sampler: Sampler) -> list[int]:
        """Sample ``count`` tokens; all are forwarded, but the last one where the session owes it."""
        tokens: list[int] = []
        while len(tokens) < count or (self.session.owed and not self.session.options.owed):
            tokens += self.round(count - len(tokens), sampler)
        return tokens

    def settle(self) -> None:
        """Forward the owed token and nothing else."""
        self.round(0, Greedy())

    def round(self, room: int, sampler: Sampler) -> list[int]:
        """Sample a seed unless one is owed, verify it with its drafts, judge them; all of it or nothing.

        Args:
            room: most tokens to sample.
            sampler: how to pick.

        Returns:
            The tokens sampled, 0 to ``room``.
        """
        use_threads(self.session.engine.options.threads)
        mark = self.mark()
        self._tally.clear()
        try:
            with self.session.busy("verify"), torch.inference_mode():
                tokens = self._round(room, sampler)
        except BaseException:
            self.undo(mark)
            raise
        self.session.cache.count(self._tally)
        return tokens

    def _round(self, room: int, sampler: Sampler) -> list[int]:
        s = self.session
        tokens: list[int] = []
        if not s.owed:
            tokens.append(self.sample(sampler))
            if s.options.owed and room == 1:
                return tokens
        limit = max(0, room - len(tokens) - s.options.owed)
        drafts = self.state.drafts()[:limit]
        steps = self.verify([int(self.buffers.history[s.position]), *drafts])
        self.keep(steps[0])
        for step, before in zip(steps[1:], steps, strict=False):
            token, accepted = self.judge(sampler)
            tokens.append(token)
            if not accepted:
                self.rollback_target(before)
                self.propose(token, sampler)
                break
            self.keep(step)
        return tokens

    def sample(self, sampler: Sampler) -> int:
        """Sample the next token, judge a pending draft by it, and draft anew unless it was foretold."""
        token, accepted = self.judge(sampler)
        if not accepted:
            self.propose(token, sampler)
        return token

    def judge(self, sampler: Sampler) -> tuple[int, bool]:
        """Sample the next token; with it, whether the next pending draft foretold it."""
        s, state = self.session, self.state
        foreseen = int(state.seed[0])
        token = s.sample(Foreseen(foreseen) if isinstance(sampler, Greedy) else sampler)
        state.seed.fill_(token)
        drafts = state.drafts()
        if not drafts:
            return token, False
        accepted = drafts[0] == token and self.force != "reject"
        self._book("accepted" if accepted else "rejected", 1 if accepted else len(drafts))
        state.set_drafts(drafts[1:] if accepted else ())
        if len(drafts) == 1 or not accepted:
            self.end_round(right=state.word("round_size") - len(drafts) + accepted)
        return token, accepted

    def end_round(self, right: int) -> None:
        """Adapt the depth: one more after a draft that was all right, one less if less than half was."""
        state = self.state
        size, depth = state.word("round_size"), state.word("depth")
        change = 1 if right == size else -int(2 * right < size)
        state.set_word("depth", min(max(1, depth + change), state.max_depth))
        state.set_word("rounds", state.word("rounds") + 1)

    def verify(self, tokens: Sequence[int]) -> list[TargetCopy]:
        """Forward tokens by the target alone, ahead of what is known to be right.

        Returns:
            The target after each step; the last one, which is never gone back to, without its fixed parts.
        """
        s = self.session
        steps: list[TargetCopy] = []
        for i, token in enumerate(tokens):
            hidden = s.decoder.step(token, s.position + i, self.buffers.layers)
            logits = s.decoder.logits(hidden)
            steps.append(self.copy_target(hidden, logits, ahead=i + 1 < len(tokens)))
            if self.on_verify is not None:
                self.on_verify(s, i)
            s.progress()
        return steps

    def keep(self, step: TargetCopy) -> None:
        """The owed token stands: its logits become pending, and the head comes along."""
        s, b, state = self.session, self.buffers, self.state
        token = b.history[s.position : s.position + 1].to(b.device, torch.int64)
        if s.position:
            self.head.absorb(token, state.carry, s.position - 1, state.rows, state.selection)
        state.carry.copy_(step.hidden)
        b.logits.copy_(step.logits)
        state.seed.fill_(best(step.logits))
        s.position += 1
        s.owed, s.logits_valid = False, True

    # -- drafting ------------------------------------------------------------------------------

    def propose(self, token: int, sampler: Sampler) -> None:
        """Draft what may follow ``token``, which has been sampled and is owed."""
        state = self.state
        depth = min(state.word("depth"), self.buffers.capacity - self.session.position - 1)
        if depth < 1:
            return
        drafts = self.draft(token, depth)
        if self.force in ("accept", "partial"):
            drafts = self.forced(drafts, self.foresee(token, depth, sampler))
        state.set_drafts(drafts)
        state.set_word("round_size", depth)
        self._book("proposed", depth)

    def draft(self, token: int, depth: int) -> list[int]:
        """The head's guesses after ``token``; its rows and its choice of blocks are as before afterwards."""
        state = self.state
        tokens: list[int] = []
        rows, selection, hidden = state.rows.kv_rows, state.selection.clone(), state.carry
        for i in range(depth):
            hidden = self.head.step(token, hidden, rows + i, state.rows, state.selection)
            token = best(self.head.logits(hidden))
            tokens.append(token)
        self.rollback_draft(rows, selection)
        return tokens

    def rollback_draft(self, rows: int, selection: Tensor) -> None:
        """Forget what was guessed from guesses.

        Args:
            rows: positions of the head that come from the target.
            selection: the choice of blocks that goes with them.
        """
        self.state.truncate(rows)
        self.state.selection.copy_(selection)
        self.buffers.poison_unused()

    def forced(self, drafts: Sequence[int], right: Sequence[int]) -> list[int]:
        """Drafts of the modes ``accept`` and ``partial``, made of those of the head and the right ones."""
        if self.force == "accept":
            return list(right)
        good = (self.state.word("rounds") + 1) % (len(right) + 1)
        wrong = [(token + 1) % self.head.config.vocab for token in right[good : good + 1]]
        return [*right[:good], *wrong, *drafts[good + 1 :]]

    def foresee(self, token: int, depth: int, sampler: Sampler) -> list[int]:
        """What plain decoding would sample after ``token``; everything is as before afterwards."""
        s, b = self.session, self.buffers
        tokens: list[int] = []
        here = self.copy_target(self.state.carry, b.logits, ahead=True)
        rng, rows = b.rng.clone(), b.history_rows
        for i in range(depth):
            logits = s.decoder.logits(s.decoder.step(token, s.position + i, b.layers))
            token = sampler.pick(logits.cpu().numpy(), b.history[: b.history_rows].numpy(), SamplerState(b.rng))
            b.remember(np.array([token], dtype=np.int32))
            tokens.append(token)
        b.rng.copy_(rng)
        b.history_rows = rows
        self.put_back(here)
        return tokens

    # -- rolling back --------------------------------------------------------------------------

    def rollback_target(self, step: TargetCopy) -> None:
        """Take the target back to where it was after an earlier step."""
        self._tally["rollbacks"] += 1
        self.put_back(step)

    def put_back(self, step: TargetCopy) -> None:
        """Copy back what steps overwrite, and declare the rows above invalid."""
        for live, kept in zip(self.target_fixed(), step.fixed, strict=True):
            live.copy_(kept)
        self.buffers.set_lengths((*step.lengths, *self.state.lengths()))
        self.buffers.poison_unused()

    def copy_target(self, hidden: Tensor, logits: Tensor, *, ahead: bool) -> TargetCopy:
        """The target as it is now; its fixed parts only if a step ``ahead`` will overwrite them."""
        fixed = tuple(tensor.clone() for tensor in self.target_fixed()) if ahead else ()
        lengths = self.buffers.lengths()[: len(self.buffers.layers)]
        return TargetCopy(fixed=fixed, lengths=lengths, hidden=hidden, logits=logits)

    def target_fixed(self) -> list[Tensor]:
        """Live fixed parts of the target's layers."""
        parts = self.buffers.layout("session").fixed
        return [part.tensor for part in parts if part.family not in _NOT_OF_LAYERS]

    def mark(self) -> RoundMark:
        """The session as it is now, with copies of all that a round may overwrite."""
        s, b = self.session, self.buffers
        return RoundMark(
            fixed=tuple(part.tensor.clone() for part in b.layout("session").fixed),
            lengths=b.lengths(),
            position=s.position,
            decoded=s.decoded,
            history_rows=b.history_rows,
            owed=s.owed,
            logits_valid=s.logits_valid,
        )

    def undo(self, mark: RoundMark) -> None:
        """Make the session what it was before a round that failed."""
        s, b = self.session, self.buffers
        for part, kept in zip(b.layout("session").fixed, mark.fixed, strict=True):
            part.tensor.copy_(kept)
        b.set_lengths(mark.lengths)
        b.history_rows, s.position, s.decoded = mark.history_rows, mark.position, mark.decoded
        s.owed, s.logits_valid = mark.owed, mark.logits_valid
        b.poison_unused()

    def _book(self, what: str, count: int) -> None:
        """Count in the state and for the engine."""
        self.state.set_word(what, self.state.word(what) + count)
        self._tally[f"draft_{what}"] += count


@dataclass(frozen=True, slots=True)
class Foreseen:
    """Greedy sampling whose choice was made when the logits were: the seed token."""

    token: int

    def pick(self, logits: npt.NDArray[np.float32], history: npt.NDArray[np.int32], rng: SamplerState) -> int:
        """The seed; the best token if it cannot be one."""
        return self.token if 0 <= self.token < len(logits) else Greedy().pick(logits, history, rng)


def best(logits: Tensor) -> int:
    """The highest logit (vocab,), the lowest token id among equals, as `sampling.Greedy` picks."""
    return int(logits.cpu().numpy().argmax())
