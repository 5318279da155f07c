"""An engine without arithmetic: its state is a digest of the tokens that it stands for. It never errs.

It keeps snapshots at chunk boundaries, restores the deepest one, copies deltas, refuses by name, and carries flipped
bits as marks: a mark on a part changes that part's digest, and everything that is computed from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.model.evidence import PartRow, PartTable
from harness.model.scenario import Step
from harness.model.values import Sha256
from harness.wire.evidence_doc import part_table

FIXED = {"layer0.recurrent": ("recurrent", (4, 4)), "layer0.conv": ("conv", (2, 4))}
ROWS = {"layer1.k": ("kv", 8), "layer1.v": ("kv", 8), "layer1.index": ("index", 2)}
META_BYTES = 16
FIXED_BYTES = META_BYTES + 4 * 4 * 4 + 2 * 4 * 4
ROW_BYTES = 4 * (8 + 8 + 2)


class RefusedHereError(Exception):
    """The engine said no."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def sha(*pieces: object) -> Sha256:
    """Return a digest of some values."""
    return Sha256(hashlib.sha256(repr(pieces).encode()).hexdigest())


@dataclass(frozen=True, kw_only=True)
class State:
    """What a session stands for."""

    tokens: tuple[int, ...] = ()
    marks: frozenset[str] = frozenset()
    """Parts whose own bytes were flipped."""
    spoiled: bool = False
    """Something was computed from flipped bytes."""
    logits: bool = False

    def forward(self, tokens: Sequence[int]) -> State:
        """Return the state after more tokens."""
        spoiled = self.spoiled or bool(self.marks)
        return replace(self, tokens=(*self.tokens, *tokens), spoiled=spoiled, logits=True)

    def table(self) -> PartTable:
        """Return the part table."""
        rows = [row("meta", "meta", -1, "u8", (META_BYTES,), "fixed", self._digest("meta"))]
        rows += [
            row(name, family, 0, "f32", shape, "fixed", self._digest(name)) for name, (family, shape) in FIXED.items()
        ]
        count = len(self.tokens)
        rows += [
            row(name, family, 1, "f32", (count, width), "rows", self._digest(name) if count else empty())
            for name, (family, width) in ROWS.items()
        ]
        return part_table(rows)

    def logits_digest(self) -> str:
        """Return the digest of the pending logits; empty: none."""
        return self._digest("logits") if self.logits else ""

    def next_token(self) -> int:
        """Return the token that is most likely."""
        return 8 + int(self._digest("token")[:8], 16) % 496

    def _digest(self, part: str) -> Sha256:
        return sha(part, self.tokens, self.spoiled, part in self.marks)


def empty() -> Sha256:
    """Return the digest of no bytes."""
    return Sha256(hashlib.sha256(b"").hexdigest())


def row(name: str, family: str, layer: int, kind: str, shape: tuple[int, ...], stream: str, digest: Sha256) -> PartRow:
    """Return a row of a part table with the bytes that its shape takes."""
    size = 1 if kind == "u8" else 4
    for extent in shape:
        size *= extent
    return PartRow(
        name=name, family=family, layer=layer, element_type=kind, shape=shape, stream=stream, bytes=size, sha256=digest
    )


@dataclass(kw_only=True)
class Entry:
    """One snapshot of a prefix."""

    state: State
    parent: tuple[int, ...] | None
    pending: bool


@dataclass(kw_only=True)
class Session:
    """One session; an open turn has a prompt that is longer than its state."""

    state: State = field(default_factory=State)
    prompt: tuple[int, ...] = ()
    chunk: int = 1
    cache: bool = False
    captured: list[tuple[int, ...]] = field(default_factory=list)


