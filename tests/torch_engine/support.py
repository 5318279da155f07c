"""Small real things that the engine's tests share: tokens, digests, a toy state."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from harness.torch_engine import (
    EngineOptions,
    FixedPart,
    Greedy,
    RowStream,
    StateLayout,
    TorchEngine,
    TorchSession,
)
from harness.torch_engine.errors import MetadataError
from harness.torch_engine.keys import prefix_fingerprint
from harness.torch_engine.sampling import Sampler
from harness.torch_engine.weights import mix64

CHUNK = 128
ARCHS = ("hybrid", "attention", "recurrent", "sliding", "ple")


def tokens(seed: int, count: int, vocab: int = 512) -> list[int]:
    """Pseudo-random token ids; a longer list of the same seed starts with the shorter one."""
    return [mix64((seed << 32) + i) % vocab for i in range(count)]


def options(**changes: object) -> EngineOptions:
    """Small, fast choices, with changes."""
    base: dict[str, object] = {"chunk": CHUNK, "max_seq_len": 1024}
    return EngineOptions(**(base | changes))  # type: ignore[arg-type]


def open_session(**changes: object) -> TorchSession:
    """A session of a fresh engine."""
    return TorchEngine(options(**changes)).open_session()


@cache
def shared_engine(arch: str = "hybrid") -> TorchEngine:
    """One engine for tests that leave nothing behind in its cache."""
    return TorchEngine(options(arch=arch))


def digest(tensor: Tensor) -> str:
    """SHA-256 of a tensor's bytes."""
    flat = tensor.detach().cpu().contiguous().view(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy().tobytes()).hexdigest()


def parts(session: TorchSession) -> dict[str, str]:
    """Digest of every part's valid bytes, part 0 included."""
    found = {"metadata": session.metadata().hex()}
    for part in session.layout("session").parts():
        found[part.name] = digest(part.valid()) if part.nbytes else ""
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """All that must be equal between two arms."""

    after_prefill: dict[str, str]
    logits: str
    ids: list[int]
    after_decode: dict[str, str]


def finish(session: TorchSession, prompt: list[int], sampler: Sampler | None = None) -> Outcome:
    """Prefill what is owed, digest, decode a little, digest again."""
    session.prefill(len(prompt))
    after_prefill, logits = parts(session), session.logits()
    ids = session.decode(4, sampler or Greedy())
    assert logits is not None
    return Outcome(after_prefill=after_prefill, logits=digest(logits), ids=ids, after_decode=parts(session))


def cold(session: TorchSession, prompt: list[int]) -> Outcome:
    """A run that neither reads nor fills the cache."""
    session.begin(prompt, use_cache=False)
    return finish(session, prompt)


def warm_up(session: TorchSession, prompt: list[int]) -> None:
    """Fill the cache with a prompt's boundaries."""
    session.begin(prompt, use_cache=True)
    session.prefill(len(prompt))
    session.commit()


class ToyState:
    """A state without a model: 256 fixed bytes of the whole prefix, one 16-byte row per token."""

    def __init__(self, capacity: int = 1024) -> None:
        self.fixed = torch.zeros(256, dtype=torch.uint8)
        self.rows = torch.zeros((capacity, 16), dtype=torch.uint8)
        self.position = 0

    def run(self, prompt: list[int], upto: int) -> None:
        """Forward to a position: rows depend on their prefix, the fixed part on all of it."""
        for i in range(self.position, upto):
            word = prefix_fingerprint(prompt[: i + 1]).to_bytes(8, "little")
            self.rows[i] = torch.tensor(list(word * 2), dtype=torch.uint8)
        self.fixed[:] = self.rows[upto - 1].repeat(16)
        self.position = upto

    def layout(self, rows: int | None = None) -> StateLayout:
        """The two parts."""
        fixed = FixedPart(name="toy.fixed", family="recurrent", layer=0, element_type="u8", tensor=self.fixed)
        stream = RowStream(
            name="toy.rows",
            family="kv",
            layer=0,
            element_type="u8",
            tensor=self.rows,
            rows=self.position if rows is None else rows,
        )
        return StateLayout(fixed=(fixed,), rows=(stream,))

    def meta(self) -> bytes:
        """The position as one word."""
        return self.position.to_bytes(8, "little")

    def contents(self) -> tuple[str, str, int]:
        """What two equal states have in common."""
        return digest(self.fixed), digest(self.rows[: self.position]), self.position

    def expect(self, boundary: int, meta: bytes) -> StateLayout:
        """See `cache_types.Restorable.expect`."""
        if int.from_bytes(meta, "little") != boundary:
            raise MetadataError(f"toy: expected {boundary}")
        return self.layout(boundary)

    def finish_restore(self, meta: bytes) -> None:
        """See `cache_types.Restorable.finish_restore`."""
        self.position = int.from_bytes(meta, "little")
