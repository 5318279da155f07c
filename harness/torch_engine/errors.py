"""Every error this package raises on purpose, as one tree with a machine-readable code.

    TorchEngineError                 root; ``code`` is a stable word for tables and records
    ├── OptionError        option       an option's value is unknown or out of range
    ├── UnsupportedError   unsupported  a valid request that this engine does not implement
    ├── SessionStateError  state        a call that does not fit where the session stands
    ├── CapacityError      capacity     more tokens than the preallocated buffers hold
    └── SnapshotError                   a snapshot could not be taken, found or put back
        ├── LayoutError    layout       its parts do not fit the destination
        ├── IdentityError  identity     it belongs to another model, schedule or device
        ├── KVModeError    kv_mode      its rows or its state have another element type
        ├── MissingError   missing      a planned link is no longer there
        ├── BudgetError    budget       it does not fit the memory it may use
        ├── TransferError  transfer     the copy itself failed after all checks; the session is a reset one
        └── MetadataError  metadata     part 0 cannot be read or contradicts the plan

Each message says what was expected, what was found, and where.
"""

from __future__ import annotations

from typing import ClassVar


class TorchEngineError(Exception):
    """Root of the tree."""

    code: ClassVar[str] = "engine"


class OptionError(TorchEngineError, ValueError):
    """An option's value is unknown or out of range."""

    code: ClassVar[str] = "option"


class UnsupportedError(TorchEngineError):
    """A well-formed request for something this engine does not implement."""

    code: ClassVar[str] = "unsupported"


class SessionStateError(TorchEngineError):
    """A call that does not fit where the session stands."""

    code: ClassVar[str] = "state"


class CapacityError(TorchEngineError):
    """More tokens than the buffers, preallocated once per session, can hold."""

    code: ClassVar[str] = "capacity"


class SnapshotError(TorchEngineError):
    """A snapshot could not be taken, found or put back."""

    code: ClassVar[str] = "snapshot"


class LayoutError(SnapshotError):
    """The parts of a snapshot do not fit the state that it would be copied into."""

    code: ClassVar[str] = "layout"


class IdentityError(SnapshotError):
    """A snapshot belongs to another model, schedule, device or build."""

    code: ClassVar[str] = "identity"


class KVModeError(SnapshotError):
    """K rows, V rows or the recurrent state have another element type."""

    code: ClassVar[str] = "kv_mode"


class MissingError(SnapshotError):
    """A link of the chain, a handle or a named part is not there."""

    code: ClassVar[str] = "missing"


class BudgetError(SnapshotError):
    """The memory that a snapshot needs is more than it may use."""

    code: ClassVar[str] = "budget"


class TransferError(SnapshotError):
    """Everything fitted and the copy failed; what was half written has been reset."""

    code: ClassVar[str] = "transfer"


class MetadataError(SnapshotError):
    """Part 0 cannot be read, or contradicts the boundary it was stored for."""

    code: ClassVar[str] = "metadata"
