from __future__ import annotations

import subprocess
import sys

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InvalidDocumentError, InvalidScenarioError, StatecertError, UsageError
from harness.wire import resources, schemas

TOY = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": schemas.BASE + "toy.v1.json",
    "type": "object",
    "required": ["kind", "digest"],
    "additionalProperties": False,
    "properties": {
        "kind": {"enum": ["run", "build"]},
        "digest": {"$ref": "common.v1.json#/$defs/sha256"},
        "grade": {"anyOf": [{"type": "string", "pattern": "^[$][a-z]+$"}, {"enum": ["parts", "tokens"]}]},
        "took": {"$ref": "common.v1.json#/$defs/ns"},
        "rows": {"type": "array", "maxItems": 3, "items": {"$ref": "#/$defs/row"}},
    },
    "$defs": {
        "row": {
            "oneOf": [
                {
                    "type": "object",
                    "required": ["type", "value"],
                    "properties": {"type": {"const": "a"}, "value": {"type": "integer"}},
                },
                {
                    "type": "object",
                    "required": ["type", "text"],
                    "properties": {"type": {"const": "b"}, "text": {"type": "string"}},
                },
            ]
        }
    },
}
GOOD = {"kind": "run", "digest": "0" * 64, "took": 5, "rows": [{"type": "a", "value": 1}]}
TOYS = schemas.SchemaSet.of_texts(
    {
        "common.v1.json": resources.resource_text("schemas", "common.v1.json"),
        "toy.v1.json": orjson.dumps(TOY),
    }
)
DEFINITIONS = sorted(schemas.schema("common.v1")["$defs"])  # type: ignore[call-overload]


def refusal(value: object) -> str:
    with pytest.raises(InvalidDocumentError) as caught:
        TOYS.validate(value, "toy.v1", "a.json")
    assert caught.value.where == "a.json"
    return caught.value.message


def test_a_good_value_passes_both_validators() -> None:
    TOYS.validate(GOOD, "toy.v1", "a.json")

    assert TOYS.errors(GOOD, "toy.v1") == []


def test_a_refusal_says_path_finding_and_what_is_allowed() -> None:
    assert '/kind: found "test"; allowed is one of ["run","build"]' in refusal({**GOOD, "kind": "test"})
    assert "/took: found -1; allowed is at least 0" in refusal({**GOOD, "took": -1})
    assert "/: found no 'digest'; it is required" in refusal({"kind": "run"})
    assert "/: found unknown 'more'; allowed are digest, grade, kind, rows, took" in refusal({**GOOD, "more": 1})
    assert '/rows/0/value: found "x"; allowed is the type "integer"' in refusal(
        {**GOOD, "rows": [{"type": "a", "value": "x"}]}
    )


def test_a_word_of_a_list_or_a_reference_is_refused_with_both_that_are_allowed() -> None:
    allowed = 'allowed is one of ["parts","tokens"], or text like "^[$][a-z]+$"'

    assert f'/grade: found "part"; {allowed}' in refusal({**GOOD, "grade": "part"})
    assert '/grade: found 7; allowed is the type "string"' in refusal({**GOOD, "grade": 7})


def test_at_most_five_errors_are_listed() -> None:
    message = refusal({"kind": 1, "digest": 2, "took": "x", "rows": [1, 2, 3, 4, 5], "more": 1, "z": 2})

    assert message.count("; /") <= 4


def test_a_finding_is_told_once_however_many_names_are_missing() -> None:
    message = refusal({})

    assert message.count("found no 'kind', 'digest'") == 1


def test_text_of_a_hostile_document_is_escaped_and_cut() -> None:
    message = refusal({**GOOD, "\x1b[2J\n::error::" + "x" * 500: 1, "kind": "\x1b[2J\x7fé" + "y" * 500})

    assert message.isascii()
    assert message.isprintable()
    assert len(message) < 1000


def test_a_line_feed_at_the_end_of_a_digest_is_refused_though_one_validator_lets_it_pass() -> None:
    value = {**GOOD, "digest": "0" * 64 + "\n"}

    assert TOYS.errors(value, "toy.v1") == []
    assert "/digest" in refusal(value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text("0123456789abcdefTZ:-.", max_size=70),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    ),
    st.data(),
)
def test_both_validators_agree(value: object, data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(["kind", "digest", "took", "rows", "more"]))
    document: object = data.draw(st.sampled_from([value, {**GOOD, field: value}]))

    assert TOYS.is_valid(document, "toy.v1") == (TOYS.errors(document, "toy.v1") == [])


@pytest.mark.parametrize("name", DEFINITIONS)
@given(value=st.integers() | st.booleans() | st.text(st.characters(exclude_characters="\n"), max_size=70))
def test_both_validators_agree_on_the_common_definitions(name: str, value: object) -> None:
    one = single(name)

    assert one.is_valid(value, "one.v1") == (one.errors(value, "one.v1") == [])


