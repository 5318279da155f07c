"""Engines whose state lies in a library's own cache objects, on the snapshot store of the torch engine.

A library's cache grows, moves and changes its type as it likes; a snapshot needs labelled buffers. So each session has
a *stage*: one torch buffer for every part. A look or a capture copies the cache onto the stage first; a restore copies
a snapshot onto the stage, and then a new cache is made of it (`ForeignModel.install`). Delta chains, handles, images
and the disk tier are those of the torch engine, unchanged. What the library does itself (forward, crop) runs on its
cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor

from harness.model.values import Capability
from harness.torch_engine.buffers import RNG_WORDS, Lengths, Scope, SessionBuffers
from harness.torch_engine.devices import device_facts
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.errors import CapacityError, MetadataError, SessionStateError, UnsupportedError
from harness.torch_engine.kv.types import element_type
from harness.torch_engine.metadata import Metadata
from harness.torch_engine.options import EngineOptions, SessionOptions
from harness.torch_engine.rolling import Mark, Trail
from harness.torch_engine.session import TorchSession
from harness.torch_engine.settings import read_settings
from harness.torch_engine.state import HOST_LAYER, FixedPart, RowStream, StateLayout

if TYPE_CHECKING:
    from harness.torch_engine.models.attention import AttentionState

SESSION_OPTIONS = (
    "chunk", "live", "max_seq_len", "namespace", "owed", "protect", "turn_token", "turns", "view", "weights_seed"
)  # fmt: skip
"""Session options that such engines know."""
ABILITIES = frozenset(
    Capability(name)
    for name in (
        "parts", "logits", "boundaries", "prefix_cache", "snapshot", "extend", "sampling", "store", "evict", "corrupt",
        "session_options", "image", "cancel", "disk", "rollback",
    )
)  # fmt: skip
"""What the torch engine's store and a library's own rollback give such an engine."""
_REFUSED = ("deferred", "draft_depth", "draft_force", "draft_probe", "pin", "resident")


@dataclass(frozen=True, kw_only=True, slots=True)
class PartSpec:
    """One part that a model's cache has."""

    name: str
    """Like ``layer3.k``."""
    family: str
    layer: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    """Of the whole part; of one row for ``rows``."""
    rows: bool = False
    """Whether it grows in rows."""
    entry: int = -1
    """For ``rows``: the entry of the lengths whose second word counts its rows."""


class ForeignModel(Protocol):
    """One loaded model of a library. Stateless: caches are handed in."""

    vocab: int
    digest: str
    """SHA-256 over configuration and weights."""
    weights_sha256: str
    goes_back: bool
    """Whether the library says that it takes tokens back from such a cache."""
    parts: Sequence[PartSpec]
    """Fixed parts first, then rows; the same for life."""
    families: Sequence[str]
    facts: Mapping[str, str | int]
    """What an identity says beside the digests: versions, types, effective settings."""

    def new_cache(self) -> Any:
        """A cache before any token."""

    def forward(self, cache: Any, tokens: Tensor) -> Tensor:
        """Forward tokens (n,) i64; the logits (vocab,) f32 after the last one."""

    def lengths(self, cache: Any) -> Lengths:
        """Kind code and three words per entry: lengths, and the flags that must travel."""

    def stage(self, cache: Any, stage: Mapping[str, Tensor]) -> None:
        """Copy a cache onto the stage; what is not valid in a fixed part is zeroed."""

    def install(self, stage: Mapping[str, Tensor], lengths: Lengths) -> Any:
        """A new cache with what lies on the stage; it shares no memory with it."""

    def fits(self, lengths: Lengths, position: int) -> str:
        """What is wrong with lengths at a position; empty: nothing."""

    def record(self, cache: Any) -> None:
        """Let the cache keep what a rollback needs."""

    def rollback(self, cache: Any, count: int) -> None:
        """Take tokens back, by the library's own means."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedOptions(EngineOptions):
    """Options of such an engine; element types are those of the model."""

    arch: str = ""
    """Kind of tiny model: ``hybrid``, ``attention``, ``recurrent`` or ``sliding``; empty: the preset's own."""
    dtype: str = "f32"
    """Element type of weights and K/V rows."""
    path: str = ""
    """A model on the disk, in a form that the library reads; empty: the preset."""

    @property
    def several(self) -> bool:
        """Whether the target stands for a model for each kind of state."""
        return self.preset == "tiny" and not self.path and not self.arch

    def validate(self) -> None:
        """Check every field.

        Raises:
            OptionError: A value is out of range.
            UnsupportedError: A choice that only the torch engine has.
        """
        EngineOptions.validate(self)
        for name in ("k_type", "v_type", "recurrent_type"):
            if getattr(self, name) != "f32":
                raise UnsupportedError(f"{name}: the types of the cache are the model's; found {getattr(self, name)!r}")
        if self.poison != "none":
            raise UnsupportedError(f"poison: expected none, found {self.poison!r}")


