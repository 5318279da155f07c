"""The words of :mod:`typing` that the modules of a quick command use, without its import.

A gate of one certificate takes hardly longer than to start Python, and :mod:`typing` would be a twentieth of it: most
of what is taken from it says something to readers and type checkers alone, since annotations are never evaluated.
Type checkers see the real ones; so does a process that has :mod:`typing` already. In any other one they come from
:mod:`harness.model.light_typing`.
"""

from __future__ import annotations

import sys

__all__ = [
    "TYPE_CHECKING",
    "Any",
    "Final",
    "Literal",
    "NamedTuple",
    "NewType",
    "NoReturn",
    "TypeVar",
    "assert_never",
    "overload",
]

TYPE_CHECKING = False

if TYPE_CHECKING or "typing" in sys.modules:
    from typing import Any, Final, Literal, NamedTuple, NewType, NoReturn, TypeVar, assert_never, overload
else:
    from harness.model.light_typing import (
        Any,
        Final,
        Literal,
        NamedTuple,
        NewType,
        NoReturn,
        TypeVar,
        assert_never,
        overload,
    )
