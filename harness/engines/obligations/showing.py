"""What an engine shows of its state."""

from __future__ import annotations

from harness.deriving.checks.inventory import table_fault
from harness.engines.client import Look, RemoteSession
from harness.engines.conformance import (
    LONG,
    Kit,
    UnmetError,
    row_of,
)
from harness.engines.obligations.common import COME_AND_GO, require, stable
from harness.model.values import Family


def metadata(kit: Kit) -> None:
    """Part 0 is the metadata and follows the position; names, families and sizes are as they must be."""
    with kit.session() as session:
        opened = session.look(spool=False)
        life = kit.live(session)
    for name, look in (("opened", opened), *life.looks.items()):
        fault, _, part = table_fault(look.rows).partition(":")
        require(not fault, f"{name}: {fault} {part}; list 'meta' first, every name once, bytes = shape x element")
    seen = [row.sha256 for look in life.looks.values() if (row := row_of(look, Family.META)) is not None]
    require(len(set(seen)) > 1, "meta never changes; put position, per-layer lengths and validity flags into it")


def inventory(kit: Kit) -> None:
    """The same parts are listed from the opening of a session to its end."""
    with kit.session() as session:
        looks = [session.look(spool=False)]
        looks += kit.live(session).looks.values()
        session.reset()
        looks.append(session.look(spool=False))
    stable(looks)


def rows_stay(kit: Kit) -> None:
    """Bytes of a row stream below a boundary are the same at the boundary and after all further work."""
    with kit.session() as session:
        begun = session.begin(LONG, cache=False).value
        session.prefill(begun.schedule[0])
        look = session.look(spool=False)
        early = {row.name: bytes(session.ship(row.name)) for row in look.rows if row.stream == "rows"}
        for end in begun.schedule[1:]:
            session.prefill(end)
        session.decode(3, {})
        late = session.look(spool=False)
        for name, before in early.items():
            _rows_kept(session, late, name, before)


def _rows_kept(session: RemoteSession, late: Look, name: str, before: bytes) -> None:
    row = row_of(late, name)
    require(row is not None and row.stream == "rows", f"{name} was a row stream and is none any more")
    after = session.ship(name)
    require(len(after) >= len(before), f"{name} lost rows; a row stream only grows. Declare it fixed")
    if after[: len(before)] != before:
        byte = next(index for index, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1])
        raise UnmetError(f"{name}: byte {byte} below a boundary was rewritten later; declare it fixed, not rows")


def fixed_stay(kit: Kit) -> None:
    """A fixed part has one shape and size for life."""
    with kit.session() as session:
        looks = {"opened": session.look(spool=False), **kit.live(session).looks}
    sizes: dict[str, tuple[object, str]] = {}
    for when, look in looks.items():
        for row in look.rows:
            if row.stream != "fixed" or (row.family in COME_AND_GO and not row.bytes):
                continue
            size, first = sizes.setdefault(row.name, ((tuple(row.shape), row.bytes), when))
            require(
                size == (tuple(row.shape), row.bytes),
                f"{row.name} has {row.bytes} bytes {when} and another size {first}; declare it rows, or keep its size",
            )