@dataclass(frozen=True, slots=True)
class _Config:
    vocab: int
    decodes: bool = True


class ForeignDecoder:
    """What a session asks of a decoder, answered by a library."""

    def __init__(self, model: ForeignModel) -> None:
        self.model = model
        self.config = _Config(model.vocab)

    def prefill(self, ids: Tensor, position: int, layers: list[Any], witness: object = None) -> Tensor:  # noqa: ARG002
        """Forward ids (n,); the logits after the last one."""
        return self.model.forward(layers[0].cache, ids)

    def step(self, token: int, position: int, layers: list[Any]) -> Tensor:  # noqa: ARG002 - the cache knows it
        """Forward one token."""
        return self.model.forward(layers[0].cache, torch.tensor([token], dtype=torch.int64))

    def logits(self, hidden: Tensor) -> Tensor:
        """They are there already."""
        return hidden


@dataclass(frozen=True, slots=True)
class Loaded:
    """A foreign model where the torch engine has its own."""

    foreign: ForeignModel
    decoder: ForeignDecoder
    config: _Config
    digest: str
    weights_sha256: str


@dataclass(slots=True)
class Holder:
    """The cache of one session."""

    cache: Any = field(repr=False)


class StagedBuffers(SessionBuffers):
    """A library's cache and the stage beside it."""

    def __init__(self, model: ForeignModel, options: StagedOptions, device: torch.device) -> None:
        self.model = model
        self.poison = "none"
        self.capacity = options.max_seq_len
        self.device = device
        self.draft = None
        self.held = Holder(model.new_cache())
        self.layers: list[AttentionState] = [self.held]  # type: ignore[list-item,assignment] # the decoder knows it
        self.logits = torch.zeros((model.vocab,), dtype=torch.float32, device=device)
        self.rng = torch.zeros(RNG_WORDS, dtype=torch.int64)
        self.history = torch.zeros(self.capacity, dtype=torch.int32)
        self.history_rows = 0
        self._stage = {spec.name: self._room(spec) for spec in model.parts}

    def add_draft(self, depth: int) -> None:  # noqa: ARG002 - there is none
        """Refuse a draft head.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError("route: expected ar, found mtp; this engine has no draft head")

    def reset(self) -> None:
        """The state before any token."""
        self.held.cache = self.model.new_cache()
        self.history_rows = 0
        self.logits.zero_()
        self.rng.zero_()

    def poison_unused(self) -> None:
        """Nothing is ever read from unused rows of a stage."""

    def layout(self, scope: Scope, lengths: Lengths | None = None, history_rows: int | None = None) -> StateLayout:
        """The stage as parts: a copy of the cache as it is now, or with ``lengths`` a place to copy a snapshot to."""
        given, lengths = lengths, self.lengths() if lengths is None else lengths
        if given is None:
            self.model.stage(self.held.cache, self._stage)
        fixed = [self._fixed(spec) for spec in self.model.parts if not spec.rows]
        rows = [self._stream(spec, lengths) for spec in self.model.parts if spec.rows]
        if scope == "session":
            fixed.append(_host("logits", "logits", self.logits))
            fixed.append(_host("sampler.rng", "sampler", self.rng))
            count = self.history_rows if history_rows is None else history_rows
            rows.append(
                RowStream(
                    name="sampler.history",
                    family="sampler",
                    layer=HOST_LAYER,
                    element_type="i32",
                    tensor=self.history,
                    rows=count,
                )
            )
        return StateLayout(fixed=tuple(fixed), rows=tuple(rows))

    def lengths(self) -> Lengths:
        """Lengths and flags of the cache as it is now."""
        return self.model.lengths(self.held.cache)

    def lengths_at(self, position: int) -> Lengths:
        """Those of a new cache; others only the library knows.

        Raises:
            UnsupportedError: Another position.
        """
        if position:
            raise UnsupportedError(f"lengths at {position}: this engine goes back by restores and rollbacks only")
        return self.model.lengths(self.model.new_cache())

    def check_lengths(self, meta: Metadata, position: int) -> None:
        """Metadata that is to be restored fits this model at this position.

        Raises:
            MetadataError: Position or lengths contradict it.
            CapacityError: It is more than a session holds.
        """
        if meta.position != position:
            raise MetadataError(f"metadata position: expected {position}, found {meta.position}")
        if position + meta.owed > self.capacity:
            raise CapacityError(f"position: expected at most {self.capacity}, found {position + meta.owed}")
        wrong = self.model.fits(meta.layers, position)
        if wrong:
            raise MetadataError(f"metadata lengths: {wrong}")

    def set_lengths(self, lengths: Lengths) -> None:
        """Make the cache of what lies on the stage."""
        self.held.cache = self.model.install(self._stage, lengths)

    def reinstall(self) -> None:
        """Make the cache anew of the stage, after somebody changed a byte there."""
        self.set_lengths(self.lengths())

    def _room(self, spec: PartSpec) -> Tensor:
        shape = (self.capacity, *spec.shape) if spec.rows else spec.shape
        return torch.zeros(shape, dtype=spec.dtype, device=self.device)

    def _fixed(self, spec: PartSpec) -> FixedPart:
        return FixedPart(
            name=spec.name,
            family=spec.family,
            layer=spec.layer,
            element_type=element_type(spec.dtype),
            tensor=self._stage[spec.name],
        )

    def _stream(self, spec: PartSpec, lengths: Lengths) -> RowStream:
        return RowStream(
            name=spec.name,
            family=spec.family,
            layer=spec.layer,
            element_type=element_type(spec.dtype),
            tensor=self._stage[spec.name],
            rows=lengths[spec.entry][1],
        )


def _host(name: str, family: str, tensor: Tensor) -> FixedPart:
    kind = element_type(tensor.dtype)
    return FixedPart(name=name, family=family, layer=HOST_LAYER, element_type=kind, tensor=tensor)


class StagedTrail(Trail):
    """A rollback of the cache by the library's own means; what the library does not know is kept here.

    The generator has no part in a forward, so that at any position it is what it was at the last one noted before.
    """

    def note(self) -> None:
        """Keep the generator and the count of sampled tokens; the library keeps what it keeps."""
        if self.recording:
            s = self.session
            self.marks[s.position] = Mark((), s.buffers.rng.clone(), s.decoded)

    def begin(self) -> None:
        """Let the library keep what it needs.

        Raises:
            UnsupportedError: The cache of this model cannot be taken back.
            SessionStateError: A call is in progress.
        """
        self.session.idle("record")
        buffers = self.session.buffers
        assert isinstance(buffers, StagedBuffers)  # noqa: S101 - its session was made with them
        buffers.model.record(buffers.held.cache)
        self.recording = True
        self.note()

    def back(self, count: int) -> None:
        """Let the library take tokens back; then the rest of the session follows.

        Raises:
            UnsupportedError: The cache of this model cannot be taken back.
            SessionStateError: There are not so many, a token is owed, or the library says no.
        """
        s = self.session
        s.idle("rollback")
        target = s.position - count
        if not 0 < target < s.position or s.owed:
            raise SessionStateError(f"rollback: expected 1..{s.position - 1} forwarded tokens, found {count}")
        buffers = s.buffers
        assert isinstance(buffers, StagedBuffers)  # noqa: S101 - its session was made with them
        buffers.model.rollback(buffers.held.cache, count)
        s.continuing.drop()
        buffers.history_rows = target
        buffers.logits.zero_()
        s.position, s.logits_valid = target, False
        mark = max((noted for noted in self.marks if noted <= target), default=None)
        if mark is not None:
            buffers.rng.copy_(self.marks[mark].rng)
        s.decoded = self.marks[mark].decoded if mark is not None else min(s.decoded, max(0, target - len(s.prompt)))
        self.forget_above(target)


class StagedSession(TorchSession):
    """A session on a library's cache."""

    def new_trail(self) -> Trail:
        """A rollback is the library's."""
        return StagedTrail(self)

    def corrupt(self, part_name: str, byte_offset: int, xor_mask: int) -> None:
        """Flip bits of a part, and make the cache of it."""
        super().corrupt(part_name, byte_offset, xor_mask)
        buffers = self.buffers
        if isinstance(buffers, StagedBuffers) and part_name in {spec.name for spec in buffers.model.parts}:
            buffers.reinstall()


