"""K08: reuse keys collide or are not stable."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.mutants.k06 import OwnRowBytes
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.cache_types import Entry, Turn
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.handles import SessionHandle
from harness.torch_engine.keys import Tokens, encode_domain, prefix_fingerprint
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.sampling import Sampler, SamplerState
from harness.torch_engine.session import TorchSession
from harness.torch_engine.session_image import Imager
from harness.torch_engine.snapshot import Snapshot, Snapshotter
from harness.torch_engine.state import StateLayout

_GRID = 8
"""Tokens between the grid points of the mutant that rounds down."""
_FIRST_TOKENS = 64
_END = 512
"""Tokens at either end that the mutant reads which leaves out the middle."""
_MOST_CHILDREN = 2


class _FingerprintShort(SessionCache):
    def fingerprints(self, prompt: Tokens, boundaries: Sequence[int]) -> list[int]:
        return [prefix_fingerprint(prompt[: min(end, _FIRST_TOKENS)]) for end in boundaries]


class FingerprintShort(Mutant):
    """The fingerprint of a prefix reads its first tokens only."""

    mutant_id = "K08.fingerprint-short"
    stopped_by = Stop(scenario="B05", cell={"differ_at": "middle"}, check="y-not-x", reason="other_count")
    store = _FingerprintShort


class _FingerprintOneShort(SessionCache):
    def fingerprints(self, prompt: Tokens, boundaries: Sequence[int]) -> list[int]:
        return [prefix_fingerprint(prompt[: end - 1]) for end in boundaries]


class FingerprintOneShort(Mutant):
    """The fingerprint of a prefix leaves out its last token."""

    mutant_id = "K08.fingerprint-one-short"
    stopped_by = Stop(scenario="B05", cell={"differ_at": "last"}, check="y-not-x", reason="other_count")
    store = _FingerprintOneShort


class _EndsOnly(SessionCache):
    def fingerprints(self, prompt: Tokens, boundaries: Sequence[int]) -> list[int]:
        ends = [(prompt[: min(_END, end)], prompt[max(_END, end - _END) : end]) for end in boundaries]
        return [prefix_fingerprint(np.concatenate([np.asarray(one) for one in pair])) for pair in ends]


class FingerprintEndsOnly(Mutant):
    """The fingerprint of a long prefix reads its first 512 tokens and its last 512, and nothing between them."""

    mutant_id = "K08.fingerprint-ends-only"
    stopped_by = Stop(scenario="B05", cell={"differ_at": "between"}, check="y-not-x", reason="other_count")
    store = _EndsOnly


class _NamesByLength(TorchEngine):
    def __init__(self, *args: Any, **named: Any) -> None:
        self.named: dict[tuple[int, int], SessionHandle] = {}
        super().__init__(*args, **named)


class _SavesByLength(TorchSession):
    def snapshot(self) -> SessionHandle:
        handle = super().snapshot()
        assert isinstance(self.engine, _NamesByLength)  # noqa: S101 - planted together
        return self.engine.named.setdefault((self.position, self.decoded), handle)


class HandleByLength(Mutant):
    """A session is saved once for each length; another text of that length gets the handle that is there."""

    mutant_id = "K08.handle-by-length"
    stopped_by = Stop(scenario="A05", check="alike-2", part="recurrent")
    engine = _NamesByLength
    session = _SavesByLength


class _ImageByLength(Imager):
    def __init__(self) -> None:
        self._made: dict[int, bytearray] = {}

    def export(self, session: TorchSession, capacity: int) -> bytearray:
        made = super().export(session, capacity)
        return self._made.setdefault(len(made), made)


class ImageByLength(Mutant):
    """An export of as many bytes as one before it is that one: the length was taken for the conversation."""

    mutant_id = "K08.image-by-length"
    stopped_by = Stop(scenario="R04", cell={"arch": "hybrid"}, check="as-exported-too", part="recurrent")
    imager = _ImageByLength


class _LowBytes(SessionCache):
    def fingerprints(self, prompt: Tokens, boundaries: Sequence[int]) -> list[int]:
        return [prefix_fingerprint(np.asarray(prompt[:end]) & 0xFF) for end in boundaries]


class FingerprintLowByte(Mutant):
    """The fingerprint of a prefix reads one byte of each token."""

    mutant_id = "K08.fingerprint-low-byte"
    stopped_by = Stop(scenario="B05", cell={"differ_at": "high-byte"}, check="y-not-x", reason="other_count")
    store = _LowBytes


class _CoveredRoundedDown(SessionCache):
    def fingerprints(self, prompt: Tokens, boundaries: Sequence[int]) -> list[int]:
        return [prefix_fingerprint(prompt[: end - end % _GRID]) for end in boundaries]


class CoveredRoundedDown(Mutant):
    """A checkpoint off the grid is filed under the tokens up to the grid point below it."""

    mutant_id = "K08.covered-rounded-down"
    stopped_by = Stop(scenario="G08", check="last-goes-back", reason="other_count")
    store = _CoveredRoundedDown


class _LengthOnly(SessionCache):
    def fingerprints(self, prompt: Tokens, boundaries: Sequence[int]) -> list[int]:  # noqa: ARG002 - that is the fault
        return [0] * len(boundaries)


class FingerprintLengthOnly(Mutant):
    """A key holds the length of a prefix and nothing of its tokens."""

    mutant_id = "K08.fingerprint-length-only"
    stopped_by = Stop(scenario="B05", cell={"differ_at": "first"}, check="y-not-x", reason="other_count")
    store = _LengthOnly


class _AnyParent(SessionCache):
    def find_parent(self, turn: Turn, prompt: Tokens, boundary: int, layout: StateLayout) -> Entry | None:  # noqa: ARG002
        fitting = [
            entry
            for entry in (*self._published.values(), *turn.pending.values())
            if entry.key.boundary <= boundary and self.snapshotter.lines_up(entry.snapshot, layout)
        ]
        return max(fitting, key=lambda entry: entry.key.boundary, default=None)


class ParentOfBranch(Mutant):
    """A delta is hung on the deepest snapshot that lines up, also where that one belongs to another text."""

    mutant_id = "K08.parent-of-branch"
    stopped_by = Stop(scenario="B02", cell={"route": "ar"}, check="b-again", part="kv", phase="restored")
    store = _AnyParent


def _unkeyed(*left_out: str) -> type[TorchEngine]:
    """Return an engine whose key lacks these fields."""

    class Unkeyed(TorchEngine):
        """Leaves fields out of the identity that keys are made of."""

        def session_identity(self, options: SessionOptions) -> dict[str, str | int | bool]:
            """Return what is left."""
            whole = super().session_identity(options)
            return {name: value for name, value in whole.items() if name not in left_out}

    return Unkeyed


class NamespaceNotInKey(Mutant):
    """The namespace is no part of the key: one tenant's prefix serves another."""

    mutant_id = "K08.namespace-not-in-key"
    stopped_by = Stop(scenario="F08", cell={"scope": "namespace"}, check="other-starts-cold", reason="other_count")
    engine = _unkeyed("namespace")


