"""A small real engine in pure Python, behind the seam: rows, a recurrent part, logits, delta snapshots, a prefix cache.

Each token folds into four 64-bit words (the recurrent part), adds one row of two words, and sets sixteen float logits.
It can misbehave on purpose: option ``misbehave`` says how, ``during`` names the operation, ``after`` how many calls of
it go well first. Option ``fault`` plants a fault that stays silent.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.engines.channel import Channel
from harness.engines.interface import Begun, Identity, Options, StatePart
from harness.errors import RefusedError
from harness.model.values import NO_LAYER, Capability, Family, Observability, RefusalCode

if TYPE_CHECKING:
    from typing_extensions import Buffer

MASK = 2**64 - 1
VOCAB = 16
RECURRENT = "layer0.recurrent"
ROWS = "layer1.k"
LOGITS = "logits"
OPTIONS = {
    "preset": "toy",
    "arch": "hybrid",
    "chunk": 64,
    "max_seq_len": 4096,
    "device": "cpu",
    "threads": 1,
    "misbehave": "",
    "during": "prefill",
    "after": 0,
    "fault": "",
    "disk": "",
    "disk_build": "",
}
ALL = frozenset(Capability) - {Capability.ROLLBACK, Capability.MEANWHILE, Capability.ARCHIVE}
IMAGE = struct.Struct("<4sI32sQ?4Q64s")
LINK = struct.Struct("<32s32sQ32s4Q")


def mix(value: int) -> int:
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & MASK
    return value ^ (value >> 31)


@dataclass
class State:
    recurrent: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    rows: bytearray = field(default_factory=bytearray)
    logits: bytearray = field(default_factory=lambda: bytearray(4 * VOCAB))
    valid: bool = False
    position: int = 0

    def take(self, token: int) -> None:
        for index, word in enumerate(self.recurrent):
            self.recurrent[index] = mix(word + token + 1 + index)
        self.rows += struct.pack("<2Q", mix(token + self.position), self.recurrent[0])
        self.position += 1

    def set_logits(self) -> None:
        values = [(mix(self.recurrent[1] + index) >> 40) / 2**24 for index in range(VOCAB)]
        self.logits[:] = struct.pack(f"<{VOCAB}f", *values)
        self.valid = True

    def part(self, name: str) -> bytes:
        parts = {RECURRENT: struct.pack("<4Q", *self.recurrent), ROWS: bytes(self.rows), LOGITS: bytes(self.logits)}
        if name not in parts:
            raise RefusedError(RefusalCode.MISSING, f"no part {name}")
        return parts[name]

    def set_part(self, name: str, data: bytes) -> None:
        if name == RECURRENT:
            self.recurrent = list(struct.unpack("<4Q", data))
        elif name == ROWS:
            self.rows[:] = data
        else:
            self.logits[:] = data

    def flip(self, name: str, byte: int, mask: int) -> None:
        data = bytearray(self.part(name))
        if not 0 <= byte < len(data):
            raise RefusedError(RefusalCode.SHORT_BUFFER, f"byte {byte} of {len(data)}")
        data[byte] ^= mask
        self.set_part(name, bytes(data))


@dataclass
class Stored:
    key: str
    boundary: int
    parent: str
    recurrent: list[int]
    rows: bytearray
    stamp: int = 0

    @property
    def bytes(self) -> int:
        return 32 + len(self.rows)


class ToyAdapter:
    name = "toy"

    def capabilities(self) -> frozenset[Capability]:
        lacking = {Capability(name) for name in os.environ.get("TOY_LACKS", "").split(",") if name}
        return ALL - lacking

    def devices(self) -> Sequence[tuple[str, str]]:
        return [("moon", "no moon is up"), ("cpu", "")]

    def plan(self, options: Options, *, memory: int, context: int) -> Mapping[str, int]:
        """Of a thousand bytes of weights, two of workspace, and one for each token."""
        left = memory - 3000 - 1000 * context
        return {
            "total": memory,
            "weights": 1000,
            "workspace": 2000,
            "workspace_rows": 64,
            "workspace_measured_at": context,
            "state": 1000 * context,
            "snapshots": max(0, left),
            "prefix": 1000 * context,
            "prefixes": max(0, left) // (1000 * context),
            "fits_up_to": max(0, memory - 3000) // 2000,
        }

    def open(self, options: Options) -> ToyEngine:
        unknown = sorted(set(options) - set(OPTIONS))
        if unknown:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"unknown options {unknown}")
        return ToyEngine({**OPTIONS, **options})


class ToyEngine:
    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.stored: dict[str, Stored] = {}
        self.handles: dict[str, State] = {}
        self.counts = dict.fromkeys(("captures", "restores", "hits", "misses", "evictions"), 0)
        self.budget = {"bytes": 1 << 30, "entries": 1000}
        self.clock = 0
        self.calls: dict[str, int] = {}
        self.pending: list[list[Stored]] = []
        self.disk = ToyDisk(Path(str(options["disk"])), str(options["disk_build"])) if options["disk"] else None
        self.misbehave("open")

    def misbehave(self, operation: str) -> None:
        """Do what the options ask for, if this is the operation."""
        if self.options["during"] != operation:
            return
        self.calls[operation] = self.calls.get(operation, 0) + 1
        if self.calls[operation] > int(self.options["after"]):
            _MISDEEDS[str(self.options["misbehave"])]()

    def identity(self) -> Identity:
        ignores = self.options["fault"] == "ignored_option"
        return Identity(
            engine="toy",
            version=os.environ.get("TOY_VERSION", "1"),
            model=str(self.options["preset"]),
            model_digest=hashlib.sha256(b"toy").hexdigest(),
            hw_class="cpu-toy",
            observability=Observability.PARTS,
            facts={
                "chunk": self.options["chunk"],
                "max_seq_len": 4096 if ignores else self.options["max_seq_len"],
                "logits_type": "f32",
                **({"families": "kv"} if self.options["fault"] == "family_untold" else {}),
            },
            device={"name": "toy"},
            path_sets={"engine": ["harness.engines:interface.py"]},
        )

    def open_session(self, options: Options) -> ToySession:
        self.misbehave("open_session")
        return ToySession(self, int(options.get("chunk", self.options["chunk"])), str(options.get("namespace", "")))

    def store(self) -> tuple[Sequence[Options], Mapping[str, int]]:
        entries: list[Options] = [
            {
                "key": one.key,
                "parent": one.parent,
                "boundary": one.boundary,
                "bytes": one.bytes,
                "fixed_bytes": 32,
                "children": sum(other.parent == one.key for other in self.stored.values()),
                "pending": False,
                "domain": "00",
            }
            for one in self.stored.values()
        ]
        held = {
            "stored_bytes": sum(one.bytes for one in self.stored.values()),
            "pending_bytes": sum(one.bytes for turn in self.pending for one in turn),
            "entries": len(self.stored),
        }
        return entries, {**self.counts, **held, **(self.disk.counters() if self.disk else {})}

    def evict(self, count: int) -> int:
        gone = 0
        while gone != count:
            parents = {one.parent for one in self.stored.values()}
            leaves = [one for one in self.stored.values() if one.key not in parents]
            if not leaves:
                break
            leaf = self.stored.pop(min(leaves, key=lambda one: one.stamp).key)
            if self.disk:
                self.disk.write(leaf)
            gone += 1
        self.counts["evictions"] += gone
        return gone

    def release(self, need: int) -> int:
        before = sum(one.bytes for one in self.stored.values())
        freed = 0
        while freed < need and self.evict(1):
            freed = before - sum(one.bytes for one in self.stored.values())
        return freed

    def forge_image(self, data: Buffer, what: str) -> Buffer:
        if what != "version":
            raise RefusedError(RefusalCode.UNSUPPORTED, f"no forgery {what}")
        forged = bytearray(memoryview(data)[:-32])
        forged[4] ^= 0x40
        return bytes(forged) + hashlib.sha256(forged).digest()

    def disk_files(self) -> Sequence[Options]:
        return self.disk.files() if self.disk else []

    def set_budget(self, budget: Mapping[str, int]) -> None:
        self.budget.update(budget)

    def corrupt_handle(self, handle: str, part: str, byte: int, mask: int) -> None:
        self.handles[handle].flip(part, byte, mask)

    def corrupt_store(self, key: str, part: str, byte: int, mask: int) -> None:
        one = self.stored[key]
        state = State(recurrent=one.recurrent, rows=one.rows)
        state.flip(part, byte, mask)
        one.recurrent, one.rows = state.recurrent, state.rows

    def damage_store(self, key: str, kind: str) -> None:
        if kind != "missing":
            raise RefusedError(RefusalCode.UNSUPPORTED, f"no damage {kind}")
        del self.stored[key]

    def close(self) -> None:
        self.misbehave("close")
        self.evict(-1)
        if self.disk:
            self.disk.close()


class ToySession:
    def __init__(self, engine: ToyEngine, chunk: int, namespace: str) -> None:
        self.engine = engine
        self.chunk = chunk
        self.namespace = namespace
        self.state = State()
        self.prompt: Sequence[int] = ()
        self.start = 0
        self.capturing = self.cancelled = False
        self.pending: list[Stored] = []
        self.late: list[int] = []
        engine.pending.append(self.pending)

    def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
        self.engine.misbehave("begin")
        self.reset()
        self.prompt, self.capturing = prompt, cache
        loaded = self._load() if cache else 0
        chain = self._chain() if cache else []
        self.engine.counts["hits" if chain else "misses"] += 1
        restored = self._restore(chain)
        if self.engine.options["fault"] == "forget_recurrent":
            self.state.recurrent = [0, 0, 0, 0]
        if self.engine.options["fault"] in ("late_unless_looked_at", "late_unless_awaited") and chain:
            self.late, self.state.recurrent = self.state.recurrent, [0, 0, 0, 0]
        if self.engine.options["fault"] == "count_high" and chain:
            return Begun(cached=self.state.position + 1, restored_bytes=restored, schedule=self._schedule(0))
        return Begun(cached=self.state.position, restored_bytes=restored, schedule=self._schedule(0), disk_bytes=loaded)

    def _going_on(self) -> None:
        if self.cancelled:
            raise RefusedError(RefusalCode.STATE, "cancelled")

    def extend(self, tokens: Sequence[int]) -> Begun:
        self._going_on()
        self.start, self.prompt, self.capturing = self.state.position, tokens, False
        return Begun(cached=self.start, restored_bytes=0, schedule=self._schedule(self.start))

    def prefill(self, upto: int) -> int:
        self.engine.misbehave("prefill")
        before, self.late = self.state.position, []
        while self.state.position < upto:
            self.state.take(self.prompt[self.state.position - self.start])
            if self.capturing and self.state.position % self.chunk == 0 and self.state.position < len(self.prompt):
                self._capture()
        if self.engine.options["fault"] == "unrepeatable":
            self.state.recurrent[3] ^= time.perf_counter_ns() | 1
        if upto == self.start + len(self.prompt):
            self.state.set_logits()
            if self.engine.options["fault"] == "constant_logits":
                self.state.logits[:] = bytes(range(4 * VOCAB))
        return self.state.position - before

    def commit(self) -> None:
        for one in self.pending:
            self.engine.stored[one.key] = one
        self.pending.clear()

    def abandon(self) -> None:
        self.pending.clear()

    def decode(self, count: int, sampler: Mapping[str, int]) -> Sequence[int]:
        self.engine.misbehave("decode")
        self._going_on()
        if not self.state.valid:
            raise RefusedError(RefusalCode.STATE, "no pending logits")
        found = []
        for _ in range(count):
            logits = struct.unpack(f"<{VOCAB}f", self.state.logits)
            found.append(8 + (logits.index(max(logits)) + sampler.get("seed", 0)) % VOCAB)
            self.state.take(found[-1])
            self.state.set_logits()
        return found

    def position(self) -> int:
        return self.state.position

    def logits(self) -> Buffer | None:
        return self.state.logits if self.state.valid else None

    def parts(self) -> Sequence[StatePart]:
        self.engine.misbehave("parts")
        self._complete("late_unless_looked_at")
        meta = struct.pack("<2Q", self.state.position, self.state.valid)
        rows = self.state.part(ROWS)
        if self.engine.options["fault"] == "constant_rows":
            rows = bytes(len(rows))
        return [
            _part("meta", Family.META, NO_LAYER, "u8", (len(meta),), "fixed", meta),
            _part(RECURRENT, Family.RECURRENT, 0, "u64", (2, 2), "fixed", self.state.part(RECURRENT)),
            _part(LOGITS, Family.LOGITS, NO_LAYER, "f32", (VOCAB,), "fixed", self.state.part(LOGITS)),
            _part(ROWS, Family.KV, 1, "u64", (len(rows) // 16, 2), "rows", rows),
        ]

    def image_size(self) -> int:
        return IMAGE.size + len(self.state.rows) + 32

    def export_image(self, capacity: int) -> Buffer:
        self._going_on()
        if self.image_size() > capacity:
            raise RefusedError(RefusalCode.SHORT_BUFFER, f"{self.image_size()} bytes")
        state = self.state
        who = hashlib.sha256(f"{self.engine.options['preset']} {self.chunk}".encode()).digest()
        head = IMAGE.pack(b"TOY1", 1, who, state.position, state.valid, *state.recurrent, bytes(state.logits))
        if self.engine.options["fault"] == "unequal_images":
            head = IMAGE.pack(b"TOY1", 1, who, state.position, True, *state.recurrent, os.urandom(64))
        body = head + bytes(state.rows)
        return body + hashlib.sha256(body).digest()

    def import_image(self, data: Buffer) -> Begun:
        body, digest = bytes(data)[:-32], bytes(data)[-32:]
        if len(body) < IMAGE.size:
            raise RefusedError(RefusalCode.SHORT_BUFFER, "no image")
        magic, version, who, position, valid, *recurrent, logits = IMAGE.unpack_from(body)
        wanted = hashlib.sha256(f"{self.engine.options['preset']} {self.chunk}".encode()).digest()
        if magic != b"TOY1" or hashlib.sha256(body).digest() != digest:
            raise RefusedError(RefusalCode.FORMAT, "not an image")
        if version != 1:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"version {version}")
        if who != wanted:
            raise RefusedError(RefusalCode.IDENTITY, "another one's")
        self.reset()
        self.state = State(list(recurrent), bytearray(body[IMAGE.size :]), bytearray(logits), valid, position)
        if self.engine.options["fault"] == "import_forgets":
            self.state.recurrent = [0, 0, 0, 0]
        copied = 32 + len(self.state.rows) + len(self.state.logits)
        return Begun(cached=position, restored_bytes=copied, schedule=[position] if position else [])

    def cancel(self) -> None:
        self.commit()
        self.cancelled = True

    def snapshot(self) -> str:
        self._going_on()
        handle = f"h{len(self.engine.handles)}"
        self.engine.handles[handle] = _copy(self.state)
        return handle

    def restore(self, handle: str) -> Begun:
        self.engine.misbehave("restore")
        if handle not in self.engine.handles:
            raise RefusedError(RefusalCode.MISSING, f"no snapshot {handle}")
        self.state = _copy(self.engine.handles[handle])
        return Begun(cached=self.state.position, restored_bytes=len(self.state.rows) + 32, schedule=())

    def corrupt(self, part: str, byte: int, mask: int) -> None:
        self.state.flip(part, byte, mask)

    def synchronize(self) -> None:
        self.engine.misbehave("synchronize")
        self._complete("late_unless_awaited")

    def _complete(self, fault: str) -> None:
        """What a hit began is completed by whoever looks or waits."""
        if self.late and self.engine.options["fault"] == fault:
            self.late, self.state.recurrent = [], self.late

    def reset(self) -> None:
        self.state, self.prompt, self.start, self.cancelled = State(), (), 0, False
        self.pending.clear()

    def close(self) -> None:
        self.pending.clear()

    def _schedule(self, start: int) -> Sequence[int]:
        end = start + len(self.prompt)
        return sorted({*range((start // self.chunk + 1) * self.chunk, end, self.chunk), end})

    def _key(self, boundary: int) -> str:
        text = f"{self.namespace} {self.chunk} {list(self.prompt[:boundary])}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _load(self) -> int:
        """Take the links that the disk has, and memory has not, into memory."""
        disk, found = self.engine.disk, []
        for boundary in range(self.chunk, len(self.prompt), self.chunk):
            key = self._key(boundary)
            if disk and key not in self.engine.stored and disk.path(key).is_file():
                found.append(disk.read(key))
        for one in found:
            self.engine.stored[one.key] = one
        return sum(one.bytes for one in found)

    def _chain(self) -> list[Stored]:
        chain: list[Stored] = []
        for boundary in range(self.chunk, len(self.prompt), self.chunk):
            one = self.engine.stored.get(self._key(boundary))
            if one is None:
                break
            chain.append(one)
        return chain

    def _restore(self, chain: list[Stored]) -> int:
        if not chain:
            return 0
        self.state.recurrent = list(chain[-1].recurrent)
        for one in chain:
            self.engine.clock += 1
            one.stamp = self.engine.clock
            self.state.rows += one.rows
        self.state.position = chain[-1].boundary
        self.engine.counts["restores"] += 1
        return 32 + len(self.state.rows)

    def _capture(self) -> None:
        boundary = self.state.position
        parent = self._key(boundary - self.chunk) if boundary > self.chunk else ""
        key, rows = self._key(boundary), bytearray(self.state.rows[16 * (boundary - self.chunk) :])
        if key in self.engine.stored or not min(self.engine.budget.values()):
            return
        self.engine.clock += 1
        self.engine.counts["captures"] += 1
        self.pending.append(Stored(key, boundary, parent, list(self.state.recurrent), rows, self.engine.clock))


class ToyDisk:
    """One file a link: build, key, boundary, parent, state, rows, digest."""

    def __init__(self, folder: Path, build: str) -> None:
        self.folder = folder
        self.build = hashlib.sha256(build.encode()).digest()
        self.counts = dict.fromkeys(("disk_loads", "disk_quarantined"), 0)
        self.lock = (folder / "lock").open("w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RefusedError(RefusalCode.STATE, "another one has this folder") from None

    def path(self, key: str) -> Path:
        return self.folder / f"{key}.toy"

    def write(self, one: Stored) -> None:
        head = LINK.pack(self.build, one.key.encode(), one.boundary, one.parent.encode(), *one.recurrent)
        body = head + bytes(one.rows)
        self.path(one.key).write_bytes(body + hashlib.sha256(body).digest())

    def read(self, key: str) -> Stored:
        data = self.path(key).read_bytes()
        body, digest = data[:-32], data[-32:]
        if hashlib.sha256(body).digest() != digest:
            self.path(key).unlink()
            self.counts["disk_quarantined"] += 1
            raise RefusedError(RefusalCode.FORMAT, "damaged")
        _, name, boundary, parent, *recurrent = LINK.unpack_from(body)
        self.counts["disk_loads"] += 1
        rows = bytearray(body[LINK.size :])
        return Stored(name.decode(), boundary, parent.rstrip(b"\0").decode(), list(recurrent), rows)

    def files(self) -> Sequence[Options]:
        found = sorted(self.folder.glob("*.toy"))
        bounds = [LINK.unpack_from(path.read_bytes())[2] for path in found]
        return [
            {"file": path.name, "boundary": bound, "bytes": path.stat().st_size, "payload_at": LINK.size}
            for path, bound in zip(found, bounds, strict=True)
        ]

    def counters(self) -> dict[str, int]:
        return {**self.counts, "disk_entries": len(list(self.folder.glob("*.toy")))}

    def close(self) -> None:
        self.lock.close()


def _part(
    name: str, family: Family, layer: int, element_type: str, shape: tuple[int, ...], stream: str, data: bytes
) -> StatePart:
    return StatePart(
        name=name, family=family, layer=layer, element_type=element_type, shape=shape, stream=stream, data=data
    )


def _copy(state: State) -> State:
    return State(list(state.recurrent), bytearray(state.rows), bytearray(state.logits), state.valid, state.position)


def _raise(error: BaseException) -> None:
    raise error


def _ask_for_too_much() -> None:
    raise MemoryError


def _kill_hard() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _print_garbage() -> None:
    os.write(1, b"\x00\xffscm1 is not what this is\n")
    os.write(2, b"{]\n")


def _write_to_pipe() -> None:
    """Break the rule of the seam: write into a descriptor that is not the engine's own."""
    for descriptor in range(3, 64):
        try:
            if str(Path(f"/proc/self/fd/{descriptor}").readlink()).startswith("pipe:"):
                os.write(descriptor, b"nonsense that is no message at all")
        except OSError:
            continue