def single(name: str) -> schemas.SchemaSet:
    if name not in SINGLE:
        text = {"$id": schemas.BASE + "one.v1.json", "$ref": f"common.v1.json#/$defs/{name}"}
        common = resources.resource_text("schemas", "common.v1.json")
        SINGLE[name] = schemas.SchemaSet.of_texts({"common.v1.json": common, "one.v1.json": orjson.dumps(text)})
    return SINGLE[name]


SINGLE: dict[str, schemas.SchemaSet] = {}
COMMON: dict[str, tuple[list[object], list[object]]] = {
    "sha256": (["0" * 64], ["0" * 63, "A" * 64, "0" * 65, 1]),
    "hex64": (["00ff" * 4], ["0xff", "0" * 15]),
    "utc": (
        ["2026-01-02T03:04:05Z", "2026-12-31T23:59:59.123456789Z"],
        ["2026-01-02", "2026-13-02T03:04:05Z", "2026-01-02T24:00:00Z", "2026-01-02T03:04:05+00:00"],
    ),
    "slug": (["torch-tiny", "a", "cuda-sm_90", "0.1"], ["", "-a", "A", "a/b", "a" * 65]),
    "word": (["not_run"], ["Not", "1a", "a-b"]),
    "label": (["AMD EPYC (2)"], ["", "a\nb", "é", "x" * 201]),
    "integer": ([0, -(2**53) + 1], [2**53, "1"]),
    "count": ([0, 7], [-1, True]),
    "ppm": ([0, 1_500_000], [-1]),
    "ns": ([0, 2**53 - 1], [2**53]),
    "bytes": ([0], [-1, "1"]),
}


def test_each_common_definition_accepts_and_refuses_its_examples() -> None:
    assert sorted(COMMON) == DEFINITIONS
    for name, (good, bad) in COMMON.items():
        assert [value for value in good if not single(name).is_valid(value, "one.v1")] == []
        assert [value for value in bad if single(name).is_valid(value, "one.v1")] == []


def test_a_reference_is_never_fetched() -> None:
    text = {"$id": schemas.BASE + "a.v1.json", "$ref": "https://example.invalid/b.json"}
    remote = schemas.SchemaSet.of_texts({"a.v1.json": orjson.dumps(text)})

    with pytest.raises(StatecertError, match="never fetched"):
        remote.validate(1, "a.v1", "x")


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"$id": "https://elsewhere.invalid/a.json"}'])
def test_a_file_that_is_no_schema_of_its_name_is_refused(text: bytes) -> None:
    with pytest.raises(StatecertError, match=r"schema a\.v1\.json"):
        schemas.SchemaSet.of_texts({"a.v1.json": text})


def test_an_unknown_schema_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"there are: common\.v1"):
        TOYS.validate(1, "none.v9", "x")


def test_the_error_of_a_scenario_can_be_asked_for() -> None:
    with pytest.raises(InvalidScenarioError, match="does not fit schema"):
        TOYS.validate({}, "toy.v1", "x", error=InvalidScenarioError)


def test_every_schema_of_the_product_compiles_in_both_validators() -> None:
    for name in schemas.product_schemas().names:
        schemas.product_schemas().is_valid(1, name)
        schemas.product_schemas().errors(1, name)


@pytest.mark.parametrize(
    "name", ["../pyproject.toml", "/etc/passwd", "none.json", "", "a/../b.json", "common.v1.json\n"]
)
def test_a_resource_outside_its_folder_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no resource"):
        resources.resource_text("schemas", name)


def test_resources_are_listed_by_name() -> None:
    assert "common.v1.json" in resources.resource_names("schemas")
    assert list(resources.resource_names("scenarios")) == sorted(resources.resource_names("scenarios"))


def test_reading_json_loads_no_schema_yaml_or_array_library() -> None:
    program = (
        "import sys; from harness.wire import canonical, files, resources, schemas, strict, yaml_text\n"
        "from harness.digest import parts, tree, difference\n"
        "strict.loads(b'{}', where='x'); canonical.render({})\n"
        "heavy = {'jsonschema', 'jsonschema_rs', 'yaml', 'numpy', 'torch', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )

    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"


def test_a_schema_is_read_when_a_document_needs_it() -> None:
    """A good run's certificate needs none of those of other kinds; the compiled validators have all of them."""
    code = "from harness.wire import schemas as s; s._set_of('certificate.v1'); print(s._shipped.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
    reached = set(schemas._set_of("certificate.v1").names)
    assert {"certificate.v1", "common.v1", "campaign.v1", "campaign-kv.v1", "evidence.v1", "selfcheck.v1"} <= reached
    assert "scenario.v1" not in reached
    with pytest.raises(UsageError, match="no resource"):
        schemas._set_of("unheard-of.v1")
