"""The order of the tests: long files first, and none of them is gone."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any


def _of_the_root() -> ModuleType:
    """Load the file at the root by its path: other folders have a ``conftest`` too, and may be imported first."""
    spec = importlib.util.spec_from_file_location("conftest_of_the_root", Path(__file__).parents[2] / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


conftest = _of_the_root()


def ordered(names: Sequence[str]) -> list[str]:
    items: list[Any] = [SimpleNamespace(path=conftest.ROOT / name, number=number) for number, name in enumerate(names)]
    conftest.pytest_collection_modifyitems(items)
    return [f"{item.path.relative_to(conftest.ROOT)}:{item.number}" for item in items]


def test_long_files_are_begun_first_and_the_others_stay_in_their_order() -> None:
    first, second = conftest.LONG[:2]

    found = ordered(["tests/z.py", second, "tests/a.py", first, second])

    assert found == [f"{first}:3", f"{second}:1", f"{second}:4", "tests/z.py:0", "tests/a.py:2"]


def test_every_file_that_is_called_long_is_there() -> None:
    assert [name for name in conftest.LONG if not (conftest.ROOT / name).is_file()] == []
    assert len(set(conftest.LONG)) == len(conftest.LONG)
