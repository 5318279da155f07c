"""One session of the embedded torch engine behind the seam."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from harness.adapters.torch_views import LiveViews
from harness.adapters.torch_words import META, host_bytes, refusals, sampling
from harness.engines.interface import Begun, StatePart
from harness.errors import RefusedError
from harness.model.values import NO_LAYER, Family, RefusalCode
from harness.torch_engine.session import TorchSession
from harness.torch_engine.viewing import shown

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from harness.adapters.torch_adapter import TorchAdapterEngine


class TorchAdapterSession:
    """One session."""

    def __init__(self, engine: TorchAdapterEngine, session: TorchSession) -> None:
        self._engine = engine
        self._session = session
        self._extension: Sequence[int] = ()
        self._extended_from = -1
        self._views = LiveViews()

    def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
        """Reset, or restore the deepest cached prefix."""
        self._idle("begin")
        self._extended_from = -1
        before, loaded = self._engine.copied.total, self._engine.disk_bytes()
        with refusals():
            cached = self._session.begin(prompt, cache)
        schedule = sorted({*self._session.boundaries(), len(prompt)})
        return Begun(
            cached=cached,
            restored_bytes=self._engine.copied.total - before,
            schedule=schedule,
            disk_bytes=self._engine.disk_bytes() - loaded,
        )

    def prefill(self, upto: int) -> int:
        """Forward the prompt up to a schedule point."""
        before = self._session.position
        with refusals():
            if self._extended_from < 0:
                self._session.prefill(upto)
            else:
                first = before - self._extended_from
                self._session.extend(self._extension[first : upto - self._extended_from])
        return self._session.position - before

    def commit(self) -> None:
        """Publish this turn's captures."""
        with refusals():
            self._session.commit()

    def abandon(self) -> None:
        """Drop this turn's captures."""
        with refusals():
            self._session.abandon()

    def extend(self, tokens: Sequence[int]) -> Begun:
        """Another turn on top of the present state; positions of its schedule are absolute.

        An owed token belongs to the turn before: it is forwarded here, and counts as present.
        """
        self._idle("extend")
        with refusals():
            self._session.settle()
        self._extension, self._extended_from = tokens, self._session.position
        end = self._extended_from + len(tokens)
        everything = (*self._session.history(), *tokens)
        cuts = self._session.schedule.boundaries(everything, self._extended_from, end)
        return Begun(cached=self._extended_from, restored_bytes=0, schedule=sorted({*cuts, end}))

    def decode(self, count: int, sampler: Mapping[str, int]) -> Sequence[int]:
        """Sample tokens and forward each."""
        with refusals():
            return self._session.decode(count, sampling(sampler))

    def position(self) -> int:
        """Tokens forwarded so far."""
        return self._session.position

    def logits(self) -> Buffer | None:
        """The pending logits."""
        if not self._session.logits_valid:
            return None
        return host_bytes(self._session.buffers.logits)

    def parts(self) -> Sequence[StatePart]:
        """The metadata, then every part of the session, or those that its option ``view`` shows."""
        meta, parts = shown(self._session)
        first = StatePart(
            name=META,
            family=Family.META,
            layer=NO_LAYER,
            element_type="u8",
            shape=(len(meta),),
            stream="fixed",
            data=meta,
        )
        return [first, *self._views.parts(parts)]

    def snapshot(self) -> str:
        """Save the whole session."""
        with refusals():
            return self._engine.keep(self._session.snapshot())

    def restore(self, handle: str) -> Begun:
        """Become a saved session."""
        self._idle("restore")
        self._extended_from = -1
        before = self._engine.copied.total
        with refusals():
            self._session.restore(self._engine.handle(handle))
        position = self._session.position
        restored = self._engine.copied.total - before
        return Begun(cached=position, restored_bytes=restored, schedule=[position] if position else [])

    def image_size(self) -> int:
        """Bytes of the session's image."""
        with refusals():
            return self._session.engine.imager.size(self._session)

    def export_image(self, capacity: int) -> Buffer:
        """The session as one byte string."""
        with refusals():
            return self._session.engine.imager.export(self._session, capacity)

    def import_image(self, data: Buffer) -> Begun:
        """Become the session of an image; of an open turn, the rest of its schedule."""
        self._extended_from = -1
        with refusals():
            copied = self._session.engine.imager.bring(self._session, data)
        position, end = self._session.position, max(self._session.position, len(self._session.prompt))
        ends = sorted({*self._session.boundaries(), end}) if end else []
        return Begun(cached=position, restored_bytes=copied, schedule=ends)

    def import_archive(self, data: Buffer, *, codec: str, version: int) -> Begun:
        """Decode an archive into the session's K/V rows."""
        with refusals():
            written = self._engine.archiver.bring(self._session, bytes(data), codec, version)
        position = self._session.position
        return Begun(cached=position, restored_bytes=written, schedule=[position] if position else [])

    def cancel(self) -> None:
        """End the turn between two calls."""
        with refusals():
            self._session.cancel()

    def meanwhile(self, ask: str, *, upto: int, count: int, handle: str) -> str:
        """Go on, and in the first pause of that ask for something else."""
        asks: Mapping[str, Callable[[], object]] = {
            "snapshot": self.snapshot,
            "restore": lambda: self.restore(handle),
            "export": self.image_size,
            "import": lambda: self.import_image(image),
            "begin": lambda: self.begin(self._session.prompt.tolist(), cache=True),
            "extend": lambda: self.extend(self._session.prompt.tolist()),
            "decode": lambda: self.decode(1, {}),
            "reset": self.reset,
        }
        if ask not in asks:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"unknown ask {ask!r}; known are {', '.join(asks)}")
        image = self.export_image(self.image_size()) if ask == "import" else b""
        codes: list[str] = []

        def once(session: TorchSession) -> None:
            session.on_progress = None
            codes.append(_refusal_of(asks[ask]))

        self._session.on_progress = once
        try:
            if upto:
                self.prefill(upto)
            else:
                self.decode(count, {})
        finally:
            self._session.on_progress = None
        if not codes:
            raise RuntimeError("no call was in progress")
        return codes[0]

    def record(self) -> None:
        """Keep what a rollback needs."""
        with refusals():
            self._session.trail.begin()

    def rollback(self, count: int) -> None:
        """Take the last tokens back."""
        self._extended_from = -1
        with refusals():
            self._session.trail.back(count)

    def corrupt(self, part: str, byte: int, mask: int) -> None:
        """Flip bits of a live part."""
        with refusals():
            self._session.corrupt(part, byte, mask)

    def synchronize(self) -> None:
        """Wait for the device."""
        self._session.synchronize()

    def reset(self) -> None:
        """Back to a new session."""
        self._idle("reset")
        self._extended_from = -1
        self._session.reset()

    def _idle(self, what: str) -> None:
        """Refuse, before anything is changed, while a call is in progress."""
        with refusals():
            self._session.idle(what)

    def close(self) -> None:
        """Free the buffers."""
        self._views.forget()
        self._session.close()


def _refusal_of(ask: Callable[[], object]) -> str:
    """Ask; return the code of the refusal, empty if there is none."""
    try:
        ask()
    except RefusedError as error:
        return str(error.code)
    return ""
