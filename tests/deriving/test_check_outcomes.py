"""One change to valid evidence, one named outcome: every kind of check can fail, and only for its own reason."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.deriving.checks import FILES, check_of
from harness.model.evidence import CellEvent, Difference, PartRow, Point, StepRecord, StoreView, Turn
from harness.model.scenario import CheckKind
from harness.model.values import CellId, CrashKind, Outcome, Phase, Sha256
from tests.fakes.evidence import CELL, OTHER, Recorded, recorded

Change = Callable[[Recorded], Recorded]
NOTHING = Sha256(hashlib.sha256(b"").hexdigest())
FAIL, ERROR, OPEN = Outcome.FAIL, Outcome.ERROR, Outcome.INCONCLUSIVE
BASE = recorded()
WHOLE = 3 * 128 // 16


# -- small changes ---------------------------------------------------------------------------------


def _turn(arm: str, label: str) -> Callable[[object], bool]:
    return lambda one: isinstance(one, Turn) and (one.arm, one.label) == (arm, label)


def _step(arm: str, label: str) -> Callable[[object], bool]:
    return lambda one: isinstance(one, StepRecord) and (one.arm, one.label) == (arm, label)


def _store(arm: str, label: str) -> Callable[[object], bool]:
    return lambda one: isinstance(one, StoreView) and (one.arm, one.label) == (arm, label)


def _boundaries(one: object) -> bool:
    return isinstance(one, Point) and one.phase is Phase.BOUNDARY


def _emptied(e: Recorded) -> Recorded:
    def nothing(_: object) -> list[PartRow]:
        return []

    e = e.with_rows("warm", "again", Phase.RESTORED, nothing)
    for rep in (0, 1):
        e = e.with_rows("cold", "a", Phase.BOUNDARY, nothing, rep=rep, position=WHOLE)
    return e


def _without_logits(e: Recorded) -> Recorded:
    e = e.with_point("warm", "again", Phase.END, logits="")
    for rep in (0, 1):
        e = e.with_point("cold", "a", Phase.END, rep=rep, logits="")
    return e


def _refused(e: Recorded, arm: str, label: str, code: str = "capacity") -> Recorded:
    gone = e.without(lambda one: isinstance(one, (Turn, Point)) and (one.arm, one.label) == (arm, label))
    records = [
        StepRecord(cell=CELL, arm=arm, rep=rep, label=label, kind="run", ended="refused", code=code)  # type: ignore[arg-type]
        for rep in (range(2) if arm == "cold" else range(1))
    ]
    return replace(gone, observations=(*gone.observations[:1], *records, *gone.observations[1:]))


def _held(e: Recorded) -> StoreView:
    return next(one for one in e.observations if isinstance(one, StoreView) and one.arm == "warm")


def _grown(e: Recorded, extra: int) -> Recorded:
    held = _held(e)
    first, *rest = held.entries
    entries = ({**first, "bytes": int(first["bytes"]) + extra}, *rest)
    counters = {**held.counters, "stored_bytes": held.counters["stored_bytes"] + extra}
    return e.with_store("warm", "held", entries=entries, counters=counters)


def _counted(e: Recorded, **counters: int) -> Recorded:
    return e.with_store("warm", "held", counters={**_held(e).counters, **counters})


def _dropped_entry(e: Recorded) -> Recorded:
    entries = tuple(_held(e).entries)[:-1]
    return e.with_store("warm", "held", entries=entries, counters={**_held(e).counters, "entries": 2})


def _pending(e: Recorded) -> Recorded:
    first, *rest = _held(e).entries
    return e.with_store("warm", "held", entries=({**first, "pending": True}, *rest))


def _healed(e: Recorded) -> Recorded:
    """The flipped arm looks like the reference right after its restore."""
    clean = next(one for one in e.observations if isinstance(one, Point) and (one.arm, one.position) == ("cold", WHOLE))
    return e.with_point("flipped", "again", Phase.RESTORED, root=clean.root)


def _moved_flip(e: Recorded) -> Recorded:
    return _healed(e).with_part("flipped", "again", Phase.RESTORED, "layer1.k")


def _same_text(e: Recorded) -> Recorded:
    for phase in (Phase.PREFILLED, Phase.END):
        same = next(
            one
            for one in e.observations
            if isinstance(one, Point) and (one.arm, one.label, one.phase) == ("cold", "a", phase)
        )
        e = e.with_point("other", "a", phase, root=same.root, logits=same.logits, tokens=same.tokens)
    return e


# -- tables and tests ---------------------------------------------------------------------------


def test_every_check_passes_on_what_a_perfect_engine_leaves_behind() -> None:
    cell = BASE.cell()

    assert cell.outcome is Outcome.PASS
    assert {check.outcome for check in cell.checks} == {Outcome.PASS}
    assert {check.id for check in cell.checks} >= {"again", "flip-seen", "repeatable:cold", "inventory", "finished"}


EXACT: list[tuple[str, str, Change, Outcome, str]] = [
    (
        "a lost part",
        "again",
        lambda e: e.with_part("warm", "again", Phase.RESTORED, "layer0.recurrent"),
        FAIL,
        "parts_differ",
    ),
    (
        "a part lost later",
        "again",
        lambda e: e.with_part("warm", "again", Phase.PREFILLED, "layer1.k"),
        FAIL,
        "parts_differ",
    ),
    (
        "a part lost last",
        "again",
        lambda e: e.with_part("warm", "again", Phase.END, "layer1.index"),
        FAIL,
        "parts_differ",
    ),
    (
        "other shape",
        "again",
        lambda e: e.with_part("warm", "again", Phase.RESTORED, "layer0.conv", shape=(4, 2)),
        FAIL,
        "parts_differ",
    ),
    (
        "other type",
        "again",
        lambda e: e.with_part("warm", "again", Phase.RESTORED, "layer0.conv", element_type="i32"),
        FAIL,
        "parts_differ",
    ),
    (
        "a part missing",
        "again",
        lambda e: e.with_rows("warm", "again", Phase.RESTORED, lambda rows: rows[:-1]),
        FAIL,
        "parts_differ",
    ),
    (
        "a part too many",
        "again",
        lambda e: e.with_rows("warm", "again", Phase.RESTORED, lambda rows: [*rows, replace(rows[-1], name="x")]),
        FAIL,
        "parts_differ",
    ),
    (
        "another order",
        "again",
        lambda e: e.with_rows("warm", "again", Phase.RESTORED, lambda rows: [rows[0], *reversed(rows[1:])]),
        FAIL,
        "parts_differ",
    ),
    (
        "other logits",
        "again",
        lambda e: e.with_point("warm", "again", Phase.PREFILLED, logits=OTHER),
        FAIL,
        "logits_differ",
    ),
    (
        "logits on one side",
        "again",
        lambda e: e.with_point("warm", "again", Phase.END, logits=""),
        FAIL,
        "logits_differ",
    ),
    (
        "other tokens",
        "again",
        lambda e: e.with_point("warm", "again", Phase.END, tokens=(9, 9, 9, 9)),
        FAIL,
        "tokens_differ",
    ),
    (
        "other position",
        "again",
        lambda e: e.with_point("warm", "again", Phase.END, position=999),
        FAIL,
        "position_differ",
    ),
    ("NaN", "again", lambda e: e.with_point("warm", "again", Phase.END, logits_finite=False), FAIL, "not_finite"),
    (
        "nothing reused",
        "again",
        lambda e: e.with_turn("warm", "again", cached=0, prefilled=29, restored_bytes=0),
        FAIL,
        "restore_not_witnessed",
    ),
    (
        "no bytes copied",
        "again",
        lambda e: e.with_turn("warm", "again", restored_bytes=0),
        FAIL,
        "restore_not_witnessed",
    ),
    (
        "all forwarded anyway",
        "again",
        lambda e: e.with_turn("warm", "again", prefilled=29),
        FAIL,
        "restore_not_witnessed",
    ),
    (
        "a reference that was served from a store, in both its runs",
        "repeatable:cold",
        lambda e: e.with_turn("cold", "a", cached=8, prefilled=21).with_turn(
            "cold", "a", rep=1, cached=8, prefilled=21
        ),
        ERROR,
        "reference_not_cold",
    ),
    (
        "a reference that forwarded nothing",
        "repeatable:cold",
        lambda e: e.with_turn("cold", "a", prefilled=0).with_turn("cold", "a", rep=1, prefilled=0),
        ERROR,
        "reference_not_cold",
    ),
    (
        "restored elsewhere",
        "again",
        lambda e: e.with_point("warm", "again", Phase.RESTORED, position=16),
        FAIL,
        "restore_not_witnessed",
    ),
    (
        "a cold run that reused",
        "first",
        lambda e: e.with_turn("warm", "first", cached=8, prefilled=21),
        FAIL,
        "restore_not_witnessed",
    ),
    (
        "a live turn that copied",
        "more",
        lambda e: e.with_turn("warm", "more", restored_bytes=1),
        FAIL,
        "restore_not_witnessed",
    ),
    (
        "a restore without bytes",
        "fork",
        lambda e: e.with_step("warm", "fork", detail={"cached": 33}),
        FAIL,
        "restore_not_witnessed",
    ),
    (
        "a resumed turn that forwarded all",
        "rest",
        lambda e: e.with_turn("halves", "rest", prefilled=29),
        FAIL,
        "restore_not_witnessed",
    ),
    (
        "no look after the restore",
        "again",
        lambda e: e.without_point("warm", "again", Phase.RESTORED),
        ERROR,
        "observation_missing",
    ),
    ("no last look", "again", lambda e: e.without_point("warm", "again", Phase.END), ERROR, "observation_missing"),
    (
        "no last look in the reference",
        "again",
        lambda e: e.without_point("cold", "a", Phase.END),
        ERROR,
        "observation_missing",
    ),
    ("no turn", "again", lambda e: e.without(_turn("warm", "again")), ERROR, "observation_missing"),
    (
        "no boundary in the reference",
        "again",
        lambda e: e.without_point("cold", "a", Phase.BOUNDARY, position=WHOLE),
        ERROR,
        "observation_missing",
    ),
    (
        "no boundary in its second run",
        "again",
        lambda e: e.without_point("cold", "a", Phase.BOUNDARY, rep=1, position=WHOLE),
        ERROR,
        "observation_missing",
    ),
    ("two empty tables", "again", _emptied, ERROR, "nothing_compared"),
    ("no logits anywhere", "again", _without_logits, ERROR, "nothing_compared"),
    (
        "a cold run that varies",
        "again",
        lambda e: e.with_part("cold", "a", Phase.END, "layer1.k", rep=1),
        OPEN,
        "not_repeatable",
    ),
    ("a crash", "again", lambda e: e.with_crash("warm", "again", CrashKind.OUT_OF_MEMORY), ERROR, "out_of_memory"),
    ("a refusal", "again", lambda e: _refused(e, "warm", "again"), FAIL, "refused"),
    ("an option not known", "again", lambda e: _refused(e, "warm", "again", "unsupported"), ERROR, "unsupported"),
    ("a refused reference", "again", lambda e: _refused(e, "cold", "a"), ERROR, "reference_refused"),
    (
        "a touched session",
        "untouched",
        lambda e: e.with_part("warm", "after", Phase.SEEN, "layer0.conv"),
        FAIL,
        "parts_differ",
    ),
    (
        "touched logits",
        "untouched",
        lambda e: e.with_point("warm", "after", Phase.SEEN, logits=OTHER),
        FAIL,
        "logits_differ",
    ),
    ("a look lost", "untouched", lambda e: e.without_point("warm", "before", Phase.SEEN), ERROR, "observation_missing"),
]

COUNTS: list[tuple[str, str, Change, Outcome, str]] = [
    (
        "fewer tokens reused",
        "cached",
        lambda e: e.with_turn("warm", "again", cached=8, prefilled=21),
        FAIL,
        "other_count",
    ),
    (
        "tokens that do not add up",
        "cached",
        lambda e: e.with_turn("warm", "again", prefilled=1),
        FAIL,
        "tokens_unaccounted",
    ),
    ("no turn", "cached", lambda e: e.without(_turn("warm", "again")), ERROR, "observation_missing"),
    ("nothing refused", "no", lambda e: e.with_step("warm", "no", ended="done", code=""), FAIL, "not_refused"),
    ("the wrong no", "no", lambda e: e.with_step("warm", "no", code="state"), FAIL, "other_code"),
    ("no record", "no", lambda e: e.without(_step("warm", "no")), ERROR, "observation_missing"),
    ("one byte more", "units", lambda e: _grown(e, 1), FAIL, "other_size"),
    ("bytes that are not listed", "units", lambda e: _counted(e, stored_bytes=1), FAIL, "bytes_unaccounted"),
    (
        "no counter of bytes",
        "units",
        lambda e: e.with_store("warm", "held", counters={"restores": 0}),
        ERROR,
        "counter_missing",
    ),
    (
        "an empty unit",
        "units",
        lambda e: e.with_store("unit", "held", counters={"stored_bytes": 0}, entries=()),
        ERROR,
        "no_unit",
    ),
    ("no store seen", "units", lambda e: e.without(_store("warm", "held")), ERROR, "observation_missing"),
    ("no unit seen", "units", lambda e: e.without(_store("unit", "held")), ERROR, "observation_missing"),
    ("one byte too many in a snapshot", "sizes", lambda e: _grown(e, 1), FAIL, "other_size"),
    ("one byte too few in a snapshot", "sizes", lambda e: _grown(e, -1), FAIL, "other_size"),
    (
        "nothing held",
        "sizes",
        lambda e: e.with_store("warm", "held", entries=(), counters={"stored_bytes": 0}),
        ERROR,
        "nothing_compared",
    ),
    ("no boundaries", "sizes", lambda e: e.without(_boundaries), ERROR, "observation_missing"),
    ("twice the bytes", "ratio", lambda e: _grown(e, 5000), FAIL, "too_large"),
    ("nothing to compare with", "ratio", lambda e: e.without(_boundaries), ERROR, "observation_missing"),
    (
        "nothing held at all",
        "ratio",
        lambda e: e.with_store("warm", "held", entries=(), counters={"stored_bytes": 0}),
        ERROR,
        "nothing_compared",
    ),
    ("a snapshot less", "entries", _dropped_entry, FAIL, "other_count"),
    ("a pending snapshot", "entries", _pending, FAIL, "other_count"),
    ("a count that is not listed", "entries", lambda e: _counted(e, entries=9), FAIL, "entries_unaccounted"),
    ("another counter", "restores", lambda e: _counted(e, restores=1), FAIL, "other_count"),
    (
        "no such counter",
        "restores",
        lambda e: e.with_store("warm", "held", counters={"stored_bytes": 1}),
        ERROR,
        "counter_missing",
    ),
]

GROUND: list[tuple[str, str, Change, Outcome, str]] = [
    ("a flip that does not show", "flip-seen", _healed, ERROR, "control_not_seen"),
    ("a flip in another part only", "flip-seen", _moved_flip, ERROR, "control_not_seen"),
    ("another text that does not show", "other-seen", _same_text, ERROR, "control_not_seen"),
    (
        "a control that was lost",
        "flip-seen",
        lambda e: e.without_point("flipped", "again", Phase.RESTORED),
        ERROR,
        "observation_missing",
    ),
    ("a control that crashed", "flip-seen", lambda e: e.with_crash("flipped", "again"), ERROR, "crash"),
    (
        "a control against a varying reference",
        "other-seen",
        lambda e: e.with_part("cold", "a", Phase.END, "layer1.k", rep=1),
        OPEN,
        "not_repeatable",
    ),
    (
        "varying parts",
        "repeatable:cold",
        lambda e: e.with_part("cold", "a", Phase.BOUNDARY, "layer1.k", rep=1),
        OPEN,
        "not_repeatable",
    ),
    (
        "varying tokens",
        "repeatable:cold",
        lambda e: e.with_point("cold", "a", Phase.END, rep=1, tokens=(9, 9, 9, 9)),
        OPEN,
        "not_repeatable",
    ),
    (
        "varying counts",
        "repeatable:cold",
        lambda e: e.with_turn("cold", "a", rep=1, prefilled=28),
        OPEN,
        "not_repeatable",
    ),
    (
        "other boundaries",
        "repeatable:cold",
        lambda e: e.with_point("cold", "a", Phase.BOUNDARY, rep=1, at=8, position=9),
        OPEN,
        "not_repeatable",
    ),
    (
        "no second run",
        "repeatable:cold",
        lambda e: e.without(lambda one: getattr(one, "rep", 0) == 1),
        ERROR,
        "observation_missing",
    ),
    (
        "no metadata",
        "inventory",
        lambda e: e.with_rows("warm", "first", Phase.END, lambda rows: rows[1:]),
        FAIL,
        "no_metadata",
    ),
    (
        "one part only",
        "inventory",
        lambda e: e.with_rows("warm", "first", Phase.END, lambda rows: rows[:1]),
        FAIL,
        "too_few_parts",
    ),
    (
        "a name twice",
        "inventory",
        lambda e: e.with_rows("warm", "first", Phase.END, lambda rows: [*rows, rows[1]]),
        FAIL,
        "name_twice",
    ),
    (
        "a family missing",
        "inventory",
        lambda e: e.with_rows("warm", "first", Phase.END, lambda rows: [r for r in rows if r.family != "conv"]),
        FAIL,
        "family_missing",
    ),
    (
        "parts that come and go",
        "inventory",
        lambda e: e.with_rows("warm", "first", Phase.END, lambda rows: [r for r in rows if r.name != "layer1.v"]),
        FAIL,
        "parts_come_and_go",
    ),
    (
        "K rows of no row",
        "inventory",
        lambda e: e.with_part("warm", "first", Phase.END, "layer1.k", shape=(0, 2, 4), bytes=0, sha256=NOTHING),
        FAIL,
        "part_never_written",
    ),
    (
        "rows of another type than the target says",
        "inventory",
        lambda e: e.with_target(identity={"kv_type": "f16"}),
        FAIL,
        "other_element_type",
    ),
    (
        "a size that does not fit",
        "inventory",
        lambda e: e.with_part("warm", "first", Phase.END, "layer1.k", bytes=7),
        FAIL,
        "size_does_not_fit",
    ),
    ("no bytes", "inventory", lambda e: e.with_part("warm", "first", Phase.END, "layer1.k", bytes=0), FAIL, "no_bytes"),
    (
        "the digest of nothing",
        "inventory",
        lambda e: e.with_part(
            "warm",
            "first",
            Phase.END,
            "layer1.k",
            sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        FAIL,
        "digest_of_nothing",
    ),
    ("no look at all", "inventory", lambda e: e.without(lambda one: isinstance(one, Point)), ERROR, "nothing_compared"),
    ("a crash", "finished", lambda e: e.with_crash("halves", "rest", CrashKind.HANG), ERROR, "hang"),
    (
        "no end of the cell",
        "finished",
        lambda e: e.without(lambda one: isinstance(one, CellEvent) and one.event == "end"),
        ERROR,
        "cell_not_closed",
    ),
    (
        "a step without a record",
        "finished",
        lambda e: e.without(_step("flipped", "flip")),
        ERROR,
        "observation_missing",
    ),
    (
        "a record of another kind",
        "finished",
        lambda e: e.with_step("flipped", "flip", kind="observe"),
        ERROR,
        "observation_missing",
    ),
    ("a store not seen", "finished", lambda e: e.without(_store("unit", "held")), ERROR, "observation_missing"),
    (
        "a look missing",
        "finished",
        lambda e: e.without_point("halves", "first", Phase.PREFILLED),
        ERROR,
        "observation_missing",
    ),
    ("another prompt", "finished", lambda e: e.with_turn("cold", "a", prompt_digest=OTHER), ERROR, "other_prompt"),
    ("a shorter prompt", "finished", lambda e: e.with_turn("unit", "one", prompt_tokens=8), ERROR, "other_prompt"),
    (
        "another extension",
        "finished",
        lambda e: e.with_turn("warm", "more", prompt_digest=OTHER),
        ERROR,
        "other_prompt",
    ),
    ("a longer extension", "finished", lambda e: e.with_turn("warm", "more", prompt_tokens=99), ERROR, "other_prompt"),
    (
        "another resumed prompt",
        "finished",
        lambda e: e.with_turn("halves", "rest", prompt_digest=OTHER),
        ERROR,
        "other_prompt",
    ),
    (
        "fewer tokens shown",
        "finished",
        lambda e: e.with_point("warm", "again", Phase.END, tokens=(9,)),
        ERROR,
        "other_decode_count",
    ),
    (
        "fewer tokens decoded",
        "finished",
        lambda e: e.with_turn("warm", "again", decoded=1),
        ERROR,
        "other_decode_count",
    ),
    ("a refused control", "finished", lambda e: _refused(e, "flipped", "again"), ERROR, "control_refused"),
    ("a refused candidate", "finished", lambda e: _refused(e, "warm", "again"), FAIL, "refused"),
    (
        "a refused manipulation",
        "finished",
        lambda e: e.with_step("flipped", "flip", ended="refused", code="missing"),
        ERROR,
        "control_refused",
    ),
]


@pytest.mark.parametrize(
    ("check", "change", "outcome", "reason"),
    [pytest.param(*row[1:], id=f"{row[1]}: {row[0]}") for row in (*EXACT, *COUNTS, *GROUND)],
)
def test_a_change_has_its_named_outcome(check: str, change: Change, outcome: Outcome, reason: str) -> None:
    cell = change(BASE).cell()

    result = next(one for one in cell.checks if one.id == check)
    assert (result.outcome, result.reason) == (outcome, reason)
    assert cell.outcome is not Outcome.PASS


def test_the_first_difference_is_named_with_what_the_run_located() -> None:
    located = Difference(
        cell=CellId(CELL), check="again", phase=Phase.RESTORED, part="layer0.recurrent", family="recurrent", layer=0,
        element_type="f32", byte=6, row=0, element=1, reference="0000803f", candidate="0000c03f",
        reference_value="1", candidate_value="1.5", differing_elements=1, differing_rows=1, last_row=0,
        shape="single_bit", parts_differing=1,
    )  # fmt: skip
    changed = BASE.with_part("warm", "again", Phase.RESTORED, "layer0.recurrent")
    seen = changed.observations.index(changed.point("warm", "again", Phase.RESTORED)) + 1
    changed = replace(changed, observations=(*changed.observations[:seen], located, *changed.observations[seen:]))

    detail = changed.result("again").detail

    assert detail["part"] == "layer0.recurrent"
    assert detail["phase"] == "restored"
    assert detail["byte"] == 6
    assert detail["shape"] == "single_bit"
    assert detail["parts_differing"] == 1


def test_a_failing_comparison_beside_an_unseen_control_is_an_error() -> None:
    changed = _healed(BASE).with_part("warm", "again", Phase.END, "layer1.k")

    assert changed.result("again").outcome is Outcome.FAIL
    assert changed.cell().outcome is Outcome.ERROR


def test_a_type_that_only_the_target_knows_is_held_to_nothing() -> None:
    assert recorded().with_target(identity={"kv_type": "of_its_own"}).result("inventory").outcome is Outcome.PASS


@pytest.mark.parametrize("kind", CheckKind)
def test_every_kind_of_check_has_a_file_that_answers_it(kind: CheckKind) -> None:
    assert check_of(kind).__module__ == f"harness.deriving.checks.{FILES[kind]}"


def test_no_two_kinds_of_check_share_a_file() -> None:
    assert len(set(FILES.values())) == len(CheckKind)


def test_logits_without_a_byte_are_none() -> None:
    looks = [replace(one, logits=NOTHING) if isinstance(one, Point) else one for one in BASE.observations]
    result = replace(BASE, observations=tuple(looks)).result("again")

    assert (result.outcome, result.reason, result.detail["field"]) == (ERROR, "nothing_compared", "logits")
