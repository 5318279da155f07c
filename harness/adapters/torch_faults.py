"""Circumstances that the torch adapter brings about on request: memory that cannot be asked, copies that break off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from harness.errors import RefusedError
from harness.model.values import RefusalCode
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.session import TorchSession
from harness.torch_engine.snapshot import Snapshot
from harness.torch_engine.state import StateLayout, load_bytes

if TYPE_CHECKING:
    from typing_extensions import Buffer


@runtime_checkable
class Breakable(Protocol):
    """Images that come into a session by other ways than its parts."""

    def break_off(self) -> None:
        """Let every further import break off after its first part, once everything has been checked."""


def memory_query(kind: str) -> Callable[[], int] | None:
    """Return the query behind the memory guard: none, one that fails, or one that finds nothing left.

    Raises:
        RefusedError: There is no such kind.
    """
    known: Mapping[str, Callable[[], int] | None] = {"": None, "fail": _failing_query, "low": lambda: 0}
    if kind not in known:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"memory_query: found {kind!r}; known are fail and low")
    return known[kind]


def failing_transfers(engine: TorchEngine, kind: str) -> None:
    """Make every copy into a session break off after its first part, once everything has been checked.

    Raises:
        RefusedError: There is no such kind.
    """
    if kind not in ("", "fail"):
        raise RefusedError(RefusalCode.UNSUPPORTED, f"transfer: found {kind!r}; known is fail")
    if not kind:
        return
    snapshotter, opened = engine.snapshotter, engine.open_session

    def restore(chain: Sequence[Snapshot], layout: StateLayout) -> int:
        snapshotter.validate(chain, layout)
        snapshotter.copy(snapshotter.fixed_pairs(chain[-1], layout)[:1])
        raise OSError("the copy was asked to break off")

    def open_session(**overrides: object) -> TorchSession:
        session = opened(**overrides)
        session.load_parts = _broken_load  # type: ignore[method-assign]
        return session

    if isinstance(engine.imager, Breakable):
        engine.imager.break_off()
    snapshotter.restore = restore  # type: ignore[method-assign]
    engine.open_session = open_session  # type: ignore[method-assign]


def _broken_load(layout: StateLayout, parts: Mapping[str, Buffer]) -> None:
    first = next(part for part in layout.parts() if part.nbytes)
    alone = StateLayout(fixed=tuple(part for part in layout.fixed if part.name == first.name), rows=())
    load_bytes(alone, {part.name: parts[part.name] for part in alone.parts()})
    raise OSError("the copy was asked to break off")


def _failing_query() -> int:
    raise OSError("the memory query was asked to fail")
