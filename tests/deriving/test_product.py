"""The product of a scenario: what its language means, and what it refuses, with the path."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from harness.deriving.product import expand
from harness.deriving.prompts import prompt_digest, prompt_ids, prompt_summary
from harness.deriving.support import capabilities_missing, for_target
from harness.errors import InvalidScenarioError, UsageError
from harness.model.scenario import CheckKind, PromptSegment, PromptSpec, StepKind
from harness.model.values import Capability, Observability, Witness
from harness.wire.resources import resource_names, resource_text
from harness.wire.scenario_doc import parse_scenario, scenario_from_mapping
from harness.wire.yaml_text import load_yaml
from tests.fakes.evidence import SCENARIO, scenario


def changed(change: Callable[[dict[str, Any]], None]) -> Any:
    """Return the test scenario after one change to its procedure."""
    value = copy.deepcopy(load_yaml(SCENARIO, "test.yaml"))
    assert isinstance(value, dict)
    change(value["procedure"])
    return scenario_from_mapping(value, "test.yaml")


def test_lengths_scale_and_plus_does_not() -> None:
    (cell,) = expand(scenario(), [16]).cells

    assert cell.id == "T01[scale=16]"
    assert cell.engine == {"chunk": 8, "max_seq_len": 64, "arch": "hybrid"}
    assert {name: prompt.length for name, prompt in cell.prompts.items()} == {"A": 29, "one": 9, "more": 6, "wrong": 29}


def test_the_capacity_holds_the_longest_session_with_decodes_and_extensions() -> None:
    (cell,) = expand(scenario(), [1]).cells

    assert cell.engine["max_seq_len"] == 512  # 3 * 128 + 80 + 4 + 6 + 2 = 476, rounded up to 64
    assert expand(changed(lambda p: p["engine"].update(max_seq_len=96)), [1]).cells[0].engine["max_seq_len"] == 96


def test_axes_run_in_the_order_of_their_names_and_scale_comes_first() -> None:
    def change(p: dict[str, Any]) -> None:
        p.update(axes={"b": [1, 2], "a": {"y": {"k": 5}, "x": {"k": 4}}}, chunk=128)
        p["prompts"]["more"] = [{"seed": "$b", "length": "$a.k"}]

    found = changed(change)

    cells = expand(found, [16, 4]).cells

    assert [cell.id for cell in cells[:4]] == [
        "T01[scale=4,a=x,b=1]",
        "T01[scale=4,a=x,b=2]",
        "T01[scale=4,a=y,b=1]",
        "T01[scale=4,a=y,b=2]",
    ]
    assert len(cells) == 8


def test_a_list_in_the_place_of_an_element_gives_its_elements() -> None:
    def change(p: dict[str, Any]) -> None:
        p["axes"] = {"route": {"ar": {"families": []}, "mtp": {"families": ["draft"]}}, "n": [1]}
        p["families"] = ["kv", "$route.families"]
        p["prompts"]["more"] = [{"seed": "$n", "length": 6}]

    plain, drafted = expand(changed(change), [16]).cells

    assert plain.families == ("kv",)
    assert drafted.families == ("kv", "draft")


def when(labels: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    def change(p: dict[str, Any]) -> None:
        p["axes"] = {"n": [1, 2]}
        p["prompts"]["more"] = [{"seed": "$n", "length": 6}]
        p["checks"].append({"id": "sometimes", "when": labels, "cached": {"at": "warm.again", "equals": 0}})

    return change


def test_a_check_with_a_condition_is_asked_where_it_holds() -> None:
    one, two = expand(changed(when({"n": 2})), [16]).cells

    assert "sometimes" not in [check.id for check in one.checks]
    assert "sometimes" in [check.id for check in two.checks]


@pytest.mark.parametrize(("labels", "word"), [({"n": 3}, "found label 3"), ({"m": 1}, "found axis 'm'")])
def test_a_condition_of_a_check_names_a_label_that_exists(labels: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidScenarioError, match=word):
        expand(changed(when(labels)), [16])


def asking(*steps: dict[str, Any]) -> Any:
    def change(p: dict[str, Any]) -> None:
        p["arms"].append({"id": "asks", "role": "candidate", "steps": list(steps)})

    return changed(change)


OPEN = {"run": {"prompt": "A", "until": {"chunks": 1}}}
DONE = {"run": {"prompt": "A", "as": "done"}}
SAVED = {"snapshot": {"handle": "h2", "as": "saved"}}


@pytest.mark.parametrize(
    "steps",
    [
        [OPEN, {"meanwhile": {"ask": "snapshot"}}],
        [DONE, {"meanwhile": {"ask": "begin", "count": 3}}],
        [DONE, SAVED, {"meanwhile": {"ask": "restore", "handle": "h2", "count": 3}}],
    ],
)
def test_a_session_is_asked_in_the_middle_of_a_prefill_or_a_decode(steps: list[dict[str, Any]]) -> None:
    (cell,) = expand(asking(*steps), [16]).cells

    step = cell.arms[-1].steps[-1]
    assert step.kind is StepKind.MEANWHILE
    assert step.count == (0 if steps[0] is OPEN else 3)


@pytest.mark.parametrize(
    ("steps", "word"),
    [
        ([DONE, {"meanwhile": {"ask": "snapshot"}}], "no open turn"),
        ([OPEN, {"meanwhile": {"ask": "snapshot", "count": 3}}], "in an open turn"),
        ([OPEN, {"meanwhile": {"ask": "restore"}}], "belong together"),
        ([OPEN, {"meanwhile": {"ask": "begin", "handle": "h2"}}], "belong together"),
        ([OPEN, {"meanwhile": {"ask": "restore", "handle": "nobody"}}], "nobody"),
    ],
)
def test_a_request_in_the_middle_of_nothing_is_refused(steps: list[dict[str, Any]], word: str) -> None:
    with pytest.raises(InvalidScenarioError, match=word):
        expand(asking(*steps), [16])


def test_an_axis_reference_stands_for_a_whole_value() -> None:
    def change(p: dict[str, Any]) -> None:
        p["axes"] = {"how": {"short": {"length": {"chunks": 1, "plus": 1}, "witness": "none"}}}
        p["prompts"]["more"] = [{"seed": 2, "length": "$how.length"}]
        p["checks"][0]["exact"]["witness"] = "$how.witness"

    (cell,) = expand(changed(change), [16]).cells

    assert cell.prompts["more"].length == 9
    assert cell.checks[0].witness is Witness.NONE


def test_labels_defaults_and_automatic_checks() -> None:
    def change(p: dict[str, Any]) -> None:
        del p["arms"][5]["steps"][0]["run"]["as"]
        p["checks"][-1]["seen"]["candidate"] = "other.run-1"

    (cell,) = expand(changed(change), [16]).cells

    assert cell.arms[5].steps[0].label == "run-1"
    assert [check.id for check in cell.checks[-3:]] == ["repeatable:cold", "inventory", "finished"]
    assert cell.checks[-1].kind is CheckKind.FINISHED
    assert cell.arms[0].steps[0].kind is StepKind.RUN


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda p: p["checks"][0]["exact"].update(candidate="warm.nothing"), "no such step"),
        (lambda p: p["checks"][0]["exact"].update(candidate="flipped.again"), "control arm"),
        (lambda p: p["checks"][0]["exact"].update(candidate="cold.a"), "always equals itself"),
        (lambda p: p["checks"][0]["exact"].update(phases=["seen"]), "this candidate has"),
        (lambda p: p["checks"][0]["exact"].update(candidate="warm.held"), "looked at"),
        (lambda p: p["checks"][3]["exact"].update(reference="unit.one"), "reference has no phase"),
        (lambda p: p["checks"][6]["cached"].update(at="warm.held"), "run, resume or extend"),
        (lambda p: p["checks"][7]["refused"].update(at="warm.fork"), "may_refuse"),
        (lambda p: p["checks"][8]["stored"].update(unit="unit.one"), "a store step"),
        (lambda p: p["checks"][9]["sized"].update(reference="warm.first"), "every boundary"),
        (lambda p: p["checks"][-1]["seen"].update(candidate="warm.first"), "outside a control"),
        (lambda p: p["checks"].__delitem__(slice(-2, None)), "prove that it could fail"),
        (lambda p: p.update(checks=[p["checks"][5]]), "unchanged and no seen check"),
        (lambda p: p.update(axes={"a": [1, 2]}), r"T01\[scale=16,a=1\] and T01\[scale=16,a=2\], which do the same"),
        (lambda p: p.update(axes={"a": {"x": {"k": 64}, "y": {"k": 64}}}, chunk="$a.k"), "do the same"),
        (lambda p: p.update(axes={name: [*range(64)] for name in "abc"}), "procedure/axes.* found 262144 cells"),
        (lambda p: p["prompts"].update(more=[{"seed": 2, "length": {"plus": 4_194_305}}]), "allowed are 4194304"),
        (lambda p: p["checks"].append(copy.deepcopy(p["checks"][0])), "twice"),
        (lambda p: p["checks"][0].update(id="finished"), "twice"),
        (lambda p: p["arms"][0].update(role="candidate"), "repeats itself"),
        (lambda p: p["arms"].append(copy.deepcopy(p["arms"][1])), "unique"),
        (lambda p: p["arms"][1]["steps"].append(p["arms"][1]["steps"][0]), "twice"),
        (lambda p: p["arms"][1]["steps"][0]["run"].update(prompt="B"), "found prompt 'B'"),
        (lambda p: p["arms"][1]["steps"][0]["run"].update(until=500), "until"),
        (lambda p: p["arms"][1]["steps"].insert(0, {"resume": {}}), "no open turn"),
        (lambda p: p["arms"][1]["steps"].insert(0, {"decode": {"count": 1}}), "empty"),
        (lambda p: p["arms"][1]["steps"].insert(0, {"restore": {"handle": "h"}}), "taken before"),
        (lambda p: p["arms"][1]["steps"].insert(0, {"budget": {"times": 1, "of": "warm.held"}}), "ran earlier"),
        (lambda p: p["prompts"].update(one=[{"prefix_of": "one", "length": 1}]), "not made from this one"),
        (lambda p: p["prompts"].update(more=[{"prefix_of": "A", "length": {"chunks": 9}}]), "which has 29"),
        (lambda p: p["prompts"].update(more=[{"seed": 1, "length": 4, "change_at": 4}]), "change_at"),
        (lambda p: p["prompts"].update(more=[{"seed": 1, "length": {"plus": -3}}]), "-3 tokens"),
        (lambda p: p["prompts"].update(more=[{"seed": 1, "length": "$size"}]), r"found \$size"),
        (lambda p: p.update(axes={"a": {"x": {"k": 1}}}, engine={"arch": "$a.z"}), "keys of this value"),
        (lambda p: p.update(axes={"a": ["x"]}, chunk="$a"), "does not fit schema"),
        (lambda p: p.update(exclude=[{"when": {"a": 1}, "reason": "x"}]), "found axis 'a'"),
        (lambda p: p.update(axes={"a": [1]}, exclude=[{"when": {"a": 2}, "reason": "x"}]), "found label 2"),
        (lambda p: p.update(chunk=4), "scale 16 makes 0"),
        (lambda p: p["requires"].remove("parts"), "needs the capability parts"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_path(change: Callable[[dict[str, Any]], None], text: str) -> None:
    with pytest.raises(InvalidScenarioError, match=text) as refused:
        expand(changed(change), [16], where="test.yaml")

    assert refused.value.where.startswith("test.yaml")


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.update(extra=1),
        lambda p: p["checks"][0].update(seen={}),
        lambda p: p["checks"][0]["exact"].update(guarantee="tolerance"),
        lambda p: p["arms"][0]["steps"][0].update(decode={"count": 1}),
        lambda p: p["arms"][4]["steps"][1]["corrupt"].update(mask=0),
        lambda p: p["checks"][6]["cached"].pop("equals"),
        lambda p: p.update(arms=[]),
        lambda p: p["checks"][0].update(id="a:b"),
    ],
)
def test_the_schema_is_closed(change: Callable[[dict[str, Any]], None]) -> None:
    with pytest.raises(InvalidScenarioError, match="does not fit schema"):
        changed(change)


def test_unknown_cells_and_scales_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="no cell"):
        expand(scenario(), [16], selected=["T01[scale=1]"])
    with pytest.raises(UsageError, match="scales"):
        expand(scenario(), [])


def test_prompt_ids_follow_the_generator_of_the_language() -> None:
    specs = {
        "a": PromptSpec(segments=[PromptSegment(tokens=3, seed=5)]),
        "b": PromptSpec(
            segments=[PromptSegment(tokens=2, prefix_of="a", change_at=1), PromptSegment(tokens=1, seed=6)]
        ),
    }
    state, ids = 5, []
    for _ in range(3):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        ids.append(8 + (state >> 33) % 496)

    found = prompt_ids(specs, "b")

    assert prompt_ids(specs, "a") == tuple(ids)
    assert found[0] == ids[0]
    assert found[1] == 8 + (ids[1] - 8 + 1) % 496
    assert len(found) == 3
    assert prompt_digest((1, 256)) == hashlib.sha256(bytes([1, 0, 0, 0, 0, 1, 0, 0])).hexdigest()


def test_ids_of_a_prompt_are_taken_as_they_are() -> None:
    specs = {"a": PromptSpec(segments=[PromptSegment(tokens=2, ids=(0, 505)), PromptSegment(tokens=1, seed=5)])}

    assert specs["a"].length == 3
    assert prompt_ids(specs, "a")[:2] == (0, 505)


def test_a_segment_of_ids_has_no_length_of_its_own() -> None:
    with pytest.raises(InvalidScenarioError, match="does not fit schema"):
        changed(lambda p: p["prompts"]["A"].append({"ids": [1], "length": 1}))


def test_a_prompt_of_65536_tokens_is_made_at_once() -> None:
    specs = {"long": PromptSpec(segments=[PromptSegment(tokens=65536, seed=77)])}

    ids = prompt_ids(specs, "long")

    assert len(ids) == 65536
    assert min(ids) >= 8
    assert max(ids) <= 503


def test_missing_capabilities_are_named_and_a_cell_keeps_a_control() -> None:
    (cell,) = expand(scenario(), [16]).cells
    everything = set(Capability)

    assert capabilities_missing(cell, everything) == ()
    assert capabilities_missing(cell, everything - {Capability.STORE}) == ("store",)
    assert capabilities_missing(cell, everything, Observability.LOGITS) == ("observability",)
    assert "flipped" not in {arm.id for arm in for_target(cell, everything - {Capability.CORRUPT}).arms}


def test_a_cell_whose_controls_all_fall_away_is_not_supported() -> None:
    def only_flip(p: dict[str, Any]) -> None:
        del p["checks"][-1]

    (cell,) = expand(changed(only_flip), [16]).cells

    assert capabilities_missing(cell, set(Capability) - {Capability.CORRUPT}) == ("no_control",)


@pytest.mark.parametrize("name", [name for name in resource_names("scenarios") if name.endswith(".yaml")])
def test_every_scenario_of_the_catalogue_has_a_product(name: str) -> None:
    found = parse_scenario(resource_text("scenarios", name), name)

    for scales in found.suites.values():
        assert expand(found, scales, where=name).cells


@pytest.mark.parametrize("change", [{"tokens": 41}, {"seed": 6}, {"change_at": 3}, {"seed": None, "ids": (9,) * 40}])
def test_a_remembered_prompt_is_not_taken_for_another_one(change: dict[str, Any]) -> None:
    specs = {
        name: {"A": PromptSpec(segments=[PromptSegment(**{"tokens": 40, "seed": 5, **more})])}
        for name, more in {"first": {}, "other": change}.items()
    }

    for spec in (specs["first"], specs["other"], specs["first"]):
        ids = prompt_ids(spec, "A")
        assert prompt_summary(spec, "A") == (len(ids), ids[-1], prompt_digest(ids))
    assert prompt_summary(specs["first"], "A") != prompt_summary(specs["other"], "A")


def test_the_source_of_a_remembered_prompt_counts_too() -> None:
    def specs(seed: int) -> dict[str, PromptSpec]:
        head = PromptSegment(tokens=20, prefix_of="A")
        source = PromptSpec(segments=[PromptSegment(tokens=40, seed=seed)])
        return {"A": source, "B": PromptSpec(segments=[head])}

    assert prompt_summary(specs(1), "B") != prompt_summary(specs(2), "B")
