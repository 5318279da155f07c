"""What a reset and a close leave behind."""

from __future__ import annotations

from harness.engines.client import RemoteEngine
from harness.engines.conformance import (
    LONG,
    OTHER,
    Kit,
    first_difference,
)
from harness.engines.obligations.common import require, run, same_life
from harness.model.values import Capability


def reset_and_close(kit: Kit) -> None:
    """A reset gives the opened state back and a cold run after it; closing leaves nothing behind."""
    with kit.engine() as engine:
        session = engine.open_session({})
        opened = session.look(spool=False)
        cold = kit.live(session)
        session.reset()
        found = first_difference(opened, session.look(spool=False))
        require(not found, f"after reset() {found} is not as it was when the session was opened")
        same_life(cold, kit.live(session), "after reset() {} differs {} from the first run")
        session.close()
        _nothing_pending(kit, engine)
    for _ in range(3):
        with kit.session() as session:
            kit.live(session, OTHER)


def _nothing_pending(kit: Kit, engine: RemoteEngine) -> None:
    if not kit.can(Capability.STORE, Capability.PREFIX_CACHE):
        return
    session = engine.open_session({})
    run(session, LONG, commit=False)
    session.close()
    held = engine.store()[1].get("pending_bytes", 0)
    require(not held, f"close() left {held} bytes of captures pending; drop them with the session")
