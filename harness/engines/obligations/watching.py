"""What an engine does must not depend on being looked at, nor on being waited for, between two calls."""

from __future__ import annotations

from collections.abc import Callable

from harness.engines.client import RemoteSession
from harness.engines.conformance import DECODE, LONG, Kit, Life, first_difference
from harness.engines.obligations.common import require
from harness.model.values import Capability

_HINT = "a call must finish, or wait for, what the one before it began"


def unwatched(kit: Kit) -> None:
    """A prompt, and whatever is brought back, goes on alike whether anybody looks and waits in between or not."""
    with kit.session() as session:
        seen = kit.live(session)
    with kit.session() as session:
        _ends_alike(seen, _blindly(session, cache=False), session, "a prompt")
    if kit.can(Capability.PREFIX_CACHE):
        with kit.session() as session:
            kit.live(session, cache=True)
            kit.dirty(session)
            _ends_alike(seen, _blindly(session, cache=True), session, "a prompt on a restored prefix")
    if kit.can(Capability.SNAPSHOT):
        _goes_on_alike(kit, _by_handle, "a session after restore()")
    if kit.can(Capability.IMAGE):
        _goes_on_alike(kit, _by_image, "a session after import_image()")


def _blindly(session: RemoteSession, *, cache: bool) -> list[int]:
    """Run a prompt through without a look, and without a pause behind its begin; return the decoded tokens."""
    begun = session.begin(LONG, cache=cache, unseen=True).value
    session.prefill(begun.schedule[-1])
    if cache:
        session.commit()
    return list(session.decode(DECODE, {}).value.tokens)


def _ends_alike(seen: Life, tokens: list[int], session: RemoteSession, what: str) -> None:
    found = first_difference(seen.looks["decoded"], session.look(spool=False))
    found = found or ("tokens" if tokens != list(seen.tokens) else "")
    require(not found, f"{what} that nobody looks at gives another {found}; {_HINT}")


def _by_handle(session: RemoteSession) -> Callable[[], object]:
    handle = session.snapshot().value
    return lambda: session.restore(handle, unseen=True)


def _by_image(session: RemoteSession) -> Callable[[], object]:
    image = session.export_image().value
    return lambda: session.import_image(image, unseen=True)


def _goes_on_alike(kit: Kit, saved: Callable[[RemoteSession], Callable[[], object]], what: str) -> None:
    with kit.session() as session:
        kit.live(session)
        bring_back = saved(session)
        tokens = list(session.decode(4, {}).value.tokens)
        there = session.look(spool=False)
        kit.dirty(session)
        bring_back()
        again = list(session.decode(4, {}).value.tokens)
        found = first_difference(there, session.look(spool=False)) or ("tokens" if tokens != again else "")
        require(not found, f"{what} that nobody looks at gives another {found}; {_HINT}")
