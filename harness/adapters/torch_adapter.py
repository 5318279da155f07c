"""The embedded torch engine behind the seam.

Buffers on the host are handed over as views of live memory; buffers on a device are copied to the host once per look.
Counts come from the engine's own counters, taken before and after a call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

import torch

from harness.adapters.torch_hardware import hw_class, library_digests, slug, torch_devices
from harness.engines.interface import Begun, Identity, Options, StatePart
from harness.errors import RefusedError
from harness.model.values import NO_LAYER, Capability, Family, Observability, RefusalCode
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.errors import TorchEngineError
from harness.torch_engine.handles import SessionHandle
from harness.torch_engine.options import EngineOptions
from harness.torch_engine.sampling import Sampling
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import METADATA_PART
from harness.torch_engine.state import Part, RowStream, bytes_view

if TYPE_CHECKING:
    from typing_extensions import Buffer

META: Final = "meta"
_CAPABILITIES: Final = frozenset(Capability) - {Capability.IMAGE, Capability.CANCEL, Capability.DISK}
_CODES: Final = {
    "option": RefusalCode.UNSUPPORTED,
    "metadata": RefusalCode.FORMAT,
    **{str(code): code for code in RefusalCode},
}
"""Code of the engine's error tree to the seam's word; a code that is not here is an engine error."""
_LOGITS_TYPE: Final = "f32"
MEMORY_QUERY: Final = "memory_query"
"""Engine option: ``fail`` or ``low`` puts a query of that kind behind the memory guard; empty: there is no guard."""
VARIANTS: Final = {
    "weights_seed": "seed",
    "max_seq_len": "max_seq_len",
    "k_type": "k_type",
    "v_type": "v_type",
    "recurrent_type": "recurrent_type",
}
"""Session option to the engine option in which such a session differs."""


class TorchAdapter:
    """Entry point ``torch``."""

    name = "torch"
    engine_class: type[TorchEngine] = TorchEngine
    """A subclass of the engine may stand here; nothing else changes."""
    path_sets: Mapping[str, Sequence[str]] = {
        "engine": (
            "harness.torch_engine:**/*.py",
            "harness.adapters:torch_adapter.py",
            "harness.adapters:torch_hardware.py",
        )
    }

    def capabilities(self) -> frozenset[Capability]:
        """Everything but session images."""
        return _CAPABILITIES

    def devices(self) -> Sequence[tuple[str, str]]:
        """Devices of this torch build, best first."""
        return torch_devices()

    def open(self, options: Options) -> TorchAdapterEngine:
        """Make the weights of a preset and put them on a device.

        Raises:
            RefusedError: An option is unknown or out of range.
        """
        wanted = dict(options)
        query = _memory_query(str(wanted.pop(MEMORY_QUERY, "")))
        known = {field.name for field in fields(EngineOptions)}
        unknown = sorted(set(wanted) - known)
        if unknown:
            told = sorted({*known, MEMORY_QUERY})
            raise RefusedError(RefusalCode.UNSUPPORTED, f"unknown options {unknown}; known are {told}")
        with _refusals():
            validated = EngineOptions(**wanted)  # type: ignore[arg-type] # validated by the engine
            engine = self.engine_class(validated, memory_query=query)
        return TorchAdapterEngine(engine, self)


class TorchAdapterEngine:
    """One engine with its snapshot store."""

    def __init__(self, engine: TorchEngine, adapter: TorchAdapter) -> None:
        self._engine = engine
        self._adapter = adapter
        self._handles: dict[str, SessionHandle] = {}
        self._variants: dict[tuple[tuple[str, str | int | bool], ...], TorchEngine] = {}
        self.copied = CopiedBytes(engine)

    def identity(self) -> Identity:
        """Read back what was loaded and set."""
        told = self._engine.identity()
        device = {name.removeprefix("device."): fact for name, fact in told.items() if name.startswith("device.")}
        facts = {name: fact for name, fact in told.items() if not name.startswith("device.")}
        kind = str(device.get("type", "cpu"))
        return Identity(
            engine=self._adapter.name,
            version=str(told["version"]),
            model=slug(str(told["preset"])),
            model_digest=str(told["model_digest"]),
            hw_class=hw_class(kind, str(device.get("arch", "")), str(device.get("memory_kind", ""))),
            observability=Observability.PARTS,
            facts={**facts, "logits_type": _LOGITS_TYPE, **library_digests(kind)},
            device=device,
            path_sets=self._adapter.path_sets,
        )

    def open_session(self, options: Options) -> TorchAdapterSession:
        """Open a session; see :class:`harness.torch_engine.options.SessionOptions`.

        ``weights_seed``, ``k_type``, ``v_type``, ``recurrent_type`` and ``max_seq_len`` open it on another model of the
        same name, or with other buffers; it shares the snapshot store and the handles, as sessions of one server do.

        Raises:
            RefusedError: An option is unknown or out of range.
        """
        own = {name: value for name, value in options.items() if name not in VARIANTS}
        with _refusals():
            return TorchAdapterSession(self, self._beside(options).open_session(**own))

    def _beside(self, options: Options) -> TorchEngine:
        """Return the engine of a session: this one, or one beside it with the same store."""
        changed = {VARIANTS[name]: value for name, value in options.items() if name in VARIANTS}
        return self._variant(changed) if changed else self._engine

    def store(self) -> tuple[Sequence[Options], Mapping[str, int]]:
        """Snapshots held, and the counters of the cache."""
        entries = [{name: _fact(value) for name, value in entry.items()} for entry in self._engine.cache.entries()]
        held = {
            "pinned": sum(bool(entry["children"]) for entry in entries),
            "roots": sum(not entry["parent"] for entry in entries),
        }
        return entries, {**self._engine.cache.counters(), **held}

    def evict(self, count: int) -> int:
        """Evict least recently used snapshots."""
        gone = 0
        while gone != count and self._engine.cache.evict_lru() is not None:
            gone += 1
        return gone

    def set_budget(self, budget: Mapping[str, int]) -> None:
        """Change bytes and entries; what does not fit any more is evicted, leaves first.

        Raises:
            RefusedError: A budget is unknown or below zero.
        """
        if set(budget) - {"bytes", "entries"} or min(budget.values(), default=0) < 0:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"found the budget {dict(budget)}; known are bytes and entries")
        cache = self._engine.cache
        cache.byte_budget = budget.get("bytes", cache.byte_budget)
        cache.entry_budget = budget.get("entries", cache.entry_budget)
        while self._over_budget() and cache.evict_lru() is not None:
            pass

    def corrupt_handle(self, handle: str, part: str, byte: int, mask: int) -> None:
        """Flip bits of a part inside an explicit snapshot."""
        with _refusals():
            self._engine.corrupt_handle(self.handle(handle), _stored_name(part), byte, mask)

    def corrupt_store(self, key: str, part: str, byte: int, mask: int) -> None:
        """Flip bits of a part inside a stored snapshot."""
        with _refusals():
            self._engine.cache.corrupt(key, _stored_name(part), byte, mask)

    def damage_store(self, key: str, kind: str) -> None:
        """Break the geometry of a stored snapshot."""
        with _refusals():
            self._engine.cache.damage(key, kind)

    def close(self) -> None:
        """Drop handles and snapshots."""
        for handle in self._handles.values():
            self._engine.drop(handle)
        self._handles.clear()
        self._engine.cache.clear()

    def keep(self, handle: SessionHandle) -> str:
        """Give an explicit snapshot a name."""
        name = f"h{len(self._handles) + 1}"
        self._handles[name] = handle
        return name

    def handle(self, name: str) -> SessionHandle:
        """Return the snapshot of a name.

        Raises:
            RefusedError: There is none.
        """
        if name not in self._handles:
            raise RefusedError(RefusalCode.MISSING, f"no snapshot {name!r}")
        return self._handles[name]

    def _variant(self, changed: Options) -> TorchEngine:
        """Return an engine that differs in some options and shares the store; made once for each difference."""
        key = tuple(sorted(changed.items()))
        if key not in self._variants:
            options = replace(self._engine.options, **changed)  # type: ignore[arg-type] # validated by the engine
            variant = self._adapter.engine_class(options)
            variant.cache, variant.snapshotter = self._engine.cache, self._engine.snapshotter
            self._variants[key] = variant
        return self._variants[key]

    def _over_budget(self) -> bool:
        held = self._engine.cache.counters()
        return (
            held["stored_bytes"] + held["pending_bytes"] > held["byte_budget"]
            or held["entries"] + held["pending_entries"] > held["entry_budget"]
        )


class TorchAdapterSession:
    """One session."""

    def __init__(self, engine: TorchAdapterEngine, session: TorchSession) -> None:
        self._engine = engine
        self._session = session
        self._extension: Sequence[int] = ()
        self._extended_from = -1

    def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
        """Reset, or restore the deepest cached prefix."""
        self._extended_from = -1
        before = self._engine.copied.total
        with _refusals():
            cached = self._session.begin(prompt, cache)
        schedule = sorted({*self._session.boundaries(), len(prompt)})
        return Begun(cached=cached, restored_bytes=self._engine.copied.total - before, schedule=schedule)

    def prefill(self, upto: int) -> int:
        """Forward the prompt up to a schedule point."""
        before = self._session.position
        with _refusals():
            if self._extended_from < 0:
                self._session.prefill(upto)
            else:
                first = before - self._extended_from
                self._session.extend(self._extension[first : upto - self._extended_from])
        return self._session.position - before

    def commit(self) -> None:
        """Publish this turn's captures."""
        with _refusals():
            self._session.commit()

    def abandon(self) -> None:
        """Drop this turn's captures."""
        with _refusals():
            self._session.abandon()

    def extend(self, tokens: Sequence[int]) -> Begun:
        """Another turn on top of the present state; positions of its schedule are absolute.

        An owed token belongs to the turn before: it is forwarded here, and counts as present.
        """
        with _refusals():
            self._session.settle()
        self._extension, self._extended_from = tokens, self._session.position
        end = self._extended_from + len(tokens)
        everything = (*self._session.history(), *tokens)
        cuts = self._session.schedule.boundaries(everything, self._extended_from, end)
        return Begun(cached=self._extended_from, restored_bytes=0, schedule=sorted({*cuts, end}))

    def decode(self, count: int, sampler: Mapping[str, int]) -> Sequence[int]:
        """Sample tokens and forward each."""
        with _refusals():
            return self._session.decode(count, _sampling(sampler))

    def position(self) -> int:
        """Tokens forwarded so far."""
        return self._session.position

    def logits(self) -> Buffer | None:
        """The pending logits."""
        if not self._session.logits_valid:
            return None
        return host_bytes(self._session.buffers.logits)

    def parts(self) -> Sequence[StatePart]:
        """The metadata, then every part of the session."""
        meta = self._session.metadata()
        first = StatePart(
            name=META,
            family=Family.META,
            layer=NO_LAYER,
            element_type="u8",
            shape=(len(meta),),
            stream="fixed",
            data=meta,
        )
        return [first, *(_state_part(part) for part in self._session.layout("session").parts())]

    def snapshot(self) -> str:
        """Save the whole session."""
        with _refusals():
            return self._engine.keep(self._session.snapshot())

    def restore(self, handle: str) -> Begun:
        """Become a saved session."""
        self._extended_from = -1
        before = self._engine.copied.total
        with _refusals():
            self._session.restore(self._engine.handle(handle))
        position = self._session.position
        restored = self._engine.copied.total - before
        return Begun(cached=position, restored_bytes=restored, schedule=[position] if position else [])

    def corrupt(self, part: str, byte: int, mask: int) -> None:
        """Flip bits of a live part."""
        with _refusals():
            self._session.corrupt(part, byte, mask)

    def synchronize(self) -> None:
        """Wait for the device."""
        self._session.synchronize()

    def reset(self) -> None:
        """Back to a new session."""
        self._extended_from = -1
        self._session.reset()

    def close(self) -> None:
        """Free the buffers."""
        self._session.close()


