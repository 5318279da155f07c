"""The obligations of an adapter, one probe each. A probe returns, or raises with a reason that says what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from harness.deriving.checks.inventory import table_fault
from harness.deriving.ids import claim_key
from harness.engines.client import Look, RemoteEngine, RemoteSession
from harness.engines.conformance import (
    CHUNK,
    LONG,
    LOST,
    MORE,
    OTHER,
    Kit,
    Life,
    Obligation,
    UnmetError,
    first_difference,
    row_of,
)
from harness.engines.interface import Begun
from harness.errors import EngineError, InvalidDocumentError, RefusedError
from harness.model.evidence import PartRow
from harness.model.values import Capability, Family, Observability, RefusalCode
from harness.wire import privacy

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_COME_AND_GO: Final = frozenset({Family.LOGITS, Family.SAMPLER})
_COUNTERS: Final = (
    "stored_bytes", "pending_bytes", "entries", "captures", "restores", "hits", "misses", "evictions"
)  # fmt: skip
_ENTRY: Final = ("key", "parent", "boundary", "bytes", "fixed_bytes", "children", "pending", "domain")
_HALF: Final = LONG[: 2 * CHUNK + 5]


def _require(held: object, reason: str) -> None:
    if not held:
        raise UnmetError(reason)


# -- who it is -----------------------------------------------------------------------------------------------------


def identity(kit: Kit) -> None:
    """Names are slugs, digests are digests, facts are there and private to nobody, the grade fits the capabilities."""
    facts = kit.facts
    try:
        claim_key("A01", facts.engine, facts.model, facts.hw_class)
    except InvalidDocumentError as error:
        raise UnmetError(str(error)) from None
    _require(facts.engine_version, "version is empty; read it from the library that was loaded")
    digest = str(facts.model_digest)
    _require(_SHA256.fullmatch(digest) and set(digest) != {"0"}, "model_digest is no SHA-256 of 64 hex digits")
    _require(facts.identity, "facts are empty; read effective settings and element types back from the engine")
    _require(facts.device, "device is empty; give its name or kind, 'unknown' where it cannot be told")
    _require(facts.path_sets, "path_sets are empty; declare the engine's own files as '<package>:<glob>'")
    private = privacy.findings({"facts": facts.identity, "device": facts.device})
    _require(not private, f"private: {'; '.join(private[:3])}; leave it out or hash it")
    sees = Capability.PARTS in kit.host.capabilities
    _require(
        sees == (facts.observability is Observability.PARTS),
        f"observability is {facts.observability}, capability parts is {'' if sees else 'not '}declared; make them fit",
    )
    again = kit.host.start()
    _require(again == facts, "a second engine says that it is another one; identity() must depend on what is loaded")


def cold_repeats(kit: Kit) -> None:
    """Two engines with the same prompt agree in every part, the logits and the tokens, at every look."""
    with kit.session() as session:
        first = kit.live(session)
    with kit.session() as session:
        second = kit.live(session)
    _same_life(first, second, "not_repeatable: of two cold runs {} differs {}; pin threads, kernels and seeds")


def _same_life(one: Life, other: Life, sentence: str, looks: Sequence[str] = ()) -> None:
    for name in looks or one.looks:
        if name in one.looks and name in other.looks:
            found = first_difference(one.looks[name], other.looks[name])
            _require(not found, sentence.format(found, name))
    _require(list(one.tokens) == list(other.tokens), sentence.format("a token", "decoded"))


# -- what it shows -------------------------------------------------------------------------------------------------


def metadata(kit: Kit) -> None:
    """Part 0 is the metadata and follows the position; names, families and sizes are as they must be."""
    with kit.session() as session:
        opened = session.look(spool=False)
        life = kit.live(session)
    for name, look in (("opened", opened), *life.looks.items()):
        fault, _, part = table_fault(look.rows).partition(":")
        _require(not fault, f"{name}: {fault} {part}; list 'meta' first, every name once, bytes = shape x element")
    seen = [row.sha256 for look in life.looks.values() if (row := row_of(look, Family.META)) is not None]
    _require(len(set(seen)) > 1, "meta never changes; put position, per-layer lengths and validity flags into it")


def undisturbed(kit: Kit) -> None:
    """A snapshot, and a prompt whose boundaries are captured, leave the session as it would be without."""
    with kit.session() as session:
        plain = kit.live(session)
    if kit.can(Capability.PREFIX_CACHE):
        with kit.session() as session:
            captured = kit.live(session, cache=True)
        _same_life(plain, captured, "with captures {} differs {}; a capture must only read the session")
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
            _require(not found, f"snapshot() changed {found} at {end}; it must only read the session")
        tokens = session.decode(len(plain.tokens), {}).value.tokens
    _require(list(tokens) == list(plain.tokens), "tokens after a snapshot differ; it must only read the session")


def _export_reads_only(kit: Kit) -> None:
    with kit.session() as session:
        kit.live(session)
        before = session.look(spool=False)
        session.export_image()
        found = first_difference(before, session.look(spool=False))
        _require(not found, f"export_image() changed {found}; it must only read the session")


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
            _require(boundary, f"begin(cache=True) in {name} reused nothing of a prompt that was committed")
            look = cold.looks.get(f"at {boundary}")
            _require(look is not None, f"reused {boundary} tokens, which is no boundary of the schedule")
            if look is not None:
                found = first_difference(look, warm.looks["begun"])
                _require(not found, f"restored into {name}: {found} is not as in a cold run at {boundary}; snapshot it")
            _same_life(
                cold,
                warm,
                f"restored into {name} all parts are right, and yet {{}} differs {{}}; "
                "some state is neither in parts() nor in the snapshot",
                [*warm.looks][1:],
            )
            _same_inventory(cold, warm)


def _handle_comes_back(kit: Kit, cold: Life) -> None:
    with kit.engine() as engine:
        session, other = engine.open_session({}), engine.open_session({})
        kit.live(session)
        handle, at = session.snapshot().value, session.look(spool=False)
        went_on = session.decode(4, {}).value.tokens
        end = session.look(spool=False)
        for one, name in ((session, "the same session"), (other, "another session")):
            kit.dirty(one)
            one.restore(handle)
            found = first_difference(at, one.look(spool=False))
            _require(not found, f"restore() into {name}: {found} is not as when the snapshot was taken; save it too")
            tokens = one.decode(4, {}).value.tokens
            found = first_difference(end, one.look(spool=False)) or ("tokens" if tokens != went_on else "")
            _require(
                not found,
                f"restore() into {name}: all parts are right, and yet {found} differ after four tokens; "
                "some state is neither in parts() nor in the snapshot",
            )
    _stable([cold.looks["decoded"], at])


def _image_comes_back(kit: Kit) -> None:
    with kit.session() as session:
        kit.live(session)
        image, at = session.export_image().value, session.look(spool=False)
        went_on = session.decode(4, {}).value.tokens
        end = session.look(spool=False)
    with kit.session() as other:
        kit.dirty(other)
        other.import_image(image)
        found = first_difference(at, other.look(spool=False))
        _require(not found, f"import_image() into another engine: {found} is not as it was exported; write it too")
        tokens = other.decode(4, {}).value.tokens
        found = first_difference(end, other.look(spool=False)) or ("tokens" if tokens != went_on else "")
        _require(
            not found,
            f"import_image(): all parts are right, and yet {found} differ after four tokens; "
            "some state is neither in parts() nor in the image",
        )


def _listed(look: Look) -> Sequence[tuple[str, str]]:
    return [(row.name, row.family) for row in look.rows if row.family not in _COME_AND_GO]


def _same_inventory(*lives: Life) -> None:
    _stable([look for life in lives for look in life.looks.values()])


def inventory(kit: Kit) -> None:
    """The same parts are listed from the opening of a session to its end."""
    with kit.session() as session:
        looks = [session.look(spool=False)]
        looks += kit.live(session).looks.values()
        session.reset()
        looks.append(session.look(spool=False))
    _stable(looks)


def _stable(looks: Sequence[Look]) -> None:
    first = _listed(looks[0])
    for look in looks:
        odd = sorted({name for name, _ in set(first) ^ set(_listed(look))})
        _require(
            _listed(look) == first,
            f"parts come and go over a session's life ({', '.join(odd) or 'their order'}); list every part always, "
            "with no rows if it is empty",
        )


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
    _require(row is not None and row.stream == "rows", f"{name} was a row stream and is none any more")
    after = session.ship(name)
    _require(len(after) >= len(before), f"{name} lost rows; a row stream only grows. Declare it fixed")
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
            if row.stream != "fixed" or (row.family in _COME_AND_GO and not row.bytes):
                continue
            size, first = sizes.setdefault(row.name, ((tuple(row.shape), row.bytes), when))
            _require(
                size == (tuple(row.shape), row.bytes),
                f"{row.name} has {row.bytes} bytes {when} and another size {first}; declare it rows, or keep its size",
            )


# -- how it counts -------------------------------------------------------------------------------------------------


def counters(kit: Kit) -> None:
    """Tokens, bytes and positions add up, in a cold run, in a warm one, and in the store."""
    with kit.engine() as engine:
        session = engine.open_session({})
        cold = kit.live(session, cache=kit.can(Capability.PREFIX_CACHE))
        _counts_of_turn(cold, cached=False)
        if kit.can(Capability.PREFIX_CACHE):
            kit.dirty(session)
            warm = kit.live(session, cache=True)
            _counts_of_turn(warm, cached=True)
            _require(
                list(warm.begun.schedule) == list(cold.begun.schedule),
                "the schedule of a hit differs from that of a miss; cut prompts by position, not by what is cached",
            )
            _restored_enough(warm.begun, warm.looks["begun"])
        if kit.can(Capability.SNAPSHOT):
            _counts_of_handle(session)
        if kit.can(Capability.EXTEND):
            forwarded = sum(session.prefill(end).value for end in session.extend(MORE).value.schedule)
            _require(forwarded == len(MORE), f"{forwarded} tokens were forwarded for an extension of {len(MORE)}")
    if kit.can(Capability.STORE, Capability.PREFIX_CACHE):
        _counts_of_store(kit)


def _counts_of_turn(life: Life, *, cached: bool) -> None:
    begun, total = life.begun, len(LONG)
    what = "warm" if cached else "cold"
    _require(begun.schedule and begun.schedule[-1] == total, f"{what}: the schedule must end at the prompt's length")
    _require(
        bool(begun.cached) == cached, f"{what}: begin() says {begun.cached} tokens were cached; say what was restored"
    )
    if not cached:
        _require(not begun.restored_bytes, f"cold: begin() says {begun.restored_bytes} bytes were restored; 0 were")
    _require(
        begun.cached + life.forwarded == total,
        f"{what}: {begun.cached} cached + {life.forwarded} forwarded are not the {total} tokens of the prompt; "
        "count where the work is done",
    )
    wanted = {"begun": begun.cached, "prefilled": total, "decoded": total + len(life.tokens)}
    for name, look in life.looks.items():
        position = wanted.get(name, int(name.rpartition(" ")[2]) if name.startswith("at ") else look.position)
        _require(look.position == position, f"{what}: position() is {look.position} {name}; {position} tokens are in")


def _restored_enough(begun: Begun, look: Look) -> None:
    """Restored bytes must cover the fixed parts; rows may have stayed where they were."""
    left_out = {*_COME_AND_GO, Family.META}
    fixed = sum(row.bytes for row in look.rows if row.stream == "fixed" and row.family not in left_out)
    held = sum(row.bytes for row in look.rows)
    told = begun.restored_bytes
    _require(
        told >= fixed and (told or not held),
        f"{begun.cached} tokens came back into a dirty session, but restored_bytes is {told} and fixed parts "
        f"alone have {fixed}; count in the copy itself",
    )


def _counts_of_handle(session: RemoteSession) -> None:
    handle, position = session.snapshot().value, session.look(spool=False).position
    session.reset()
    begun = session.restore(handle).value
    _require(begun.cached == position, f"restore() says {begun.cached} tokens; the snapshot stands for {position}")
    _restored_enough(begun, session.look(spool=False))


def _counts_of_store(kit: Kit) -> None:
    with kit.engine() as engine:
        session = engine.open_session({})
        empty = _store(engine)
        _require(not empty["entries"] and not empty["stored_bytes"], "a new engine's store is not empty")
        _run(session, LONG, commit=False)
        _require(not _store(engine)["entries"], "store() lists snapshots of a turn that was not committed")
        session.commit()
        full = _store(engine)
        _require(full["entries"] and full["stored_bytes"], "store() shows nothing after a committed prompt")
        _require(full["captures"] > empty["captures"], "the counter captures did not rise with captures")
        kit.live(session, cache=True)
        warm = _store(engine)
        for name in ("hits", "restores"):
            _require(warm[name] > full[name], f"the counter {name} did not rise when a prefix was reused")
        session.begin(OTHER, cache=True)
        _require(_store(engine)["misses"] > warm["misses"], "the counter misses did not rise on an unknown prompt")
        if kit.can(Capability.EVICT):
            held = warm["entries"]
            gone = engine.evict(-1)
            after = _store(engine)
            _require(gone == held, f"evict(-1) says that {gone} went; {held} were held")
            _require(
                not after["entries"] and not after["stored_bytes"] and after["evictions"] >= warm["evictions"] + gone,
                "evict(-1) left entries, stored_bytes or the counter evictions as they were",
            )


def _store(engine: RemoteEngine) -> Mapping[str, int]:
    """Return the counters, after holding the list of snapshots to them."""
    entries, found = engine.store()
    missing = [name for name in _COUNTERS if name not in found]
    _require(not missing, f"store() lacks the counters {', '.join(missing)}")
    for entry in entries:
        lacking = [name for name in _ENTRY if name not in entry]
        _require(not lacking, f"store() lists a snapshot without {', '.join(lacking)}")
    listed = sum(int(entry["bytes"]) for entry in entries if not entry["pending"])
    _require(
        listed == found["stored_bytes"],
        f"snapshots listed have {listed} bytes, the counter stored_bytes says {found['stored_bytes']}",
    )
    return found


# -- how it says no ------------------------------------------------------------------------------------------------


def refusals(kit: Kit) -> None:
    """What cannot be done is refused by name, before anything is written."""
    with kit.engine() as engine:
        session, bystander = engine.open_session({}), engine.open_session({})
        kit.live(session)
        kit.live(bystander, OTHER)
        state = [session.look(spool=False), bystander.look(spool=False)]
        for what, wanted, call in _forbidden(kit, engine, session):
            _refused(what, wanted, call)
            for before, one in zip(state, (session, bystander), strict=True):
                found = first_difference(before, one.look(spool=False))
                _require(not found, f"{what} was refused, and yet {found} changed; check everything before writing")
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
    _refused("decoding without pending logits", RefusalCode.STATE, lambda: session.decode(1, {}))
    found = first_difference(before, session.look(spool=False))
    _require(not found, f"decoding without pending logits was refused, and yet {found} changed")


def _refused(what: str, wanted: RefusalCode, call: Callable[[], object]) -> None:
    try:
        call()
    except RefusedError as refusal:
        _require(refusal.code == wanted, f"{what} was refused as {refusal.code!r}; the word for it is {str(wanted)!r}")
    except LOST:
        raise
    except EngineError as error:
        name = str(error).partition(":")[0]
        raise UnmetError(f"{what} raised {name}; raise RefusedError({str(wanted)!r}) instead") from None
    else:
        raise UnmetError(f"{what} was not refused; raise RefusedError({str(wanted)!r})")


# -- what it can ---------------------------------------------------------------------------------------------------


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
        _require(len(kit.live(session).looks["decoded"].rows) > 1, "parts() lists nothing but the metadata")


def _logits_work(kit: Kit) -> None:
    with kit.session() as session:
        looks = kit.live(session).looks
    _require(not looks["begun"].logits, "logits() are there before anything was forwarded; return None then")
    _require(looks["prefilled"].logits and looks["decoded"].logits, "logits() is None when tokens can be sampled")
    _require(looks["prefilled"].logits_finite, "logits() hold an infinity or a NaN")


def _boundaries_work(kit: Kit) -> None:
    with kit.session() as session:
        schedule = session.begin(LONG, cache=False).value.schedule
    _require(len(schedule) > 1, f"the schedule has one end only for {len(LONG)} tokens at a chunk of {CHUNK}")


def _snapshots_work(kit: Kit) -> None:
    with kit.session() as session:
        kit.live(session)
        one, two = session.snapshot().value, session.snapshot().value
        _require(one != two, "two snapshots have one handle")
        session.restore(one)
        session.restore(two)


def _prefixes_work(kit: Kit) -> None:
    with kit.engine() as engine:
        session, other = engine.open_session({}), engine.open_session({})
        _run(session, LONG, commit=False)
        session.abandon()
        _require(not other.begin(LONG, cache=True).value.cached, "a prompt that was abandoned is reused")
        _run(session, LONG, commit=True)
        _require(not other.begin(LONG, cache=False).value.cached, "begin(cache=False) reuses something")
        _require(other.begin(LONG, cache=True).value.cached, "a prompt that was committed is not reused")


def _run(session: RemoteSession, prompt: Sequence[int], *, commit: bool) -> None:
    for end in session.begin(prompt, cache=True).value.schedule:
        session.prefill(end)
    if commit:
        session.commit()


def _extend_works(kit: Kit) -> None:
    with kit.session() as session:
        life = kit.live(session)
        start = life.looks["decoded"].position
        begun = session.extend(MORE).value
        _require(begun.cached == start, f"extend() says {begun.cached} tokens were there; {start} were")
        for end in begun.schedule:
            session.prefill(end)
        _require(session.look(spool=False).position == start + len(MORE), "position() is not where the extension ends")


def _sampling_works(kit: Kit) -> None:
    sampler = {"temperature_ppm": 900_000, "top_k": 8, "seed": 7}
    found = []
    for _ in range(2):
        with kit.session() as session:
            kit.live(session, decode=0)
            found.append(list(session.decode(6, sampler).value.tokens))
    _require(len(found[0]) == 6, f"{len(found[0])} tokens were sampled; 6 were asked for")
    _require(found[0] == found[1], "the same seed gives other tokens in a second run")


def _store_works(kit: Kit) -> None:
    with kit.engine() as engine:
        engine.store()


def _evict_works(kit: Kit) -> None:
    with kit.engine() as engine:
        session = engine.open_session({})
        if kit.can(Capability.PREFIX_CACHE):
            kit.live(session, cache=True)
            engine.evict(-1)
            _require(not session.begin(LONG, cache=True).value.cached, "after evict(-1) a prefix is still reused")
            engine.set_budget({"bytes": 1 << 30, "entries": 0})
            kit.live(session, cache=True)
            _require(not session.begin(LONG, cache=True).value.cached, "a budget of 0 entries still captures")
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
        _require(_changed(before, after) == [row.name], f"a flip in {row.name} shows in {_changed(before, after)}")
        session.corrupt(row.name, 1, 4)
        _require(not _changed(before, session.look(spool=False)), "the same flip a second time does not undo it")
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
        _require(found == [row.name], f"a flip of {row.name} in a handle shows in {found} after its restore")


def _corrupt_store_works(kit: Kit) -> None:
    with kit.engine() as engine:
        session = engine.open_session({})
        cold = kit.live(session, _HALF, cache=True).looks
        entries = engine.store()[0]
        _require(entries, "store() lists nothing after a committed prompt")
        entry = max(entries, key=lambda one: int(one["boundary"]))
        seen = cold.get(f"at {entry['boundary']}")
        _require(seen, f"store() lists a snapshot at {entry['boundary']}, which is no boundary of the schedule")
        row = _target(seen or cold["begun"])
        engine.corrupt_store(str(entry["key"]), row.name, 1, 4)
        warm = session.begin(_HALF, cache=True).value
        found = _changed(cold.get(f"at {warm.cached}", cold["begun"]), session.look(spool=False))
    _require(found == [row.name], f"a flip of {row.name} in a stored snapshot shows in {found} after its restore")


def _target(look: Look) -> PartRow:
    """Return the part to flip in: a row stream, since its first rows are in every snapshot above them."""
    left_out = {*_COME_AND_GO, Family.META}
    candidates = [row for row in look.rows if row.bytes and row.family not in left_out]
    _require(candidates, "there is no part with bytes in it to flip")
    return next((row for row in candidates if row.stream == "rows"), candidates[0])


def _changed(before: Look, after: Look) -> Sequence[str]:
    pairs = zip(before.rows, after.rows, strict=False)
    return [one.name for one, other in pairs if one.sha256 != other.sha256]


def _options_work(kit: Kit) -> None:
    with kit.engine() as engine:
        wide = engine.open_session({"chunk": 2 * CHUNK})
        found = wide.begin(LONG, cache=False).value.schedule
        _require(2 * CHUNK in found and CHUNK not in found, f"a session of chunk {2 * CHUNK} cuts at {list(found)}")


def _image_works(kit: Kit) -> None:
    with kit.session() as session:
        kit.live(session)
        position = session.look(spool=False).position
        image = session.export_image().value
        session.reset()
        begun = session.import_image(image).value
        _require(begun.cached == position, f"import_image() says {begun.cached} tokens; the image has {position}")
        _require(begun.restored_bytes, "import_image() says that no byte was copied; count in the copy itself")


def _cancel_works(kit: Kit) -> None:
    with kit.session() as session:
        life = kit.live(session)
        session.cancel()
        _refused("decoding after cancel()", RefusalCode.STATE, lambda: session.decode(1, {}))
        again = kit.live(session)
        _require(list(again.tokens) == list(life.tokens), "after cancel() the next prompt gives other tokens")


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
}


def reset_and_close(kit: Kit) -> None:
    """A reset gives the opened state back and a cold run after it; closing leaves nothing behind."""
    with kit.engine() as engine:
        session = engine.open_session({})
        opened = session.look(spool=False)
        cold = kit.live(session)
        session.reset()
        found = first_difference(opened, session.look(spool=False))
        _require(not found, f"after reset() {found} is not as it was when the session was opened")
        _same_life(cold, kit.live(session), "after reset() {} differs {} from the first run")
        session.close()
        _nothing_pending(kit, engine)
    for _ in range(3):
        with kit.session() as session:
            kit.live(session, OTHER)


def _nothing_pending(kit: Kit, engine: RemoteEngine) -> None:
    if not kit.can(Capability.STORE, Capability.PREFIX_CACHE):
        return
    session = engine.open_session({})
    _run(session, LONG, commit=False)
    session.close()
    held = engine.store()[1].get("pending_bytes", 0)
    _require(not held, f"close() left {held} bytes of captures pending; drop them with the session")


_PARTS: Final = (Capability.PARTS,)
_SAVES: Final = (Capability.SNAPSHOT, Capability.PREFIX_CACHE, Capability.IMAGE)

OBLIGATIONS: Final[Sequence[Obligation]] = (
    Obligation(id="identity", text="says who it is, completely, and the same each time", probe=identity),
    Obligation(
        id="metadata",
        text="part 0 is the metadata; names, families and sizes are right",
        probe=metadata,
        needs=_PARTS,
    ),
    Obligation(id="repeatable", text="two cold runs are equal", probe=cold_repeats, after=("metadata",)),
    Obligation(
        id="inventory",
        text="the same parts are listed for life",
        probe=inventory,
        needs=_PARTS,
        after=("metadata",),
    ),
    Obligation(
        id="rows",
        text="rows below a boundary never change",
        probe=rows_stay,
        needs=_PARTS,
        after=("metadata", "inventory"),
    ),
    Obligation(
        id="fixed",
        text="fixed parts keep their size",
        probe=fixed_stay,
        needs=_PARTS,
        after=("metadata", "inventory"),
    ),
    Obligation(
        id="undisturbed",
        text="snapshots and captures change nothing",
        probe=undisturbed,
        any_of=_SAVES,
        after=("repeatable",),
    ),
    Obligation(
        id="complete",
        text="all state comes back, also into a dirty session",
        probe=complete,
        any_of=_SAVES,
        after=("repeatable", "inventory", "rows"),
    ),
    Obligation(id="counters", text="tokens, bytes and positions add up", probe=counters, after=("metadata",)),
    Obligation(id="refusals", text="says no by name, and changes nothing", probe=refusals, after=("metadata",)),
    Obligation(id="capabilities", text="what is declared works", probe=capabilities, after=("metadata",)),
    Obligation(
        id="reset",
        text="reset gives the opened state back, close frees",
        probe=reset_and_close,
        after=("repeatable", "inventory"),
    ),
)
"""In the order in which they are probed."""