_SHORT = 7


class _NamespaceCut(TorchEngine):
    def session_identity(self, options: SessionOptions) -> dict[str, str | int | bool]:
        whole = super().session_identity(options)
        return whole | {name: str(value)[:_SHORT] for name, value in whole.items() if name == "namespace"}


class NamespaceCut(Mutant):
    """The key holds the first letters of a namespace: tenants whose names begin alike share their prefixes."""

    mutant_id = "K08.namespace-cut"
    stopped_by = Stop(scenario="F08", cell={"scope": "namespaces"}, check="other-starts-cold", reason="other_count")
    engine = _NamespaceCut


class ChunkNotInKey(Mutant):
    """The chunk size is no part of the key: a prefix forwarded in other chunks is reused."""

    mutant_id = "K08.chunk-not-in-key"
    stopped_by = Stop(scenario="F08", cell={"scope": "chunk"}, check="other-starts-cold", reason="other_count")
    engine = _unkeyed("chunk")


class FlagNotInKey(Mutant):
    """The flag that adds cuts at message ends is no part of the key."""

    mutant_id = "K08.flag-not-in-key"
    stopped_by = Stop(scenario="F08", cell={"scope": "turns"}, check="other-starts-cold", reason="other_count")
    engine = _unkeyed("turns", "turn_token")


