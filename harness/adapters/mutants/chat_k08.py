"""K08: what a chat is cut by is not in the key, or what changes with every request is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.keys import Tokens, prefix_fingerprint
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.session import TorchSession

_HEADER = (504, 505)
"""What begins and ends a volatile header in the scenarios."""


class _NoChat(TorchEngine):
    def session_identity(self, options: SessionOptions) -> dict[str, str | int | bool]:
        return {name: value for name, value in super().session_identity(options).items() if name != "chat"}


class ChatNotInKey(Mutant):
    """The chat format is no part of the key: a state that was split at messages serves one that is split at chunks."""

    mutant_id = "K08.chat-not-in-key"
    stopped_by = Stop(scenario="C04", check="chunks-alone-scoped-apart", reason="other_count")
    engine = _NoChat


class _HeadOnly(TorchSession):
    def _choose(self, cached: int) -> None:  # noqa: ARG002 - that is the fault
        super()._choose(0)


class HeadAgain(Mutant):
    """The head is wanted again on every turn, also where it has served: nothing deeper is ever captured."""

    mutant_id = "K08.head-again"
    stopped_by = Stop(scenario="C06", check="then-deeper", reason="other_count")
    session = _HeadOnly


class _AsItCame(TorchSession):
    def arranged(self, tokens: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        return tokens


class HeaderInKey(Mutant):
    """A header that changes with every request stays where it is, and every key with it."""

    mutant_id = "K08.header-in-key"
    stopped_by = Stop(scenario="C11", check="another-header-hits", reason="other_count")
    session = _AsItCame


class _Overlooks(SessionCache):
    def fingerprints(self, prompt: Tokens, boundaries: Sequence[int]) -> list[int]:
        tokens = np.array(prompt, dtype=np.int32)
        begins, ends = (np.flatnonzero(tokens == number) for number in _HEADER)
        if len(begins) and len(ends):
            tokens[begins[0] : ends[0] + 1] = 0
        return [prefix_fingerprint(tokens[:end]) for end in boundaries]


class HeaderSkippedInKey(Mutant):
    """The header stays in the text and is left out of the key: a state that has read another header is served."""

    mutant_id = "K08.header-skipped-in-key"
    stopped_by = Stop(scenario="C11", check="another-header-exact", part="recurrent", phase="restored")
    session = _AsItCame
    store = _Overlooks
