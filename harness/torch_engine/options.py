"""What a caller may choose: of the engine once, and of each session."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from harness.torch_engine.chat import chat_format
from harness.torch_engine.errors import OptionError, UnsupportedError
from harness.torch_engine.kv.elements import CONV_TYPES, INDEX_TYPES, KV_TYPES, RECURRENT_TYPES, element
from harness.torch_engine.models.config import TILE

POISONS = ("none", "zero", "nan", "noise")
ROUTES = ("ar", "mtp")
"""How tokens are made: one after the other, or drafted by a head and verified by the target."""
DRAFT_FORCES = ("", "reject", "accept", "partial")
"""Drafts are judged as they are; all are rejected; all are right; right ones are followed by a wrong one."""
KEEPS = ("all", "turn", "head")
"""Captured are all cuts; or the one before the current turn, unless the restore covers it; or first the head."""
TYPE_OPTIONS = {
    "k_type": KV_TYPES,
    "v_type": KV_TYPES,
    "recurrent_type": RECURRENT_TYPES,
    "conv_type": CONV_TYPES,
    "index_type": INDEX_TYPES,
}
"""Options that name an element type, and what each may be. Whether a type fits a model's sizes is seen at open."""
MAX_DRAFT_DEPTH = 8
"""Most tokens that a draft may hold."""
_KINDS = {"int": "an integer", "str": "text", "bool": "true or false"}
"""How the kind of a value is called in an error."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineOptions:
    """Choices that hold for all sessions of an engine."""

    preset: str = "tiny"
    """``tiny``, ``small`` or ``deep``."""
    arch: str = "hybrid"
    """``hybrid``, ``attention``, ``recurrent``, ``sliding``, ``ple`` or ``embedding``."""
    seed: int = 0
    """Seed of the weights."""
    device: str = "cpu"
    """A torch device, like ``cpu``, ``cuda``, ``cuda:0`` or ``mps``; ROCm is ``cuda``."""
    chunk: int = 8192
    """Prefill chunk in tokens, a multiple of 64; prompts are cut at its multiples."""
    max_seq_len: int = 32_768
    """Tokens that a session's buffers hold, allocated at once."""
    k_type: str = "f32"
    """Element type of K rows."""
    v_type: str = "f32"
    """Element type of V rows."""
    recurrent_type: str = "f32"
    """Element type of the recurrent state between calls."""
    conv_type: str = "f32"
    """Element type of convolution windows between calls."""
    index_type: str = "f32"
    """Element type of index rows, raw and pooled."""
    cache_bytes: int = 1 << 30
    """Byte budget of the session cache; 0 turns captures off."""
    cache_entries: int = 1024
    """Entry budget of the session cache; 0 turns captures off."""
    snapshots: str = "delta"
    """What the session cache stores: ``delta``, rows above the parent's; or ``whole``, all rows and no parent."""
    snapshot_bytes: int = 1 << 34
    """Byte budget of explicit snapshots; one past it is refused."""
    memory_headroom: int = 0
    """Bytes that the memory guard keeps free, where a memory query is given."""
    threads: int = 1
    """Intra-operation threads of the host."""
    poison: str = "none"
    """What unused memory holds: ``none`` leaves it, ``zero``, ``nan`` and ``noise`` fill it."""

    def validate(self) -> None:
        """Check every field.

        Raises:
            OptionError: the first field that is wrong, with what was expected.
        """
        check_kinds(self)
        for what, allowed in TYPE_OPTIONS.items():
            element(getattr(self, what), allowed, what=what)
        if self.poison not in POISONS:
            raise OptionError(f"poison: expected one of {POISONS}, found {self.poison!r}")
        if self.snapshots not in ("delta", "whole"):
            raise OptionError(f"snapshots: expected delta or whole, found {self.snapshots!r}")
        for name in ("max_seq_len", "threads"):
            _at_least(name, getattr(self, name), 1)
        for name in ("cache_bytes", "cache_entries", "snapshot_bytes", "memory_headroom"):
            _at_least(name, getattr(self, name), 0)
        check_chunk(self.chunk)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionOptions:
    """Choices of one session; each of them is part of the cache domain."""

    chunk: int
    """Prefill chunk in tokens, a multiple of 64."""
    namespace: str = ""
    """Sessions of different namespaces never share snapshots."""
    route: str = "ar"
    """How tokens are made: ``ar``, one after the other, or ``mtp``, drafted and verified."""
    turns: bool = False
    """Whether prompts are also cut after each ``turn_token``."""
    turn_token: int | None = None
    """The token that ends a turn; needed where ``turns`` is set."""
    chat: str = ""
    """A chat format, as `chat.chat_format` reads it: prompts are also cut where messages begin; empty for none."""
    keep: str = "all"
    """Which cuts are captured, one of `KEEPS`; it changes nothing of where prompts are cut."""
    owed: bool = False
    """Whether `decode` leaves the forward of its last token to the next call."""
    live: bool = False
    """Whether a prompt that extends the live state continues it without a restore."""
    live_captures: bool = False
    """Whether such a turn captures too: apart from what cold turns capture, and only sessions with this option look."""
    resident: bool = False
    """Whether the deepest cut of the last turn can be gone back to without copying rows."""
    deferred: bool = False
    """Whether the deepest cut is saved without a copy until the session leaves it; cache policy ``whole`` only."""
    protect: int = 0
    """A cut whose snapshot is never evicted or replaced; 0 for none."""
    pin: int = 0
    """Tokens of a prefix that is pinned when a prompt first passes it, and cut there; 0 for none."""
    draft_depth: int = 4
    """Most tokens drafted at a time on route ``mtp``; the depth adapts below it."""
    draft_force: str = ""
    """Whose drafts are judged; one of `DRAFT_FORCES`, route ``mtp`` only."""
    view: str = "all"
    """What is shown of the state: ``all``, or only what the ``target`` would have on route ``ar``."""

    def validate(self) -> None:
        """Check every field.

        Raises:
            OptionError: a value is of another kind, or out of range.
            UnsupportedError: an unknown route.
        """
        check_kinds(self)
        check_chunk(self.chunk)
        if self.route not in ROUTES:
            raise UnsupportedError(f"route: expected one of {ROUTES}, found {self.route!r}")
        if self.live_captures and not self.live:
            raise OptionError("live_captures: expected live beside it, found it alone")
        _at_least("pin", self.pin, 0)
        _at_least("protect", self.protect, 0)
        if not 1 <= self.draft_depth <= MAX_DRAFT_DEPTH:
            raise OptionError(f"draft_depth: expected 1..{MAX_DRAFT_DEPTH}, found {self.draft_depth}")
        if self.draft_force not in (DRAFT_FORCES if self.route == "mtp" else ("",)):
            raise OptionError(f"draft_force: expected one of {DRAFT_FORCES} on route mtp, found {self.draft_force!r}")
        if self.view not in ("all", "target"):
            raise OptionError(f"view: expected all or target, found {self.view!r}")
        if self.keep not in KEEPS:
            raise OptionError(f"keep: expected one of {KEEPS}, found {self.keep!r}")
        if self.chat:
            chat_format(self.chat)
        elif self.keep != "all":
            raise OptionError(f"keep: expected a chat format beside {self.keep!r}, found none")
        if self.turns and self.turn_token is None:
            raise OptionError("turn_token: expected a token id where turns is set, found none")

    def identity(self) -> dict[str, str | int | bool]:
        """Fields of a session's cache domain; those that were not chosen are left out."""
        about: dict[str, str | int | bool] = {
            "chunk": self.chunk,
            "route": self.route,
            "turns": self.turns,
            "turn_token": -1 if self.turn_token is None or not self.turns else self.turn_token,
            "namespace": self.namespace,
        }
        if self.chat:
            about["chat"] = chat_format(self.chat).spec
        if self.owed:
            about["owed"] = True
        if self.pin:
            about["pin"] = self.pin
        if self.route == "mtp":
            about |= {"draft_depth": self.draft_depth, "draft_force": self.draft_force}
        return about


