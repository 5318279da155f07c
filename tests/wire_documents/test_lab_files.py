"""Lab files: targets by name."""

from __future__ import annotations

import pytest

from harness.errors import InvalidScenarioError
from harness.model.target import Target
from harness.wire.lab_doc import HEAD, lab_text, parse_lab

TEXT = HEAD + "targets:\n  one:\n    adapter: torch\n    device: cpu\n    options: {preset: small, threads: 2}\n"


def test_a_target_has_what_the_file_says() -> None:
    found = parse_lab(TEXT.encode(), "lab.yaml")["one"]

    assert found == Target(name="one", adapter="torch", device="cpu", options={"preset": "small", "threads": 2})


def test_device_and_preset_have_defaults() -> None:
    found = parse_lab((HEAD + "targets: {one: {adapter: torch}}\n").encode(), "lab.yaml")["one"]

    assert (found.device, found.options) == ("best", {"preset": "tiny"})


def test_what_is_written_is_read_back() -> None:
    targets = [
        Target(name="a", adapter="torch", device="cpu", options={"preset": "tiny", "deep": True, "n": 3}),
        Target(name="b", adapter="other", options={"preset": "it's"}),
    ]

    text = lab_text(targets, {"b": "says: what it is"})

    assert list(parse_lab(text.encode(), "lab.yaml").values()) == targets
    assert "says: what it is" in text


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (TEXT.replace("adapter: torch", "engine: torch"), "adapter"),
        (TEXT.replace("one:", "One!:"), "One!"),
        (TEXT.replace("threads: 2", "threads: [2]"), "threads"),
        (HEAD + "targets: {}\n", "targets"),
        (TEXT + "}", "lab.yaml"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(wrong: str, told: str) -> None:
    with pytest.raises(InvalidScenarioError, match=told):
        parse_lab(wrong.encode(), "lab.yaml")
