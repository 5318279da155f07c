"""The starter engine, misbehaving in one way each."""

from __future__ import annotations

import itertools
import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from harness.adapters.starter import StarterAdapter, StarterEngine, StarterSession, State
from harness.engines.interface import Begun, Identity, Options, StatePart
from harness.errors import RefusedError
from harness.model.values import Capability, Observability, RefusalCode

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Variant(StarterAdapter):
    """An adapter whose engine and session classes a subclass names."""

    Engine: type[StarterEngine] = StarterEngine
    Session: type[StarterSession] = StarterSession

    def open(self, options: Options) -> StarterEngine:
        plain = super().open(options)
        engine = self.Engine(plain.options)
        made = self.Session

        def open_session(options: Options) -> StarterSession:
            if options:
                raise RefusedError(RefusalCode.UNSUPPORTED, "no session options")
            engine.sessions.append(made(engine))
            return engine.sessions[-1]

        engine.open_session = open_session  # type: ignore[method-assign]
        return engine


class OddName(Variant):
    class Engine(StarterEngine):
        def identity(self) -> Identity:
            return replace(super().identity(), model="My Model")


class Tells(Variant):
    class Engine(StarterEngine):
        def identity(self) -> Identity:
            return replace(super().identity(), facts={"library": "/home/someone/lib/engine.so"})


class OtherEachTime(Variant):
    class Engine(StarterEngine):
        def identity(self) -> Identity:
            return replace(super().identity(), facts={"opened_at": time.monotonic_ns()})


class LowGrade(Variant):
    class Engine(StarterEngine):
        def identity(self) -> Identity:
            return replace(super().identity(), observability=Observability.LOGITS)


class MetaLast(Variant):
    class Session(StarterSession):
        def parts(self) -> Sequence[StatePart]:
            return [*super().parts()[1:], super().parts()[0]]


class MetaFrozen(Variant):
    class Session(StarterSession):
        def parts(self) -> Sequence[StatePart]:
            meta, *others = super().parts()
            return [replace(meta, data=bytes(16)), *others]


class WrongSize(Variant):
    class Session(StarterSession):
        def parts(self) -> Sequence[StatePart]:
            *others, last = super().parts()
            return [*others, replace(last, shape=(5,))]


class NameTwice(Variant):
    class Session(StarterSession):
        def parts(self) -> Sequence[StatePart]:
            parts = super().parts()
            return [*parts, parts[-1]]


class Unrepeatable(Variant):
    class Session(StarterSession):
        draws = itertools.count()

        def prefill(self, upto: int) -> int:
            self.state.recurrent[3] ^= next(self.draws) % 251 + 1
            return super().prefill(upto)


class PartsComeAndGo(Variant):
    class Session(StarterSession):
        def parts(self) -> Sequence[StatePart]:
            return super().parts() if self.state.position else super().parts()[:-1]


class RewritesRows(Variant):
    class Session(StarterSession):
        def prefill(self, upto: int) -> int:
            done = super().prefill(upto)
            self.state.rows[5] = self.state.position & 255
            return done


def _numpy(value: int) -> Any:
    return np.int64(value)


class NumbersOfNumpy(Variant):
    """Counts as a library of arrays does: every integer is one of numpy's."""

    class Engine(StarterEngine):
        def store(self) -> tuple[Sequence[Options], Mapping[str, int]]:
            entries, counters = super().store()
            told = [
                {name: _numpy(fact) if type(fact) is int else fact for name, fact in one.items()} for one in entries
            ]
            return cast("Sequence[Options]", told), {name: _numpy(count) for name, count in counters.items()}

    class Session(StarterSession):
        def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
            found = super().begin(prompt, cache=cache)
            ends = [_numpy(end) for end in found.schedule]
            return replace(found, cached=_numpy(found.cached), schedule=ends)

        def prefill(self, upto: int) -> int:
            forwarded: int = _numpy(super().prefill(upto))
            return forwarded

        def decode(self, count: int, sampler: Mapping[str, int]) -> Sequence[int]:
            return [_numpy(token) for token in super().decode(count, sampler)]

        def position(self) -> int:
            position: int = _numpy(super().position())
            return position

        def parts(self) -> Sequence[StatePart]:
            return [
                replace(part, layer=_numpy(part.layer), shape=[_numpy(extent) for extent in part.shape])
                for part in super().parts()
            ]


