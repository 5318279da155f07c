"""docs/environment.md lists every environment variable that the code reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
NOT_VARIABLES = {"SC_PAGE_SIZE", "SC_PHYS_PAGES", "SCHEMA", "GROUPS", "MUTANTS", "FOREIGN", "PROCEDURE"}
"""Names of system settings, and constants that a module exports."""
NAME = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+_?|[A-Z]{6,}")


def test_every_variable_that_is_read_is_in_the_table() -> None:
    read = {name for path in sources() for name in names_read(path.read_text("utf-8"))}

    assert read <= declared(), f"undeclared: {sorted(read - declared())}"


def test_every_variable_in_the_table_is_read() -> None:
    read = {name for path in sources() for name in names_read(path.read_text("utf-8"))}

    assert declared() <= read, f"not read any more: {sorted(declared() - read)}"


def test_an_undeclared_read_is_found() -> None:
    found = set(names_read("import os\nos.environ.get('STATECERT_SECRET_SWITCH')\n"))

    assert found == {"STATECERT_SECRET_SWITCH"}


def declared() -> set[str]:
    return set(re.findall(r"^\| `([A-Z0-9_]+)`", (ROOT / "docs" / "environment.md").read_text("utf-8"), re.MULTILINE))


def sources() -> Iterator[Path]:
    for folder in ("harness", "benchmarks", "tools"):
        yield from (ROOT / folder).rglob("*.py")


def names_read(text: str) -> Iterator[str]:
    """Names in a module that touches the environment: constants that look like variables."""
    if "environ" not in text and "getenv" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and NAME.fullmatch(node.value)
            and node.value not in NOT_VARIABLES
        ):
            yield node.value
