"""K07: sessions side by side hold once what each must have: of the draft head, and of the per-layer embeddings."""

from __future__ import annotations

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.draft_state import DraftState
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.models.ple import PleState
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.session import TorchSession


class _Firsts(TorchEngine):
    """Remembers what its first session has."""

    first_draft: DraftState | None = None
    first_ple: PleState | None = None


class _Joining(TorchSession):
    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        draft = self.buffers.draft
        if draft is not None and isinstance(engine, _Firsts):
            engine.first_draft = engine.first_draft or draft
            self.join(draft, engine.first_draft)

    def join(self, mine: DraftState, first: DraftState) -> None:
        """Let a draft head's state lie where the first session has its own."""
        raise NotImplementedError


class _OnePolicy(_Joining):
    def join(self, mine: DraftState, first: DraftState) -> None:
        mine.policy = first.policy


class SharedDraftPolicy(Mutant):
    """One policy says for all sessions how deep they draft and how many drafts were taken."""

    mutant_id = "K07.shared-draft-policy"
    stopped_by = Stop(scenario="A64", cell={"kind": "drafting"}, check="x-beside-a-prompt", part="meta", phase="seen")
    engine = _Firsts
    session = _OnePolicy


class _OneRows(_Joining):
    def join(self, mine: DraftState, first: DraftState) -> None:
        mine.rows.k, mine.rows.v = first.rows.k, first.rows.v


class SharedDraftRows(Mutant):
    """The draft heads of all sessions write keys and values into one buffer, each from its own row count on."""

    mutant_id = "K07.shared-draft-rows"
    stopped_by = Stop(
        scenario="A64", cell={"kind": "drafting"}, check="x-beside-a-prompt", part="draft.k", phase="seen"
    )
    engine = _Firsts
    session = _OneRows


class _OnePle(TorchSession):
    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        if not isinstance(engine, _Firsts):
            return
        for state in self.buffers.layers:
            if isinstance(state, PleState):
                engine.first_ple = engine.first_ple or state
                state.conv, state.tokens = engine.first_ple.conv, engine.first_ple.tokens


class SharedPle(Mutant):
    """All sessions of an engine look the next per-layer embedding up with the tokens of whoever came last."""

    mutant_id = "K07.shared-ple"
    stopped_by = Stop(scenario="A64", cell={"kind": "ple"}, check="x-beside-a-prompt", part="ple", phase="seen")
    engine = _Firsts
    session = _OnePle
