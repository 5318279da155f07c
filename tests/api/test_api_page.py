"""``docs/API.md`` names everything that is public, says how far it can be relied on, and its example runs."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import harness.torch_engine as torch_engine
from harness.cli import COMMANDS
from tests.howto.following import REPOSITORY, blocks, environment, follow

PAGE = REPOSITORY / "docs" / "API.md"
ROW = re.compile(r"^\| `([^`]+)` \| (stable|experimental) \| (.+) \|$", re.MULTILINE)
SECTION = re.compile(r"^## `([^`]+)`$", re.MULTILINE)
LONGEST_EXAMPLE = 30


def first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0].rstrip(".").replace("|", "/")


def public_of(path: str) -> Iterator[tuple[str, str]]:
    """Public classes and aliases that a module defines, with the first line of what it says about them."""
    body = ast.parse((REPOSITORY / path).read_text("utf-8")).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, first_line(ast.get_docstring(node))
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.istitle():
            said = after.value if isinstance(after, ast.Expr) else None
            text = said.value if isinstance(said, ast.Constant) and isinstance(said.value, str) else ""
            yield node.targets[0].id, first_line(text)


def schema_files() -> Iterator[tuple[str, str]]:
    for path in sorted((REPOSITORY / "schemas").glob("*.json")):
        yield path.name, first_line(json.loads(path.read_text("utf-8")).get("title", ""))


def torch_names() -> Iterator[tuple[str, str]]:
    for name in torch_engine.__all__:
        found = getattr(torch_engine, name)
        yield name, first_line(found.__doc__ if callable(found) else "")


def public() -> Mapping[str, Mapping[str, str]]:
    """Section to its names, each with a proposed description."""
    return {
        "harness.torch_engine": dict(torch_names()),
        "harness.engines.interface": dict(public_of("harness/engines/interface.py")),
        "harness.errors": dict(public_of("harness/errors.py")),
        "statecert": dict(COMMANDS),
        "schemas": dict(schema_files()),
    }


def listed(text: str) -> Mapping[str, list[str]]:
    pieces = SECTION.split(text)[1:]
    rows = zip(pieces[::2], pieces[1::2], strict=True)
    return {section: [name for name, _, _ in ROW.findall(part)] for section, part in rows}


def corrections(text: str) -> list[str]:
    """What would have to be changed in the page, a line each."""
    found, wrong = listed(text), []
    for section, names in public().items():
        there = found.get(section, [])
        wrong += [
            f'docs/API.md, section "{section}": add the line  | `{name}` | experimental | {said or "…"} |'
            for name, said in names.items()
            if name not in there
        ]
        wrong += [
            f'docs/API.md, section "{section}": take out the line of `{name}`, which is no longer there'
            for name in there
            if name not in names
        ]
        wrong += [
            f'docs/API.md, section "{section}": `{name}` stands there twice'
            for name in sorted({name for name in there if there.count(name) > 1})
        ]
    return wrong


def test_every_public_name_command_and_schema_is_marked() -> None:
    wrong = corrections(PAGE.read_text("utf-8"))

    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize("name", ["SessionCache", "Adapter", "RefusedError", "run", "scenario.v1.json"])
def test_a_line_that_is_missing_is_named_as_it_must_be(name: str) -> None:
    text = PAGE.read_text("utf-8")
    line = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))

    wrong = [one for one in corrections(text.replace(line + "\n", "", 1)) if one not in corrections(text)]

    assert len(wrong) == 1
    assert f"add the line  | `{name}` | experimental |" in wrong[0]


def test_a_line_of_what_is_gone_is_named() -> None:
    text = PAGE.read_text("utf-8")
    extra = text.replace("| `run` |", "| `runs` | stable | Nothing |\n| `run` |", 1)

    assert [one for one in corrections(extra) if one not in corrections(text)] == [
        'docs/API.md, section "statecert": take out the line of `runs`, which is no longer there'
    ]


def test_the_example_is_short_and_runs(tmp_path: Path) -> None:
    example = next(block for block in blocks(PAGE) if block.file)

    printed = follow(PAGE, tmp_path, environment(REPOSITORY))

    assert len(example.text.strip().splitlines()) <= LONGEST_EXAMPLE
    assert printed[0].split("\n")[:2] == ["restored 128 of 150 tokens", "equal: True"]
