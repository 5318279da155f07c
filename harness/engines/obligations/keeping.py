"""What snapshots, captures and images leave alone, and what they bring back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from harness.engines.client import Look, RemoteSession
from harness.engines.conformance import (
    LONG,
    Kit,
    Life,
    first_difference,
)
from harness.engines.obligations.common import require, same_inventory, same_life, stable
from harness.errors import RefusedError
from harness.model.values import Capability, RefusalCode


def undisturbed(kit: Kit) -> None:
    """A snapshot, and a prompt whose boundaries are captured, leave the session as it would be without."""
    with kit.session() as session:
        plain = kit.live(session)
    if kit.can(Capability.PREFIX_CACHE):
        with kit.session() as session:
            captured = kit.live(session, cache=True)
        same_life(plain, captured, "with captures {} differs {}; a capture must only read the session")
    if kit.can(Capability.SNAPSHOT):
        _snapshot_reads_only(kit, plain)
    if kit.can(Capability.IMAGE):
        _export_reads_only(kit)


def _snapshot_reads_only(kit: Kit, plain: Life) -> None:
    with kit.session() as session:
        begun = session.begin(LONG, cache=False).value
        for end in begun.schedule:
            session.prefill(end)
            before = session.look(spool=False)
            _snapshot_if_allowed(session, inside=end != begun.schedule[-1])
            found = first_difference(before, session.look(spool=False))
            require(not found, f"snapshot() changed {found} at {end}; it must only read the session")
        tokens = session.decode(len(plain.tokens), {}).value.tokens
    require(list(tokens) == list(plain.tokens), "tokens after a snapshot differ; it must only read the session")


def _export_reads_only(kit: Kit) -> None:
    with kit.session() as session:
        kit.live(session)
        before = session.look(spool=False)
        session.export_image()
        found = first_difference(before, session.look(spool=False))
        require(not found, f"export_image() changed {found}; it must only read the session")


def _snapshot_if_allowed(session: RemoteSession, *, inside: bool) -> None:
    """Take a snapshot; inside a prompt an engine may say that it cannot."""
    try:
        session.snapshot()
    except RefusedError as refusal:
        if not inside or refusal.code != RefusalCode.STATE:
            raise


def complete(kit: Kit) -> None:
    """What is brought back into a dirty session equals the cold state, at once and in all that follows."""
    with kit.session() as session:
        cold = kit.live(session)
    if kit.can(Capability.PREFIX_CACHE):
        _prefix_comes_back(kit, cold)
    if kit.can(Capability.SNAPSHOT):
        _handle_comes_back(kit, cold)
    if kit.can(Capability.IMAGE):
        _image_comes_back(kit)


def _prefix_comes_back(kit: Kit, cold: Life) -> None:
    with kit.engine() as engine:
        first, second = engine.open_session({}), engine.open_session({})
        kit.live(first, cache=True)
        for session, name in ((first, "the session that captured it"), (second, "another session")):
            kit.dirty(session)
            warm = kit.live(session, cache=True)
            boundary = warm.begun.cached
            require(boundary, f"begin(cache=True) in {name} reused nothing of a prompt that was committed")
            look = cold.looks.get(f"at {boundary}")
            require(
                look is not None or not kit.can(Capability.BOUNDARIES),
                f"reused {boundary} tokens, which is no boundary of the schedule",
            )
            if look is not None:
                found = first_difference(look, warm.looks["begun"])
                require(not found, f"restored into {name}: {found} is not as in a cold run at {boundary}; snapshot it")
            same_life(
                cold,
                warm,
                f"restored into {name} all parts are right, and yet {{}} differs {{}}; "
                "some state is neither in parts() nor in the snapshot",
                [*warm.looks][1:],
            )
            same_inventory(cold, warm)


def _handle_comes_back(kit: Kit, cold: Life) -> None:
    with kit.engine() as engine:
        session, other = engine.open_session({}), engine.open_session({})
        kit.live(session)
        handle = session.snapshot().value
        saved = _saved(session)
        for one, name in ((session, "the same session"), (other, "another session")):
            kit.dirty(one)
            one.restore(handle)
            _goes_on_as(saved, one, f"restore() into {name}", "as when the snapshot was taken; save it too", "snapshot")
    stable([cold.looks["decoded"], saved.at])


def _image_comes_back(kit: Kit) -> None:
    with kit.session() as session:
        kit.live(session)
        image = session.export_image().value
        saved = _saved(session)
    with kit.session() as other:
        kit.dirty(other)
        other.import_image(image)
        _goes_on_as(saved, other, "import_image() into another engine", "as it was exported; write it too", "image")


class _Saved(NamedTuple):
    """A session when it was saved, and four tokens later."""

    at: Look
    tokens: Sequence[int]
    end: Look


def _saved(session: RemoteSession) -> _Saved:
    return _Saved(session.look(spool=False), session.decode(4, {}).value.tokens, session.look(spool=False))


def _goes_on_as(saved: _Saved, session: RemoteSession, what: str, wanted: str, holder: str) -> None:
    """Require a session to be what was saved, and to go on as that did."""
    found = first_difference(saved.at, session.look(spool=False))
    require(not found, f"{what}: {found} is not {wanted}")
    tokens = session.decode(4, {}).value.tokens
    found = first_difference(saved.end, session.look(spool=False)) or ("tokens" if tokens != saved.tokens else "")
    require(
        not found,
        f"{what}: all parts are right, and yet {found} differ after four tokens; "
        f"some state is neither in parts() nor in the {holder}",
    )
