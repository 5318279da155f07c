"""A plan on a small engine, from its expansion to its decision; and what breaks on the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.deriving.body import derive_body
from harness.engines.host import HostOptions
from harness.engines.spool import SpoolBudget
from harness.model.evidence import (
    CellEvent,
    Crash,
    Difference,
    Evidence,
    Observation,
    PartTable,
    Point,
    StepRecord,
    StoreView,
    Trust,
    Turn,
)
from harness.model.values import CrashKind, Phase
from tests.fakes.toy_support import (
    COLD,
    EXACT,
    FLIPPED,
    QUICK,
    SEEN,
    WARM,
    run_toy,
    toy_host,
    toy_plan,
    toy_procedure,
    toy_target,
)

pytestmark = pytest.mark.usefixtures("forked_toys")

WHOLE = toy_procedure([COLD, WARM, FLIPPED], [EXACT, SEEN])


def _outcomes(evidence: Evidence) -> dict[str, str]:
    body = derive_body(evidence)
    cells = body["cells"]
    assert isinstance(cells, list)
    return {check["id"]: check["outcome"] for cell in cells for check in cell["checks"]}


def _differences(evidence: Evidence) -> list[Difference]:
    return [one for one in evidence.observations if isinstance(one, Difference)]


def _points(evidence: Evidence, arm: str, label: str, rep: int = 0) -> list[tuple[Phase, int]]:
    found = [one for one in evidence.observations if isinstance(one, Point)]
    return [(one.phase, one.position) for one in found if (one.arm, one.label, one.rep) == (arm, label, rep)]


def _turn(evidence: Evidence, arm: str, label: str) -> Turn:
    found = [one for one in evidence.observations if isinstance(one, Turn)]
    return next(one for one in found if (one.arm, one.label) == (arm, label))


def test_a_sound_engine_passes_and_its_control_is_seen(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, toy_plan(WHOLE), tmp_path)

    assert set(_outcomes(evidence).values()) == {"pass"}
    assert evidence.end is not None
    assert not evidence.end.interrupted


def test_looks_are_taken_in_every_phase_and_both_runs_of_a_reference(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, toy_plan(WHOLE), tmp_path)

    cold = [(Phase.OPENED, 0), (Phase.BOUNDARY, 64), (Phase.BOUNDARY, 128), (Phase.PREFILLED, 148), (Phase.END, 152)]
    assert _points(evidence, "cold", "a", 0) == cold
    assert _points(evidence, "cold", "a", 1) == cold
    assert _points(evidence, "warm", "again") == [(Phase.RESTORED, 128), (Phase.PREFILLED, 148), (Phase.END, 152)]


def test_turns_hold_what_the_engine_counted(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, toy_plan(WHOLE), tmp_path)

    turn = _turn(evidence, "warm", "again")
    assert (turn.prompt_tokens, turn.cached, turn.prefilled, turn.decoded) == (148, 128, 20, 4)
    assert turn.restored_bytes == 32 + 128 * 16
    assert turn.first_token_ns >= turn.begin_ns + turn.prefill_ns + turn.commit_ns > 0


def test_a_flipped_bit_is_located_to_part_layer_row_and_element(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, toy_plan(WHOLE), tmp_path)

    first = _differences(evidence)[0]
    assert (first.check, first.phase, first.part, first.family, first.layer) == (
        "flip-seen",
        Phase.RESTORED,
        "layer1.k",
        "kv",
        1,
    )
    assert (first.byte, first.row, first.element, first.differing_elements) == (37, 2, 0, 1)
    assert first.shape == "single_bit"
    assert int(first.reference, 16) ^ int(first.candidate, 16) == 8 << 16
    assert first.parts_differing == 1


def test_without_room_for_reference_bytes_the_reference_is_run_again_and_tells_the_same(tmp_path: Path) -> None:
    roomy, tight = tmp_path / "roomy", tmp_path / "tight"
    options = HostOptions(limits=QUICK, spool=SpoolBudget(memory=0, disk=0))
    with toy_host(roomy) as host:
        kept = run_toy(host, toy_plan(WHOLE), roomy)

    with toy_host(tight, options=options) as host:
        again = run_toy(host, toy_plan(WHOLE), tight)

    assert _differences(kept) == [replace(one, rerun=False) for one in _differences(again)]
    assert [one.rerun for one in _differences(again)] == [True, True, True]


def test_what_a_restore_forgets_fails_right_after_it_at_the_part(tmp_path: Path) -> None:
    with toy_host(tmp_path, toy_target(fault="forget_recurrent")) as host:
        evidence = run_toy(host, toy_plan(WHOLE), tmp_path)

    assert _outcomes(evidence)["again-exact"] == "fail"
    first = _differences(evidence)[0]
    assert (first.check, first.phase, first.part, first.shape) == (
        "again-exact",
        Phase.RESTORED,
        "layer0.recurrent",
        "all_zero",
    )


def test_an_engine_that_does_not_repeat_itself_is_located_in_the_second_run(tmp_path: Path) -> None:
    with toy_host(tmp_path, toy_target(fault="unrepeatable")) as host:
        evidence = run_toy(host, toy_plan(WHOLE), tmp_path)

    assert _outcomes(evidence)["repeatable:cold"] == "inconclusive"
    assert _differences(evidence)[0].check == "repeatable:cold"


@pytest.mark.parametrize(
    ("how", "kind", "detail", "children"),
    [
        ("exit", CrashKind.CRASH, "exit_7", 2),
        ("abort", CrashKind.CRASH, "SIGABRT", 2),
        ("hang", CrashKind.HANG, "no_answer", 2),
        ("memory", CrashKind.OUT_OF_MEMORY, "MemoryError", 2),
        ("kill", CrashKind.OUT_OF_MEMORY, "SIGKILL", 2),
        ("refuse_oddly", CrashKind.PROTOCOL, "ProtocolError", 2),
        ("raise", CrashKind.ENGINE_ERROR, "ValueError", 1),
    ],
)
def test_what_breaks_is_an_observation_and_the_run_goes_on(
    tmp_path: Path, how: str, kind: CrashKind, detail: str, children: int
) -> None:
    broken = {**WARM, "engine": {"misbehave": how, "after": 1}}
    plan = toy_plan(toy_procedure([COLD, broken, FLIPPED], [EXACT, SEEN]))
    options = HostOptions(limits=replace(QUICK, call_s=2) if how == "hang" else QUICK)
    with toy_host(tmp_path, options=options) as host:
        evidence = run_toy(host, plan, tmp_path)

    crashes = [one for one in evidence.observations if isinstance(one, Crash)]
    assert [(one.arm, one.label, one.kind, one.detail) for one in crashes] == [("warm", "again", kind, detail)]
    outcomes = _outcomes(evidence)
    assert outcomes["finished"] == "error"
    assert outcomes["flip-seen"] == "pass"
    trust = [one for one in evidence.observations if isinstance(one, Trust)]
    assert {one.child for one in trust} == set(range(1, children + 1))


def test_a_reference_that_is_lost_with_its_child_is_run_again_to_locate_a_difference(tmp_path: Path) -> None:
    broken = {**WARM, "engine": {"misbehave": "exit", "after": 1}}
    plan = toy_plan(toy_procedure([COLD, broken, FLIPPED], [EXACT, SEEN]))
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, plan, tmp_path)

    assert [(one.check, one.phase) for one in _differences(evidence)] == [
        ("flip-seen", Phase.RESTORED),
        ("flip-seen", Phase.PREFILLED),
        ("flip-seen", Phase.END),
    ]


def test_an_engine_that_cannot_even_open_is_an_observation_of_every_arm(tmp_path: Path) -> None:
    plan = toy_plan(
        toy_procedure([COLD, WARM, FLIPPED], [EXACT, SEEN], engine={"misbehave": "raise", "during": "open"})
    )
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, plan, tmp_path)

    crashes = [one for one in evidence.observations if isinstance(one, Crash)]
    assert [(one.arm, one.rep) for one in crashes] == [("cold", 0), ("cold", 1), ("warm", 0), ("flipped", 0)]


def test_a_refused_step_ends_its_arm_with_its_code(tmp_path: Path) -> None:
    refusing = {**WARM, "engine": {"misbehave": "refuse", "during": "begin", "after": 1}}
    plan = toy_plan(toy_procedure([COLD, refusing, FLIPPED], [EXACT, SEEN]))
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, plan, tmp_path)

    steps = [one for one in evidence.observations if isinstance(one, StepRecord) and one.arm == "warm"]
    assert [(one.label, one.ended, one.code) for one in steps] == [("again", "refused", "budget")]


def test_options_that_the_engine_does_not_know_make_a_cell_that_is_not_supported(tmp_path: Path) -> None:
    plan = toy_plan(toy_procedure([COLD, WARM, FLIPPED], [EXACT, SEEN], engine={"wings": 2}))
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, plan, tmp_path)

    events = [one for one in evidence.observations if isinstance(one, CellEvent)]
    assert [(one.event, one.reason) for one in events] == [("not_supported", "engine_options")]
    assert "wings" in events[0].words


def test_options_of_one_arm_that_the_engine_does_not_know_make_a_cell_that_is_not_supported(tmp_path: Path) -> None:
    winged = {**FLIPPED, "engine": {"wings": 2}}
    plan = toy_plan(toy_procedure([COLD, WARM, winged], [EXACT, SEEN]))
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, plan, tmp_path)

    events = [one for one in evidence.observations if isinstance(one, CellEvent)]
    assert [(one.event, one.reason) for one in events] == [("begin", ""), ("not_supported", "engine_options")]


def test_a_capability_that_is_not_declared_makes_a_cell_that_is_not_supported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_LACKS", "prefix_cache")
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, toy_plan(WHOLE), tmp_path)

    assert [(one.event, one.reason) for one in evidence.observations if isinstance(one, CellEvent)] == [
        ("not_supported", "prefix_cache")
    ]


def test_a_device_that_is_absent_makes_cells_that_are_not_run(tmp_path: Path) -> None:
    with toy_host(tmp_path, toy_target("moon")) as host:
        evidence = run_toy(host, toy_plan(WHOLE), tmp_path)

    assert [(one.event, one.reason) for one in evidence.observations if isinstance(one, CellEvent)] == [
        ("not_run", "device_absent")
    ]


def test_a_cell_that_needs_two_devices_is_not_run_where_there_is_one(tmp_path: Path) -> None:
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, toy_plan(WHOLE | {"devices": 2}), tmp_path)

        assert host.alike == 1
    assert [(one.event, one.reason) for one in evidence.observations if isinstance(one, CellEvent)] == [
        ("not_run", "fewer_devices")
    ]


def test_an_interrupted_run_leaves_evidence_that_says_so(tmp_path: Path) -> None:
    plan = toy_plan(
        toy_procedure([COLD, WARM, FLIPPED], [EXACT, SEEN], axes={"threads": [1, 2, 3]}, engine={"threads": "$threads"})
    )

    def stop(observation: Observation) -> None:
        if isinstance(observation, Turn) and observation.cell == plan.cells[1].id:
            raise KeyboardInterrupt

    with toy_host(tmp_path) as host:
        evidence = run_toy(host, plan, tmp_path, progress=stop)

    assert evidence.end is not None
    assert evidence.end.interrupted
    ends = [(one.cell, one.event, one.reason) for one in evidence.observations if isinstance(one, CellEvent)]
    assert ends[-1] == (plan.cells[2].id, "not_run", "interrupted")
    assert ends[-2][:2] == (plan.cells[1].id, "begin")
    assert not (tmp_path / "spool").exists()


def test_only_selected_cells_are_run(tmp_path: Path) -> None:
    plan = toy_plan(
        toy_procedure([COLD, WARM, FLIPPED], [EXACT, SEEN], axes={"threads": [1, 2]}, engine={"threads": "$threads"})
    )
    chosen = replace(plan, selected=(plan.cells[1].id,))
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, chosen, tmp_path)

    assert {one.cell for one in evidence.observations if not isinstance(one, (PartTable, Trust))} == {plan.cells[1].id}


def test_snapshots_forks_and_second_turns_go_through_their_steps(tmp_path: Path) -> None:
    live = {
        "id": "live",
        "role": "reference",
        "steps": [
            {"run": {"prompt": "A", "as": "a"}},
            {"extend": {"prompt": "more", "decode": 3, "as": "next"}},
        ],
    }
    forked = {
        "id": "forked",
        "role": "candidate",
        "steps": [
            {"run": {"prompt": "A", "until": 64, "as": "head"}},
            {"resume": {"as": "a"}},
            {"snapshot": {"handle": "here", "as": "take"}},
            {"restore": {"handle": "here", "session": "other", "as": "back"}},
            {"extend": {"prompt": "more", "decode": 3, "session": "other", "as": "next"}},
            {"observe": {"as": "before"}},
            {"reset": {"as": "clean"}},
            {"close": {"session": "other", "as": "gone"}},
        ],
    }
    wrong = {"id": "wrong", "role": "control", "steps": [{"run": {"prompt": "B", "as": "a"}}]}
    checks = [
        {"id": "forked", "exact": {"candidate": "forked.next", "reference": "live.next", "guarantee": "session_exact"}},
        {"id": "resumed", "exact": {"candidate": "forked.a", "reference": "live.a"}},
        {"id": "wrong-seen", "seen": {"candidate": "wrong.a", "reference": "live.a"}},
    ]
    requires = ["parts", "logits", "boundaries", "extend", "snapshot"]
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, toy_plan(toy_procedure([live, forked, wrong], checks, requires=requires)), tmp_path)

    assert set(_outcomes(evidence).values()) == {"pass"}
    turn = _turn(evidence, "forked", "next")
    assert (turn.prompt_tokens, turn.cached, turn.prefilled) == (218, 148, 70)
    assert _points(evidence, "forked", "back") == [(Phase.OPENED, 0), (Phase.RESTORED, 148)]
    resumed = _turn(evidence, "forked", "a")
    assert (resumed.prompt_tokens, resumed.cached, resumed.prefilled) == (148, 0, 84)


def test_a_budget_may_be_a_multiple_of_what_was_seen_before(tmp_path: Path) -> None:
    arm = {
        "id": "tight",
        "role": "candidate",
        "steps": [
            {"run": {"prompt": "A", "cache": True, "as": "a"}},
            {"store": {"as": "held"}},
            {"budget": {"times": 3, "of": "tight.held", "plus": 5, "entries": 2, "as": "set"}},
            {"evict": {"count": -1, "as": "all"}},
            {"store": {"as": "empty"}},
        ],
    }
    checks = [{"id": "empty", "entries": {"at": "tight.empty", "equals": 0}}]
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, toy_plan(toy_procedure([COLD, arm], checks)), tmp_path)

    steps = {one.label: one.detail for one in evidence.observations if isinstance(one, StepRecord)}
    held = next(one for one in evidence.observations if isinstance(one, StoreView))
    assert held.counters["stored_bytes"] == 2 * (32 + 64 * 16)
    assert steps["set"] == {"bytes": 3 * held.counters["stored_bytes"] + 5, "entries": 2}
    assert steps["all"] == {"asked": -1, "evicted": 2}


@pytest.mark.parametrize(
    "target",
    [
        {"where": "store", "boundary": {"chunks": 7}, "part": "kv", "byte": 1, "mask": 1},
        {"where": "live", "part": "conv", "byte": 1, "mask": 1},
        {"where": "live", "part": "kv", "byte": 10**6, "mask": 1},
    ],
)
def test_a_corruption_without_a_place_is_refused_by_name(tmp_path: Path, target: dict[str, object]) -> None:
    arm = {
        **FLIPPED,
        "steps": [{"run": {"prompt": "A", "cache": True, "as": "first"}}, {"corrupt": {**target, "as": "x"}}],
    }
    checks = [EXACT, {"id": "seen", "seen": {"candidate": "flipped.first", "reference": "cold.a"}}]
    with toy_host(tmp_path) as host:
        evidence = run_toy(host, toy_plan(toy_procedure([COLD, WARM, arm], checks)), tmp_path)

    record = next(one for one in evidence.observations if isinstance(one, StepRecord) and one.label == "x")
    assert (record.ended, record.code) in {("refused", "missing"), ("refused", "short_buffer")}