class CopiedBytes:
    """Counts what the engine's copy primitive says it copied back, in the place where it copies.

    Args:
        engine: Its snapshotter's ``restore`` is wrapped; what it does stays as it is.
    """

    def __init__(self, engine: TorchEngine) -> None:
        self.total = 0
        restore = engine.snapshotter.restore

        def counted(*args: object, **named: object) -> int:
            copied = restore(*args, **named)  # type: ignore[arg-type] # handed on as it came
            self.total += copied
            return copied

        engine.snapshotter.restore = counted  # type: ignore[method-assign]


def host_bytes(tensor: torch.Tensor) -> Buffer:
    """Return the bytes of a contiguous tensor: a view where it lies on the host, one copy where it does not."""
    flat = bytes_view(tensor)
    if flat.device.type != "cpu":
        flat = flat.cpu()
    return flat.numpy().data


def _state_part(part: Part) -> StatePart:
    return StatePart(
        name=part.name,
        family=part.family,
        layer=part.layer,
        element_type=part.element_type,
        shape=part.shape,
        stream="rows" if isinstance(part, RowStream) else "fixed",
        data=host_bytes(part.valid()),
    )


def _sampling(sampler: Mapping[str, int]) -> Sampling | None:
    if not sampler:
        return None
    known = {field.name for field in fields(Sampling)}
    unknown = sorted(set(sampler) - known)
    if unknown:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"unknown sampler fields {unknown}; known are {sorted(known)}")
    return Sampling(**sampler)


def _memory_query(kind: str) -> Callable[[], int] | None:
    known: Mapping[str, Callable[[], int] | None] = {"": None, "fail": _failing_query, "low": lambda: 0}
    if kind not in known:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"{MEMORY_QUERY}: found {kind!r}; known are fail and low")
    return known[kind]


def _failing_query() -> int:
    raise OSError("the memory query was asked to fail")


def _stored_name(part: str) -> str:
    return METADATA_PART if part == META else part


def _fact(value: object) -> str | int | bool:
    return value if isinstance(value, str | int) else str(value)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn the engine's named errors into refusals with the seam's words; everything else goes on as it is."""
    try:
        yield
    except TorchEngineError as error:
        code = _CODES.get(error.code)
        if code is None:
            raise
        raise RefusedError(code, str(error)) from error
