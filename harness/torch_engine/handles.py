"""Explicit snapshots of a whole session, kept outside the cache until they are dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.torch_engine.errors import IdentityError, KVModeError, MissingError
from harness.torch_engine.snapshot import Snapshot

IDENTITY_FREE = frozenset({"namespace", "max_seq_len"})
"""Identity fields in which the two sessions of a restore may differ: a fork may change its namespace, and whether
there is room is checked by the lengths."""
KV_MODE = frozenset({"k_type", "v_type", "recurrent_type", "conv_type", "index_type"})


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedSession:
    """All that a session needs to continue elsewhere."""

    snapshot: Snapshot
    """Every part from row 0 on, without a parent."""
    identity: Mapping[str, str | int | bool]
    """The identity fields of the session that it was taken of."""
    prompt: tuple[int, ...]
    """The prompt that was begun, of which a part may still be owed."""
    pin: SavedSession | None = None
    """The pinned prefix, if there is one: a bare state, whose ``prompt`` is its tokens."""

    @property
    def nbytes(self) -> int:
        """Bytes kept, those of the pin included."""
        return self.snapshot.nbytes + (0 if self.pin is None else self.pin.nbytes)


@dataclass(slots=True, eq=False)
class SessionHandle:
    """Names a saved session; equal only to itself."""

    saved: SavedSession | None = field(repr=False)
    """What is kept, or None once dropped."""

    def open(self) -> SavedSession:
        """What is kept.

        Raises:
            MissingError: the handle has been dropped.
        """
        if self.saved is None:
            raise MissingError("handle: expected one that is kept, found a dropped one")
        return self.saved


def check_identity(saved: Mapping[str, str | int | bool], live: Mapping[str, str | int | bool]) -> None:
    """Two sessions have the same model, types, schedule and device.

    Raises:
        IdentityError: the first field that differs.
        KVModeError: nothing but an element type differs.
    """
    differing = [name for name in sorted(saved.keys() | live.keys()) if saved.get(name) != live.get(name)]
    binding = sorted((name for name in differing if name not in IDENTITY_FREE), key=lambda name: name in KV_MODE)
    for name in binding:
        error = KVModeError if name in KV_MODE else IdentityError
        raise error(f"identity.{name}: expected {live.get(name)!r}, found {saved.get(name)!r}")
