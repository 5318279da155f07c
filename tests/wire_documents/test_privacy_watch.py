"""What many records share is looked at once, and what is found is what a walk over all of a record finds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.wire import canonical, privacy

PLANTED = (
    "/home/somebody/models/x",
    "},{/home/somebody/models/x},{",
    "a},{",
    "},{",
    "},{},{/home/somebody/models/x",
    "192.168.17.4",
    "somebody@example.org,",
    'a quote " and /home/somebody/models/x',
    "0123456789abcdef0123456789abcdef/home/somebody/models/x",
)


WATCH = privacy.Watch()
"""One for all tests: whatever one of them leaves in it must not change the answers of another."""


def body(text: str = "pass") -> dict[str, Any]:
    rows: list[dict[str, Any]] = [{"id": f"a{number}", "outcome": "pass", "took_ns": number} for number in range(4)]
    rows[2]["outcome"] = text
    return {"rows": rows, "facts": {"missing": ["machine_id"]}, "empty": [{}, {}, {}]}


def findings(value: dict[str, Any]) -> list[str]:
    compact, spaced = (list(WATCH.findings(value, write(value))) for write in (canonical.canonical, canonical.render))
    assert compact == spaced
    return compact


@pytest.mark.parametrize("text", PLANTED)
def test_a_planted_text_is_found_among_others_that_were_seen_before(text: str) -> None:
    for _ in range(2):
        assert findings(body()) == []
        assert findings(body(text)) == privacy.findings(body(text))
    assert findings(body()) == []


@pytest.mark.parametrize("name", ["machine_id", "hostname", "login"])
def test_a_name_of_a_machine_is_found_as_a_key_with_a_text_and_not_as_a_text(name: str) -> None:
    assert findings({"rows": [{"a": name}, {"b": [name]}]}) == []
    assert findings({"rows": [{name: False}, {name: ""}]}) == []

    assert findings({"rows": [{"a": "b"}, {name: "c"}]}) == [
        f"/rows/1/{name}: field that identifies a machine or person"
    ]


TEXT = st.sampled_from([*PLANTED, "pass", "machine_id", "hostname", "a", "},{", ",", ":", "1/1", "EXACT.STATE@1"])
VALUE = st.recursive(
    TEXT | st.integers(0, 9) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "login", "host_name", "x},{y"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(value=st.dictionaries(st.just("rows"), VALUE, min_size=1))
@settings(max_examples=400, deadline=None)
def test_whatever_was_seen_before_the_answer_is_that_of_the_walk(value: dict[str, Any]) -> None:
    assert findings(value) == privacy.findings(value)
