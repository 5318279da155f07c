"""K03: something is missing from the image."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.mutants.tools import RestoresWithout, ReturnsWithout, layout_without, names
from harness.adapters.torch_session import TorchAdapterSession
from harness.engines.interface import StatePart
from harness.torch_engine.buffers import Lengths, Scope, SessionBuffers
from harness.torch_engine.handles import SavedSession
from harness.torch_engine.metadata import Metadata
from harness.torch_engine.sampling import Sampler, SamplerState
from harness.torch_engine.session import TorchSession
from harness.torch_engine.session_image import Imager
from harness.torch_engine.state import StateLayout

if TYPE_CHECKING:
    from typing_extensions import Buffer


class _PrefixWithout(SessionBuffers):
    def left_out(self, layout: StateLayout) -> Collection[str]:
        """Names of the parts that a boundary snapshot does not hold."""
        raise NotImplementedError

    def layout(self, scope: Scope, lengths: Lengths | None = None, history_rows: int | None = None) -> StateLayout:
        whole = super().layout(scope, lengths, history_rows)
        return whole if scope == "session" else layout_without(whole, self.left_out(whole))


class _PooledMissing(_PrefixWithout):
    def left_out(self, layout: StateLayout) -> Collection[str]:
        return {part.name for part in layout.rows if part.name.endswith(".index_pooled")}


class PooledMissing(Mutant):
    """Snapshots hold K, V and the raw index keys, but not the pooled index rows."""

    mutant_id = "K03.pooled-missing"
    stopped_by = Stop(
        scenario="B01", cell={"arch": "attention"}, check="again", part="layer0.index_pooled", phase="restored"
    )
    buffers = _PooledMissing


class _RawMissing(_PrefixWithout):
    def left_out(self, layout: StateLayout) -> Collection[str]:
        return {part.name for part in layout.rows if part.name.endswith(".index_raw")}


class RawMissing(Mutant):
    """Snapshots hold the pooled index rows, but not the raw keys that the next pooled row is made of."""

    mutant_id = "K03.raw-missing"
    stopped_by = Stop(
        scenario="B01", cell={"arch": "hybrid", "route": "ar"}, check="again", part="layer1.index_raw", phase="restored"
    )
    buffers = _RawMissing


class _LayerMissing(_PrefixWithout):
    def left_out(self, layout: StateLayout) -> Collection[str]:
        last = max((part.layer for part in layout.rows), default=0)
        return {part.name for part in layout.rows if part.layer == last}


class LayerMissing(Mutant):
    """Snapshots stop before the last attention layer: a loop runs one short."""

    mutant_id = "K03.layer-missing"
    stopped_by = Stop(scenario="B01", cell={"arch": "attention"}, check="again", part="layer3.k", phase="restored")
    buffers = _LayerMissing


class _ConvMissing(_PrefixWithout):
    def left_out(self, layout: StateLayout) -> Collection[str]:
        return names(layout, "conv")


class ConvMissing(Mutant):
    """Snapshots hold the recurrent state and not the window of the short convolution."""

    mutant_id = "K03.conv-missing"
    stopped_by = Stop(scenario="A02", cell={"route": "ar"}, check="warm-c", part="conv", phase="restored")
    buffers = _ConvMissing


class _NoLogits(ReturnsWithout):
    left_out = "logits"


class LogitsNotInHandle(Mutant):
    """A saved session has no logits; the next token is picked from those of the text in between."""

    mutant_id = "K03.logits-not-in-handle"
    stopped_by = Stop(scenario="A03", cell={"arch": "attention"}, check="came-back", part="logits", phase="seen")
    session = _NoLogits


class _NoGenerator(ReturnsWithout):
    left_out = "sampler.rng"


class RngNotInHandle(Mutant):
    """A saved session does not hold the generator; sampling goes on with the numbers of another turn."""

    mutant_id = "K03.rng-not-in-handle"
    stopped_by = Stop(scenario="A09", cell={"sampler": "plain"}, check="fork-goes-on", part="recurrent", phase="end")
    session = _NoGenerator


class _NoHistory(ReturnsWithout):
    left_out = "sampler.history"


class HistoryNotInHandle(Mutant):
    """A saved session does not hold the tokens that the repetition penalty reads."""

    mutant_id = "K03.history-not-in-handle"
    stopped_by = Stop(
        scenario="A09", cell={"sampler": "penalty"}, check="came-back", part="sampler.history", phase="seen"
    )
    session = _NoHistory


class _NoCount(TorchSession):
    def take_over(self, meta: Metadata) -> None:
        super().take_over(meta)
        self.decoded = 0


class DecodedNotInHandle(Mutant):
    """A restored session counts its sampled tokens from zero again."""

    mutant_id = "K03.decoded-not-in-handle"
    stopped_by = Stop(scenario="A03", cell={"arch": "recurrent"}, check="came-back", part="meta", phase="seen")
    session = _NoCount


class _Restarts(TorchSession):
    def restore_parts(self, saved: SavedSession, layout: StateLayout) -> None:
        super().restore_parts(saved, layout)
        self.buffers.rng[2] = self.buffers.rng[1]


class GeneratorRestarts(Mutant):
    """A saved session holds the seed of its generator and not how far it got."""

    mutant_id = "K03.generator-restarts"
    stopped_by = Stop(scenario="A09", cell={"sampler": "plain"}, check="came-back", part="sampler.rng", phase="seen")
    session = _Restarts


_HIDDEN = "layer2.recurrent"


class _HiddenKept(RestoresWithout):
    left_out = _HIDDEN


class _Hides(TorchAdapterSession):
    def parts(self) -> Sequence[StatePart]:
        return [part for part in super().parts() if part.name != _HIDDEN]


class HiddenPartLost(Mutant):
    """A part that the engine does not know as state is neither shown nor brought back."""

    mutant_id = "K03.hidden-part-lost"
    stopped_by = Stop(scenario="A01", cell={"arch": "hybrid"}, check="again", part="logits", phase="prefilled")
    snapshotter = _HiddenKept
    adapter_session = _Hides


class _ImageWithout(Imager):
    left_out = ""

    def bring(self, session: TorchSession, data: Buffer) -> int:
        copied = super().bring(session, data)
        session.layout("session").part(self.left_out).tensor.zero_()
        return copied


class _ImageNoLogits(_ImageWithout):
    left_out = "logits"


class LogitsNotInImage(Mutant):
    """An image brings no pending logits along."""

    mutant_id = "K03.logits-not-in-image"
    stopped_by = Stop(
        scenario="A17", cell={"arch": "attention", "sampler": "greedy"}, check="there", reason="other_image"
    )
    imager = _ImageNoLogits


class _ImageNoGenerator(_ImageWithout):
    left_out = "sampler.rng"


class GeneratorNotInImage(Mutant):
    """An image brings no generator along; the next draw begins at the seed again."""

    mutant_id = "K03.generator-not-in-image"
    stopped_by = Stop(
        scenario="A17",
        cell={"arch": "hybrid", "sampler": "drawn"},
        check="through-a-process",
        reason="other_image",
    )
    imager = _ImageNoGenerator


class _ImageNoHistory(_ImageWithout):
    left_out = "sampler.history"


class HistoryNotInImage(Mutant):
    """An image brings the state and not the tokens that it is of."""

    mutant_id = "K03.history-not-in-image"
    stopped_by = Stop(scenario="A17", cell={"arch": "hybrid", "sampler": "greedy"}, check="there", reason="other_image")
    imager = _ImageNoHistory


class _ImageNoRows(_ImageWithout):
    left_out = "layer1.k"


class RowsNotInImage(Mutant):
    """An image brings the keys of one layer along as zeros."""

    mutant_id = "K03.rows-not-in-image"
    stopped_by = Stop(scenario="A61", check="arrives", part="layer1.k", phase="restored")
    imager = _ImageNoRows


class _PleConvMissing(_PrefixWithout):
    def left_out(self, layout: StateLayout) -> Collection[str]:
        return {"ple.conv"} & {part.name for part in layout.fixed}


class PleConvMissing(Mutant):
    """Snapshots hold everything of the layers, but not the convolution window of the per-layer embeddings."""

    mutant_id = "K03.ple-conv-missing"
    stopped_by = Stop(
        scenario="A01", cell={"arch": "ple", "route": "ar"}, check="again", part="ple.conv", phase="restored"
    )
    buffers = _PleConvMissing


class _PleTokensMissing(_PrefixWithout):
    def left_out(self, layout: StateLayout) -> Collection[str]:
        return {"ple.tokens"} & {part.name for part in layout.fixed}


class PleTokensMissing(Mutant):
    """After a restore the next per-layer embedding is looked up as if no token came before."""

    mutant_id = "K03.ple-tokens-missing"
    stopped_by = Stop(
        scenario="A01", cell={"arch": "ple", "route": "mtp"}, check="again", part="ple.tokens", phase="restored"
    )
    buffers = _PleTokensMissing


@dataclass(frozen=True, kw_only=True, slots=True)
class _FromThere:
    """A sampler that is told of later tokens only."""

    plain: Sampler
    first: int

    def pick(self, logits: npt.NDArray[np.float32], history: npt.NDArray[np.int32], rng: SamplerState) -> int:
        return self.plain.pick(logits, history[self.first :], rng)


class _PenaltyOfNewTokens(TorchSession):
    _reused = 0

    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:  # noqa: FBT001 - the seam's signature
        self._reused = super().begin(prompt, use_cache)
        return self._reused

    def sample(self, sampler: Sampler) -> int:
        return super().sample(_FromThere(plain=sampler, first=self._reused))


class PenaltyOfNewTokens(Mutant):
    """After a hit the repetition penalty knows the tokens that were forwarded, and none of those that were reused."""

    mutant_id = "K03.penalty-of-new-tokens"
    stopped_by = Stop(scenario="A14", cell={"sampler": "penalty"}, check="exact-2", part="recurrent", phase="end")
    session = _PenaltyOfNewTokens