class GrowsWhileFixed(Variant):
    class Session(StarterSession):
        def parts(self) -> Sequence[StatePart]:
            meta, rows, recurrent = super().parts()
            return [meta, replace(rows, stream="fixed"), recurrent]


class SnapshotTouches(Variant):
    class Session(StarterSession):
        def snapshot(self) -> str:
            self.state.recurrent[0] ^= 1
            return super().snapshot()


class HiddenState(Variant):
    """Logits depend on something that neither parts nor snapshots hold."""

    class Session(StarterSession):
        hidden = 0

        def prefill(self, upto: int) -> int:
            before = self.state.position
            done = super().prefill(upto)
            self.hidden += sum(self.tokens[before:upto])
            if self.state.logits:
                self.state.logits[self.hidden % 64] ^= self.hidden & 255 | 1
            return done

        def reset(self) -> None:
            super().reset()
            self.hidden = 0


class LateSession(StarterSession):
    """The recurrent words of a hit are there once somebody looks or waits; a prefill does neither."""

    late = b""

    def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
        found = super().begin(prompt, cache=cache)
        if found.cached:
            self.late = bytes(self.state.recurrent)
            self.state.recurrent[:] = bytes(len(self.late))
        return found

    def complete(self) -> None:
        if self.late:
            self.state.recurrent[:] = self.late
        self.late = b""

    def prefill(self, upto: int) -> int:
        self.late = b""
        return super().prefill(upto)


class LateUnlessLookedAt(Variant):
    class Session(LateSession):
        def parts(self) -> Sequence[StatePart]:
            self.complete()
            return super().parts()


class LateUnlessAwaited(Variant):
    class Session(LateSession):
        def synchronize(self) -> None:
            self.complete()
            super().synchronize()


class ForgetsRecurrent(Variant):
    class Session(StarterSession):
        def take(self, saved: State) -> Begun:
            begun = super().take(saved)
            self.state.recurrent[:] = bytes(16)
            return begun


class NoBytesCounted(Variant):
    class Session(StarterSession):
        def take(self, saved: State) -> Begun:
            return replace(super().take(saved), restored_bytes=0)


class CountsHigh(Variant):
    class Session(StarterSession):
        def take(self, saved: State) -> Begun:
            begun = super().take(saved)
            return replace(begun, cached=begun.cached + 1)


class ForwardsMore(Variant):
    class Session(StarterSession):
        def prefill(self, upto: int) -> int:
            return super().prefill(upto) + 1


class StoreStandsStill(Variant):
    class Engine(StarterEngine):
        def store(self) -> tuple[Sequence[Options], Mapping[str, int]]:
            entries, counters = super().store()
            return entries, {**counters, "captures": 0}


class StoreMiscounts(Variant):
    class Engine(StarterEngine):
        def store(self) -> tuple[Sequence[Options], Mapping[str, int]]:
            entries, counters = super().store()
            return entries, {**counters, "stored_bytes": counters["stored_bytes"] + 8 * len(entries)}


class RaisesKeyError(Variant):
    class Session(StarterSession):
        def restore(self, handle: str) -> Begun:
            _ = self.engine.handles[handle]
            return super().restore(handle)


class WritesThenRefuses(Variant):
    class Session(StarterSession):
        def restore(self, handle: str) -> Begun:
            self.state.recurrent[2] ^= 4
            return super().restore(handle)


class OtherWord(Variant):
    class Session(StarterSession):
        def decode(self, count: int, sampler: Mapping[str, int]) -> Sequence[int]:
            if not self.state.logits:
                raise RefusedError(RefusalCode.MISSING, "nothing there")
            return super().decode(count, sampler)


class TakesAnyOption(Variant):
    def open(self, options: Options) -> StarterEngine:
        return super().open({name: value for name, value in options.items() if name != "no_such_option"})


class CannotSample(Variant):
    def capabilities(self) -> frozenset[Capability]:
        return super().capabilities() | {Capability.SAMPLING}


class TellsOtherTokens(Variant):
    class Session(StarterSession):
        def decode(self, count: int, sampler: Mapping[str, int]) -> Sequence[int]:
            return [token ^ 1 for token in super().decode(count, sampler)]


class CorruptsNothing(Variant):
    class Session(StarterSession):
        def corrupt(self, part: str, byte: int, mask: int) -> None:
            super().corrupt(part, byte, mask)
            super().corrupt(part, byte, mask)


class ReusesAbandoned(Variant):
    class Session(StarterSession):
        def abandon(self) -> None:
            self.commit()


