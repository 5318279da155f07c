"""K01: attention rows and recurrent state no longer describe the same text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.mutants.tools import Continues, ResetKeeps, RestoresWithout, ReturnsWithout
from harness.torch_engine.buffers import SessionBuffers
from harness.torch_engine.continuing import Continuation
from harness.torch_engine.models.ple import PleState
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import Snapshot, Snapshotter
from harness.torch_engine.state import StateLayout


class _RecurrentKept(RestoresWithout):
    left_out = "recurrent"


class RecurrentKept(Mutant):
    """A restore brings the attention rows back and leaves the recurrent state as the session has it."""

    mutant_id = "K01.recurrent-kept"
    stopped_by = Stop(scenario="A01", cell={"arch": "hybrid"}, check="again", part="layer0.recurrent", phase="restored")
    snapshotter = _RecurrentKept


class _ChangesConv(Snapshotter):
    """Brings convolution windows back otherwise than they were."""

    def changed(self, window: Tensor) -> Tensor:
        """Return what stands there instead of a window."""
        raise NotImplementedError

    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        copied = super().restore(chain, layout)
        for part in layout.fixed:
            if part.family == "conv":
                part.tensor.copy_(self.changed(part.tensor))
        return copied


class _ConvZeroed(_ChangesConv):
    def changed(self, window: Tensor) -> Tensor:
        return torch.zeros_like(window)


class ConvZeroed(Mutant):
    """A restore starts the short convolution anew, with an empty window."""

    mutant_id = "K01.conv-zeroed"
    stopped_by = Stop(scenario="A01", cell={"arch": "recurrent"}, check="again", part="conv", phase="restored")
    snapshotter = _ConvZeroed


class _HandleRecurrentKept(ReturnsWithout):
    left_out = "recurrent"


class HandleRecurrentKept(Mutant):
    """Going back to a saved session rewinds the attention rows only; the recurrent state stays in the future."""

    mutant_id = "K01.handle-recurrent-kept"
    stopped_by = Stop(scenario="A03", cell={"arch": "hybrid"}, check="came-back", part="recurrent", phase="seen")
    session = _HandleRecurrentKept


class _FixedOfParent(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        copied = super().restore(chain, layout)
        self.copy(self.fixed_pairs(chain[-2:][0], layout))
        return copied


class FixedOfParent(Mutant):
    """A chain restores the rows of its leaf and the recurrent state of the link before it."""

    mutant_id = "K01.fixed-of-parent"
    stopped_by = Stop(
        scenario="B01", cell={"arch": "hybrid", "route": "ar"}, check="again", part="recurrent", phase="restored"
    )
    snapshotter = _FixedOfParent


class _LayersSwapped(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        copied = super().restore(chain, layout)
        states = [part.tensor for part in layout.fixed if part.family == "recurrent"]
        if states:
            kept = states[0].clone()
            states[0].copy_(states[-1])
            states[-1].copy_(kept)
        return copied


class LayersSwapped(Mutant):
    """Recurrent states of equal shape are put back into each other's layers."""

    mutant_id = "K01.layers-swapped"
    stopped_by = Stop(scenario="A02", cell={"route": "ar"}, check="warm-a2", part="layer0.recurrent", phase="restored")
    snapshotter = _LayersSwapped


class _ConvSurvives(ResetKeeps):
    kept = "conv"


class ResetKeepsConv(Mutant):
    """A new prompt in a used session begins with the convolution window of the prompt before."""

    mutant_id = "K01.reset-keeps-conv"
    stopped_by = Stop(scenario="A02", cell={"route": "ar"}, check="off-b", part="recurrent", phase="prefilled")
    buffers = _ConvSurvives


class _RecurrentSurvives(ResetKeeps):
    kept = "recurrent"


class ResetKeepsRecurrent(Mutant):
    """A new prompt in a used session begins with the recurrent state of the prompt before."""

    mutant_id = "K01.reset-keeps-recurrent"
    stopped_by = Stop(scenario="A02", cell={"route": "ar"}, check="off-b", part="recurrent", phase="prefilled")
    buffers = _RecurrentSurvives


class _ConvReversed(_ChangesConv):
    def changed(self, window: Tensor) -> Tensor:
        return window.flip(-1)


class ConvReversed(Mutant):
    """The convolution window comes back newest column first."""

    mutant_id = "K01.conv-reversed"
    stopped_by = Stop(scenario="A01", cell={"arch": "recurrent"}, check="again", part="conv", phase="restored")
    snapshotter = _ConvReversed


class _KeysForValues(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        copied = super().restore(chain, layout)
        streams = {stream.name: stream for stream in layout.rows}
        for name, keys in streams.items():
            if name.endswith(".k") and keys.family == "kv":
                values = streams[name.removesuffix("k") + "v"]
                kept = keys.valid().clone()
                keys.valid().copy_(values.valid())
                values.valid().copy_(kept)
        return copied


class KeysForValues(Mutant):
    """Keys and values, rows of equal shape, are put back in each other's place."""

    mutant_id = "K01.keys-for-values"
    stopped_by = Stop(scenario="A01", cell={"arch": "attention"}, check="again", part="layer0.k", phase="restored")
    snapshotter = _KeysForValues


class _ResidentRowsOnly(Continuation):
    def begin_resident(self, prompt: npt.NDArray[np.int32]) -> int:
        parts = [part for part in self.fixed_layout().fixed if part.family == "recurrent"]
        before = [(part.tensor, part.tensor.clone()) for part in parts]
        found = super().begin_resident(prompt)
        for live, was in before:
            live.copy_(was)
        return found


class _GoesBackInRows(Continues):
    continuation = _ResidentRowsOnly


class ResidentRowsOnly(Mutant):
    """Going back to a resident prefix cuts the rows and leaves the recurrent state where the turn had come to."""

    mutant_id = "K01.resident-rows-only"
    stopped_by = Stop(scenario="D06", check="served-exact", part="recurrent", phase="restored")
    session = _GoesBackInRows


class _PleSurvives(SessionBuffers):
    def reset(self) -> None:
        known = [(state, state.tokens.clone()) for state in self.layers if isinstance(state, PleState)]
        super().reset()
        for state, tokens in known:
            state.tokens.copy_(tokens)


class ResetKeepsPle(Mutant):
    """The first row of per-layer embeddings of a new prompt is looked up with tokens of the prompt before."""

    mutant_id = "K01.reset-keeps-ple"
    stopped_by = Stop(scenario="D08", cell={"tokens": 1}, check="next-exact", phase="prefilled", part="recurrent")
    buffers = _PleSurvives


class _RestoresInPrefill(TorchSession):
    def idle(self, what: str) -> None:
        if what != "restore" or self.doing != "prefill":
            super().idle(what)


class RestoreInPrefill(Mutant):
    """A saved session may be put back while a prompt is being forwarded: some layers are of one, some of the other."""

    mutant_id = "K01.restore-in-prefill"
    stopped_by = Stop(scenario="D10", cell={"route": "ar"}, check="prefill-restore", reason="not_refused")
    session = _RestoresInPrefill
