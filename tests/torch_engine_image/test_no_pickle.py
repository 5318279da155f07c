"""State is read by a parser of its own: nothing of the harness hands bytes to something that could run them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness

ROOT = Path(harness.__file__).parent
RUNS_WHAT_IT_READS = {
    "pickle",
    "_pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
    "jsonpickle",
}
SAFE_ONLY_IF = {"load": "weights_only", "load_state_dict_from_url": "weights_only"}
"""Functions of torch that unpickle, unless they are told not to."""
SAVES = {"save", "package"}


def faults(source: str) -> Iterator[str]:
    """Name every import and call of a module by which bytes can become code."""
    torch_names = {"torch"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.partition(".")[0] in RUNS_WHAT_IT_READS)
            torch_names |= {one.asname for one in node.names if one.name == "torch" and one.asname}
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").partition(".")[0]
            taken = {one.name for one in node.names}
            if module in RUNS_WHAT_IT_READS or taken & RUNS_WHAT_IT_READS:
                yield f"from {node.module} import"
            if node.module in ("torch", "torch.serialization", "torch.hub") and taken & {*SAFE_ONLY_IF, *SAVES}:
                yield f"from {node.module} import {', '.join(sorted(taken))}"
        elif isinstance(node, ast.Call):
            yield from _calls(node, torch_names)


def _calls(node: ast.Call, torch_names: set[str]) -> Iterator[str]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    of = ast.unparse(node.func.value).partition(".")[0] if isinstance(node.func, ast.Attribute) else ""
    told = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
    if of in torch_names and name in SAFE_ONLY_IF and told.get(SAFE_ONLY_IF[name]) is not True:
        yield f"torch.{name} without weights_only=True"
    if of in torch_names and name in SAVES:
        yield f"torch.{name}"
    if told.get("allow_pickle") not in (None, False):
        yield f"{name} with allow_pickle"
    if name in ("__import__", "import_module") and node.args:
        word = getattr(node.args[0], "value", "")
        if isinstance(word, str) and word.partition(".")[0] in RUNS_WHAT_IT_READS:
            yield f"{name}({word!r})"


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_of_the_harness_unpickles(path: Path) -> None:
    assert list(faults(path.read_text())) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import pickle as p",
        "from pickle import loads",
        "import _pickle",
        "import marshal",
        "import torch\ntorch.load(path)",
        "import torch\ntorch.load(path, weights_only=False)",
        "import torch as t\nt.load(path)",
        "import torch\ntorch.save(x, path)",
        "from torch import load",
        "from torch.serialization import load",
        "import numpy as np\nnp.load(path, allow_pickle=True)",
        "import importlib\nimportlib.import_module('pickle')",
        "__import__('dill')",
        "def read(path):\n    import shelve\n    return shelve.open(path)",
    ],
)
def test_whoever_does_is_named(source: str) -> None:
    assert list(faults(source))


@pytest.mark.parametrize(
    "source", ["import torch\ntorch.load(path, weights_only=True)", "json.load(file)", "self.load(x)"]
)
def test_what_cannot_run_anything_is_not(source: str) -> None:
    assert list(faults(source)) == []
