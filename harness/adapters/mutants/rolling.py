"""Faults in taking tokens back, and in what is read late: of several kinds, for the scenarios R01 to R07."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.errors import IdentityError
from harness.torch_engine.handles import IDENTITY_FREE, SessionHandle
from harness.torch_engine.image import Expectation
from harness.torch_engine.image_wire import ImageDescription
from harness.torch_engine.rolling import Mark, Trail
from harness.torch_engine.session import TorchSession
from harness.torch_engine.session_image import Imager

if TYPE_CHECKING:
    from typing_extensions import Buffer


def _without(trail: Trail, mark: Mark, families: Sequence[str]) -> Mark:
    """Return a mark whose parts of some families are those of the live state."""
    live = trail.session.layout("prefix").fixed
    pairs = zip(live, mark.fixed, strict=True)
    return replace(mark, fixed=tuple(part.tensor if part.family in families else kept for part, kept in pairs))


class _KeepsRecurrent(Trail):
    def put_back(self, target: int, mark: Mark | None) -> None:
        super().put_back(target, None if mark is None else _without(self, mark, ("recurrent",)))


class _KeepsRecurrentSession(TorchSession):
    def new_trail(self) -> Trail:
        return _KeepsRecurrent(self)


class RollbackKeepsRecurrent(Mutant):
    """A rollback takes rows and the convolution back, and leaves the recurrent state in the future."""

    mutant_id = "K01.rollback-keeps-recurrent"
    stopped_by = Stop(scenario="R01", cell={"arch": "hybrid"}, check="steps-back", part="recurrent", phase="restored")
    session = _KeepsRecurrentSession


class _KeepsWindow(Trail):
    def put_back(self, target: int, mark: Mark | None) -> None:
        super().put_back(target, None if mark is None else _without(self, mark, ("window",)))


class _KeepsWindowSession(TorchSession):
    def new_trail(self) -> Trail:
        return _KeepsWindow(self)


class RollbackKeepsWindow(Mutant):
    """A rollback past a window that has rotated moves its end only; the rows that fell out are gone."""

    mutant_id = "K09.rollback-keeps-window"
    stopped_by = Stop(scenario="R01", cell={"arch": "sliding"}, check="batch-back", part="window", phase="restored")
    session = _KeepsWindowSession


class _Once(Trail):
    def put_back(self, target: int, mark: Mark | None) -> None:
        super().put_back(target, mark)
        if mark is not None:
            live = tuple(part.tensor for part in self.session.layout("prefix").fixed)
            self.marks[target] = replace(mark, fixed=live)


class _OnceSession(TorchSession):
    def new_trail(self) -> Trail:
        return _Once(self)


class RollbackOnce(Mutant):
    """A rollback goes on in the buffers that its position was kept in; a second one there takes back no state."""

    mutant_id = "K01.rollback-once"
    stopped_by = Stop(scenario="R01", cell={"arch": "hybrid"}, check="twice-back", part="recurrent", phase="restored")
    session = _OnceSession


class _SharedMarks(Trail):
    def note(self) -> None:
        super().note()
        if self.recording:
            s = self.session
            live: tuple[Tensor, ...] = tuple(part.tensor for part in s.layout("prefix").fixed)
            self.marks[s.position] = replace(self.marks[s.position], fixed=live)


class _SharedMarksSession(TorchSession):
    def new_trail(self) -> Trail:
        return _SharedMarks(self)


class RollbackMarksShared(Mutant):
    """What a rollback goes by is a view of the live state, so that it goes nowhere."""

    mutant_id = "K07.rollback-marks-shared"
    stopped_by = Stop(scenario="R02", cell={"arch": "hybrid"}, check="goes-on", part="recurrent", phase="prefilled")
    session = _SharedMarksSession


class _RolledBackHistory(Trail):
    def put_back(self, target: int, mark: Mark | None) -> None:
        s = self.session
        gone = s.history()[target:]
        super().put_back(target, mark)
        s.gone = gone  # type: ignore[attr-defined] # kept for the image


class _RolledBackHistorySession(TorchSession):
    def new_trail(self) -> Trail:
        return _RolledBackHistory(self)


class _KeepsRolledBack(Imager):
    def size(self, session: TorchSession) -> int:
        return super().size(session) + 4 * len(getattr(session, "gone", ()))

    def export(self, session: TorchSession, capacity: int) -> bytearray:
        gone = np.asarray(getattr(session, "gone", ()), dtype="<i4").tobytes()
        return super().export(session, capacity - len(gone)) + gone


class ImageKeepsRolledBack(Mutant):
    """An image carries the tokens that were taken back behind those that stand."""

    mutant_id = "K09.image-keeps-rolled-back"
    stopped_by = Stop(scenario="R03", cell={"arch": "attention"}, check="image", reason="other_image")
    session = _RolledBackHistorySession
    imager = _KeepsRolledBack


class _FileShared(Imager):
    last: TorchSession | None = None

    def bring(self, session: TorchSession, data: Buffer) -> int:
        copied = super().bring(session, data)
        if self.last is not None and self.last is not session:
            super().bring(self.last, data)
        self.last = session
        return copied


class ImageFileShared(Mutant):
    """A loaded image is read when it is first used; until then the next load replaces what it will read."""

    mutant_id = "K07.image-file-shared"
    stopped_by = Stop(scenario="R04", cell={"arch": "hybrid"}, check="as-exported", part="recurrent", phase="seen")
    imager = _FileShared


class _OtherCapacityRefused(TorchSession):
    def restore(self, handle: SessionHandle) -> None:
        saved = handle.open()
        if saved.identity["max_seq_len"] != self.identity["max_seq_len"]:
            raise IdentityError("identity.max_seq_len: expected the same")
        super().restore(handle)


class OtherCapacityRefused(Mutant):
    """A snapshot is refused by a session with another capacity, though it fits."""

    mutant_id = "K06.other-capacity-refused"
    stopped_by = Stop(scenario="R05", cell={"arch": "hybrid", "room": "more"}, check="came-in", reason="refused")
    session = _OtherCapacityRefused


class _OwnCapacityOnly(Imager):
    def expectation(self, session: TorchSession, about: ImageDescription) -> Expectation:
        return replace(super().expectation(session, about), identity_free=IDENTITY_FREE - {"max_seq_len"})


class ImageOfOwnCapacity(Mutant):
    """An image is refused by an engine with a longer context, though it fits."""

    mutant_id = "K06.image-of-own-capacity"
    stopped_by = Stop(scenario="R07", cell={"into": "longer"}, check="came-in", reason="refused")
    imager = _OwnCapacityOnly


class _RemembersFirst(TorchEngine):
    first: TorchSession | None = None

    def open_session(self, **overrides: object) -> TorchSession:
        made = super().open_session(**overrides)
        self.first = self.first or made
        return made


class _IntoFirst(Imager):
    def bring(self, session: TorchSession, data: Buffer) -> int:
        assert isinstance(session.engine, _RemembersFirst)  # noqa: S101 - planted together
        return super().bring(session.engine.first or session, data)


class ImageInFirstSlot(Mutant):
    """An image goes into the first slot, which it came from, whoever is there now."""

    mutant_id = "K03.image-in-first-slot"
    stopped_by = Stop(scenario="R07", cell={"into": "slot"}, check="other-slot-untouched", part="meta", phase="seen")
    engine = _RemembersFirst
    imager = _IntoFirst


_DEEP = 128


class _Hole(Trail):
    def put_back(self, target: int, mark: Mark | None) -> None:
        depth = self.session.position - target
        super().put_back(target, mark)
        for part in self.session.layout("prefix").fixed:
            if part.family == "window" and depth > _DEEP:
                part.tensor[: len(part.tensor) // 2] = 0


class _HoleSession(TorchSession):
    def new_trail(self) -> Trail:
        return _Hole(self)


class RollbackWindowHole(Mutant):
    """A rollback deeper than the window reports success with half of the window gone."""

    mutant_id = "K09.rollback-window-hole"
    stopped_by = Stop(scenario="R61", check="back", part="window", phase="restored")
    session = _HoleSession


class _KeepsGenerator(Trail):
    def put_back(self, target: int, mark: Mark | None) -> None:
        live = self.session.buffers.rng.clone()
        super().put_back(target, None if mark is None else replace(mark, rng=live))


class _KeepsGeneratorSession(TorchSession):
    def new_trail(self) -> Trail:
        return _KeepsGenerator(self)


class RollbackKeepsGenerator(Mutant):
    """A rollback takes all state back but the generator, which draws on from where the words taken back had left it."""

    mutant_id = "K05.rollback-keeps-generator"
    stopped_by = Stop(scenario="R14", cell={"arch": "attention"}, check="back", part="meta", phase="restored")
    session = _KeepsGeneratorSession


class _Remembers(Trail):
    """Keeps the recurrent states that it takes back, until the next forward."""

    taken: Sequence[Tensor] = ()

    def recurrent(self) -> Sequence[Tensor]:
        """The live ones."""
        return [part.tensor for part in self.session.layout("prefix").fixed if part.family == "recurrent"]

    def put_back(self, target: int, mark: Mark | None) -> None:
        taken = [tensor.clone() for tensor in self.recurrent()]
        super().put_back(target, mark)
        self.taken = taken

    def note(self) -> None:
        self.taken = ()
        super().note()

    def drop(self) -> None:
        self.taken = ()
        super().drop()


class _SavesTaken(TorchSession):
    def new_trail(self) -> Trail:
        return _Remembers(self)

    def snapshot(self) -> SessionHandle:
        if not isinstance(self.trail, _Remembers) or not self.trail.taken:
            return super().snapshot()
        live = self.trail.recurrent()
        own = [tensor.clone() for tensor in live]
        for tensor, taken in zip(live, self.trail.taken, strict=True):
            tensor.copy_(taken)
        handle = super().snapshot()
        for tensor, mine in zip(live, own, strict=True):
            tensor.copy_(mine)
        return handle


class SavedAsBeforeRollback(Mutant):
    """A session that is saved right after a rollback is saved with the recurrent state that was taken back."""

    mutant_id = "K01.saved-as-before-rollback"
    stopped_by = Stop(scenario="R15", cell={"arch": "hybrid"}, check="saved-in", part="recurrent", phase="restored")
    session = _SavesTaken


class _KeepsMarks(Trail):
    def drop(self) -> None:
        self.recording = False

    def note(self) -> None:
        if self.session.position not in self.marks:
            super().note()


class _KeepsMarksSession(TorchSession):
    def new_trail(self) -> Trail:
        return _KeepsMarks(self)


class RollbackToAnother(Mutant):
    """A restored session is taken back to what the conversation before it was at that position, if it was there."""

    mutant_id = "K07.rollback-to-another"
    stopped_by = Stop(scenario="R15", cell={"arch": "hybrid"}, check="there-back", part="recurrent", phase="restored")
    session = _KeepsMarksSession
