"""Faults of several kinds that an answer tells: a state of the right size from which another text is spoken.

They are planted into the engine of transformers, since an answer is a matter of trained weights: their entry points ask
for the extra ``smollm2``, and they run where it does (``statecert mutants --target transformers --preset smollm2``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.staged import StagedSession
from harness.adapters.transformers_adapter import TransformersAdapter, TransformersEngine
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.sampling import Sampler, Sampling
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import Snapshot, Snapshotter
from harness.torch_engine.state import StateLayout


class _OnTransformers(TransformersAdapter):
    """What such a mutant has from its engine."""

    engine: ClassVar[type[TorchEngine]] = TransformersEngine
    session: ClassVar[type[TorchSession]] = StagedSession
    path_sets: Mapping[str, Sequence[str]] = {
        **TransformersAdapter.path_sets,
        "mutants": ("harness.adapters.mutants:*.py",),
    }


class _ChangesRows(Snapshotter):
    """Changes the rows of K and V that a restore brought back."""

    sides: tuple[str, ...] = ("k", "v")

    def changed(self, rows: torch.Tensor) -> None:
        """Change rows (n, heads, size) in place."""
        raise NotImplementedError

    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        copied = super().restore(chain, layout)
        for stream in layout.rows:
            if stream.family == "kv" and stream.name.endswith(self.sides):
                self.changed(stream.tensor[: stream.rows])
        return copied


class _NeedleLost(_ChangesRows):
    def changed(self, rows: torch.Tensor) -> None:
        rows[24:48].copy_(rows[48:72].clone())


class NeedleLost(_OnTransformers, Mutant):
    """A restored prefix has the rows of later words where one of its facts was."""

    mutant_id = "K02.needle-lost"
    stopped_by = Stop(scenario="Q01", cell={"topic": "notes"}, check="answer-1", reason="answer_lost")
    snapshotter = _NeedleLost


class _FirstRowsLost(_ChangesRows):
    def changed(self, rows: torch.Tensor) -> None:
        rows[:16].zero_()


class FirstRowsLost(_OnTransformers, Mutant):
    """The first rows of a restored prefix are zero: those that every head leans on."""

    mutant_id = "K14.first-rows-lost"
    stopped_by = Stop(scenario="Q01", cell={"topic": "json"}, check="answer-1", reason="answer_lost")
    snapshotter = _FirstRowsLost


class _ValuesReordered(_ChangesRows):
    sides = ("v",)

    def changed(self, rows: torch.Tensor) -> None:
        rows.copy_(rows.flip(0).clone())


class ValuesReordered(_OnTransformers, Mutant):
    """The values of a restored prefix stand in another order than its keys: each word has what another one means."""

    mutant_id = "K02.values-reordered"
    stopped_by = Stop(scenario="Q02", cell={"topic": "notes"}, check="answer-1", reason="answer_lost")
    snapshotter = _ValuesReordered


class _DrawsAfterRestore(StagedSession):
    """Greedy decoding that has become a draw."""

    drawing = False

    def finish_restore(self, meta: bytes) -> None:
        super().finish_restore(meta)
        self.drawing = True

    def sample(self, sampler: Sampler) -> int:
        return super().sample(Sampling(seed=7, temperature_ppm=1_600_000) if self.drawing else sampler)


class DrawsAfterRestore(_OnTransformers, Mutant):
    """A restored session draws its tokens, as the last one here was told to, where it is asked for greedy."""

    mutant_id = "K03.draws-after-restore"
    stopped_by = Stop(scenario="Q01", cell={"topic": "tool"}, check="answer-1", reason="answer_lost")
    session = _DrawsAfterRestore
