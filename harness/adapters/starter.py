"""A toy engine behind the seam, whole and small: what ``statecert new adapter`` copies as a start.

Each token adds one row to ``layer0.k`` and folds it into the four words of ``layer1.recurrent``; an earlier row is
mixed in, as attention does it. Snapshots are plain copies. Replace :class:`State` by your engine's session, then the
calls into it; keep the shape of the rest.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from harness.engines.interface import Begun, Identity, Options, StatePart
from harness.errors import RefusedError
from harness.model.values import NO_LAYER, Capability, Family, Observability, RefusalCode

if TYPE_CHECKING:
    from typing_extensions import Buffer

NAME: Final = "starter"
DEFAULTS: Final[Options] = {
    "device": "cpu", "preset": "tiny", "chunk": 64, "max_seq_len": 4096, "cache_entries": 1000
}  # fmt: skip
ROWS: Final = "layer0.k"
RECURRENT: Final = "layer1.recurrent"
ROW_BYTES: Final = 8
MASK: Final = 2**32 - 1


@dataclass(kw_only=True, slots=True)
class State:
    """All that a session is."""

    position: int = 0
    rows: bytearray = field(default_factory=bytearray)
    recurrent: bytearray = field(default_factory=lambda: bytearray(16))
    logits: bytearray = field(default_factory=bytearray)
    """Empty: none are pending."""

    def forward(self, token: int) -> None:
        """Take one token."""
        words = struct.unpack("<4I", self.recurrent)
        earlier = words[0] % self.position * ROW_BYTES if self.position else 0
        seen = int.from_bytes(self.rows[earlier : earlier + ROW_BYTES], "little")
        folded = [(word * 1664525 + seen + token + 1013904223 + index) & MASK for index, word in enumerate(words)]
        self.rows += struct.pack("<2I", folded[0] ^ token, folded[1])
        self.recurrent[:] = struct.pack("<4I", *folded)
        self.logits.clear()
        self.position += 1

    def finish(self) -> None:
        """Make the logits after the last token pending."""
        words = struct.unpack("<4I", self.recurrent)
        self.logits[:] = struct.pack("<16I", *((words[index % 4] * (2 * index + 1)) >> 8 & MASK for index in range(16)))

    def copy(self) -> State:
        """Return a state that shares no memory with this one."""
        return replace(
            self, rows=bytearray(self.rows), recurrent=bytearray(self.recurrent), logits=bytearray(self.logits)
        )

    def flip(self, part: str, byte: int, mask: int) -> None:
        """Flip bits of one byte."""
        data = {ROWS: self.rows, RECURRENT: self.recurrent}.get(part)
        if data is None or not 0 <= byte < len(data):
            raise RefusedError(RefusalCode.MISSING, f"no byte {byte} of a part {part!r}")
        data[byte] ^= mask

    @property
    def bytes(self) -> int:
        """What a copy of it takes."""
        return len(self.rows) + len(self.recurrent)


class StarterAdapter:
    """Entry point ``starter``."""

    name = NAME

    def capabilities(self) -> frozenset[Capability]:
        """What is implemented below; declare more as you implement more."""
        names = "parts logits boundaries prefix_cache snapshot extend store evict corrupt"
        return frozenset(Capability(name) for name in names.split())

    def devices(self) -> Sequence[tuple[str, str]]:
        """The CPU can always run."""
        return [("cpu", "")]

    def open(self, options: Options) -> StarterEngine:
        """Load the model."""
        unknown = sorted(set(options) - set(DEFAULTS))
        if unknown:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"unknown options {unknown}; known are {sorted(DEFAULTS)}")
        return StarterEngine({**DEFAULTS, **options})


class StarterEngine:
    """One model with its snapshots."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.stored: dict[str, State] = {}
        self.handles: dict[str, State] = {}
        self.sessions: list[StarterSession] = []
        self.budget = {"bytes": 1 << 30, "entries": int(options["cache_entries"])}
        self.counts = dict.fromkeys(("captures", "restores", "hits", "misses", "evictions"), 0)

    def identity(self) -> Identity:
        """Say what was loaded, not what was asked for."""
        return Identity(
            engine=NAME.replace("-", "_"),  # names in records hold no dash
            version="0.1",
            model=str(self.options["preset"]),
            model_digest=hashlib.sha256(NAME.encode()).hexdigest(),
            hw_class="cpu-generic",
            observability=Observability.PARTS,
            facts={"chunk": self.options["chunk"], "logits_type": "u32"},
            device={"type": "cpu"},
            path_sets={"engine": ["harness.adapters:starter.py"]},
        )

    def open_session(self, options: Options) -> StarterSession:
        """Open a session; there are no session options yet."""
        if options:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"unknown session options {sorted(options)}")
        self.sessions.append(StarterSession(self))
        return self.sessions[-1]

    def store(self) -> tuple[Sequence[Options], Mapping[str, int]]:
        """Snapshots held, and the counters."""
        whole: Options = {"parent": "", "fixed_bytes": 16, "children": 0, "pending": False, "domain": "00"}
        entries = [
            {**whole, "key": key, "boundary": one.position, "bytes": one.bytes} for key, one in self.stored.items()
        ]
        pending = sum(one.bytes for session in self.sessions for one in session.pending.values())
        held = {"stored_bytes": sum(one.bytes for one in self.stored.values()), "pending_bytes": pending}
        return entries, {**self.counts, **held, "entries": len(self.stored)}

    def evict(self, count: int) -> int:
        """Evict the least recently used: the first of the dictionary."""
        going = list(self.stored)[: count if count >= 0 else None]
        for key in going:
            del self.stored[key]
        self.counts["evictions"] += len(going)
        return len(going)

    def set_budget(self, budget: Mapping[str, int]) -> None:
        """Change the budget; what does not fit goes."""
        self.budget.update(budget)
        while self.stored and not self.fits(0, 0):
            self.evict(1)

    def fits(self, more_bytes: int, more_entries: int) -> bool:
        """Tell whether so much more may be held."""
        held = sum(one.bytes for one in self.stored.values()) + more_bytes
        return held <= self.budget["bytes"] and len(self.stored) + more_entries <= self.budget["entries"]

    def corrupt_handle(self, handle: str, part: str, byte: int, mask: int) -> None:
        """Flip bits in an explicit snapshot."""
        self.saved(handle).flip(part, byte, mask)

    def corrupt_store(self, key: str, part: str, byte: int, mask: int) -> None:
        """Flip bits in a stored snapshot."""
        if key not in self.stored:
            raise RefusedError(RefusalCode.MISSING, "no snapshot of this key")
        self.stored[key].flip(part, byte, mask)

    def saved(self, handle: str) -> State:
        """Return an explicit snapshot."""
        if handle not in self.handles:
            raise RefusedError(RefusalCode.MISSING, f"no snapshot {handle!r}")
        return self.handles[handle]

    def close(self) -> None:
        """Free everything."""
        self.stored.clear()
        self.handles.clear()


