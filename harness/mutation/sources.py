"""Which files a mutant is written in: its module, and what that imports from beside it. Nothing is imported for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from harness.engines import registry
from harness.engines.subject import files_of, path_sets_of
from harness.errors import StatecertError
from harness.model.target import PathSet

SET: Final = "mutant"
"""Name of the path set."""


def files_of_mutant(name: str) -> PathSet | None:
    """Return the digest of the files that a mutant is written in; None where they cannot be told.

    They are its module, the modules beside it that this one imports, however many steps away, and what makes their
    folder a package. What lies elsewhere belongs to the path sets of engine and harness.

    Args:
        name: Of an entry point of the mutants.

    Raises:
        UsageError: No package offers the name, or more than one does.
    """
    return _files(registry.find(name, registry.MUTANTS).module)


@lru_cache(maxsize=1024)
def _files(module: str) -> PathSet | None:
    package, _, name = module.rpartition(".")
    if not package:
        return None
    try:
        beside = {path.stem: path.read_bytes() for path in files_of([f"{package}:*.py"]).values()}
        needed = _closure(package, name, beside)
        return path_sets_of({SET: [f"{package}:{one}.py" for one in needed]})[0]
    except (StatecertError, OSError, SyntaxError, ValueError, KeyError):
        return None


def _closure(package: str, name: str, sources: Mapping[str, bytes]) -> Sequence[str]:
    needed, todo = {"__init__"} & set(sources), [name]
    while todo:
        one = todo.pop()
        if one not in needed:
            needed.add(one)
            todo.extend(set(imported(package, sources[one])) & set(sources))
    return sorted(needed)


def imported(package: str, source: bytes) -> Iterator[str]:
    """Yield the names that a module of a package may take from the modules beside it.

    Args:
        package: Dotted name.
        source: Of the module.

    Raises:
        SyntaxError: It is no Python.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            whole = base if not node.level else ".".join([package, base] if base else [package])
            names = [whole, *(f"{whole}.{alias.name}" for alias in node.names)]
        else:
            continue
        for dotted in names:
            if dotted.startswith(f"{package}."):
                yield dotted.removeprefix(f"{package}.").partition(".")[0]
