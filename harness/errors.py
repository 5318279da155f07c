"""The exception tree, and the exit code that each branch ends in.

::

    StatecertError                    3  the harness broke (an error that nothing more exact describes)
    ├── UsageError                    4  arguments, unknown names, a missing extra
    │   └── InvalidScenarioError      4  a scenario, target or lab file that does not fit its schema
    ├── InvalidDocumentError          2  evidence, a certificate, a ledger event that cannot be trusted
    ├── StorageError                  3  full disk, read-only folder, a file in the way
    ├── NothingToDoError              5  nothing matched, nothing to check
    ├── NotComparableError            3  two things that have no common measure were compared
    └── EngineError                   3  something went wrong in an engine or its child process
        ├── RefusedError              .  the engine said no, by name; an observation, not a failure
        ├── EngineCrashedError        .  the child ended by itself (signal or exit status)
        ├── EngineHungError           .  no answer within the limit; the child was ended
        ├── OutOfMemoryError          .  the child reported or died of lack of memory
        └── ProtocolError             .  the child answered something that the seam does not know

Inside a run the branches marked ``.`` become observations of their cell and the run goes on.
Every message says what was expected, what was found, where, and what to do.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command; precedence when several apply: 3, 2, 1."""

    GOOD = 0
    """All is well."""
    FINDINGS = 1
    """A stop, a stale or missing claim, a mutant that was not stopped."""
    INVALID = 2
    """Evidence, a certificate or the ledger cannot be trusted."""
    BROKEN = 3
    """The harness broke; says nothing about the engine."""
    USAGE = 4
    """Wrong arguments or configuration."""
    NOTHING = 5
    """There was nothing to check. Never green."""


class StatecertError(Exception):
    """Root of everything that this package raises on purpose."""

    exit_code = ExitCode.BROKEN


class UsageError(StatecertError):
    """The caller asked for something that does not exist or cannot be combined."""

    exit_code = ExitCode.USAGE


class InvalidDocumentError(StatecertError):
    """A document does not say what its kind must say.

    Args:
        message: What was found, and what is allowed.
        where: File and path inside it, like ``a.json#/body/cells/2/outcome``.
    """

    exit_code = ExitCode.INVALID

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.where = where


class InvalidScenarioError(UsageError):
    """A scenario, target or lab file does not fit its schema."""

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.where = where


class StorageError(StatecertError):
    """A file could not be written or read; what was already there is intact."""


class NothingToDoError(StatecertError):
    """Nothing matched what was asked for."""

    exit_code = ExitCode.NOTHING


class NotComparableError(StatecertError):
    """Two values have no common measure (other shape, other element type)."""


class EngineError(StatecertError):
    """An engine, or the child process that it lives in, did not do what was asked."""


class RefusedError(EngineError):
    """The engine refused, by name.

    Args:
        code: One word of :class:`harness.model.values.RefusalCode`.
        message: The engine's own words, for people; never judged.
    """

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(f"refused ({code}): {message}" if message else f"refused ({code})")
        self.code = code
        self.message = message


class EngineCrashedError(EngineError):
    """The child process ended by itself.

    Args:
        status: Exit status; negative for a signal, as :mod:`subprocess` has it.
    """

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class EngineHungError(EngineError):
    """The child process did not answer within its limit and was ended."""


class OutOfMemoryError(EngineError):
    """The child process ran out of host or device memory."""


class ProtocolError(EngineError):
    """The child process answered something that the seam does not know."""
