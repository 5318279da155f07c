"""From an error of a child process to what is written about it: a kind, and one word of detail."""

from __future__ import annotations

import re
from typing import Final

from harness.engines.process import ended_by
from harness.errors import EngineCrashedError, EngineError, EngineHungError, OutOfMemoryError, ProtocolError
from harness.model.values import CrashKind

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,119}")


def crash_kind(error: EngineError) -> CrashKind:
    """Return what kind of end an error stands for."""
    match error:
        case EngineCrashedError():
            return CrashKind.CRASH
        case EngineHungError():
            return CrashKind.HANG
        case OutOfMemoryError():
            return CrashKind.OUT_OF_MEMORY
        case ProtocolError():
            return CrashKind.PROTOCOL
        case _:
            return CrashKind.ENGINE_ERROR


def crash_detail(error: EngineError) -> str:
    """Return the signal, exit status or exception type; never free text."""
    if isinstance(error, EngineCrashedError):
        return ended_by(error.status)
    if isinstance(error, EngineHungError):
        return "no_answer"
    if isinstance(error, ProtocolError):
        return "ProtocolError"
    word = _WORD.match(str(error))
    return word.group() if word else type(error).__name__


def lost_child(error: EngineError) -> bool:
    """Tell whether the child must be replaced: everything but an exception that it survived in good order."""
    return crash_kind(error) is not CrashKind.ENGINE_ERROR