class _KeyPerSession(TorchEngine):
    def session_identity(self, options: SessionOptions) -> dict[str, str | int | bool]:
        return {**super().session_identity(options), "session": next(self._numbers())}

    def _numbers(self) -> count[int]:
        if not hasattr(self, "_count"):
            self._count = count()
        return self._count


class KeyUnstable(Mutant):
    """A number of the session is part of the key, so that no session finds what another has stored."""

    mutant_id = "K08.key-unstable"
    stopped_by = Stop(scenario="A10", check="cached-x", reason="other_count")
    engine = _KeyPerSession


class FormatNotInKey(Mutant):
    """The element type of K and V is no part of the key, and stored rows are read as whatever the session has."""

    mutant_id = "K08.format-not-in-key"
    stopped_by = Stop(scenario="F08", cell={"scope": "k_type"}, check="other-starts-cold", reason="other_count")
    engine = _unkeyed("k_type", "v_type")
    snapshotter = OwnRowBytes


class ValueFormatNotInKey(Mutant):
    """The element type of V is no part of the key, that of K is; stored values are read as whatever the session has."""

    mutant_id = "K08.value-format-not-in-key"
    stopped_by = Stop(scenario="F08", cell={"scope": "v_type"}, check="other-starts-cold", reason="other_count")
    engine = _unkeyed("v_type")
    snapshotter = OwnRowBytes


class _OwnFixedBytes(Snapshotter):
    def restore(self, chain: Sequence[Snapshot], layout: StateLayout) -> int:
        pairs = zip(chain[-1].fixed, layout.fixed, strict=True)
        fixed = tuple(replace(stored, nbytes=min(stored.nbytes, live.nbytes)) for stored, live in pairs)
        return super().restore([*chain[:-1], replace(chain[-1], fixed=fixed)], layout)


class RecurrentFormatNotInKey(Mutant):
    """The element type of the recurrent state is no part of the key, and its stored bytes are read as the session's."""

    mutant_id = "K08.recurrent-format-not-in-key"
    stopped_by = Stop(scenario="F08", cell={"scope": "recurrent_type"}, check="other-starts-cold", reason="other_count")
    engine = _unkeyed("recurrent_type")
    snapshotter = _OwnFixedBytes


class TurnTokenNotInKey(Mutant):
    """The flag that adds cuts at message ends is part of the key, and the token that ends a message is not."""

    mutant_id = "K08.turn-token-not-in-key"
    stopped_by = Stop(scenario="F08", cell={"scope": "turn_token"}, check="other-starts-cold", reason="other_count")
    engine = _unkeyed("turn_token")


class _LastTokens(SessionCache):
    def fingerprints(self, prompt: Tokens, boundaries: Sequence[int]) -> list[int]:
        return [prefix_fingerprint(prompt[max(0, end - _FIRST_TOKENS) : end]) for end in boundaries]


class FingerprintTail(Mutant):
    """The fingerprint of a prefix reads its last tokens only."""

    mutant_id = "K08.fingerprint-tail"
    stopped_by = Stop(scenario="B05", cell={"differ_at": "first"}, check="y-not-x", reason="other_count")
    store = _LastTokens


class _Sorted(SessionCache):
    def fingerprints(self, prompt: Tokens, boundaries: Sequence[int]) -> list[int]:
        return [prefix_fingerprint(np.sort(np.asarray(prompt[:end]))) for end in boundaries]


class FingerprintOrderBlind(Mutant):
    """The fingerprint of a prefix is the same for its tokens in any order."""

    mutant_id = "K08.fingerprint-order-blind"
    stopped_by = Stop(scenario="B10", check="y-not-x", reason="other_count")
    store = _Sorted


class WeightsNotInKey(Mutant):
    """The digest of the weights is no part of the key: another model of the same shapes is served."""

    mutant_id = "K08.weights-not-in-key"
    stopped_by = Stop(scenario="F08", cell={"scope": "weights"}, check="other-starts-cold", reason="other_count")
    engine = _unkeyed("model")


