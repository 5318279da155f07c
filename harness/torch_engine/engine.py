"""The engine: one model on one device, one session cache, and any number of sessions.

A subclass may put other classes in place of the cache, the session, the buffers and the copy
primitives through the class attributes; nothing else constructs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import torch

from harness.torch_engine.buffers import SessionBuffers, check_types
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.devices import device_facts, device_kind, open_device, synchronize
from harness.torch_engine.errors import BudgetError, OptionError, UnsupportedError
from harness.torch_engine.handles import SavedSession, SessionHandle
from harness.torch_engine.loading import LoadedModel, draft_digest, load_draft, load_model
from harness.torch_engine.models.config import model_config
from harness.torch_engine.options import EngineOptions, SessionOptions, session_options
from harness.torch_engine.session import TorchSession
from harness.torch_engine.session_image import Imager
from harness.torch_engine.settings import apply_settings, read_settings
from harness.torch_engine.snapshot import Snapshotter, corrupted
from harness.torch_engine.speculating import Speculator

ENGINE_NAME = "statecert-torch"
ENGINE_VERSION = "1"
"""Changes whenever the same tokens may give other bits, or the state another layout."""


class TorchEngine:
    """The embedded engine.

    Args:
        options: model, device, element types, budgets; validated here.
        memory_query: bytes of memory available now, for the cache's memory guard; None for none.

    Raises:
        OptionError: an option is unknown or out of range, or the device is absent.
    """

    cache_class: ClassVar[type[SessionCache]] = SessionCache
    session_class: ClassVar[type[TorchSession]] = TorchSession
    buffers_class: ClassVar[type[SessionBuffers]] = SessionBuffers
    snapshotter_class: ClassVar[type[Snapshotter]] = Snapshotter
    speculator_class: ClassVar[type[Speculator]] = Speculator
    imager_class: ClassVar[type[Imager]] = Imager

    def __init__(
        self,
        options: EngineOptions | None = None,
        *,
        memory_query: Callable[[], int] | None = None,
    ) -> None:
        self.options = options or EngineOptions()
        self.options.validate()
        self.device = self.place()
        apply_settings(self.options)
        self.model = self.load()
        self.snapshotter = self.snapshotter_class()
        self.imager = self.imager_class()
        self.cache = self.cache_class(
            byte_budget=self.options.cache_bytes,
            entry_budget=self.options.cache_entries,
            snapshotter=self.snapshotter,
            memory_query=memory_query,
            headroom=self.options.memory_headroom,
            whole=self.options.snapshots == "whole",
        )
        self._handles: set[SessionHandle] = set()

    def place(self) -> torch.device:
        """The device of the options, shown to be there; buffers lie on it."""
        return open_device(self.options.device)

    def load(self) -> LoadedModel:
        """Make the model of the options, on the engine's device."""
        config = model_config(self.options.preset, self.options.arch, self.options.seed)
        check_types(config, self.options)
        return load_model(config, self.device, self.options.max_seq_len)

    def open_session(self, **overrides: object) -> TorchSession:
        """A new session with its own buffers.

        Args:
            overrides: fields of `SessionOptions`: ``chunk``, ``namespace``, ``route``, ``turns``,
                ``turn_token``, ``owed``, ``live``, ``resident``,
                ``deferred``, ``protect``, ``pin``,
                ``draft_depth``, ``draft_force``.

        Raises:
            OptionError: an unknown override or a value out of range.
            UnsupportedError: an unknown route, or a draft head for a model that decodes nothing.
        """
        base = SessionOptions(chunk=self.options.chunk)
        chosen = session_options(base, overrides)
        if chosen.deferred and not self.cache.whole:
            raise OptionError("deferred: expected an engine with snapshots whole, found delta")
        if chosen.route != "ar" and not self.model.config.decodes:
            raise UnsupportedError(f"route: expected ar of a model that decodes nothing, found {chosen.route!r}")
        return self.session_class(self, chosen)

    def new_buffers(self) -> SessionBuffers:
        """Memory for one session."""
        return self.buffers_class(self.model.config, self.options, self.device)

    def new_speculator(self, session: TorchSession) -> Speculator:
        """What drafts and verifies for a session of route ``mtp``."""
        draft = load_draft(self.model.config, self.device, self.options.max_seq_len)
        return self.speculator_class(session, draft.head)

    # -- identity ------------------------------------------------------------------------------

    def state_identity(self) -> dict[str, str | int | bool]:
        """Every engine field that changes bits or layout; part of each session's cache domain."""
        return {
            "engine": ENGINE_NAME,
            "engine_version": ENGINE_VERSION,
            "torch": str(torch.__version__),
            "model": self.model.digest,
            "k_type": self.options.k_type,
            "v_type": self.options.v_type,
            "recurrent_type": self.options.recurrent_type,
            **self._narrow_types(),
            "device": device_kind(self.device),
            "threads": self.options.threads,
            "max_seq_len": self.options.max_seq_len,
        }

    def _narrow_types(self) -> dict[str, str]:
        """Types of convolution windows and index rows; f32 ones, as they always were once, are left out."""
        told = {"conv_type": self.options.conv_type, "index_type": self.options.index_type}
        return {name: kind for name, kind in told.items() if kind != "f32"}

    def session_identity(self, options: SessionOptions) -> dict[str, str | int | bool]:
        """`state_identity` and the session's own choices; with a draft head, its weights too."""
        about = self.state_identity() | options.identity()
        if options.route == "mtp":
            about["draft"] = draft_digest(self.model.config)
        return about

    def identity(self) -> dict[str, str | int]:
        """What a record must say about this engine; settings are read back, not repeated."""
        config = self.model.config
        about: dict[str, str | int] = {
            "name": ENGINE_NAME,
            "version": ENGINE_VERSION,
            "torch": str(torch.__version__),
            "model_digest": self.model.digest,
            "weights_sha256": self.model.weights_sha256,
            "draft_sha256": draft_digest(config),
            "preset": config.preset,
            "arch": config.arch,
            "seed": config.seed,
            "layers": ",".join(config.layers),
            "vocab": config.vocab,
            "k_type": self.options.k_type,
            "v_type": self.options.v_type,
            "recurrent_type": self.options.recurrent_type,
            "conv_type": self.options.conv_type,
            "index_type": self.options.index_type,
            "chunk": self.options.chunk,
            "panel": config.panel,
            "max_seq_len": self.options.max_seq_len,
            "cache_bytes": self.cache.byte_budget,
            "cache_entries": self.cache.entry_budget,
            "poison": self.options.poison,
        }
        about |= {f"setting.{key}": value for key, value in read_settings().items()}
        return about | {f"device.{key}": value for key, value in device_facts(self.device).items()}

    def synchronize(self) -> None:
        """Wait until the device has done all that was asked of it."""
        synchronize(self.device)

    # -- explicit snapshots --------------------------------------------------------------------

    def admit(self, need: int) -> None:
        """Check that ``need`` more bytes of explicit snapshots may be held.

        Raises:
            BudgetError: they may not.
        """
        room = self.options.snapshot_bytes - self.handle_bytes
        if need > room:
            raise BudgetError(f"snapshot: expected at most {room} bytes, found {need}")

    def keep(self, saved: SavedSession) -> SessionHandle:
        """Hold a saved session until it is dropped."""
        handle = SessionHandle(saved=saved)
        self._handles.add(handle)
        return handle

    def drop(self, handle: SessionHandle) -> None:
        """Release the memory of a handle; dropping twice is allowed."""
        handle.saved = None
        self._handles.discard(handle)

    @property
    def handle_bytes(self) -> int:
        """Bytes held by handles that were not dropped."""
        return sum(h.saved.nbytes for h in self._handles if h.saved is not None)

    def corrupt_handle(self, handle: SessionHandle, part_name: str, byte_offset: int, xor_mask: int) -> None:
        """Flip bits of one stored byte of a handle, a negative control.

        Raises:
            MissingError: the handle was dropped, or no such part.
            LayoutError: offset or mask out of range.
        """
        saved = handle.open()
        changed = corrupted(saved.snapshot, part_name, byte_offset, xor_mask)
        handle.saved = replace(saved, snapshot=changed)