class ResetKeepsState(Variant):
    class Session(StarterSession):
        def reset(self) -> None:
            recurrent = self.state.recurrent
            super().reset()
            self.state.recurrent[:] = recurrent


class CloseKeepsCaptures(Variant):
    class Session(StarterSession):
        def close(self) -> None:
            """Keep everything."""


class Crashes(Variant):
    class Session(StarterSession):
        def snapshot(self) -> str:
            os._exit(7)


class Hangs(Variant):
    class Session(StarterSession):
        def snapshot(self) -> str:
            time.sleep(60)
            return super().snapshot()


class CannotOpen(Variant):
    def open(self, options: Options) -> StarterEngine:
        raise ValueError("no such weights")


class TokensOnly(Variant):
    """Declares nothing: shows tokens, and no more."""

    class Engine(StarterEngine):
        def identity(self) -> Identity:
            return replace(super().identity(), observability=Observability.TOKENS)

    def capabilities(self) -> frozenset[Capability]:
        return frozenset()


class Absent(Variant):
    def devices(self) -> Sequence[tuple[str, str]]:
        return [("moon", "no moon is up")]


class Seals(Variant):
    """Seals what it stores, and refuses what was changed."""

    class Engine(StarterEngine):
        def __init__(self, options: Options) -> None:
            super().__init__(options)
            self.broken: set[tuple[str, int, int]] = set()

        def corrupt_store(self, key: str, part: str, byte: int, mask: int) -> None:
            super().corrupt_store(key, part, byte, mask)
            self.broken ^= {(part, byte, mask)}

    class Session(StarterSession):
        def take(self, saved: State) -> Begun:
            if getattr(self.engine, "broken", None):
                raise RefusedError(RefusalCode.FORMAT, "the seal is broken")
            return super().take(saved)


class Portable(Variant):
    """Adds images and cancelling to the starter."""

    def capabilities(self) -> frozenset[Capability]:
        return super().capabilities() | {Capability.IMAGE, Capability.CANCEL}

    class Session(StarterSession):
        cancelled = False

        def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
            self.cancelled = False
            return super().begin(prompt, cache=cache)

        def image(self) -> bytes:
            state = self.state
            head = struct.pack("<4sQQ", b"TOY1", state.position, len(state.logits))
            return head + state.recurrent + state.logits + state.rows

        def image_size(self) -> int:
            return len(self.image())

        def export_image(self, capacity: int) -> bytes:
            if capacity < self.image_size():
                raise RefusedError(RefusalCode.SHORT_BUFFER, f"{self.image_size()} bytes are needed")
            return self.image()

        def import_image(self, data: Buffer) -> Begun:
            raw = bytes(data)
            magic, position, logits = struct.unpack("<4sQQ", raw[:20])
            if magic != b"TOY1":
                raise RefusedError(RefusalCode.FORMAT, "no image of this engine")
            recurrent, pending, rows = raw[20:36], raw[36 : 36 + logits], raw[36 + logits :]
            self.reset()
            self.state = State(
                position=position, recurrent=bytearray(recurrent), logits=bytearray(pending), rows=bytearray(rows)
            )
            return Begun(cached=position, restored_bytes=len(raw) - 20, schedule=())

        def cancel(self) -> None:
            self.commit()
            self.cancelled = True

        def decode(self, count: int, sampler: Mapping[str, int]) -> Sequence[int]:
            if self.cancelled:
                raise RefusedError(RefusalCode.STATE, "cancelled")
            return super().decode(count, sampler)


class ImageForgets(Portable):
    class Session(Portable.Session):
        def image(self) -> bytes:
            whole = super().image()
            return whole[:20] + bytes(16) + whole[36:]


class ExportTouches(Portable):
    class Session(Portable.Session):
        def export_image(self, capacity: int) -> bytes:
            if capacity >= self.image_size():
                self.state.recurrent[1] ^= 2
            return super().export_image(capacity)


class TakesAnyImage(Portable):
    class Session(Portable.Session):
        def import_image(self, data: Buffer) -> Begun:
            raw = bytes(data)
            return super().import_image(raw if raw[:4] == b"TOY1" else self.image())


class CancelsNothing(Portable):
    class Session(Portable.Session):
        def cancel(self) -> None:
            """Go on."""