class FakeEngine:
    """The engine of one arm."""

    def __init__(self, options: Mapping[str, str | int | bool]) -> None:
        self.chunk = int(options["chunk"])
        self.store: dict[tuple[int, ...], Entry] = {}
        self.handles: dict[str, State] = {}
        self.sessions: dict[str, Session] = {}
        self.restores = 0

    def session(self, step: Step) -> Session:
        """Return the session of a step, opened on first use."""
        chunk = int(step.options.get("chunk", self.chunk))
        return self.sessions.setdefault(step.session, Session(chunk=chunk))

    def begin(self, session: Session, prompt: Sequence[int], *, cache: bool) -> tuple[int, int]:
        """Begin a prompt; return tokens reused and bytes copied."""
        session.prompt, session.cache, session.state = tuple(prompt), cache, State()
        session.captured = []
        found = [end for end in self.boundaries(session) if self._offered(session.prompt[:end])]
        if not cache or not found:
            return 0, 0
        session.state = self.store[session.prompt[: found[-1]]].state
        self.restores += 1
        return found[-1], FIXED_BYTES + found[-1] * ROW_BYTES

    def boundaries(self, session: Session) -> list[int]:
        """Return the chunk boundaries inside the prompt."""
        return list(range(session.chunk, len(session.prompt), session.chunk))

    def forward(self, session: Session, upto: int) -> int:
        """Prefill up to a position; capture if it is a boundary."""
        before = len(session.state.tokens)
        session.state = session.state.forward(session.prompt[before:upto])
        prefix = session.prompt[:upto]
        if session.cache and upto < len(session.prompt) and prefix not in self.store:
            held = [end for end in self.boundaries(session) if end < upto and session.prompt[:end] in self.store]
            parent = session.prompt[: held[-1]] if held else None
            self.store[prefix] = Entry(state=replace(session.state, logits=False), parent=parent, pending=True)
            session.captured.append(prefix)
        if upto < len(session.prompt):
            session.state = replace(session.state, logits=False)
        return upto - before

    def settle(self, session: Session, end: str) -> None:
        """Publish or drop what a turn captured."""
        for prefix in session.captured if end != "keep" else ():
            if end == "commit":
                self.store[prefix].pending = False
            else:
                del self.store[prefix]
        session.captured = []

    def decode(self, session: Session, count: int) -> tuple[int, ...]:
        """Decode tokens."""
        if not session.state.logits:
            raise RefusedHereError("state")
        tokens: list[int] = []
        for _ in range(count):
            token = session.state.next_token()
            tokens.append(token)
            session.state = session.state.forward([token])
        return tuple(tokens)

    def restore(self, session: Session, handle: str | None) -> tuple[int, int]:
        """Restore a handle; return its position and the bytes copied."""
        if handle not in self.handles:
            raise RefusedHereError("missing")
        session.state = self.handles[handle or ""]
        session.prompt = ()
        position = len(session.state.tokens)
        return position, FIXED_BYTES + position * ROW_BYTES

    def corrupt(self, step: Step) -> None:
        """Flip bits of a part somewhere."""
        part = next(
            name for name in (*FIXED, *ROWS) if step.target["part"] in (name, *FIXED.get(name, ())[:1], _family(name))
        )
        if step.target["where"] == "live":
            session = self.session(step)
            session.state = replace(session.state, marks=session.state.marks ^ {part})
        elif step.target["where"] == "handle":
            name = step.handle or ""
            self.handles[name] = replace(self.handles[name], marks=self.handles[name].marks ^ {part})
        else:
            entry = next(one for key, one in self.store.items() if len(key) == step.target["boundary"])
            entry.state = replace(entry.state, marks=entry.state.marks ^ {part})

    def listing(self) -> tuple[tuple[dict[str, str | int | bool], ...], dict[str, int]]:
        """Return the snapshots and the counters."""
        entries = tuple(self._listed(key, entry) for key, entry in self.store.items())
        stored = sum(int(entry["bytes"]) for entry in entries if not entry["pending"])
        pending = sum(int(entry["bytes"]) for entry in entries if entry["pending"])
        counters = {"stored_bytes": stored, "pending_bytes": pending, "restores": self.restores}
        counters["entries"] = sum(not entry["pending"] for entry in entries)
        return entries, counters

    def _listed(self, key: tuple[int, ...], entry: Entry) -> dict[str, str | int | bool]:
        above = len(key) - len(entry.parent or ())
        return {
            "key": sha(key)[:16],
            "parent": sha(entry.parent)[:16] if entry.parent else "",
            "boundary": len(key),
            "bytes": FIXED_BYTES + above * ROW_BYTES,
            "fixed_bytes": FIXED_BYTES,
            "children": sum(other.parent == key for other in self.store.values()),
            "pending": entry.pending,
        }

    def _offered(self, prefix: tuple[int, ...]) -> bool:
        return prefix in self.store and not self.store[prefix].pending


def _family(name: str) -> str:
    return (FIXED.get(name) or ROWS[name])[0]
