"""Pages of the torch engine, behind `harness.engines.pages`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from harness.codec.errors import CodecError
from harness.codec.identity import read_identity
from harness.codec.paths import encode_tile
from harness.engines.interface import Options
from harness.engines.pages import PageComponent, PageRefusedError
from harness.torch_engine.coded.shelf import PageShelf
from harness.torch_engine.devices import synchronize
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.errors import TorchEngineError
from harness.torch_engine.options import EngineOptions
from harness.torch_engine.pages import Pager, caches
from harness.torch_engine.sampling import SamplerState
from harness.torch_engine.session import TorchSession
from harness.torch_engine.state import bytes_view


class TorchPages:
    """The codec and the sessions.

    Args:
        options: options of every engine that is opened.
        pager: makes pages of sessions and sessions of pages.
        engine: what is opened.
        shelf: what a folder of pages is.
    """

    session_class: ClassVar[type[TorchPageSession]]

    def __init__(
        self,
        options: Options,
        *,
        pager: type[Pager] = Pager,
        engine: type[TorchEngine] = TorchEngine,
        shelf: type[PageShelf] = PageShelf,
    ) -> None:
        self.options = options
        self.pager, self.engine, self.shelf_of = pager(), engine, shelf
        self.device = torch.device(str(options.get("device", "cpu")))

    def open(self, options: Options) -> TorchPageSession:
        """A session on an engine with these options; ``v_pages: transposed`` makes its pages lie so.

        Raises:
            PageRefusedError: a pair of types that cannot be, an unknown option.
        """
        wanted = {**self.options, **options}
        with refusals():
            transposed = wanted.pop("v_pages", "rows") == "transposed"
            made = EngineOptions(**wanted)  # type: ignore[arg-type] # validated by the engine
            made.validate()
            self.pager.check(made.k_type, made.v_type, transposed=transposed)
            engine = self.engine(self.adjusted(made))
            return self.session_class(self, engine.open_session())

    def adjusted(self, options: EngineOptions) -> EngineOptions:
        """Options as the engine gets them."""
        return options

    def encode_tile(self, values: bytes, rows: int, bins: int, version: int, path: str) -> bytes:
        """See `PageEngine.encode_tile`."""
        with refusals():
            tile = np.frombuffer(values, "<f2").reshape(rows, -1)
            return encode_tile(tile, bins=bins, version=2 if version == 2 else 1, path=self.pager.coder(path))

    def admit(self, identity: Mapping[str, object], wanted: str, length: int) -> None:
        """A stored identity serves a lookup of a class.

        Raises:
            CodecIdentityError: it does not.
        """
        read_identity(identity, wanted="exact" if wanted == "exact" else "lossy", length=length)

    def shelf(self, folder: Path, budget: int) -> TorchShelf:
        """See `PageEngine.shelf`."""
        return TorchShelf(self.shelf_of(folder, budget))

    def device_peak(self) -> int:
        """See `PageEngine.device_peak`."""
        if self.device.type != "cuda":
            return 0
        peak = torch.cuda.max_memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        return peak


class TorchShelf:
    """A folder of pages."""

    def __init__(self, shelf: PageShelf) -> None:
        self.shelf = shelf

    def publish(self, key: str, identity: Mapping[str, object], page: bytes, tail: bytes) -> None:
        """See `Shelf.publish`."""
        with refusals():
            self.shelf.publish(key, read_identity(identity), page, tail)

    def find(self, key: str, wanted: str) -> tuple[bytes, bytes] | None:
        """See `Shelf.find`."""
        with refusals():
            found = self.shelf.find(key, "exact" if wanted == "exact" else "lossy")
        return None if found is None else (found.page, found.tail)

    def evict(self) -> int:
        """See `Shelf.evict`."""
        return self.shelf.make_room(self.shelf.budget)

    def within(self, what: str, ask: Callable[[], object]) -> None:
        """See `Shelf.within`."""
        self.shelf.asks[what] = ask


class TorchPageSession:
    """One session."""

    def __init__(self, owner: TorchPages, session: TorchSession) -> None:
        self.owner = owner
        self.session = session

    def prefill(self, prompt: Sequence[int]) -> None:
        """See `PageSession.prefill`."""
        with refusals():
            self.session.begin(prompt, use_cache=False)
            for cut in (*self.session.boundaries(), len(prompt)):
                self.session.prefill(cut)

    def fork(self) -> TorchPageSession:
        """See `PageSession.fork`."""
        return type(self)(self.owner, self.session.engine.open_session())

    def parts(self) -> Mapping[str, tuple[str, bytes]]:
        """See `PageSession.parts`."""
        layout = self.session.layout("session")
        found = {
            part.name: (part.element_type, bytes_view(part.valid()).cpu().numpy().tobytes()) for part in layout.parts()
        }
        return {"meta": ("u8", self.session.metadata()), **found}

    def components(self, *, transposed: bool) -> Sequence[PageComponent]:
        """See `PageSession.components`; labels are those of the layout, not of the options."""
        return [
            PageComponent(
                layers=len(one.k),
                tokens=one.tokens,
                k_element=one.k[0].streams()[0][0].element,
                v_element=one.v[0].streams()[0][0].element,
                k_channels=int(np.prod(one.k[0].shape[1:])),
                v_channels=int(np.prod(one.v[0].shape[1:])),
                transposed_v=transposed,
                exact_bytes=sum(t.numel() for t in one.exact),
            )
            for one in caches(self.session, self.session.position)
        ]

    def page(self, *, transposed: bool) -> bytes:
        """See `PageSession.page`."""
        with refusals():
            return self.owner.pager.page(self.session, transposed=transposed)

    def archive(self, version: int, path: str, *, transposed: bool) -> bytes:
        """See `PageSession.archive`."""
        with refusals():
            return self.owner.pager.archive(self.session, version, path, transposed=transposed)

    def tail(self) -> bytes:
        """See `PageSession.tail`."""
        return self.owner.pager.tail(self.session)

    def bring(self, page: bytes, tail: bytes, *, transposed: bool) -> None:
        """See `PageSession.bring`."""
        with refusals():
            self.owner.pager.bring(self.session, page, tail, transposed=transposed)
            synchronize(self.owner.device)

    def bring_archive(self, data: bytes, tail: bytes, path: str, *, transposed: bool) -> str:
        """See `PageSession.bring_archive`."""
        with refusals():
            ran = self.owner.pager.bring_archive(self.session, data, tail, path, transposed=transposed)
            synchronize(self.owner.device)
        return ran

    def bring_stored(self, identity: Mapping[str, object], data: bytes, tail: bytes, path: str, wanted: str) -> None:
        """See `PageSession.bring_stored`."""
        with refusals():
            length = self.owner.pager.raw_length(data)
            self.owner.admit(identity, wanted, length)
        self.bring_archive(data, tail, path, transposed=False)

    def step(self, token: int) -> tuple[int, bytes]:
        """See `PageSession.step`."""
        logits = self.session.buffers.logits.cpu().numpy().tobytes()
        (taken,) = self.session.decode(1, _Forced(token))
        synchronize(self.owner.device)
        return taken, logits

    def cancel_in(self, writes: int) -> None:
        """See `PageSession.cancel_in`."""
        self.owner.pager.cancel_after = writes


TorchPages.session_class = TorchPageSession


class _Forced:
    """Takes the token that it is told; -1: the likeliest, the lower one of equals."""

    def __init__(self, token: int) -> None:
        self.token = token

    def pick(self, logits: np.ndarray, history: np.ndarray, state: SamplerState) -> int:
        """The token."""
        del history, state
        return int(logits.argmax()) if self.token < 0 else self.token


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Turn named errors into the words of pages."""
    try:
        yield
    except CodecError as error:
        raise PageRefusedError(f"codec.{error.code}", str(error)) from error
    except TorchEngineError as error:
        raise PageRefusedError(error.code, str(error)) from error
