"""The validator of the first documents says what the compiled one says, or says that it cannot tell."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import InvalidDocumentError
from harness.pipeline import available_scenarios
from harness.wire import resources, schemas
from harness.wire.schema_walk import UnsureError, Walker
from harness.wire.yaml_text import load_yaml
from tests.fakes.evidence import recorded
from tests.gating.fixtures import the_scenario

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = schemas.product_schemas()
WALKER = Walker({name: PRODUCT.schema(name) for name in PRODUCT.names})
ODD: tuple[object, ...] = (
    "", "x", "x\n", "\u00e9", "0" * 64, "0" * 64 + "\n", "A01", "2026-01-01T00:00:00Z", "1", "true",
    -1, 0, 1, 2, 2**53, True, False, None, 1.0, 0.5, [], {}, [1, 1], [1, True], [[]], {"x": 1}, ["a", "a"], ["", "b"],
)  # fmt: skip

EVENT: dict[str, object] = {
    "schema": "statecert/event/v1", "kind": "withdraw", "target": "a" * 64, "reason_code": "measurement_invalid",
    "created": "2026-01-01T00:00:00Z", "differs": [], "dropped_cells": [],
}  # fmt: skip


def samples() -> list[tuple[str, Any]]:
    """Documents of every kind that fit their schema."""
    run = recorded(the_scenario())
    found: list[tuple[str, Any]] = [("evidence.v1", json.loads(line)) for line in run.data().splitlines()]
    state = {"state": "current", "events": []}
    found.append(("certificate.v1", json.loads(json.dumps({"body": run.body(), "status": state}))))
    found.extend(("event.v1", {**EVENT, **more}) for more in ({}, {"kind": "annotate", "note": "a word"}))
    small = sorted((ROOT / "certificates").glob("*/*/*/*.json"), key=lambda path: path.stat().st_size)
    for path in small[:2]:
        document = json.loads(path.read_bytes())
        kind = str(document["body"]["schema"]).split("/")[1]
        found.append((f"{kind}.v1", document if kind == "certificate" else document["body"]))
    for name in list(available_scenarios())[::9]:
        (file,) = (one for one in resources.resource_names("scenarios") if name in one.rpartition("/")[2])
        found.append(("scenario.v1", load_yaml(resources.resource_text("scenarios", file), file)))
    return found


SAMPLES = samples()


def walked(value: object, name: str) -> bool | None:
    try:
        return WALKER.is_valid(value, name)
    except UnsureError:
        return None


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with every key or index in it."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def replaced(holder: Any, key: Any, draw: random.Random) -> None:
    holder[key] = copy.deepcopy(draw.choice(ODD))


def lengthened(holder: Any, key: Any, draw: random.Random) -> None:
    if isinstance(holder[key], str):
        holder[key] += draw.choice(["\n", "x", " ", "\u2028", holder[key] * 40])
    else:
        holder[key] = [holder[key], holder[key]]


def taken(holder: Any, key: Any, _draw: random.Random) -> None:
    del holder[key]


def renamed(holder: Any, key: Any, draw: random.Random) -> None:
    if isinstance(holder, dict):
        holder[draw.choice([f"{key}_", "\u00e9", "", "x", str(key).upper()])] = holder.pop(key)
    else:
        holder.append(copy.deepcopy(holder[key]))


def moved(holder: Any, key: Any, draw: random.Random) -> None:
    """Something that fits elsewhere in this kind of document."""
    other, from_there = draw.choice(list(places(draw.choice(SAMPLES)[1])))
    holder[key] = copy.deepcopy(other[from_there])


MUTATIONS: tuple[Callable[[Any, Any, random.Random], None], ...] = (replaced, lengthened, taken, renamed, moved)


@pytest.mark.parametrize(("name", "value"), SAMPLES, ids=lambda one: one if isinstance(one, str) else "")
def test_it_judges_every_kind_of_document_and_accepts_a_good_one(name: str, value: object) -> None:
    assert PRODUCT.is_valid(value, name)
    assert walked(value, name) is True


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.__name__)
def test_both_validators_agree_on_changed_documents(mutation: Callable[[Any, Any, random.Random], None]) -> None:
    draw = random.Random(mutation.__name__)
    seen = {True: 0, False: 0, None: 0}
    for _ in range(1500):
        name, good = draw.choice(SAMPLES)
        value = copy.deepcopy(good)
        mutation(*draw.choice(list(places(value))), draw)

        said = walked(value, name)

        seen[said] += 1
        assert said in {None, PRODUCT.is_valid(value, name)}, (name, value)
    assert seen[False] > 100
    assert seen[None] < 600


_VALUES = st.recursive(
    st.one_of(
        st.booleans(), st.integers(-2, 2), st.sampled_from(["", "a", "a\n", "b", "\u00e9"]), st.none(), st.floats()
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)
_KEYWORDS: st.SearchStrategy[dict[str, object]] = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "array", "string", "integer", "boolean", ["integer", "string"]]),
        "enum": st.lists(_VALUES, min_size=1, max_size=3),
        "const": _VALUES,
        "required": st.lists(st.sampled_from("ab"), unique=True),
        "minProperties": st.integers(0, 2),
        "maxProperties": st.integers(0, 2),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "minimum": st.integers(-1, 1),
        "maximum": st.integers(-1, 1),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(
            [
                "^a$",
                "a",
                "^[ab]*$",
                "^(a|b)$",
                "^a(.*)?$",
                "^.$",
                "^a|b$",
                "a$b",
                "^[a-b]+$",
                "^[ab][b]{0,1}$",
                "^[b-]{1,2}$",
                "^[a][-b]*$",
                "^[^a]$",
                "^[ab]{2}$",
                "^[a]{1,}$",
                "^[ab]?$",
                "^[a-b-z]*$",
            ]
        ),
    },
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, object]]:
    several = st.lists(inner, min_size=1, max_size=2)
    more = st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": inner | st.booleans(),
            "propertyNames": inner,
            "items": inner,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
        },
    )
    return st.tuples(_KEYWORDS, more).map(lambda pair: {**pair[0], **pair[1]})


@given(st.recursive(_KEYWORDS, nested, max_leaves=4), st.lists(_VALUES, min_size=1, max_size=8))
def test_both_validators_agree_on_any_schema(schema: dict[str, object], values: list[object]) -> None:
    import jsonschema_rs

    fast = jsonschema_rs.Draft202012Validator(schema, pattern_options=jsonschema_rs.RegexOptions())
    walker = Walker({"toy": schema})
    for value in values:
        try:
            said = walker.is_valid(value, "toy")
        except UnsureError:
            continue
        assert said == fast.is_valid(value), (schema, value)


_WORDS = st.sampled_from(["a", "b", "c"])


def _told_apart(cases: list[tuple[str, str, Any]]) -> dict[str, object]:
    """Each case: the member that is asked for, the word that it must have, the schema that holds then."""
    return {
        "allOf": [
            {"if": {"properties": {key: {"const": word}}, "required": [key]}, "then": then} for key, word, then in cases
        ]
    }


@pytest.mark.parametrize("keys", [st.just("type"), st.sampled_from(["type", "kind"])])
@given(data=st.data())
def test_both_validators_agree_on_records_that_a_word_tells_apart(keys: st.SearchStrategy[str], data: Any) -> None:
    import jsonschema_rs

    schema = _told_apart(
        data.draw(st.lists(st.tuples(keys, _WORDS, _KEYWORDS | st.booleans()), min_size=1, max_size=4))
    )
    members = st.dictionaries(st.sampled_from(["type", "kind", "a"]), _WORDS | st.integers(0, 2), max_size=3)
    fast = jsonschema_rs.Draft202012Validator(schema, pattern_options=jsonschema_rs.RegexOptions())
    walker = Walker({"toy": schema})
    for value in data.draw(st.lists(members | _VALUES, min_size=1, max_size=6)):
        try:
            said = walker.is_valid(value, "toy")
        except UnsureError:
            continue
        assert said == fast.is_valid(value), (schema, value)


@pytest.mark.parametrize(
    "schema",
    [{"format": "date"}, {"pattern": r"^\d$"}, {"pattern": "(?i)a"}, {"type": ["object", "null"]}, {"type": "number"},
     {"minimum": 0.5}, {"unevaluatedProperties": False}],
    ids=str,
)  # fmt: skip
def test_what_it_does_not_know_it_does_not_judge(schema: dict[str, object]) -> None:
    with pytest.raises(UnsureError):
        Walker({"toy": schema}).is_valid({}, "toy")


@pytest.mark.parametrize("value", [1.0, None, (1,), b"x", "\u00e9", {1: 2}, {"x": [{"y": 0.5}]}], ids=repr)
def test_what_strict_json_cannot_hold_it_does_not_judge(value: object) -> None:
    with pytest.raises(UnsureError):
        Walker({"toy": {}}).is_valid(value, "toy")


def test_a_document_that_only_one_validator_accepts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = schemas.SchemaSet.of_texts({"common.v1.json": resources.resource_text("schemas", "common.v1.json")})
    monkeypatch.setattr(found._walker, "is_valid", lambda *_: False)

    with pytest.raises(InvalidDocumentError, match="contradict each other"):
        found.validate({}, "common.v1", "a.json")


def test_the_first_documents_are_judged_without_the_compiled_validator_and_later_ones_with_it() -> None:
    code = (
        "import sys; from harness.wire import schemas; event = {event!r}\n"
        "schemas.validate(event, 'event.v1', 'x'); early = 'jsonschema_rs' in sys.modules\n"
        "for _ in range(3000): schemas.validate(event, 'event.v1', 'x')\n"
        "print(early, 'jsonschema_rs' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code.replace("{event!r}", repr(EVENT))], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["False", "True"]


def test_documents_of_a_large_file_are_judged_with_the_compiled_validator_from_the_first_on() -> None:
    code = (
        "import sys; from harness.wire import schemas; event = {event!r}\n"
        "schemas.expect('event.v1', 1000); schemas.validate(event, 'event.v1', 'x')\n"
        "early = 'jsonschema_rs' in sys.modules\n"
        "schemas.expect('event.v1', 500_000); schemas.validate(event, 'event.v1', 'x')\n"
        "print(early, 'jsonschema_rs' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code.replace("{event!r}", repr(EVENT))], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["False", "True"]
