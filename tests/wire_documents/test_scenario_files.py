"""Scenario files: what is hashed, and what a person who writes one is told."""

from __future__ import annotations

import jsonschema
import pytest

from harness.errors import ExitCode, InvalidScenarioError
from harness.wire import schemas
from harness.wire.scenario_doc import parse_scenario
from tests.fakes.evidence import SCENARIO, scenario


def test_title_why_and_faults_are_not_hashed_and_a_limit_is() -> None:
    other_words = SCENARIO.replace(b"Everything once", b"All of it")
    other_limit = SCENARIO.replace(b"at_most_ppm: 700000", b"at_most_ppm: 700001")

    assert scenario(other_words).procedure_digest == scenario().procedure_digest
    assert scenario(other_limit).procedure_digest != scenario().procedure_digest


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (b"observability: parts", b"observability: all", "/procedure/observability"),
        (b"chunk: 128", b"chunk: 1.5", "1.5"),
        (b"id: T01", b"id: t1", "/id"),
        (b"suites: {default: [16]}", b"suites: {default: []}", "/suites/default"),
        (b"witness: copied", b"witness: maybe", "witness"),
        (b"{observe: {as: before}}", b"{watch: {as: before}}", "watch"),
        (b"title: Everything once", b"title: Everything once\ntitle: Twice", "second time"),
    ],
)
def test_an_error_names_the_file_the_place_and_what_was_found(old: bytes, new: bytes, text: str) -> None:
    with pytest.raises(InvalidScenarioError, match=text) as refused:
        parse_scenario(SCENARIO.replace(old, new), "mine.yaml")

    assert refused.value.where.startswith("mine.yaml")
    assert refused.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize("name", ["scenario.v1", "evidence.v1", "certificate.v1", "campaign.v1", "event.v1"])
def test_schemas_are_valid_closed_and_described(name: str) -> None:
    schema = schemas.schema(name)

    jsonschema.Draft202012Validator.check_schema(schema)
    for path, node in _nodes(schema, ""):
        if "properties" in node and "if" not in path:
            assert node.get("additionalProperties") is False or "allOf" in node, path
            for key, inner in node["properties"].items():
                assert _described(inner, schema), f"{path}/{key}"


def _nodes(node: object, path: str) -> list[tuple[str, dict]]:  # type: ignore[type-arg]
    found = []
    if isinstance(node, dict):
        found.append((path, node))
        for key, inner in node.items():
            found += _nodes(inner, f"{path}/{key}") if key not in ("required", "enum") else []
    elif isinstance(node, list):
        for index, inner in enumerate(node):
            found += _nodes(inner, f"{path}/{index}")
    return [one for one in found if "properties" not in one[0].rsplit("/", 1)[-1]]


def _described(node: object, schema: object) -> bool:
    if not isinstance(node, dict):
        return False
    if "description" in node:
        return True
    target = str(node.get("$ref", "")).removeprefix("#/$defs/")
    inner = schema.get("$defs", {}).get(target) if isinstance(schema, dict) else None
    return "$ref" in node and (inner is None or "description" in inner or "$ref" in inner)
