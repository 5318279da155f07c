"""What an engine does must not depend on being looked at, nor on being waited for, between two calls."""

from __future__ import annotations

from collections.abc import Callable

from harness.engines.client import Look, RemoteSession
from harness.engines.conformance import DECODE, LONG, MORE, Kit, Life, first_difference
from harness.engines.obligations.common import require
from harness.errors import RefusedError
from harness.model.values import Capability, RefusalCode

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
    if kit.can(Capability.ROLLBACK, Capability.EXTEND):
        _rolls_back_alike(kit)


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


def _rolls_back_alike(kit: Kit) -> None:
    """Another turn goes on alike after a rollback that was looked at and after one that was not.

    A model whose state cannot be taken back refuses with ``unsupported``, which is another obligation's to judge.
    """
    with kit.session() as session:
        seen = _another_turn(session, unseen=False)
    with kit.session() as session:
        blind = _another_turn(session, unseen=True)
    if seen is None or blind is None:
        return
    found = first_difference(seen, blind)
    require(not found, f"a turn after rollback() that nobody looks at gives another {found}; {_HINT}")


def _another_turn(session: RemoteSession, *, unseen: bool) -> Look | None:
    """Take three tokens back and prefill another turn; None: they cannot be taken back."""
    for end in session.begin(LONG, cache=False).value.schedule:
        session.prefill(end)
    try:
        session.record()
        session.decode(3, {})
        session.rollback(3, unseen=unseen)
    except RefusedError as error:
        if error.code != RefusalCode.UNSUPPORTED:
            raise
        return None
    if not unseen:
        session.look(spool=False)
    for end in session.extend(MORE, unseen=unseen).value.schedule:
        session.prefill(end)
    return session.look(spool=False)
