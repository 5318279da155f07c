"""How an engine counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.engines.client import Look, RemoteEngine, RemoteSession
from harness.engines.conformance import (
    LONG,
    MORE,
    OTHER,
    Kit,
    Life,
)
from harness.engines.interface import Begun
from harness.engines.obligations.common import COME_AND_GO, require, run
from harness.model.values import Capability, Family

_COUNTERS: Final = (
    "stored_bytes", "pending_bytes", "entries", "captures", "restores", "hits", "misses", "evictions"
)  # fmt: skip


_ENTRY: Final = ("key", "parent", "boundary", "bytes", "fixed_bytes", "children", "pending", "domain")


def counters(kit: Kit) -> None:
    """Tokens, bytes and positions add up, in a cold run, in a warm one, and in the store."""
    with kit.engine() as engine:
        session = engine.open_session({})
        cold = kit.live(session, cache=kit.can(Capability.PREFIX_CACHE))
        _counts_of_turn(cold, cached=False, templated=kit.templated)
        if kit.can(Capability.PREFIX_CACHE):
            kit.dirty(session)
            warm = kit.live(session, cache=True)
            _counts_of_turn(warm, cached=True, templated=kit.templated)
            require(
                list(warm.begun.schedule) == list(cold.begun.schedule),
                "the schedule of a hit differs from that of a miss; cut prompts by position, not by what is cached",
            )
            _restored_enough(warm.begun, warm.looks["begun"])
        if kit.can(Capability.SNAPSHOT):
            _counts_of_handle(session, templated=kit.templated)
        if kit.can(Capability.EXTEND):
            more = session.extend(MORE).value
            forwarded = sum(session.prefill(end).value for end in more.schedule)
            given = more.prompt_tokens - more.cached if kit.templated else len(MORE)
            require(forwarded == given, f"{forwarded} tokens were forwarded for an extension of {given}")
    if kit.can(Capability.STORE, Capability.PREFIX_CACHE):
        _counts_of_store(kit)


def _counts_of_turn(life: Life, *, cached: bool, templated: bool) -> None:
    begun, total = life.begun, len(LONG)
    there = begun.prompt_tokens if templated else total
    what = "warm" if cached else "cold"
    require(begun.schedule and begun.schedule[-1] == total, f"{what}: the schedule must end at the prompt's length")
    require(
        bool(begun.cached) == cached, f"{what}: begin() says {begun.cached} tokens were cached; say what was restored"
    )
    if not cached:
        require(not begun.restored_bytes, f"cold: begin() says {begun.restored_bytes} bytes were restored; 0 were")
    require(
        begun.cached + life.forwarded == there,
        f"{what}: {begun.cached} cached + {life.forwarded} forwarded are not the {there} tokens of the prompt; "
        "count where the work is done",
    )
    wanted = {"begun": 0 if templated else begun.cached, "prefilled": total, "decoded": total + len(life.tokens)}
    for name, look in life.looks.items():
        position = wanted.get(name, int(name.rpartition(" ")[2]) if name.startswith("at ") else look.position)
        require(look.position == position, f"{what}: position() is {look.position} {name}; {position} tokens are in")


def _restored_enough(begun: Begun, look: Look) -> None:
    """Restored bytes must cover the fixed parts; rows may have stayed where they were."""
    left_out = {*COME_AND_GO, Family.META}
    fixed = sum(row.bytes for row in look.rows if row.stream == "fixed" and row.family not in left_out)
    held = sum(row.bytes for row in look.rows)
    told = begun.restored_bytes
    require(
        told >= fixed and (told or not held),
        f"{begun.cached} tokens came back into a dirty session, but restored_bytes is {told} and fixed parts "
        f"alone have {fixed}; count in the copy itself",
    )


def _counts_of_handle(session: RemoteSession, *, templated: bool) -> None:
    handle, position = session.snapshot().value, session.look(spool=False).position
    session.reset()
    begun = session.restore(handle).value
    right = begun.cached > 0 if templated else begun.cached == position
    require(right, f"restore() says {begun.cached} tokens; the snapshot stands for {position}")
    _restored_enough(begun, session.look(spool=False))


def _counts_of_store(kit: Kit) -> None:
    with kit.engine() as engine:
        session = engine.open_session({})
        empty = _store(engine)
        require(not empty["entries"] and not empty["stored_bytes"], "a new engine's store is not empty")
        run(session, LONG, commit=False)
        require(not _store(engine)["entries"], "store() lists snapshots of a turn that was not committed")
        session.commit()
        full = _store(engine)
        require(full["entries"] and full["stored_bytes"], "store() shows nothing after a committed prompt")
        require(full["captures"] > empty["captures"], "the counter captures did not rise with captures")
        kit.live(session, cache=True)
        warm = _store(engine)
        for name in ("hits", "restores"):
            require(warm[name] > full[name], f"the counter {name} did not rise when a prefix was reused")
        session.begin(OTHER, cache=True)
        require(_store(engine)["misses"] > warm["misses"], "the counter misses did not rise on an unknown prompt")
        if kit.can(Capability.EVICT):
            held = warm["entries"]
            gone = engine.evict(-1)
            after = _store(engine)
            require(gone == held, f"evict(-1) says that {gone} went; {held} were held")
            require(
                not after["entries"] and not after["stored_bytes"] and after["evictions"] >= warm["evictions"] + gone,
                "evict(-1) left entries, stored_bytes or the counter evictions as they were",
            )


def _store(engine: RemoteEngine) -> Mapping[str, int]:
    """Return the counters, after holding the list of snapshots to them."""
    entries, found = engine.store()
    missing = [name for name in _COUNTERS if name not in found]
    require(not missing, f"store() lacks the counters {', '.join(missing)}")
    for entry in entries:
        lacking = [name for name in _ENTRY if name not in entry]
        require(not lacking, f"store() lists a snapshot without {', '.join(lacking)}")
    listed = sum(int(entry["bytes"]) for entry in entries if not entry["pending"])
    require(
        listed == found["stored_bytes"],
        f"snapshots listed have {listed} bytes, the counter stored_bytes says {found['stored_bytes']}",
    )
    return found
