"""The embedded torch engine behind the seam.

Buffers on the host are handed over as views of live memory; buffers on a device are copied to the host once per look.
Counts come from the engine's own counters, taken before and after a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from harness.adapters.torch_disk import DISK_OPTIONS, disk_files, open_tier
from harness.adapters.torch_faults import failing_transfers, memory_query
from harness.adapters.torch_forging import forged
from harness.adapters.torch_hardware import hw_class, library_digests, slug, torch_devices
from harness.adapters.torch_pages import TorchPages
from harness.adapters.torch_planning import planned
from harness.adapters.torch_session import TorchAdapterSession
from harness.adapters.torch_words import LOGITS_TYPE, fact, refusals, stored_name
from harness.engines.interface import Identity, Options
from harness.engines.pages import PageRefusedError
from harness.errors import RefusedError
from harness.model.values import Capability, Observability, RefusalCode
from harness.torch_engine.archives import Archiver
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.handles import SessionHandle
from harness.torch_engine.options import EngineOptions
from harness.torch_engine.store import DiskStore

if TYPE_CHECKING:
    from typing_extensions import Buffer

MEMORY_QUERY: Final = "memory_query"
"""Engine option: ``fail`` or ``low`` puts a query of that kind behind the memory guard; empty: there is no guard."""
TRANSFER: Final = "transfer"
"""Engine option: ``fail`` makes every copy into a session break off after its first part; empty: none does."""
ARCHIVE_PATH: Final = "archive_path"
"""Engine option: what decodes archives, ``torch`` or ``triton``; told in the identity."""
_TWO: Final = 2
VARIANTS: Final = {
    "placement": "device",
    "preset": "preset",
    "weights_seed": "seed",
    "max_seq_len": "max_seq_len",
    "k_type": "k_type",
    "v_type": "v_type",
    "recurrent_type": "recurrent_type",
    "conv_type": "conv_type",
    "index_type": "index_type",
}
"""Session option to the engine option in which such a session differs."""


_TOLD: Final[Options] = {"logits_type": LOGITS_TYPE, "image_options": "threads"}
"""Facts that hold for every such engine; other threads sum in another order, so an image of theirs is refused."""


class TorchAdapter:
    """Entry point ``torch``."""

    name = "torch"
    engine_class: type[TorchEngine] = TorchEngine
    """A subclass of the engine may stand here; nothing else changes."""
    options_class: type[EngineOptions] = EngineOptions
    """Its options."""
    variants: Mapping[str, str] = VARIANTS
    disk_class: type[DiskStore] = DiskStore
    """Likewise of the disk tier."""
    archiver_class: type[Archiver] = Archiver
    """Likewise of what decodes archives."""
    path_sets: Mapping[str, Sequence[str]] = {
        "engine": (
            "harness.torch_engine:**/*.py",
            "harness.adapters:torch_*.py",
        ),
        "codec": ("harness.codec:*.py",),
    }

    def capabilities(self) -> frozenset[Capability]:
        """Everything."""
        return frozenset(Capability)

    def devices(self) -> Sequence[tuple[str, str]]:
        """Devices of this torch build, best first."""
        return torch_devices()

    def open_pages(self, options: Options) -> TorchPages:
        """Its K/V rows as pages; see `harness.engines.pages`.

        Raises:
            PageRefusedError: The rows are those of a library that inherits from here, and not of the torch engine.
        """
        if self.options_class is not EngineOptions:
            raise PageRefusedError("unsupported", f"{self.name}: its cache is an object of a library, not pages")
        return TorchPages(options)

    def targets(self) -> Sequence[tuple[str, Options, str]]:
        """What a lab may name."""
        return [(f"torch-{preset}", {"preset": preset}, "") for preset in ("tiny", "small")]

    def plan(self, options: Options, *, memory: int, context: int) -> Mapping[str, int]:
        """Say who gets how many bytes of memory."""
        return planned(options, memory=memory, context=context)

    def libraries(self, kind: str) -> Mapping[str, str]:
        """SHA-256 of the libraries that are really loaded, as facts.

        Args:
            kind: Type of the device.
        """
        return library_digests(kind)

    def open(self, options: Options) -> TorchAdapterEngine:
        """Make the weights of a preset and put them on a device.

        Raises:
            RefusedError: An option is unknown or out of range.
        """
        wanted = dict(options)
        query = memory_query(str(wanted.pop(MEMORY_QUERY, "")))
        transfer = str(wanted.pop(TRANSFER, ""))
        path = str(wanted.pop(ARCHIVE_PATH, "torch"))
        disk: Options = {name: wanted.pop(name) for name in DISK_OPTIONS if name in wanted}
        known = {field.name for field in fields(self.options_class)}
        unknown = sorted(set(wanted) - known)
        if unknown:
            told = sorted({*known, *DISK_OPTIONS, MEMORY_QUERY, TRANSFER, ARCHIVE_PATH})
            raise RefusedError(RefusalCode.UNSUPPORTED, f"unknown options {unknown}; known are {told}")
        with refusals():
            validated = self.options_class(**wanted)  # type: ignore[arg-type] # validated by the engine
            engine = self.engine_class(validated, memory_query=query)
            archiver = self.archiver_class(path, engine.device)
            engine.cache.tier = open_tier(engine, disk, self.disk_class)
        failing_transfers(engine, transfer)
        made = TorchAdapterEngine(engine, self)
        made.archiver = archiver
        return made


class TorchAdapterEngine:
    """One engine with its snapshot store."""

    def __init__(self, engine: TorchEngine, adapter: TorchAdapter) -> None:
        self._engine = engine
        self._adapter = adapter
        self._handles: dict[str, SessionHandle] = {}
        self._variants: dict[tuple[tuple[str, str | int | bool], ...], TorchEngine] = {}
        self.copied = CopiedBytes(engine)
        self.archiver = adapter.archiver_class()
        """What decodes archives, by the path that was declared."""

    def identity(self) -> Identity:
        """Read back what was loaded and set."""
        told = self._engine.identity()
        device = {name.removeprefix("device."): fact for name, fact in told.items() if name.startswith("device.")}
        facts = {name: fact for name, fact in told.items() if not name.startswith("device.")}
        kind = str(device.get("type", "cpu"))
        return Identity(
            engine=self._adapter.name,
            version=str(told["version"]),
            model=slug(str(told.get("model", told["preset"]))),
            model_digest=str(told["model_digest"]),
            hw_class=hw_class(kind, str(device.get("arch", "")), str(device.get("memory_kind", ""))),
            observability=Observability.PARTS,
            facts={
                **facts,
                **_TOLD,
                "archive_path": self.archiver.path,
                "archive_ran_as": self.archiver.ran_as,
                **self._adapter.libraries(kind),
            },
            device=device,
            path_sets=self._adapter.path_sets,
        )

    def open_session(self, options: Options) -> TorchAdapterSession:
        """Open a session; see :class:`harness.torch_engine.options.SessionOptions`.

        ``placement: other`` opens it on the next device of the same kind, ``beside`` on a second engine of the same
        device, with buffers of its own. ``preset``, ``weights_seed``, ``k_type``,
        ``v_type``, ``recurrent_type`` and ``max_seq_len`` open it on another model, of the same name or another, or
        with other buffers; it shares the snapshot store and the handles, as sessions of one server do.

        Raises:
            RefusedError: An option is unknown or out of range.
        """
        own = {name: value for name, value in options.items() if name not in self._adapter.variants}
        with refusals():
            return TorchAdapterSession(self, self._beside(options).open_session(**own))

    def _beside(self, options: Options) -> TorchEngine:
        """Return the engine of a session: this one, or one beside it with the same store."""
        known = self._adapter.variants
        changed = {known[name]: value for name, value in options.items() if name in known}
        if "device" in changed:
            changed["device"] = self._placed(str(changed["device"]))
        return self._variant(changed) if changed else self._engine

    def store(self) -> tuple[Sequence[Options], Mapping[str, int]]:
        """Snapshots held, and the counters of the cache."""
        entries = [{name: fact(value) for name, value in entry.items()} for entry in self._engine.cache.entries()]
        held = {
            "pinned": sum(bool(entry["children"]) for entry in entries),
            "roots": sum(not entry["parent"] for entry in entries),
            "handle_bytes": self._engine.handle_bytes,
        }
        return entries, {**self._engine.cache.counters(), **held}

    def evict(self, count: int) -> int:
        """Evict least recently used snapshots."""
        gone = 0
        while gone != count and self._engine.cache.evict_lru() is not None:
            gone += 1
        return gone

    def release(self, need: int) -> int:
        """Give bytes of snapshots back."""
        return self._engine.cache.release(need)

    def set_budget(self, budget: Mapping[str, int]) -> None:
        """Change bytes and entries; what does not fit any more is evicted, leaves first.

        Raises:
            RefusedError: A budget is unknown or below zero.
        """
        if set(budget) - {"bytes", "entries"} or min(budget.values(), default=0) < 0:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"found the budget {dict(budget)}; known are bytes and entries")
        cache = self._engine.cache
        cache.resize(
            byte_budget=budget.get("bytes", cache.byte_budget),
            entry_budget=budget.get("entries", cache.entry_budget),
        )

    def corrupt_handle(self, handle: str, part: str, byte: int, mask: int) -> None:
        """Flip bits of a part inside an explicit snapshot."""
        with refusals():
            self._engine.corrupt_handle(self.handle(handle), stored_name(part), byte, mask)

    def corrupt_store(self, key: str, part: str, byte: int, mask: int) -> None:
        """Flip bits of a part inside a stored snapshot."""
        with refusals():
            self._engine.cache.corrupt(key, stored_name(part), byte, mask)

    def damage_store(self, key: str, kind: str) -> None:
        """Break the geometry of a stored snapshot."""
        with refusals():
            self._engine.cache.damage(key, kind)

    def forge_image(self, data: Buffer, what: str) -> Buffer:
        """Forge one field of an image."""
        with refusals():
            return forged(data, what)

    def disk_files(self) -> Sequence[Options]:
        """Links that lie in the disk folder."""
        return disk_files(self._engine.cache.tier)

    def disk_bytes(self) -> int:
        """Bytes loaded from the disk so far."""
        tier = self._engine.cache.tier
        return 0 if tier is None else tier.loaded_bytes()

    def close(self) -> None:
        """Drop handles; send snapshots to the disk, where there is one, and drop them."""
        for handle in self._handles.values():
            self._engine.drop(handle)
        self._handles.clear()
        cache = self._engine.cache
        cache.clear()
        if cache.tier is not None:
            cache.tier.close()
            cache.tier = None

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

    def _placed(self, placement: str) -> str:
        """Return the device of a placement: ``other`` is the next one of the engine's kind, ``beside`` its own.

        Raises:
            RefusedError: There is no such placement, or no other device.
        """
        if placement == "beside":
            return self._engine.options.device
        kind, own = self._engine.device.type, self._engine.device.index or 0
        count = sum(name.startswith(f"{kind}:") and not absent for name, absent in torch_devices())
        if placement != "other" or count < _TWO:
            raise RefusedError(
                RefusalCode.UNSUPPORTED,
                f"no placement {placement!r}; known are beside, and other with two devices of a kind",
            )
        return f"{kind}:{(own + 1) % count}"

    def _variant(self, changed: Options) -> TorchEngine:
        """Return an engine that differs in some options and shares the store; made once for each difference."""
        key = tuple(sorted(changed.items()))
        if key not in self._variants:
            options = replace(self._engine.options, **changed)  # type: ignore[arg-type] # validated by the engine
            variant = self._adapter.engine_class(options)
            variant.cache, variant.snapshotter = self._engine.cache, self._engine.snapshotter
            self._variants[key] = variant
        return self._variants[key]


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
