"""What every mutant is made of: the torch engine with one class substituted, and the check that must stop it.

Faults are planted by subclasses only. Nothing is patched, so one process can run one mutant after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from harness.adapters.torch_adapter import TorchAdapter, TorchAdapterEngine
from harness.adapters.torch_session import TorchAdapterSession
from harness.engines.interface import Options
from harness.torch_engine.archives import Archiver
from harness.torch_engine.buffers import SessionBuffers
from harness.torch_engine.cache import SessionCache
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.session import TorchSession
from harness.torch_engine.session_image import Imager
from harness.torch_engine.snapshot import Snapshotter
from harness.torch_engine.speculating import Speculator
from harness.torch_engine.store import DiskStore

FACT: Final = "mutant."
"""What the facts begin with in which a mutant says what it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """The check that must fail, and where it must find the fault."""

    scenario: str
    check: str
    cell: Mapping[str, str | int] = field(default_factory=dict)
    """Labels of axes besides the scale; together with the default suite's scale they name one cell."""
    part: str = ""
    """Name or family of the first part that differs; empty: the check is not about parts."""
    phase: str = ""
    """Phase of that difference; empty: any."""
    reason: str = ""
    """Reason code of the failure; needed where the fault is that the engine refuses."""

    def facts(self) -> dict[str, str]:
        """Return the fields as facts of an identity."""
        cell = ",".join(f"{name}={label}" for name, label in self.cell.items())
        plain = {"scenario": self.scenario, "check": self.check, "cell": cell, "part": self.part}
        return {f"{FACT}{key}": value for key, value in (plain | {"phase": self.phase, "reason": self.reason}).items()}


class Foreign:
    """What a mutant of another engine than the embedded one says of itself; it is an adapter of that engine besides."""

    mutant_id: ClassVar[str] = ""
    """``Kxx.slug``, also the name of the entry point."""
    stopped_by: ClassVar[Stop]

    @classmethod
    def fault(cls) -> str:
        """Return what is wrong, in one line."""
        return (cls.__doc__ or "").strip().splitlines()[0]

    @classmethod
    def told(cls) -> dict[str, str]:
        """Return the facts of an identity in which it says what it is."""
        return {f"{FACT}fault": cls.fault(), **cls.stopped_by.facts()}

    @classmethod
    def slug(cls) -> str:
        """Return the id as the name of an adapter."""
        return f"mutant_{cls.mutant_id.lower()}".replace("-", "_")


class _Telling(TorchEngine):
    """Says in its identity which mutant it is."""

    told: ClassVar[Mapping[str, str]] = {}

    def identity(self) -> dict[str, str | int]:
        """Facts of the engine, then those of the fault."""
        return {**super().identity(), **self.told}


class Mutant(TorchAdapter):
    """An engine with one planted fault. A subclass names it, and gives the class that carries the fault."""

    mutant_id: ClassVar[str] = ""
    """``Kxx.slug``, also the name of the entry point."""
    stopped_by: ClassVar[Stop]
    engine: ClassVar[type[TorchEngine]] = TorchEngine
    store: ClassVar[type[SessionCache]] = SessionCache
    session: ClassVar[type[TorchSession]] = TorchSession
    buffers: ClassVar[type[SessionBuffers]] = SessionBuffers
    snapshotter: ClassVar[type[Snapshotter]] = Snapshotter
    speculator: ClassVar[type[Speculator]] = Speculator
    imager: ClassVar[type[Imager]] = Imager
    disk_class: type[DiskStore] = DiskStore
    archiver_class: type[Archiver] = Archiver
    adapter_session: ClassVar[type[TorchAdapterSession]] = TorchAdapterSession
    adapter_engine: ClassVar[type[TorchAdapterEngine]] = TorchAdapterEngine
    """Made of ``adapter_session``."""
    path_sets: Mapping[str, Sequence[str]] = {
        **TorchAdapter.path_sets,
        "mutants": ("harness.adapters.mutants:*.py",),
    }

    def __init_subclass__(cls) -> None:
        """Make the engine class of the mutant."""
        super().__init_subclass__()
        cls.name = f"mutant_{cls.mutant_id.lower()}".replace("-", "_")
        cls.engine_class = _planted(cls)
        cls.adapter_engine = _adapted(cls.adapter_session)

    def open(self, options: Options) -> TorchAdapterEngine:
        """Open the planted engine, with sessions of the mutant's kind behind the seam."""
        made = super().open(options)
        made.__class__ = self.adapter_engine
        return made

    @classmethod
    def fault(cls) -> str:
        """Return what is wrong, in one line."""
        return (cls.__doc__ or "").strip().splitlines()[0]


def _adapted(session: type[TorchAdapterSession]) -> type[TorchAdapterEngine]:
    class Adapted(TorchAdapterEngine):
        """Opens sessions of another kind."""

        def open_session(self, options: Options) -> TorchAdapterSession:
            """Open a session, as the kind that it is to be."""
            made = super().open_session(options)
            made.__class__ = session
            return made

    return Adapted


def _planted(mutant: type[Mutant]) -> type[TorchEngine]:
    class Planted(_Telling, mutant.engine):  # type: ignore[name-defined,misc] # the base is chosen per mutant
        """The engine of one mutant."""

        told: ClassVar[Mapping[str, str]] = {f"{FACT}fault": mutant.fault(), **mutant.stopped_by.facts()}
        cache_class = mutant.store
        session_class = mutant.session
        buffers_class = mutant.buffers
        snapshotter_class = mutant.snapshotter
        speculator_class = mutant.speculator
        imager_class = mutant.imager

    return Planted
