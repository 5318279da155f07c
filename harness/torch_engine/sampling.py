"""Choosing the next token on the host, so that the choice is a function of the logits' bits.

The generator is a splitmix64 counter of our own: its whole state is two words that a snapshot can
carry. Parameters are integers (ppm), so that a record of them is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from harness.torch_engine.errors import OptionError
from harness.torch_engine.weights import GOLDEN_GAMMA, mix64

PPM = 1_000_000
_MASK = (1 << 64) - 1


class SamplerState:
    """A live view of ``sampler.rng``: i64 words (seeded, seed, counter) read as u64."""

    def __init__(self, words: Tensor) -> None:
        self.words = words

    @property
    def seeded(self) -> bool:
        """Whether a generator has been started."""
        return bool(self.words.tolist()[0])  # asked at every look, and thrice as fast as the item of an index

    def start(self, seed: int) -> None:
        """Begin the stream of a seed, unless it is the one that is running."""
        if not self.seeded or self._word(1) != seed & _MASK:
            self._put(0, 1)
            self._put(1, seed)
            self._put(2, seed)

    def draw(self) -> int:
        """The next u64."""
        counter = (self._word(2) + GOLDEN_GAMMA) & _MASK
        self._put(2, counter)
        return mix64(counter)

    def _word(self, i: int) -> int:
        return int(self.words[i].item()) & _MASK

    def _put(self, i: int, value: int) -> None:
        value &= _MASK
        self.words[i] = value - (1 << 64) if value >> 63 else value


class Sampler(Protocol):
    """Picks a token."""

    def pick(self, logits: npt.NDArray[np.float32], history: npt.NDArray[np.int32], rng: SamplerState) -> int:
        """The next token.

        Args:
            logits: (vocab,) f32 on the host; not changed.
            history: all tokens so far, oldest first.
            rng: the session's generator; a sampler that draws moves it on.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Greedy:
    """The highest logit; the lowest token id among equals."""

    def pick(self, logits: npt.NDArray[np.float32], history: npt.NDArray[np.int32], rng: SamplerState) -> int:  # noqa: ARG002
        """See `Sampler.pick`; neither history nor generator is used."""
        return int(logits.argmax())


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """Temperature, top-k, top-p and a repetition penalty, in this order: penalty first."""

    temperature_ppm: int = PPM
    """Temperature in millionths, at least 1."""
    top_k: int = 0
    """Candidates kept, 0 for all."""
    top_p_ppm: int = PPM
    """Probability mass kept in millionths, 1..1,000,000; at least one candidate stays."""
    seed: int = 0
    """Seed of the generator, taken modulo 2^64."""
    repetition_ppm: int = PPM
    """Penalty in millionths for tokens seen lately; 1,000,000 for none."""
    repetition_window: int = 64
    """How many last tokens count as seen."""

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        if self.temperature_ppm < 1 or self.repetition_ppm < 1:
            raise OptionError("sampling: expected temperature_ppm and repetition_ppm from 1 on")
        if not 1 <= self.top_p_ppm <= PPM:
            raise OptionError(f"sampling: expected top_p_ppm in 1..{PPM}, found {self.top_p_ppm}")
        if self.top_k < 0 or self.repetition_window < 0:
            raise OptionError("sampling: expected top_k and repetition_window from 0 on")

    def pick(self, logits: npt.NDArray[np.float32], history: npt.NDArray[np.int32], rng: SamplerState) -> int:
        """See `Sampler.pick`; moves the generator on by one draw."""
        rng.start(self.seed)
        scores = self._penalised(logits.astype(np.float64), history) / (self.temperature_ppm / PPM)
        order = np.argsort(-scores, kind="stable")  # ties: lower token id first
        if self.top_k:
            order = order[: self.top_k]
        weights = np.exp(scores[order] - scores[order[0]])
        total = np.cumsum(weights)
        keep = int(np.searchsorted(total, total[-1] * (self.top_p_ppm / PPM))) + 1
        total = total[:keep]
        target = (rng.draw() >> 11) * 2.0**-53 * total[-1]
        return int(order[min(int(np.searchsorted(total, target, side="right")), len(total) - 1)])

    def _penalised(self, scores: npt.NDArray[np.float64], history: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
        if self.repetition_ppm != PPM and self.repetition_window:
            seen = np.unique(history[-self.repetition_window :])
            factor, old = self.repetition_ppm / PPM, scores[seen]
            scores[seen] = np.where(old > 0, old / factor, old * factor)
        return scores