class Busy(Variant):
    """Adds to the starter that it says no in the middle of a call, and that tokens are taken back."""

    def capabilities(self) -> frozenset[Capability]:
        return super().capabilities() | {Capability.MEANWHILE, Capability.ROLLBACK}

    class Session(StarterSession):
        busy = False
        recorded: list[State] | None = None

        def idle(self) -> None:
            if self.busy:
                raise RefusedError(RefusalCode.STATE, "a call is in progress")

        def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
            self.idle()
            self.recorded = None
            return super().begin(prompt, cache=cache)

        def extend(self, tokens: Sequence[int]) -> Begun:
            self.idle()
            return super().extend(tokens)

        def snapshot(self) -> str:
            self.idle()
            return super().snapshot()

        def restore(self, handle: str) -> Begun:
            self.idle()
            return super().restore(handle)

        def reset(self) -> None:
            self.idle()
            super().reset()

        def decode(self, count: int, sampler: Mapping[str, int]) -> Sequence[int]:
            self.idle()
            found: list[int] = []
            for _ in range(count):
                if self.recorded is not None:
                    self.recorded.append(self.state.copy())
                found += super().decode(1, sampler)
            return found

        def meanwhile(self, ask: str, *, upto: int, count: int, handle: str) -> str:
            asks: Mapping[str, Callable[[], object]] = {
                "snapshot": self.snapshot,
                "restore": lambda: self.restore(handle),
                "begin": lambda: self.begin([1, 2], cache=True),
                "extend": lambda: self.extend([1]),
                "decode": lambda: self.decode(1, {}),
                "reset": self.reset,
            }
            if ask not in asks:
                raise RefusedError(RefusalCode.UNSUPPORTED, ask)
            self.busy, code = True, ""
            try:
                asks[ask]()
            except RefusedError as refusal:
                code = refusal.code
            self.busy = False
            if upto:
                self.prefill(upto)
            else:
                self.decode(count, {})
            return code

        def record(self) -> None:
            self.recorded = []

        def rollback(self, count: int) -> None:
            if self.recorded is None or len(self.recorded) < count:
                raise RefusedError(RefusalCode.STATE, "not recorded")
            self.state = self.recorded[-count]
            self.state.logits.clear()
            del self.recorded[-count:]


class AnswersWhileBusy(Busy):
    class Session(Busy.Session):
        def idle(self) -> None:
            """Never mind."""


class BusyIsMissing(Busy):
    class Session(Busy.Session):
        def idle(self) -> None:
            if self.busy:
                raise RefusedError(RefusalCode.MISSING, "no such session now")


class LosesWhenAsked(Busy):
    class Session(Busy.Session):
        def meanwhile(self, ask: str, *, upto: int, count: int, handle: str) -> str:
            code = super().meanwhile(ask, upto=upto, count=count, handle=handle)
            self.state.recurrent[3] ^= ask == "snapshot"
            return code


class TakesTooFewBack(Busy):
    class Session(Busy.Session):
        def rollback(self, count: int) -> None:
            before = self.state.recurrent[:]
            super().rollback(count)
            self.state.recurrent[:] = before


class LateTakingBack(Busy):
    class Session(Busy.Session):
        early: bytearray | None = None

        def rollback(self, count: int) -> None:
            before = self.state.recurrent[:]
            super().rollback(count)
            self.early, self.state.recurrent = self.state.recurrent, before

        def synchronize(self) -> None:
            if self.early is not None:
                self.state.recurrent, self.early = self.early, None
            super().synchronize()

        def prefill(self, upto: int) -> int:
            self.early = None
            return super().prefill(upto)


class TakesBackTooMany(Busy):
    class Session(Busy.Session):
        def rollback(self, count: int) -> None:
            super().rollback(min(count, len(self.recorded or [])))


class ForgetsSoon(Busy):
    """Like a window: what is longer than it cannot be taken back any more."""

    class Session(Busy.Session):
        most = 64

        def rollback(self, count: int) -> None:
            if count <= self.position() > self.most:
                raise RefusedError(RefusalCode.UNSUPPORTED, "the window has rotated")
            super().rollback(count)


class NeverTakesBack(ForgetsSoon):
    class Session(ForgetsSoon.Session):
        most = 0


class RefusesAndTakesBack(ForgetsSoon):
    class Session(ForgetsSoon.Session):
        def rollback(self, count: int) -> None:
            try:
                super().rollback(count)
            except RefusedError:
                if count <= self.position():
                    Busy.Session.rollback(self, count)
                raise