def _later(deed: Callable[[], object]) -> Callable[[], object]:
    """Answer first; do it a moment later, when nobody asks for anything."""
    return lambda: threading.Timer(0.05, deed).start()


def _abort_at_the_end() -> None:
    """Abort when this process leaves, after it has said that it does."""
    _leaving(os.abort)


def _fail_at_the_end() -> None:
    """Leave with another status than that of a good end."""
    really = os._exit
    _leaving(lambda: really(9))


def _leaving(deed: Callable[[], object]) -> None:
    os._exit = lambda _status: deed()  # type: ignore[assignment,return-value]


def _stay_at_the_end() -> None:
    """Say that this process leaves, and stay."""
    _leaving(lambda: time.sleep(60))


def _leave_unsaid() -> None:
    """Leave with the status of a good end as soon as this process is asked to, without an answer."""
    send = Channel.send

    def unsaid(channel: Channel, body: Mapping[str, object], *more: Any, **named: Any) -> None:
        if body.get("id") == 0:
            os._exit(0)
        send(channel, body, *more, **named)

    Channel.send = unsaid  # type: ignore[assignment,method-assign]


def _wrong_access() -> None:
    ctypes.string_at(0)


def _nothing() -> None:
    return None


_MISDEEDS: Mapping[str, Callable[[], object]] = {
    "": _nothing,
    "exit": lambda: os._exit(7),
    "abort": os.abort,
    "segv": _wrong_access,
    "abort_later": _later(os.abort),
    "leave_later": _later(lambda: os._exit(0)),
    "abort_at_the_end": _abort_at_the_end,
    "fail_at_the_end": _fail_at_the_end,
    "stay_at_the_end": _stay_at_the_end,
    "leave_unsaid": _leave_unsaid,
    "hang": lambda: time.sleep(60),
    "memory": _ask_for_too_much,
    "kill": _kill_hard,
    "noise": _print_garbage,
    "pipe": _write_to_pipe,
    "raise": lambda: _raise(ValueError("something broke at /some/path")),
    "refuse": lambda: _raise(RefusedError(RefusalCode.BUDGET, "no room")),
    "refuse_oddly": lambda: _raise(RefusedError("because", "I said so")),
}
