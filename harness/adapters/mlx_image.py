"""Session images as mlx-lm writes them: a prompt-cache file, with what else a session needs in its metadata.

A session without tokens is a file without arrays: the library cannot read caches back that hold none, so none are
written, and a new cache is made in their place.

The library writes and reads the cache. It checks neither whose cache it is nor whether a byte has changed; what stands
in the metadata is checked here. Loads are lazy: an array is read from the file when it is first used. So everything is
computed at once, unless the engine option ``load`` says ``lazy``, which is what a caller gets who forgets it.
"""

from __future__ import annotations

import base64
import copy
import json
import math
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt
import torch

from harness.adapters.staged import StagedBuffers
from harness.torch_engine.errors import CapacityError, IdentityError, MetadataError, SnapshotError, UnsupportedError
from harness.torch_engine.handles import check_identity
from harness.torch_engine.image_wire import ImageFormatError, ShortBufferError
from harness.torch_engine.metadata import Metadata, decode_metadata
from harness.torch_engine.session_image import Imager

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from harness.torch_engine.session import TorchSession

_LEAST: Final = 64
"""Bytes below which nothing can be a file of this kind."""


class PromptCacheImager(Imager):
    """Images in the library's own format.

    Args:
        lazy: Leave arrays in the file until they are used.
    """

    def __init__(self, *, lazy: bool) -> None:
        self._lazy = lazy
        folder = tempfile.mkdtemp(prefix="statecert-mlx-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._slot = Path(folder) / "slot.safetensors"
        """One file, as a server has one for each slot: the next load goes through it too."""

    def size(self, session: TorchSession) -> int:
        """Bytes of a session's image."""
        return len(self._written(session))

    def export(self, session: TorchSession, capacity: int) -> bytearray:
        """The file that the library writes."""
        made = self._written(session)
        if len(made) > capacity:
            raise ShortBufferError(f"buffer: expected {len(made)} bytes, found {capacity}")
        return bytearray(made)

    def bring(self, session: TorchSession, data: Buffer) -> int:
        """Become the session of a file; everything that the metadata tells is checked before anything is touched."""
        session.idle("adopt")
        buffers = _buffers(session)
        cache, told = self._loaded(bytes(memoryview(data)))
        empty = not cache
        cache = cache or list(buffers.model.new_cache())
        meta = _checked(session, buffers, cache, told)
        session.abandon()
        session.continuing.drop()
        session.trail.drop()
        session.cancelled = False
        history = _tokens(told["history"])
        end = meta.position + meta.owed
        with session.transferring():
            self.place(buffers, cache, told, history[:end])
        session._prompt = history if len(history) > end else history[:0]  # noqa: SLF001 - as `adopt` does
        session.position, session.decoded = meta.position, meta.decoded
        session.logits_valid, session.owed = meta.logits_valid, meta.owed
        return _host_bytes(buffers, meta) + (0 if empty else _cache_bytes(buffers, meta))

    def place(
        self, buffers: StagedBuffers, cache: list[Any], told: Mapping[str, str], history: npt.NDArray[np.int32]
    ) -> None:
        """Put what was read and checked where the session has its state."""
        buffers.held.cache = cache
        buffers.history_rows = 0
        buffers.remember(history)
        logits = np.frombuffer(base64.b64decode(told["logits"]), dtype="<f4").copy()
        buffers.logits.copy_(torch.from_numpy(logits))
        buffers.rng.copy_(torch.tensor(json.loads(told["rng"]), dtype=torch.int64))

    def break_off(self) -> None:
        """Let every further import break off after the cache is in its place and nothing else is."""

        def place(buffers: StagedBuffers, cache: list[Any], *_: object) -> None:
            buffers.held.cache = cache
            raise OSError("the copy was asked to break off")

        self.place = place  # type: ignore[method-assign,assignment]

    def _written(self, session: TorchSession) -> bytes:
        import mlx.core as mx
        from mlx_lm.models.cache import save_prompt_cache

        session.idle("export")
        buffers = _buffers(session)
        history = (*session.history(), *session.prompt[session.position + session.owed :].tolist())
        told = {
            "identity": json.dumps(dict(session.identity), sort_keys=True),
            "meta": session.metadata().hex(),
            "history": np.asarray(history, dtype="<i4").tobytes().hex(),
            "logits": base64.b64encode(buffers.logits.numpy().tobytes()).decode("ascii"),
            "rng": json.dumps(buffers.rng.tolist()),
        }
        with tempfile.TemporaryDirectory(prefix="statecert-mlx-") as folder:
            path = Path(folder) / "out.safetensors"
            if session.position:
                save_prompt_cache(str(path), list(buffers.held.cache), told)
            else:
                mx.save_safetensors(str(path), {}, told)
            return path.read_bytes()

    def _loaded(self, data: bytes) -> tuple[list[Any], Mapping[str, str]]:
        import mlx.core as mx
        from mlx.utils import tree_flatten
        from mlx_lm.models.cache import load_prompt_cache

        if len(data) < _LEAST:
            raise ShortBufferError(f"image: expected at least {_LEAST} bytes, found {len(data)}")
        self._slot.write_bytes(data)
        try:
            arrays, told = mx.load(str(self._slot), return_metadata=True)
            if not arrays:
                return [], cast("Mapping[str, str]", told)
            cache, told = load_prompt_cache(str(self._slot), return_metadata=True)
            held = [array for _, array in tree_flatten([one.state for one in cache]) if isinstance(array, mx.array)]
            if not self._lazy:
                mx.eval(held)
                cache = copy.deepcopy(cache)
        except (RuntimeError, ValueError, KeyError, TypeError, IndexError) as error:
            raise ImageFormatError(f"prompt cache: {str(error).splitlines()[0]}") from error
        return list(cache), cast("Mapping[str, str]", told)


def _buffers(session: TorchSession) -> StagedBuffers:
    buffers = session.buffers
    assert isinstance(buffers, StagedBuffers)  # noqa: S101 - its session was made with them
    return buffers


def _cache_bytes(buffers: StagedBuffers, meta: Metadata) -> int:
    """Bytes of the cache that came back; the library's room beyond its rows is none of it."""
    return sum(
        math.prod(spec.shape) * spec.dtype.itemsize * (meta.layers[spec.entry][1] if spec.rows else 1)
        for spec in buffers.model.parts
    )


def _host_bytes(buffers: StagedBuffers, meta: Metadata) -> int:
    """Bytes of logits, generator and history."""
    return buffers.logits.nbytes + buffers.rng.nbytes + 4 * (meta.position + meta.owed)


def _tokens(words: str) -> npt.NDArray[np.int32]:
    """Token ids from as many words of eight hex digits: files of equally many tokens have one size."""
    return np.frombuffer(bytes.fromhex(words), dtype="<i4").astype(np.int32)


def _checked(session: TorchSession, buffers: StagedBuffers, cache: list[Any], told: Mapping[str, str]) -> Metadata:
    """Part 0, shown to fit the session and the cache.

    Raises:
        ImageFormatError: The metadata cannot be read, or contradicts the cache.
        IdentityError: Another model, build or schedule.
        CapacityError: More tokens than the session holds.
    """
    try:
        identity, history = json.loads(told["identity"]), _tokens(told["history"])
        meta = decode_metadata(bytes.fromhex(told["meta"]))
        logits = base64.b64decode(told["logits"])
        rng = json.loads(told["rng"])
    except (KeyError, TypeError, ValueError, MetadataError) as error:
        raise ImageFormatError(f"metadata: {type(error).__name__}") from error
    check_identity(identity, session.identity)
    try:
        found = buffers.model.lengths(cache)
        if found != meta.layers:
            raise ImageFormatError(f"cache: expected the lengths {meta.layers}, found {found}")
        buffers.check_lengths(meta, meta.position)
    except (IdentityError, CapacityError):
        raise
    except (SnapshotError, UnsupportedError, AttributeError, ValueError) as error:
        raise ImageFormatError(f"cache: {error}") from error
    if len(logits) != 4 * buffers.model.vocab or len(rng) != buffers.rng.numel():
        raise ImageFormatError("metadata: logits or generator have another size")
    if len(history) < meta.position + meta.owed or not bool(((history >= 0) & (history < buffers.model.vocab)).all()):
        raise ImageFormatError("metadata: the history does not fit")
    return meta
