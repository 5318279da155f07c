"""Recorded runs and broken folders, as the tests have them: the same sources, in a checkout and in a wheel.

They are Python files under ``tests/``, since tests are their first readers. A wheel carries copies as package data, so
that a stranger's machine can ask the same questions; nothing else of the tests is needed for them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from harness.errors import StatecertError
from harness.wire import resources


def module(name: str) -> ModuleType:
    """Return a module of specimens.

    Args:
        name: Below ``tests``, like ``fakes.evidence``.

    Raises:
        StatecertError: It is not there, or another package named ``tests`` stands in the way.
    """
    root = resources.specimens()
    if root not in sys.path:
        sys.path.insert(0, root)
    try:
        return import_module(f"tests.{name}")
    except ImportError as problem:
        raise StatecertError(
            f"the specimens of this installation cannot be read ({problem.name}); install it again"
        ) from problem


def folders() -> ModuleType:
    """Return the module whose ``FIXTURES`` and ``VALID`` are all broken and valid folders, every one registered."""
    return module("gating.all_fixtures")