class StagedEngine(TorchEngine):
    """A library's model on the torch engine's store. A subclass loads it."""

    session_class: ClassVar[type[TorchSession]] = StagedSession
    library: ClassVar[str] = ""
    """Name of the engine."""
    options: StagedOptions
    model: Loaded  # type: ignore[assignment] # the two share the names that an engine asks for

    def foreign(self) -> ForeignModel:
        """Load the model of the options.

        Raises:
            OptionError: There is no such model.
            UnsupportedError: It cannot be had here, or not so.
        """
        raise NotImplementedError

    def load(self) -> Any:
        """Load the model and put it where the torch engine has its own."""
        model = self.foreign()
        return Loaded(model, ForeignDecoder(model), _Config(model.vocab), model.digest, model.weights_sha256)

    def open_session(self, **overrides: object) -> TorchSession:
        """Open a session; options of the torch engine alone are refused.

        Raises:
            UnsupportedError: One of them is there.
        """
        refused = [name for name in _REFUSED if name in overrides]
        if refused:
            raise UnsupportedError(f"session option: this engine does not know {refused}")
        return super().open_session(**overrides)

    def new_buffers(self) -> SessionBuffers:
        """A new cache with its stage."""
        return StagedBuffers(self.model.foreign, self.options, self.device)

    def versions(self) -> dict[str, str]:
        """Versions of what changes bits, by name."""
        return {"torch": str(torch.__version__)}

    def state_identity(self) -> dict[str, str | int | bool]:
        """Every field that changes bits or layout."""
        return {
            "engine": self.library,
            **self.versions(),
            "model": self.model.digest,
            "dtype": self.options.dtype,
            "device": str(self.device),
            "threads": self.options.threads,
            "max_seq_len": self.options.max_seq_len,
            **{f"cache.{name}": fact for name, fact in self.choices().items()},
        }

    def session_identity(self, options: SessionOptions) -> dict[str, str | int | bool]:
        """`state_identity` and the session's own choices."""
        return self.state_identity() | options.identity()

    def choices(self) -> dict[str, str | int]:
        """Choices of this engine beyond those that all have; those that are not the usual ones name the model too."""
        return {}

    def model_name(self) -> str:
        """Preset, and every choice that is not the usual one."""
        return self.options.preset

    def identity(self) -> dict[str, str | int]:
        """What a record must say about this engine; settings are read back, not repeated."""
        foreign, options = self.model.foreign, self.options
        about: dict[str, str | int] = {
            "name": self.library,
            "version": self.versions()[self.library],
            "preset": options.preset,
            "model": self.model_name(),
            "arch": options.arch,
            "model_digest": foreign.digest,
            "weights_sha256": foreign.weights_sha256,
            "vocab": foreign.vocab,
            "dtype": options.dtype,
            "chunk": options.chunk,
            "max_seq_len": options.max_seq_len,
            "cache_bytes": self.cache.byte_budget,
            "cache_entries": self.cache.entry_budget,
            "session_options": ",".join(SESSION_OPTIONS),
            **self.choices(),
            **foreign.facts,
        }
        about |= {f"version.{name}": version for name, version in self.versions().items()}
        about |= {f"setting.{key}": value for key, value in read_settings().items()}
        return about | {f"device.{key}": value for key, value in device_facts(self.device).items()}
