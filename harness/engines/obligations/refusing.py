"""How an engine says no."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from harness.engines.client import RemoteEngine, RemoteSession
from harness.engines.conformance import (
    LONG,
    OTHER,
    Kit,
    first_difference,
)
from harness.engines.obligations.common import refused, require
from harness.model.values import Capability, RefusalCode


def refusals(kit: Kit) -> None:
    """What cannot be done is refused by name, before anything is written."""
    with kit.engine() as engine:
        session, bystander = engine.open_session({}), engine.open_session({})
        kit.live(session)
        kit.live(bystander, OTHER)
        state = [session.look(spool=False), bystander.look(spool=False)]
        for what, wanted, call in _forbidden(kit, engine, session):
            refused(what, wanted, call)
            for before, one in zip(state, (session, bystander), strict=True):
                found = first_difference(before, one.look(spool=False))
                require(not found, f"{what} was refused, and yet {found} changed; check everything before writing")
        _decode_without_logits(bystander)


def _forbidden(
    kit: Kit, engine: RemoteEngine, session: RemoteSession
) -> Iterator[tuple[str, RefusalCode, Callable[[], object]]]:
    yield (
        "an unknown engine option",
        RefusalCode.UNSUPPORTED,
        lambda: kit.host.open_engine({"no_such_option": 1}),
    )
    if kit.can(Capability.SESSION_OPTIONS):
        yield (
            "an unknown session option",
            RefusalCode.UNSUPPORTED,
            lambda: engine.open_session({"no_such_option": 1}),
        )
    if kit.can(Capability.SNAPSHOT):
        yield "an unknown handle", RefusalCode.MISSING, lambda: session.restore("no-such-handle")
    if kit.can(Capability.IMAGE):
        yield "an image with no room", RefusalCode.SHORT_BUFFER, lambda: session.export_image(short_by=1)
        yield "an image that is none", RefusalCode.FORMAT, lambda: session.import_image(bytes(4096))
    if kit.can(Capability.CORRUPT):
        yield "an unknown part", RefusalCode.MISSING, lambda: session.corrupt("no.such.part", 0, 1)


def _decode_without_logits(session: RemoteSession) -> None:
    session.begin(LONG, cache=False)
    before = session.look(spool=False)
    refused("decoding without pending logits", RefusalCode.STATE, lambda: session.decode(1, {}))
    found = first_difference(before, session.look(spool=False))
    require(not found, f"decoding without pending logits was refused, and yet {found} changed")