class StarterSession:
    """One sequence of tokens and its state."""

    def __init__(self, engine: StarterEngine) -> None:
        self.engine = engine
        self.state = State()
        self.tokens: list[int] = []
        self.ends: Sequence[int] = ()
        self.caching = False
        self.pending: dict[str, State] = {}

    def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
        """Restore the deepest cached prefix, or start anew."""
        self.reset()
        self.tokens, self.caching = list(prompt), cache
        self.ends = self.schedule(0)
        found = next(
            (key for key in map(self.key, reversed(self.ends[:-1])) if cache and key in self.engine.stored), ""
        )
        if cache:
            self.engine.counts["hits" if found else "misses"] += 1
        if not found:
            return Begun(cached=0, restored_bytes=0, schedule=self.ends)
        self.engine.stored[found] = self.engine.stored.pop(found)
        return self.take(self.engine.stored[found])

    def take(self, saved: State) -> Begun:
        """Become a saved state; the bytes are counted where they are copied."""
        self.state = saved.copy()
        self.engine.counts["restores"] += 1
        return Begun(cached=self.state.position, restored_bytes=self.state.bytes, schedule=self.ends)

    def prefill(self, upto: int) -> int:
        """Forward to a schedule point; capture at boundaries inside the prompt."""
        before = self.state.position
        if upto not in self.ends:
            raise RefusedError(RefusalCode.STATE, f"expected one of {list(self.ends)}, found {upto}")
        for token in self.tokens[before:upto]:
            self.state.forward(token)
            if self.caching and self.state.position in self.ends[:-1]:
                self.capture()
        if self.state.position == len(self.tokens):
            self.state.finish()
        return self.state.position - before

    def capture(self) -> None:
        """Keep a copy of the state until the turn is committed."""
        key = self.key(self.state.position)
        if key not in self.engine.stored and self.engine.fits(self.state.bytes, 1):
            self.pending[key] = self.state.copy()
            self.engine.counts["captures"] += 1

    def commit(self) -> None:
        """Publish this turn's captures."""
        self.engine.stored.update(self.pending)
        self.pending.clear()

    def abandon(self) -> None:
        """Drop this turn's captures."""
        self.pending.clear()

    def extend(self, tokens: Sequence[int]) -> Begun:
        """Another turn; positions are absolute."""
        start, self.caching = self.state.position, False
        self.tokens = [*self.tokens[:start], *[0] * (start - len(self.tokens)), *tokens]
        self.ends = self.schedule(start)
        return Begun(cached=start, restored_bytes=0, schedule=self.ends)

    def decode(self, count: int, sampler: Mapping[str, int]) -> Sequence[int]:
        """Pick the highest logit; the lowest token among equals."""
        if not self.state.logits or sampler:
            raise RefusedError(RefusalCode.STATE if not sampler else RefusalCode.UNSUPPORTED, "no pending logits")
        found = []
        for _ in range(count):
            scores = struct.unpack("<16I", self.state.logits)
            found.append(scores.index(max(scores)))
            self.state.forward(found[-1])
            self.state.finish()
        return found

    def position(self) -> int:
        """Tokens that the state stands for."""
        return self.state.position

    def logits(self) -> Buffer | None:
        """The pending logits."""
        return self.state.logits or None

    def parts(self) -> Sequence[StatePart]:
        """Every part: the metadata first, then views of live memory."""
        meta = struct.pack("<2Q", self.state.position, bool(self.state.logits))
        rows = len(self.state.rows) // ROW_BYTES
        return [
            part("meta", Family.META, NO_LAYER, "u8", (len(meta),), "fixed", meta),
            part(ROWS, Family.KV, 0, "u32", (rows, 2), "rows", self.state.rows),
            part(RECURRENT, Family.RECURRENT, 1, "u32", (4,), "fixed", self.state.recurrent),
        ]

    def snapshot(self) -> str:
        """Keep a copy of the whole session."""
        handle = f"h{len(self.engine.handles) + 1}"
        self.engine.handles[handle] = self.state.copy()
        return handle

    def restore(self, handle: str) -> Begun:
        """Become a saved session."""
        saved = self.engine.saved(handle)
        self.reset()
        return self.take(saved)

    def corrupt(self, part: str, byte: int, mask: int) -> None:
        """Flip bits of a live part."""
        self.state.flip(part, byte, mask)

    def synchronize(self) -> None:
        """Nothing runs behind the caller's back here."""

    def reset(self) -> None:
        """Back to a new session."""
        self.abandon()
        self.state, self.tokens, self.ends, self.caching = State(), [], (), False

    def close(self) -> None:
        """Free everything."""
        self.reset()
        self.engine.sessions.remove(self)

    def schedule(self, start: int) -> Sequence[int]:
        """Ends of chunks after ``start``; the last is where the tokens end."""
        chunk, end = int(self.engine.options["chunk"]), len(self.tokens)
        return [*range((start // chunk + 1) * chunk, end, chunk), end]

    def key(self, boundary: int) -> str:
        """Name of the snapshot of a prefix: a digest over its tokens and all that changes the state."""
        return hashlib.sha256(repr((self.engine.options["chunk"], self.tokens[:boundary])).encode()).hexdigest()


def part(
    name: str, family: Family, layer: int, element_type: str, shape: tuple[int, ...], stream: str, data: Buffer
) -> StatePart:
    """Name one part."""
    return StatePart(
        name=name, family=family, layer=layer, element_type=element_type, shape=shape, stream=stream, data=data
    )