def session_options(base: SessionOptions, overrides: dict[str, object]) -> SessionOptions:
    """The base with overrides; giving a ``turn_token`` turns ``turns`` on unless it is given too.

    Raises:
        OptionError: an override that is no session option.
    """
    known = [field.name for field in fields(SessionOptions)]
    for name in overrides:
        if name not in known:
            raise OptionError(f"session option: expected one of {known}, found {name!r}")
    if overrides.get("turn_token") is not None:
        overrides = {"turns": True} | overrides
    changed = replace(base, **overrides)  # type: ignore[arg-type]
    changed.validate()
    return changed


def check_kinds(options: EngineOptions | SessionOptions) -> None:
    """Every value is of the kind that its field says: text, an integer, or true or false.

    Raises:
        OptionError: one is not.
    """
    for field in fields(options):
        value, kinds = getattr(options, field.name), str(field.type).split(" | ")
        if type(value).__name__ not in [kind.replace("None", "NoneType") for kind in kinds]:
            raise OptionError(f"{field.name}: expected {_KINDS[kinds[0]]}, found {value!r}")


def check_chunk(chunk: int) -> None:
    """A chunk is a positive multiple of the tile.

    Raises:
        OptionError: it is not.
    """
    if chunk < TILE or chunk % TILE:
        raise OptionError(f"chunk: expected a positive multiple of {TILE}, found {chunk}")


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise OptionError(f"{name}: expected at least {least}, found {value}")
