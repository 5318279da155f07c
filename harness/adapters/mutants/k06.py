"""K06: a compatibility guard is missing, or good images are refused."""

from __future__ import annotations

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.errors import LayoutError
from harness.torch_engine.handles import SessionHandle
from harness.torch_engine.options import SessionOptions
from harness.torch_engine.session import TorchSession


class _OwnHandlesOnly(TorchSession):
    def __init__(self, engine: TorchEngine, options: SessionOptions) -> None:
        super().__init__(engine, options)
        self._own: list[SessionHandle] = []

    def snapshot(self) -> SessionHandle:
        handle = super().snapshot()
        self._own.append(handle)
        return handle

    def restore(self, handle: SessionHandle) -> None:
        if handle not in self._own:
            raise LayoutError("handle: expected one of this session, found another session's")
        super().restore(handle)


class ForkRefused(Mutant):
    """A saved session is refused everywhere but in the session that it was taken of."""

    mutant_id = "K06.fork-refused"
    stopped_by = Stop(scenario="A04", check="twig-starts-alike", reason="refused")
    session = _OwnHandlesOnly