class _Siblings(SessionCache):
    def find_parent(self, turn: Turn, prompt: Tokens, boundary: int, layout: StateLayout) -> Entry | None:
        parent = super().find_parent(turn, prompt, boundary, layout)
        if parent is None or parent.children < _MOST_CHILDREN:
            return parent
        below = [entry for entry in self._published.values() if entry.parent == parent.key]
        fitting = [entry for entry in below if self.snapshotter.lines_up(entry.snapshot, layout)]
        return max(fitting, key=lambda entry: entry.stamp, default=parent)


class ParentOfFan(Mutant):
    """A snapshot takes two children; a third one is hung on the second, which is another text's."""

    mutant_id = "K08.parent-of-fan"
    stopped_by = Stop(scenario="E16", check="q7-exact", part="kv", phase="restored")
    store = _Siblings


class _KeyOfProcess(TorchEngine):
    def state_identity(self) -> dict[str, str | int | bool]:
        return {**super().state_identity(), "process": os.getpid()}


class KeyOfProcess(Mutant):
    """The number of the process is part of the key, so that no restart finds what was written before it."""

    mutant_id = "K08.key-of-process"
    stopped_by = Stop(scenario="F11", cell={"budget": "same"}, check="after-one", reason="restore_not_witnessed")
    engine = _KeyOfProcess


class _BudgetInKey(TorchEngine):
    def state_identity(self) -> dict[str, str | int | bool]:
        return {**super().state_identity(), "headroom": self.options.memory_headroom}


class BudgetInKey(Mutant):
    """A setting that changes no bits is part of the key: tuning it throws all snapshots away."""

    mutant_id = "K08.budget-in-key"
    stopped_by = Stop(scenario="F11", cell={"budget": "headroom"}, check="after-one", reason="restore_not_witnessed")
    engine = _BudgetInKey


class _NoThreads(TorchEngine):
    def state_identity(self) -> dict[str, str | int | bool]:
        return {name: value for name, value in super().state_identity().items() if name != "threads"}


class ThreadsNotInKey(Mutant):
    """The number of threads is no part of the key: sums in another order are continued."""

    mutant_id = "K08.threads-not-in-key"
    stopped_by = Stop(scenario="F10", cell={"other": "threads"}, check="disk-passed-over", reason="other_count")
    engine = _NoThreads


class RouteNotInKey(Mutant):
    """The route is no part of the key: a state without a draft head is offered to a session that drafts."""

    mutant_id = "K08.route-not-in-key"
    stopped_by = Stop(scenario="F08", cell={"scope": "route"}, check="other-starts-cold", reason="refused")
    engine = _unkeyed("route", "draft", "draft_depth", "draft_force")


class _CapacityInKey(TorchSession):
    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        self.cache.close_turn(self.turn)
        self.turn = self.cache.open_turn(encode_domain(self.identity), self.schedule)


class CapacityInKey(Mutant):
    """Keys hold the length of the context, which is scaled to the memory that is free: each start is a cold one."""

    mutant_id = "K08.capacity-in-key"
    stopped_by = Stop(scenario="F11", cell={"budget": "roomier"}, check="after-one", reason="restore_not_witnessed")
    session = _CapacityInKey


class _Answers(SessionCache):
    def answered(self, prompt: Tokens) -> list[int]:
        """What was said to a prompt, whoever sampled it."""
        held: dict[bytes, list[int]] = self.__dict__.setdefault("answers", {})
        return held.setdefault(np.asarray(prompt).tobytes(), [])


class _Recalls(TorchSession):
    def sample(self, sampler: Sampler) -> int:
        known = self.cache.answered(self.prompt) if isinstance(self.cache, _Answers) else []
        at = self.decoded
        token = super().sample(_Said(known[at]) if at < len(known) else sampler)
        if at == len(known):
            known.append(token)
        return token


@dataclass(frozen=True)
class _Said:
    token: int

    def pick(self, logits: npt.NDArray[np.float32], history: npt.NDArray[np.int32], rng: SamplerState) -> int:  # noqa: ARG002 - a protocol's
        return self.token


class AnswersReplayed(Mutant):
    """An answer is kept by its prompt alone, and given again to who asks with another seed or temperature."""

    mutant_id = "K08.answers-replayed"
    stopped_by = Stop(
        scenario="F14", cell={"first": "greedy", "second": "other_seed"}, check="two", part="meta", phase="end"
    )
    store = _Answers
    session = _Recalls
