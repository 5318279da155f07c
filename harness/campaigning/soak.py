"""The soak: hundreds of turns of a few growing conversations on one engine whose snapshots do not all fit.

After every step the bytes held are asked for, after every turn the memory of the child. Now and then a turn is
repeated without the cache on the same engine. At the end snapshots of the longest turn are kept on purpose, so that a
rule which does not see memory grow is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.campaigning.campaign import Campaign, Tell, Write, conduct, require_able
from harness.campaigning.memory import resident_kib
from harness.deriving.prompts import prompt_digest
from harness.deriving.soak import SOAK, Turn, is_compared, plan_turns, turn_ids
from harness.errors import ProtocolError, UsageError
from harness.model.values import Capability
from harness.pipeline import Bench
from harness.wire.evidence_doc import part_table

if TYPE_CHECKING:
    from harness.engines.client import RemoteEngine, RemoteSession
    from harness.engines.host import EngineHost

NEEDED: Final = (
    Capability.PARTS,
    Capability.BOUNDARIES,
    Capability.PREFIX_CACHE,
    Capability.STORE,
    Capability.EVICT,
    Capability.SNAPSHOT,
)
CHUNK: Final = 64
_CONVERSATIONS: Final = 6
_LONGEST: Final = 640
_DECODE: Final = 4
_SMALLEST: Final = 20
_LEAKS: Final = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a caller chose."""

    turns: int
    seed: int


def run_soak(bench: Bench, asked: Asked, tell: Tell | None = None) -> Campaign:
    """Run the campaign on a target that is up, and write its two files into the run folder.

    Raises:
        UsageError: Fewer turns than a warm-up and two windows.
        NothingToDoError: The device is absent, the engine cannot do what a soak needs, or the system tells no memory.
        EngineError: The engine did not go on.
    """
    if asked.turns < _SMALLEST:
        raise UsageError(f"found {asked.turns} turns; a soak has at least {_SMALLEST}")
    require_able(bench, NEEDED)
    procedure = procedure_of(asked, _one_chunk(bench))

    def work(write: Write) -> Sequence[EngineHost]:
        _Soak(bench, procedure, write).run(tell or _silent)
        return [bench.host]

    return conduct(bench, SOAK, procedure, work)


def procedure_of(asked: Asked, chunk_bytes: int) -> Mapping[str, object]:
    """Return what is going to be done; the budget holds about half of what the conversations want to keep."""
    window = asked.turns // 5
    return {
        "seed": asked.seed,
        "turns": asked.turns,
        "warmup": asked.turns // 5,
        "window": window,
        "allowance_kib": 2048,
        "conversations": _CONVERSATIONS,
        "grows_least": 20,
        "grows_most": 160,
        "longest": _LONGEST,
        "decode": _DECODE,
        "chunk": CHUNK,
        "budget_bytes": chunk_bytes * _CONVERSATIONS * (_LONGEST // CHUNK) // 4,
        "compare_every": max(1, asked.turns // 20),
        "leak_turns": _LEAKS,
    }


def _one_chunk(bench: Bench) -> int:
    """Return the bytes that the snapshot of one chunk holds, on an engine of its own."""
    engine = bench.host.open_engine({"chunk": CHUNK, "max_seq_len": _LONGEST + _DECODE})
    session = engine.open_session({})
    session.begin(list(range(8, 8 + CHUNK + 1)), cache=True)
    session.prefill(CHUNK)
    session.prefill(CHUNK + 1)
    session.commit()
    held = engine.store()[1].get("stored_bytes", 0)
    engine.close()
    if held < 1:
        raise ProtocolError(f"found {held} bytes held after a chunk of {CHUNK} tokens")
    return held


class _Soak:
    """The turns, on one engine.

    Args:
        bench: The target.
        procedure: What to do.
        write: Where records go.
    """

    def __init__(self, bench: Bench, procedure: Mapping[str, object], write: Write) -> None:
        self._bench, self._procedure, self._write = bench, procedure, write
        engine = bench.host.open_engine({"chunk": CHUNK, "max_seq_len": _LONGEST + _DECODE})
        engine.set_budget({"bytes": int(str(procedure["budget_bytes"]))})
        self._engine: RemoteEngine = engine
        self._session = engine.open_session({})
        self._other = engine.open_session({})

    def run(self, tell: Tell) -> None:
        """All turns, the repeats between them, and the turns that keep what they should not."""
        turns = plan_turns(self._procedure)
        for turn in turns:
            self._turn(turn)
            if is_compared(self._procedure, turn.number):
                for rep in range(2 if turn.number == 0 else 1):
                    self._write({"type": "cold", "number": turn.number, "rep": rep, **self._cold(turn)})
            tell("turns", turn.number + 1)
        longest = max(turns, key=lambda turn: turn.tokens)
        self._cold(longest)
        for number in range(int(str(self._procedure["leak_turns"]))):
            self._other.snapshot()
            self._write({"type": "leak", "number": number, "rss_kib": self._memory()})
        self._engine.close()

    def _turn(self, turn: Turn) -> None:
        prompt, held = turn_ids(turn), []
        begun = self._session.begin(prompt, cache=True).value
        held.append(self._held())
        for end in begun.schedule:
            self._session.prefill(end)
            held.append(self._held())
        seen = self._seen(self._session)
        self._session.commit()
        entries, counters = self._engine.store()
        held.append(_bytes_of(counters))
        self._write(
            {
                "type": "turn",
                "number": turn.number,
                "conversation": turn.conversation,
                "tokens": turn.tokens,
                "digest": prompt_digest(prompt),
                "cached": begun.cached,
                "held": held,
                "entries": len(entries),
                "evictions": counters.get("evictions", 0),
                "rss_kib": self._memory(),
                **seen,
            }
        )

    def _cold(self, turn: Turn) -> Mapping[str, object]:
        begun = self._other.begin(turn_ids(turn), cache=False).value
        for end in begun.schedule:
            self._other.prefill(end)
        return self._seen(self._other)

    def _seen(self, session: RemoteSession) -> Mapping[str, object]:
        """Look, then decode."""
        look = self._bench.host.look(session)
        tokens = session.decode(_DECODE, {}).value.tokens
        return {"parts": part_table(look.rows).root, "output": prompt_digest(tokens)}

    def _held(self) -> int:
        return _bytes_of(self._engine.store()[1])

    def _memory(self) -> int:
        return resident_kib(self._bench.host.pid or 0)


def _bytes_of(counters: Mapping[str, int]) -> int:
    """Return all bytes that snapshots hold: published, pending and promised."""
    return sum(counters.get(name, 0) for name in ("stored_bytes", "pending_bytes", "deferred_bytes"))


def _silent(what: str, done: int) -> None:
    """Tell nobody."""
