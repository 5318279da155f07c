"""K07: what a session goes on from between two chunks of its prompt lies where others work too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.handles import SessionHandle
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.rolling import Mark, Trail
from harness.torch_engine.sampling import Sampler
from harness.torch_engine.session import TorchSession

if TYPE_CHECKING:
    from typing_extensions import Buffer


class _Known(TorchEngine):
    """Knows its sessions."""

    opened: Sequence[_Overwriting] = ()


class _Overwriting(TorchSession):
    """Writes its state over that of sessions in the middle of their prompts; a subclass says when."""

    when: ClassVar[str] = ""

    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        if isinstance(engine, _Known):
            engine.opened = (*engine.opened, self)

    def did(self, what: str) -> None:
        """Something that others must not notice has been done here."""
        if what != self.when or not isinstance(self.engine, _Known):
            return
        mine = [part.tensor for part in self.layout("prefix").fixed]
        for other in self.engine.opened:
            if other is not self and 0 < other.position < len(other.prompt):
                for part, tensor in zip(other.layout("prefix").fixed, mine, strict=True):
                    part.tensor.copy_(tensor)

    def decode(self, count: int, sampler: Sampler | None = None) -> list[int]:
        tokens = super().decode(count, sampler)
        self.did("decode")
        return tokens

    def snapshot(self) -> SessionHandle:
        handle = super().snapshot()
        self.did("snapshot")
        return handle

    def restore(self, handle: SessionHandle) -> None:
        super().restore(handle)
        self.did("restore")

    def adopt(self, meta: bytes, parts: Mapping[str, Buffer], prompt: Sequence[int] = ()) -> None:
        super().adopt(meta, parts, prompt)
        self.did("import")

    def new_trail(self) -> Trail:
        return _Telling(self)

    def close(self) -> None:
        if isinstance(self.engine, _Known) and self in self.engine.opened:
            self.did("close")
            self.engine.opened = tuple(one for one in self.engine.opened if one is not self)
        super().close()


class _Telling(Trail):
    def put_back(self, target: int, mark: Mark | None) -> None:
        super().put_back(target, mark)
        if isinstance(self.session, _Overwriting):
            self.session.did("rollback")


class _Decoding(_Overwriting):
    when = "decode"


class _Saving(_Overwriting):
    when = "snapshot"


class _Restoring(_Overwriting):
    when = "restore"


class _Closing(_Overwriting):
    when = "close"


class _Importing(_Overwriting):
    when = "import"


class _TakingBack(_Overwriting):
    when = "rollback"


def _stop(meanwhile: str) -> Stop:
    cell = {"arch": "hybrid", "meanwhile": meanwhile}
    return Stop(scenario="A66", cell=cell, check="stands", part="recurrent", phase="seen")


def _stop_too(meanwhile: str) -> Stop:
    return Stop(scenario="A70", cell={"meanwhile": meanwhile}, check="stands", part="recurrent", phase="seen")


class ScratchOfDecode(Mutant):
    """Between two chunks a prompt's recurrent state lies where the next session to decode has its own."""

    mutant_id = "K07.scratch-of-decode"
    stopped_by = _stop("decode")
    engine = _Known
    session = _Decoding


class ScratchOfSnapshot(Mutant):
    """A snapshot is staged where a prompt of another session has its recurrent state between two chunks."""

    mutant_id = "K07.scratch-of-snapshot"
    stopped_by = _stop("snapshot")
    engine = _Known
    session = _Saving


class ScratchOfRestore(Mutant):
    """A restore is staged where a prompt of another session has its recurrent state between two chunks."""

    mutant_id = "K07.scratch-of-restore"
    stopped_by = _stop("restore")
    engine = _Known
    session = _Restoring


class ScratchOfClose(Mutant):
    """The memory of a session that is closed goes to whoever is in the middle of a prompt, with what lies in it."""

    mutant_id = "K07.scratch-of-close"
    stopped_by = _stop("close")
    engine = _Known
    session = _Closing


class ScratchOfImport(Mutant):
    """An image is taken in where a prompt of another session has its recurrent state between two chunks."""

    mutant_id = "K07.scratch-of-import"
    stopped_by = _stop_too("import")
    engine = _Known
    session = _Importing


class ScratchOfRollback(Mutant):
    """A rollback is made where a prompt of another session has its recurrent state between two chunks."""

    mutant_id = "K07.scratch-of-rollback"
    stopped_by = _stop_too("rollback")
    engine = _Known
    session = _TakingBack
