"""States that leave the session: images, a disk that outlives the process; and decodes that end early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.deriving.body import derive_body
from harness.errors import InvalidScenarioError
from harness.model.evidence import CellEvent, Crash, Evidence, StepRecord, StoreView, Turn
from tests.fakes.toy_support import COLD, EXACT, FLIPPED, SEEN, WARM, run_toy, toy_host, toy_plan, toy_procedure

pytestmark = pytest.mark.usefixtures("forked_toys")

GOING_ON: dict[str, object] = {
    "id": "cold",
    "role": "reference",
    "steps": [
        {"run": {"prompt": "A", "decode": 4, "as": "a"}},
        {"export": {"image": "i", "as": "out"}},
        {"decode": {"count": 6, "as": "on"}},
    ],
}
MOVED: dict[str, Any] = {
    "id": "moved",
    "role": "candidate",
    "steps": [
        {"run": {"prompt": "A", "decode": 4, "as": "a"}},
        {"observe": {"as": "before"}},
        {"export": {"image": "i", "as": "out"}},
        {"import": {"image": "i", "session": "other", "as": "in"}},
        {"observe": {"session": "other", "as": "there"}},
        {"export": {"image": "again", "session": "other", "as": "out2"}},
        {"decode": {"count": 6, "session": "other", "as": "on"}},
    ],
}
WRONG: dict[str, object] = {
    "id": "wrong",
    "role": "control",
    "steps": [{"run": {"prompt": "B", "decode": 4, "as": "a"}}, {"export": {"image": "i", "as": "out"}}],
}
IMAGE_CHECKS: list[dict[str, object]] = [
    {"id": "same", "same_image": {"candidate": "moved.out2", "reference": "cold.out"}},
    {"id": "there", "unchanged": {"candidate": "moved.there", "reference": "moved.before"}},
    {"id": "on", "exact": {"candidate": "moved.on", "reference": "cold.on", "witness": "copied"}},
    {"id": "wrong-image-seen", "seen": {"candidate": "wrong.out", "reference": "cold.out"}},
    {"id": "wrong-seen", "seen": {"candidate": "wrong.a", "reference": "cold.a"}},
]
REQUIRES = ("parts", "logits", "boundaries", "image")


def _run(
    folder: Path,
    arms: Sequence[object],
    checks: Sequence[object],
    *,
    requires: Sequence[str] = REQUIRES,
    engine: Mapping[str, object] | None = None,
) -> Evidence:
    with toy_host(folder) as host:
        return run_toy(host, toy_plan(toy_procedure(arms, checks, requires=requires, engine=engine)), folder)


def _results(evidence: Evidence) -> dict[str, tuple[str, str]]:
    cells = derive_body(evidence)["cells"]
    assert isinstance(cells, list)
    return {one["id"]: (one["outcome"], one.get("reason", "")) for cell in cells for one in cell["checks"]}


def _step(evidence: Evidence, label: str, arm: str = "") -> StepRecord:
    found = [one for one in evidence.observations if isinstance(one, StepRecord) and one.label == label]
    return next(one for one in found if arm in ("", one.arm))


def _turn(evidence: Evidence, arm: str, label: str) -> Turn:
    found = [one for one in evidence.observations if isinstance(one, Turn)]
    return next(one for one in found if (one.arm, one.label) == (arm, label))


# -- images --------------------------------------------------------------------------------------------------------


def test_an_image_goes_into_another_session_and_comes_out_the_same(tmp_path: Path) -> None:
    evidence = _run(tmp_path, [GOING_ON, MOVED, WRONG], IMAGE_CHECKS)

    assert set(_results(evidence).values()) == {("pass", "")}
    out, back = _step(evidence, "out", "moved"), _step(evidence, "out2")
    assert out.detail["bytes"] == back.detail["bytes"] == _step(evidence, "in").detail["bytes"]
    assert out.detail["sha256"] == back.detail["sha256"] == _step(evidence, "in").detail["sha256"]
    assert _step(evidence, "in").detail["cached"] == 152


@pytest.mark.parametrize(
    ("fault", "check", "result"),
    [
        ("import_forgets", "there", ("fail", "parts_differ")),
        ("import_forgets", "same", ("fail", "other_image")),
        ("unequal_images", "same", ("inconclusive", "not_repeatable")),
    ],
)
def test_what_an_image_loses_is_seen(tmp_path: Path, fault: str, check: str, result: tuple[str, str]) -> None:
    evidence = _run(tmp_path, [GOING_ON, MOVED, WRONG], IMAGE_CHECKS, engine={"fault": fault})

    found = _results(evidence)[check]
    assert found[0] == result[0]
    assert check == "there" or found[1] == result[1]


def test_a_forgery_that_an_engine_does_not_know_makes_a_cell_that_is_not_supported(tmp_path: Path) -> None:
    forge = {"alter": {"image": "i", "to": "bad", "how": "forge", "what": "flags", "as": "harm"}}
    forging = {**MOVED, "steps": [*MOVED["steps"][:3], forge, *MOVED["steps"][3:]]}

    evidence = _run(tmp_path, [GOING_ON, forging, WRONG], IMAGE_CHECKS, requires=[*REQUIRES, "corrupt"])

    events = [one for one in evidence.observations if isinstance(one, CellEvent)]
    assert [(one.event, one.reason) for one in events] == [("begin", ""), ("not_supported", "forge_image")]


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"how": "truncate"}, "format"),
        ({"how": "truncate", "count": 4000}, "short_buffer"),
        ({"how": "extend", "count": 3}, "format"),
        ({"how": "fragment"}, "short_buffer"),
        ({"how": "flip", "at": 0, "mask": 4}, "format"),
        ({"how": "flip", "at": -1}, "format"),
        ({"how": "flip", "at": -4_000_000}, "format"),
        ({"how": "forge", "what": "version"}, "unsupported"),
    ],
)
def test_an_altered_image_is_refused(tmp_path: Path, how: dict[str, object], code: str) -> None:
    arm = {
        "id": "refused",
        "role": "candidate",
        "steps": [
            {"run": {"prompt": "A", "decode": 4, "as": "a"}},
            {"observe": {"as": "before"}},
            {"export": {"image": "i", "as": "out"}},
            {"alter": {"image": "i", "to": "bad", **how, "as": "harm"}},
            {"import": {"image": "bad", "may_refuse": True, "as": "no"}},
            {"observe": {"as": "after"}},
        ],
    }
    checks = [
        {"id": "no", "refused": {"at": "refused.no", "codes": [code]}},
        {"id": "untouched", "unchanged": {"candidate": "refused.after", "reference": "refused.before"}},
        IMAGE_CHECKS[-1],
    ]
    evidence = _run(tmp_path, [GOING_ON, arm, WRONG], checks)

    assert set(_results(evidence).values()) == {("pass", "")}
    assert _step(evidence, "harm").detail["sha256"] != _step(evidence, "out", "refused").detail["sha256"]


def test_an_export_into_too_little_room_is_refused_and_leaves_no_image(tmp_path: Path) -> None:
    arm = {
        "id": "short",
        "role": "candidate",
        "steps": [
            {"run": {"prompt": "A", "as": "a"}},
            {"export": {"image": "i", "as": "whole"}},
            {"export": {"image": "i", "short_by": 1, "may_refuse": True, "as": "short"}},
            {"import": {"image": "i", "may_refuse": True, "as": "gone"}},
            {"export": {"image": "j", "capacity": 1000000, "as": "roomy"}},
        ],
    }
    checks = [
        {"id": "short", "refused": {"at": "short.short", "codes": ["short_buffer"]}},
        {"id": "gone", "refused": {"at": "short.gone", "codes": ["missing"]}},
        {"id": "roomy", "same_image": {"candidate": "short.roomy", "reference": "short.whole"}},
        IMAGE_CHECKS[-1],
    ]

    assert set(_results(_run(tmp_path, [GOING_ON, arm, WRONG], checks)).values()) == {("pass", "")}


def test_an_alteration_that_changes_nothing_is_no_alteration(tmp_path: Path) -> None:
    arm = {
        "id": "same",
        "role": "candidate",
        "steps": [
            {"run": {"prompt": "A", "as": "a"}},
            {"export": {"image": "i", "as": "out"}},
            {"alter": {"image": "i", "how": "splice", "of": "i", "at": 10, "as": "nothing"}},
        ],
    }
    evidence = _run(tmp_path, [arm], [{"id": "a", "cached": {"at": "same.a", "equals": 0}}])

    assert _step(evidence, "nothing").code == "missing"
    assert _results(evidence)["finished"] == ("error", "manipulation_refused")


# -- disks ---------------------------------------------------------------------------------------------------------

RESTARTED: dict[str, object] = {
    "id": "restarted",
    "role": "candidate",
    "engine": {"disk": "d"},
    "steps": [
        {"run": {"prompt": "A", "cache": True, "as": "first"}},
        {"rival": {"may_refuse": True, "as": "rival"}},
        {"restart": {"as": "down"}},
        {"store": {"as": "before"}},
        {"run": {"prompt": "A", "cache": True, "decode": 4, "as": "again"}},
        {"store": {"as": "after"}},
    ],
}
FROM_DISK = {"id": "disk", "exact": {"candidate": "restarted.again", "reference": "cold.a", "witness": "disk"}}
DISK_REQUIRES = ("parts", "logits", "boundaries", "prefix_cache", "disk")


def test_a_new_process_is_served_by_the_disk(tmp_path: Path) -> None:
    checks = [
        FROM_DISK,
        {"id": "locked", "refused": {"at": "restarted.rival", "codes": ["state"]}},
        {"id": "loaded", "counter": {"at": "restarted.after", "name": "disk_loads", "equals": 2}},
        SEEN,
    ]
    evidence = _run(tmp_path, [COLD, RESTARTED, FLIPPED], checks, requires=DISK_REQUIRES)

    assert set(_results(evidence).values()) == {("pass", "")}
    first, again, down = _turn(evidence, "restarted", "first"), _turn(evidence, "restarted", "again"), "down"
    assert first.process < again.process == _step(evidence, down).detail["process"]
    assert (first.disk_bytes, again.disk_bytes) == (0, 2 * (32 + 64 * 16))
    assert not (tmp_path / "disk" / "restarted-0").exists()
    assert not any("disk" in str(one.detail) for one in evidence.observations if isinstance(one, StepRecord))


def test_memory_does_not_pass_for_a_disk(tmp_path: Path) -> None:
    steps = [*RESTARTED["steps"], {"run": {"prompt": "A", "cache": True, "decode": 4, "as": "third"}}]  # type: ignore[misc]
    third = {"id": "third", "exact": {"candidate": "restarted.third", "reference": "cold.a", "witness": "disk"}}
    evidence = _run(
        tmp_path, [COLD, {**RESTARTED, "steps": steps}, FLIPPED], [FROM_DISK, third, SEEN], requires=DISK_REQUIRES
    )

    assert _results(evidence)["disk"] == ("pass", "")
    assert _results(evidence)["third"] == ("fail", "restore_not_witnessed")


def test_the_witness_disk_needs_a_restart() -> None:
    check = {"id": "disk", "exact": {"candidate": "warm.again", "reference": "cold.a", "witness": "disk"}}
    with pytest.raises(InvalidScenarioError, match="no restart step"):
        toy_plan(toy_procedure([COLD, WARM, FLIPPED], [EXACT, check, SEEN]))


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_what_was_not_written_before_a_kill_is_gone(tmp_path: Path, how: str) -> None:
    arm = {
        **RESTARTED,
        "steps": [
            {"run": {"prompt": "A", "cache": True, "as": "first"}},
            {"restart": {"how": how, "as": "down"}},
            {"run": {"prompt": "A", "cache": True, "decode": 4, "as": "again"}},
        ],
    }
    checks = [{"id": "cached", "cached": {"at": "restarted.again", "equals": 128 if how == "stop" else 0}}]
    evidence = _run(tmp_path, [arm], checks, requires=DISK_REQUIRES)

    assert _results(evidence)["cached"] == ("pass", "")
    assert not [one for one in evidence.observations if isinstance(one, Crash)]


@pytest.mark.parametrize(
    "harm", [{"what": "payload", "byte": 5}, {"what": "header", "byte": 3, "mask": 9}, {"what": "truncate"}]
)
def test_a_spoilt_file_is_refused_by_name(tmp_path: Path, harm: dict[str, object]) -> None:
    arm = {
        **RESTARTED,
        "steps": [
            {"run": {"prompt": "A", "cache": True, "as": "first"}},
            {"evict": {"count": -1, "as": "out"}},
            {"spoil": {**harm, "boundary": {"chunks": 1}, "as": "harm"}},
            {"restart": {"how": "kill", "as": "down"}},
            {"run": {"prompt": "A", "cache": True, "decode": 4, "may_refuse": True, "as": "again"}},
            {"store": {"as": "after"}},
        ],
    }
    checks = [
        {"id": "no", "refused": {"at": "restarted.again", "codes": ["format"]}},
        {"id": "kept", "counter": {"at": "restarted.after", "name": "disk_quarantined", "equals": 1}},
    ]

    assert set(_results(_run(tmp_path, [arm], checks, requires=DISK_REQUIRES)).values()) == {("pass", "")}


def test_a_file_that_is_not_there_cannot_be_spoilt(tmp_path: Path) -> None:
    arm = {
        **RESTARTED,
        "steps": [
            {"run": {"prompt": "A", "cache": True, "as": "first"}},
            {"spoil": {"what": "missing", "boundary": {"chunks": 1}, "as": "harm"}},
        ],
    }
    checks = [{"id": "cached", "cached": {"at": "restarted.first", "equals": 0}}]
    evidence = _run(tmp_path, [arm], checks, requires=DISK_REQUIRES)

    assert (_step(evidence, "harm").ended, _step(evidence, "harm").code) == ("refused", "missing")


def test_images_outlive_the_process(tmp_path: Path) -> None:
    arm = {
        **MOVED,
        "steps": [
            {"run": {"prompt": "A", "decode": 4, "as": "a"}},
            {"export": {"image": "i", "as": "out"}},
            {"restart": {"how": "kill", "as": "down"}},
            {"import": {"image": "i", "as": "in"}},
            {"decode": {"count": 6, "as": "on"}},
        ],
    }
    checks = [IMAGE_CHECKS[2], IMAGE_CHECKS[4]]

    assert set(_results(_run(tmp_path, [GOING_ON, arm, WRONG], checks)).values()) == {("pass", "")}


@pytest.mark.parametrize("label", ["../up", "UP", "", 3])
def test_a_disk_is_a_label(label: object) -> None:
    with pytest.raises(InvalidScenarioError, match="disk"):
        toy_plan(
            toy_procedure(
                [{**WARM, "engine": {"disk": label}}], [{"id": "c", "cached": {"at": "warm.first", "equals": 0}}]
            )
        )


# -- ends ----------------------------------------------------------------------------------------------------------


def test_a_decode_ends_at_a_stop_token_that_an_earlier_step_shows(tmp_path: Path) -> None:
    stopped = {
        "id": "stopped",
        "role": "candidate",
        "steps": [
            {"run": {"prompt": "A", "decode": 4, "stop_token": {"of": "cold.a", "index": 0}, "as": "a"}},
            {"decode": {"count": 3, "as": "on"}},
        ],
    }
    checks = [
        {"id": "stop", "ended": {"at": "stopped.a", "reason": "stop", "equals": 1}},
        {"id": "length", "ended": {"at": "stopped.on", "reason": "length", "equals": 3}},
        {"id": "cold", "ended": {"at": "cold.a", "reason": "length"}},
        {"id": "not", "ended": {"at": "cold.a", "reason": "stop"}},
    ]
    evidence = _run(tmp_path, [COLD, stopped], checks)

    results = _results(evidence)
    assert results.pop("not") == ("fail", "other_finish")
    assert set(results.values()) == {("pass", "")}
    assert _turn(evidence, "stopped", "a").decoded == 1


def test_a_cancelled_decode_leaves_a_session_that_refuses_to_go_on(tmp_path: Path) -> None:
    arm = {
        "id": "cancelled",
        "role": "candidate",
        "steps": [
            {"run": {"prompt": "A", "cache": True, "decode": 4, "cancel_after": 2, "as": "a"}},
            {"snapshot": {"handle": "h", "may_refuse": True, "as": "no_snapshot"}},
            {"export": {"image": "i", "may_refuse": True, "as": "no_image"}},
            {"decode": {"count": 1, "may_refuse": True, "as": "no_decode"}},
            {"run": {"prompt": "A", "cache": True, "until": {"chunks": 2}, "as": "half"}},
            {"cancel": {"as": "stop"}},
            {"resume": {"may_refuse": True, "as": "no_resume"}},
            {"run": {"prompt": "A", "cache": True, "decode": 4, "as": "b"}},
        ],
    }
    refusals = ["no_snapshot", "no_image", "no_decode", "no_resume"]
    checks = [
        {"id": "cancel", "ended": {"at": "cancelled.a", "reason": "cancel", "equals": 2}},
        *({"id": label, "refused": {"at": f"cancelled.{label}", "codes": ["state"]}} for label in refusals),
        {"id": "b", "exact": {"candidate": "cancelled.b", "reference": "cold.a", "witness": "copied"}},
        SEEN,
    ]

    assert set(_results(_run(tmp_path, [COLD, arm, FLIPPED], checks)).values()) == {("pass", "")}


def test_a_decode_that_fails_after_the_prompt_leaves_its_turn(tmp_path: Path) -> None:
    arm = {
        "id": "failing",
        "role": "candidate",
        "engine": {"misbehave": "refuse", "during": "decode"},
        "steps": [{"run": {"prompt": "A", "decode": 4, "may_refuse": True, "as": "a"}}],
    }
    checks = [
        {"id": "error", "ended": {"at": "failing.a", "reason": "error", "equals": 0}},
        {"id": "refused", "refused": {"at": "failing.a", "codes": ["budget"]}},
    ]

    assert set(_results(_run(tmp_path, [arm], checks)).values()) == {("pass", "")}


def test_pressure_gives_back_what_is_asked_for(tmp_path: Path) -> None:
    arm = {
        "id": "pressed",
        "role": "candidate",
        "steps": [
            {"run": {"prompt": "A", "cache": True, "as": "a"}},
            {"store": {"as": "held"}},
            {"pressure": {"bytes": 1, "as": "little"}},
            {"store": {"as": "less"}},
            {"pressure": {"times": 1, "of": "pressed.held", "as": "much"}},
            {"store": {"as": "none"}},
        ],
    }
    checks = [{"id": f"{n}", "entries": {"at": f"pressed.{at}", "equals": n}} for at, n in (("less", 1), ("none", 0))]
    evidence = _run(tmp_path, [arm], checks)

    assert set(_results(evidence).values()) == {("pass", "")}
    unit = 32 + 64 * 16
    assert _step(evidence, "little").detail == {"need": 1, "freed": unit}
    assert _step(evidence, "much").detail == {"need": 2 * unit, "freed": unit}
    assert [len(one.entries) for one in evidence.observations if isinstance(one, StoreView)] == [2, 1, 0]
