"""What an engine declares that it can do: one probe for each capability."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from harness.engines.client import Look, RemoteSession
from harness.engines.conformance import (
    CHUNK,
    LONG,
    MORE,
    Kit,
    UnmetError,
    first_difference,
)
from harness.engines.obligations.common import COME_AND_GO, refused, require, run
from harness.errors import RefusedError
from harness.model.evidence import PartRow
from harness.model.values import Capability, Family, RefusalCode

_HALF: Final = LONG[: 2 * CHUNK + 5]


def capabilities(kit: Kit) -> None:
    """Each declared capability works; nothing undeclared was needed."""
    for capability in sorted(kit.host.capabilities):
        probe = _ABILITIES.get(capability)
        if probe is not None:
            with _named(capability):
                probe(kit)


@contextmanager
def _named(capability: Capability) -> Iterator[None]:
    """Put the capability before what went wrong."""
    try:
        yield
    except UnmetError as unmet:
        raise UnmetError(f"{capability} is declared, but {unmet}; mend it or declare it no longer") from None
    except RefusedError as error:
        raise UnmetError(f"{capability} is declared and was refused: {error}") from None


def _parts_work(kit: Kit) -> None:
    with kit.session() as session:
        require(len(kit.live(session).looks["decoded"].rows) > 1, "parts() lists nothing but the metadata")


def _logits_work(kit: Kit) -> None:
    with kit.session() as session:
        looks = kit.live(session).looks
    require(not looks["begun"].logits, "logits() are there before anything was forwarded; return None then")
    require(looks["prefilled"].logits and looks["decoded"].logits, "logits() is None when tokens can be sampled")
    require(looks["prefilled"].logits_finite, "logits() hold an infinity or a NaN")
    with kit.session() as session:
        for end in session.begin(LONG, cache=False).value.schedule:
            session.prefill(end)
        for number in range(1, 4):
            favoured, told = session.favoured(), session.decode(1, {}).value.tokens
            require(
                not favoured or set(told) <= set(favoured),
                f"greedy token {number} is {list(told)}, and the largest of logits() is at {list(favoured[:3])}",
            )


def _boundaries_work(kit: Kit) -> None:
    with kit.session() as session:
        schedule = session.begin(LONG, cache=False).value.schedule
    require(len(schedule) > 1, f"the schedule has one end only for {len(LONG)} tokens at a chunk of {CHUNK}")
    lacking = next((end for end in range(CHUNK, len(LONG), CHUNK) if end not in schedule), 0)
    require(not lacking, f"the schedule goes past {lacking} tokens without an end; each multiple of the chunk is one")


def _snapshots_work(kit: Kit) -> None:
    with kit.session() as session:
        kit.live(session)
        one, two = session.snapshot().value, session.snapshot().value
        require(one != two, "two snapshots have one handle")
        session.restore(one)
        session.restore(two)


def _prefixes_work(kit: Kit) -> None:
    with kit.engine() as engine:
        session, other = engine.open_session({}), engine.open_session({})
        run(session, LONG, commit=False)
        session.abandon()
        require(not other.begin(LONG, cache=True).value.cached, "a prompt that was abandoned is reused")
        run(session, LONG, commit=True)
        require(not other.begin(LONG, cache=False).value.cached, "begin(cache=False) reuses something")
        require(other.begin(LONG, cache=True).value.cached, "a prompt that was committed is not reused")


def _extend_works(kit: Kit) -> None:
    with kit.session() as session:
        life = kit.live(session)
        start = life.looks["decoded"].position
        begun = session.extend(MORE).value
        require(kit.templated or begun.cached == start, f"extend() says {begun.cached} tokens were there; {start} were")
        for end in begun.schedule:
            session.prefill(end)
        require(session.look(spool=False).position == start + len(MORE), "position() is not where the extension ends")


def _sampling_works(kit: Kit) -> None:
    sampler = {"temperature_ppm": 900_000, "top_k": 8, "seed": 7}
    found = []
    for _ in range(2):
        with kit.session() as session:
            kit.live(session, decode=0)
            found.append(list(session.decode(6, sampler).value.tokens))
    require(len(found[0]) == 6, f"{len(found[0])} tokens were sampled; 6 were asked for")
    require(found[0] == found[1], "the same seed gives other tokens in a second run")


def _store_works(kit: Kit) -> None:
    with kit.engine() as engine:
        engine.store()


def _evict_works(kit: Kit) -> None:
    with kit.engine() as engine:
        session = engine.open_session({})
        if kit.can(Capability.PREFIX_CACHE):
            kit.live(session, cache=True)
            engine.evict(-1)
            require(not session.begin(LONG, cache=True).value.cached, "after evict(-1) a prefix is still reused")
            engine.set_budget({"bytes": 1 << 30, "entries": 0})
            kit.live(session, cache=True)
            require(not session.begin(LONG, cache=True).value.cached, "a budget of 0 entries still captures")
        else:
            engine.evict(-1)


def _corrupt_works(kit: Kit) -> None:
    if not kit.can(Capability.PARTS):
        return
    with kit.session() as session:
        row = _target(kit.live(session).looks["decoded"])
        before = session.look(spool=False)
        session.corrupt(row.name, 1, 4)
        after = session.look(spool=False)
        require(_changed(before, after) == [row.name], f"a flip in {row.name} shows in {_changed(before, after)}")
        session.corrupt(row.name, 1, 4)
        require(not _changed(before, session.look(spool=False)), "the same flip a second time does not undo it")
    if kit.can(Capability.SNAPSHOT):
        _corrupt_handle_works(kit)
    if kit.can(Capability.STORE, Capability.PREFIX_CACHE):
        _corrupt_store_works(kit)


def _corrupt_handle_works(kit: Kit) -> None:
    with kit.engine() as engine:
        session = engine.open_session({})
        row = _target(kit.live(session).looks["decoded"])
        handle, before = session.snapshot().value, session.look(spool=False)
        engine.corrupt_handle(handle, row.name, 1, 4)
        session.restore(handle)
        found = _changed(before, session.look(spool=False))
        require(found == [row.name], f"a flip of {row.name} in a handle shows in {found} after its restore")


def _corrupt_store_works(kit: Kit) -> None:
    with kit.engine() as engine:
        session = engine.open_session({})
        cold = kit.live(session, _HALF, cache=True).looks
        entries = engine.store()[0]
        require(entries, "store() lists nothing after a committed prompt")
        entry = max(entries, key=lambda one: int(one["boundary"]))
        seen = cold.get(f"at {entry['boundary']}")
        require(seen, f"store() lists a snapshot at {entry['boundary']}, which is no boundary of the schedule")
        row = _target(seen or cold["begun"])
        engine.corrupt_store(str(entry["key"]), row.name, 1, 4)
        warm = session.begin(_HALF, cache=True).value
        found = _changed(cold.get(f"at {warm.cached}", cold["begun"]), session.look(spool=False))
    require(found == [row.name], f"a flip of {row.name} in a stored snapshot shows in {found} after its restore")


def _target(look: Look) -> PartRow:
    """Return the part to flip in: a row stream, since its first rows are in every snapshot above them."""
    left_out = {*COME_AND_GO, Family.META}
    candidates = [row for row in look.rows if row.bytes and row.family not in left_out]
    require(candidates, "there is no part with bytes in it to flip")
    return next((row for row in candidates if row.stream == "rows"), candidates[0])


def _changed(before: Look, after: Look) -> Sequence[str]:
    pairs = zip(before.rows, after.rows, strict=False)
    return [one.name for one, other in pairs if one.sha256 != other.sha256]


def _options_work(kit: Kit) -> None:
    with kit.engine() as engine:
        wide = engine.open_session({"chunk": 2 * CHUNK})
        found = wide.begin(LONG, cache=False).value.schedule
        require(2 * CHUNK in found and CHUNK not in found, f"a session of chunk {2 * CHUNK} cuts at {list(found)}")


def _image_works(kit: Kit) -> None:
    with kit.session() as session:
        kit.live(session)
        position = session.look(spool=False).position
        image = session.export_image().value
        session.reset()
        begun = session.import_image(image).value
        right = begun.cached > 0 if kit.templated else begun.cached == position
        require(right, f"import_image() says {begun.cached} tokens; the image has {position}")
        require(begun.restored_bytes, "import_image() says that no byte was copied; count in the copy itself")


def _cancel_works(kit: Kit) -> None:
    with kit.session() as session:
        life = kit.live(session)
        session.cancel()
        refused("decoding after cancel()", RefusalCode.STATE, lambda: session.decode(1, {}))
        again = kit.live(session)
        require(list(again.tokens) == list(life.tokens), "after cancel() the next prompt gives other tokens")


_ASKS: Final = ("snapshot", "restore", "export", "import", "begin", "extend", "decode", "reset")
"""What may be asked in the middle of a call; a saved session is there to be restored."""
_NEEDED: Final = {
    "snapshot": Capability.SNAPSHOT,
    "restore": Capability.SNAPSHOT,
    "export": Capability.IMAGE,
    "import": Capability.IMAGE,
    "extend": Capability.EXTEND,
}


def _meanwhile_works(kit: Kit) -> None:
    """Everything is refused in the middle of a prefill and of a decode, and the call ends as if nobody had asked."""
    asks = [ask for ask in _ASKS if ask not in _NEEDED or kit.can(_NEEDED[ask])]
    with kit.engine() as engine:
        quiet, busy, other = (engine.open_session({}) for _ in range(3))
        kit.live(other, MORE)
        handle = other.snapshot().value if kit.can(Capability.SNAPSHOT) else ""
        plain = kit.live(quiet)
        for ask in asks:
            ends = busy.begin(LONG, cache=False).value.schedule
            for end in ends:
                _ask_in_between(busy, ask, upto=end, handle=handle)
            _same(plain.looks["prefilled"], busy.look(spool=False), f"a prefill in which {ask} was asked for")
            _ask_in_between(busy, ask, count=len(plain.tokens), handle=handle)
            _same(plain.looks["decoded"], busy.look(spool=False), f"a decode in which {ask} was asked for")
        refused(
            "an unknown ask",
            RefusalCode.UNSUPPORTED,
            lambda: busy.meanwhile("sing", upto=0, count=1, handle=""),
        )


def _ask_in_between(session: RemoteSession, ask: str, *, upto: int = 0, count: int = 0, handle: str = "") -> None:
    code = session.meanwhile(ask, upto=upto, count=count, handle=handle if ask == "restore" else "")
    during = "a prefill" if upto else "a decode"
    word = f"was refused as {code!r}" if code else "was not refused"
    require(code == RefusalCode.STATE, f"{ask} in the middle of {during} {word}; the word for it is 'state'")


def _same(one: Look, other: Look, after: str) -> None:
    found = first_difference(one, other)
    require(not found, f"after {after} {found} differs from a call that nobody disturbed")


_SHORT: Final = LONG[:17]
"""A prompt that no window has forgotten anything of."""


def _rollback_works(kit: Kit) -> None:
    """Tokens are taken back from a long prompt; where a window says no to that, from a short one."""
    if not _takes_back(kit, LONG):
        require(_takes_back(kit, _SHORT), f"rollback(3) is refused as unsupported, even after {len(_SHORT)} tokens")


def _takes_back(kit: Kit, prompt: Sequence[int]) -> bool:
    """Take three tokens back; False: refused as ``unsupported``, and nothing has changed.

    A target whose own model says that it never goes back is asked for one with attention alone: of a preset with a
    model for each kind of state, one that can is enough.
    """
    with kit.session() as session:
        before = _recorded(session, prompt)
        if before is not None:
            return _goes_back(session, before)
    with kit.engine(arch="attention") as engine:
        session = engine.open_session({})
        before = _recorded(session, prompt)
        require(before is not None, "record() is refused as unsupported, of a model with attention alone too")
        return before is not None and _goes_back(session, before)


def _recorded(session: RemoteSession, prompt: Sequence[int]) -> Look | None:
    """Run a prompt through and let it be recorded; return what it is then. None: refused as ``unsupported``."""
    for end in session.begin(prompt, cache=False).value.schedule:
        session.prefill(end)
    before = session.look(spool=False)
    try:
        session.record()
    except RefusedError as error:
        if error.code != RefusalCode.UNSUPPORTED:
            raise
        return None
    finally:
        _same(before, session.look(spool=False), "record()")
    return before


def _goes_back(session: RemoteSession, before: Look) -> bool:
    """Take three tokens back from what a session is; False: refused as ``unsupported``, and nothing has changed."""
    refused("taking back more than there is", RefusalCode.STATE, lambda: session.rollback(before.position + 1))
    _same(before, session.look(spool=False), "a rollback of more than there is")
    session.decode(3, {})
    away = session.look(spool=False)
    try:
        session.rollback(3)
    except RefusedError as error:
        if error.code != RefusalCode.UNSUPPORTED:
            raise
        _same(away, session.look(spool=False), "a rollback(3) that was refused")
        return False
    after = session.look(spool=False)
    require(after.position == before.position, f"rollback(3) leaves position {after.position}")
    left = {row.name for row in before.rows if row.family in COME_AND_GO or row.family == Family.META}
    changed = [name for name in _changed(before, after) if name not in left]
    require(not changed, f"after rollback(3) part {changed[:1]} is not as it was before the three tokens")
    return True


_ABILITIES: Final[Mapping[Capability, Callable[[Kit], None]]] = {
    Capability.PARTS: _parts_work,
    Capability.LOGITS: _logits_work,
    Capability.BOUNDARIES: _boundaries_work,
    Capability.PREFIX_CACHE: _prefixes_work,
    Capability.SNAPSHOT: _snapshots_work,
    Capability.EXTEND: _extend_works,
    Capability.SAMPLING: _sampling_works,
    Capability.STORE: _store_works,
    Capability.EVICT: _evict_works,
    Capability.CORRUPT: _corrupt_works,
    Capability.SESSION_OPTIONS: _options_work,
    Capability.IMAGE: _image_works,
    Capability.CANCEL: _cancel_works,
    Capability.MEANWHILE: _meanwhile_works,
    Capability.ROLLBACK: _rollback_works,
}
