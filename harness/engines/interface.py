"""What an engine adapter owes. An implementer reads this one file.

An adapter is a class found by entry point (group ``harness.engines``), made without arguments. It opens an
:class:`Engine`; an engine opens :class:`Session` objects. Every ability is a declared capability; a method whose
capability is not declared is never called.

Three rules:

1. **Hand over bytes, not digests.** The harness hashes. A buffer may be a view of live memory: the host calls
   :meth:`Session.synchronize` first and reads it before it calls anything else.
2. **Refuse by name, before writing.** A refusal is :class:`harness.errors.RefusedError` with a code of
   :class:`harness.model.values.RefusalCode`, and leaves this and all other sessions as they were. Any other
   exception is an engine error.
3. **Count where it happens.** ``cached``, ``prefilled``, ``restored_bytes`` come from the place that does the
   work, not from what was planned.

Adapters run in a child process. They may print; they may not fork, and they must not touch file descriptors
that they did not open. An adapter whose engine is a program of its own starts it in the process group that it finds,
and the program ends when its standard input does: so nothing outlives the child.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from harness.model.values import Capability, Observability

if TYPE_CHECKING:
    from typing_extensions import Buffer

Options = Mapping[str, str | int | bool]
"""Engine or session options. An unknown option is refused with code ``unsupported``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StatePart:
    """One part of a session's state, valid bytes only."""

    name: str
    """Unique in the session and stable across runs, like ``layer3.k``. Part 0 is ``meta``; ``logits`` is for the family
    ``logits`` only, ``tokens`` and ``position`` for none."""
    family: str
    """A value of :class:`harness.model.values.Family`."""
    layer: int
    """:data:`harness.model.values.NO_LAYER` where there is none."""
    element_type: str
    """Like ``f32``, ``bf16``, ``q8_0``, ``u8``: of the bytes as they lie there, never a default."""
    shape: Sequence[int]
    """Valid extent. For ``rows`` the first number is the count of valid rows."""
    stream: str
    """``rows``: append-only, rows below a boundary never change. ``fixed``: overwritten in place."""
    data: Buffer
    """C-contiguous, little-endian, exactly the valid bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Who the engine really is, read back from what was loaded."""

    engine: str
    """Slug, like ``torch``."""
    version: str
    model: str
    """Slug, like ``tiny``."""
    model_digest: str
    """SHA-256 over configuration and weights."""
    hw_class: str
    """``cpu-<machine>-<isa>``, ``cuda-sm_90``, ``rocm-gfx1151-unified``, ``metal-m1-ultra``."""
    observability: Observability
    facts: Options
    """Element types, library digests, effective settings read back; strings, integers, booleans.

    Some may be told to say what the target is not: ``families`` (those that the state of its models has, like
    ``conv,kv,recurrent``: others are not demanded of its inventory) and ``session_options`` (those that it knows, like
    ``chunk,namespace``: cells that need others are ``not_supported``), ``image_options`` (engine options that its
    images are bound to, like ``threads``: cells that bring one into an engine with another value are
    ``not_supported``) and ``reordered_families`` (those over which it sums in another order after a restore, like
    ``window``: checks that state limits for that are judged within them, and count as tolerance, never as equality).
    ``prompts`` is ``templated`` where the engine puts more around a prompt than it was given, as a chat does:
    :attr:`Begun.prompt_tokens` then says how many tokens there were, and cells that ask how many of the scenario's were
    reused are ``not_supported``. ``build_sha256`` is the SHA-256 of what was really loaded; with capability ``builds``
    it must be told, and ``build`` (``own`` or ``other``, as the option of that name).
    """
    device: Options
    """Device name, memory kind, driver and runtime versions; ``unknown`` where it cannot be told."""
    path_sets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Named sets of files that this result rests on: ``<package>:<glob>`` patterns, resolved by the harness."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Begun:
    """How a prompt began."""

    cached: int
    """Tokens reused; 0 for a cold start."""
    restored_bytes: int
    """Bytes copied back. 0 with ``cached`` above 0 means that nothing was copied (live or resident)."""
    schedule: Sequence[int]
    """Ends of the prefill chunks over the whole prompt; last one is its length. Same on hits and misses.

    With the capability ``boundaries`` every multiple of the option ``chunk`` within the prompt is among them; others
    may lie in between."""
    disk_bytes: int = 0
    """Bytes that were loaded from the disk tier for it (capability ``disk``)."""
    prompt_tokens: int = 0
    """Tokens that the prompt has for the engine, where its fact ``prompts`` is ``templated``."""


class Session(Protocol):
    """One sequence of tokens and its state."""

    def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
        """Reset, or restore the deepest cached prefix; arm captures if ``cache``. Forwards nothing."""
        ...

    def prefill(self, upto: int) -> int:
        """Forward the prompt up to ``upto`` (a schedule point); return the tokens really forwarded."""
        ...

    def commit(self) -> None:
        """Publish this turn's captures."""
        ...

    def abandon(self) -> None:
        """Drop this turn's captures, with their links."""
        ...

    def extend(self, tokens: Sequence[int]) -> Begun:
        """Another turn on top of the present state (capability ``extend``); prefill with :meth:`prefill`."""
        ...

    def decode(self, count: int, sampler: Mapping[str, int]) -> Sequence[int]:
        """Sample ``count`` tokens from the pending logits, forwarding each. Empty ``sampler``: greedy."""
        ...

    def position(self) -> int:
        """Tokens that the state stands for."""
        ...

    def logits(self) -> Buffer | None:
        """The pending logits' bytes; None if none are valid (capability ``logits``)."""
        ...

    def parts(self) -> Sequence[StatePart]:
        """Every part (capability ``parts``), in a fixed order; part 0 is the metadata."""
        ...

    def snapshot(self) -> str:
        """Whole-session snapshot; returns a handle (capability ``snapshot``)."""
        ...

    def restore(self, handle: str) -> Begun:
        """Restore a handle into this session; validates everything before it writes."""
        ...

    def image_size(self) -> int:
        """Bytes of the session's image as it is now (capability ``image``)."""
        ...

    def export_image(self, capacity: int) -> Buffer:
        """Everything that the session needs to go on elsewhere, in at most ``capacity`` bytes; changes nothing.

        Refused: ``short_buffer`` (it needs more), ``unsupported`` (no decoding state), ``state`` (not now).
        """
        ...

    def import_image(self, data: Buffer) -> Begun:
        """Become the session of an image, of this or another process; ``restored_bytes`` counts what was copied.

        Refused before anything is written: ``short_buffer``, ``format``, ``identity``, ``kv_mode``, ``capacity``,
        ``unsupported``, ``state``. A copy that fails after that is refused with ``transfer``; the session is reset.
        """
        ...

    def import_archive(self, data: Buffer, *, codec: str, version: int) -> Begun:
        """Decode an archive of coded K/V rows into the rows that this session has (capability ``archive``).

        The archive (``CKG1``, ``docs/formats/archive.md``) holds, for the tokens that the state stands for, every K
        layer and then every V layer in the order of :meth:`parts`: the rows of family ``kv`` whose names end in ``.k``
        and ``.v``. They are replaced by what the codec gives, bit for bit; nothing else changes, the pending logits
        included. ``cached`` is the position, ``restored_bytes`` counts what was written.

        Refused, with nothing written: ``unsupported`` (another codec or version), ``format`` (no valid archive, or
        segments of another version), ``layout`` (other layers, tokens, widths or element types), ``state`` (not now).
        What is found wrong after the first write is refused with ``transfer``; the session is reset.
        """
        ...

    def cancel(self) -> None:
        """Cancel what the session is doing, between two calls (capability ``cancel``).

        Captures that the turn made at whole boundaries are published. Until the session begins, restores, imports or
        is reset, it refuses to decode, extend, snapshot and export with ``state``.
        """
        ...

    def meanwhile(self, ask: str, *, upto: int, count: int, handle: str) -> str:
        """Go on, and in the middle of it ask this session for something else (capability ``meanwhile``).

        Args:
            ask: ``snapshot``, ``restore`` (of ``handle``), ``export``, ``import`` (of what the session exports right
                before the call), ``begin`` (the session's prompt again, with the cache), ``extend``, ``decode`` or
                ``reset``. Another word: ``unsupported``.
            upto: A schedule point to prefill to; 0: decode instead.
            count: Tokens to decode, greedily.
            handle: Of an explicit snapshot; empty but for ``restore``.

        Returns:
            The code of the refusal of what was asked (it should be ``state``); empty: it was not refused. The call
            that was in progress goes on to its end.
        """
        ...

    def record(self) -> None:
        """Keep, from here on, what :meth:`rollback` needs (capability ``rollback``); changes nothing that is seen.

        Refused with ``unsupported`` where the state of this model cannot be taken back at all; the cell is then
        ``not_supported``.
        """
        ...

    def rollback(self, count: int) -> None:
        """Take the last ``count`` tokens back, in place: the state is that of a run which never forwarded them.

        No logits are pending afterwards. Refused, with nothing changed: ``state`` (not so many, or not recorded),
        ``unsupported`` as :meth:`record`, or where a window has already let go of what this one needs.
        """
        ...

    def corrupt(self, part: str, byte: int, mask: int) -> None:
        """XOR one byte of a live part with ``mask`` (capability ``corrupt``)."""
        ...

    def synchronize(self) -> None:
        """Return when all device work that this session started is done."""
        ...

    def reset(self) -> None:
        """Back to a new session."""
        ...

    def close(self) -> None:
        """Free everything."""
        ...


class Engine(Protocol):
    """One loaded model with its snapshot store. Sessions of one engine share the store."""

    def identity(self) -> Identity:
        """Who this is. Called once, after opening."""
        ...

    def open_session(self, options: Options) -> Session:
        """A new session; options need capability ``session_options``."""
        ...

    def store(self) -> tuple[Sequence[Options], Mapping[str, int]]:
        """Snapshots held, and the counters (capability ``store``).

        Each snapshot: ``key``, ``parent`` (hex, empty for a root), ``boundary`` (tokens), ``bytes``,
        ``fixed_bytes``, ``children``, ``pending``, ``domain`` (hex); ``gap_bytes``, the part of ``bytes`` that lies
        between parts so that each begins at an aligned address, where there is such.
        Counters: at least ``stored_bytes``, ``pending_bytes``, ``entries``, ``captures``, ``restores``, ``hits``,
        ``misses``, ``evictions``. Where they exist, under these names: ``pinned`` and ``roots`` (entries that have
        children, and that have no parent), ``miss_never_captured``, ``miss_evicted``, ``skip_exceeds_budget``,
        ``skip_budget``, ``skip_memory_guard``, ``skip_memory_query_failed``, ``allocated_bytes`` (measured, not added
        up), ``peak_bytes``, ``spare_bytes``, ``kept_bytes`` and ``handle_bytes`` (what of it is neither published nor
        pending). With capability ``disk``: ``demotions``
        and ``promotions`` (links written when they left memory, and taken back into it), ``disk_entries``,
        ``disk_stored_bytes``, ``disk_loads``, ``disk_loaded_bytes``, ``disk_quarantined``, ``disk_evictions``,
        ``disk_other_build_entries``, ``disk_orphans_removed``.
        """
        ...

    def evict(self, count: int) -> int:
        """Evict up to ``count`` least recently used snapshots (-1: all); return how many went."""
        ...

    def release(self, need: int) -> int:
        """Give at least ``need`` bytes of snapshots back (capability ``evict``); return the bytes that went.

        Least recently used leaves first, then captures of turns that are still open, deepest first.
        """
        ...

    def set_budget(self, budget: Mapping[str, int]) -> None:
        """Change ``bytes`` and ``entries`` of the store; 0 in either: no capture."""
        ...

    def corrupt_handle(self, handle: str, part: str, byte: int, mask: int) -> None:
        """XOR one byte of a part inside an explicit snapshot."""
        ...

    def corrupt_store(self, key: str, part: str, byte: int, mask: int) -> None:
        """XOR one byte of a part inside a stored snapshot."""
        ...

    def damage_store(self, key: str, kind: str) -> None:
        """Break the geometry of a stored snapshot (capability ``corrupt``).

        ``kind``: ``gap`` (rows begin one too late), ``row_size``, ``row_count`` (one row too many is claimed),
        ``missing`` (the snapshot is gone, its children stay). An unknown kind is refused with ``unsupported``.
        """
        ...

    def forge_image(self, data: Buffer, what: str) -> Buffer:
        """Return an image with one field that contradicts the rest, every digest made right again.

        For capabilities ``image`` and ``corrupt`` together. ``what``: ``flags`` (one that does not exist), ``logits``
        (valid ones are claimed or denied wrongly), ``position`` (more tokens than there are), ``token`` (one outside
        the vocabulary), ``version`` (a later one), ``parts`` (a part less). Another word: ``unsupported``.
        """
        ...

    def disk_files(self) -> Sequence[Options]:
        """Links that lie in the disk folder (capability ``disk``), by file name.

        Each: ``file`` (plain name in the folder), ``boundary`` (tokens), ``bytes``, ``payload_at`` (first byte of the
        payload).
        """
        ...

    def close(self) -> None:
        """Free everything."""
        ...


class Adapter(Protocol):
    """Entry point of an engine."""

    name: str
    """Same as the entry point."""

    def capabilities(self) -> frozenset[Capability]:
        """What engines of this adapter can do."""
        ...

    def devices(self) -> Sequence[tuple[str, str]]:
        """Devices here: ``(name, "")`` for one that can run, ``(name, reason)`` for one that is absent."""
        ...

    def open(self, options: Options) -> Engine:
        """Load a model. ``options`` holds ``device``, ``preset``, ``arch``, ``chunk``, ``threads`` and more.

        With capability ``disk``: ``disk`` (a folder; the harness gives it, and removes it afterwards), ``disk_bytes``,
        ``disk_min_free`` and ``disk_build`` (text that makes it another build). A folder that another process holds is
        refused with ``state``.
        """
        ...


@runtime_checkable
class Aimed(Protocol):
    """An adapter whose capabilities depend on the target: a program, a server or a model that has yet to be asked."""

    def aim(self, options: Options) -> None:
        """Learn the target's options, before :meth:`Adapter.capabilities` and :meth:`Adapter.devices` are called.

        Refused: ``unsupported`` where the options cannot be meant for this adapter.
        """
        ...


@runtime_checkable
class Importing(Protocol):
    """An adapter that says what its engines import, so that a process of which children are forked can do it once."""

    def imports(self) -> Sequence[str]:
        """Modules whose import neither computes nor starts a thread; one that is not there is passed over."""
        ...


@runtime_checkable
class Suggesting(Protocol):
    """An adapter that says which targets a lab file may name."""

    def targets(self) -> Sequence[tuple[str, Options, str]]:
        """Name, engine options, and what a reader should know (or nothing), for each."""
        ...


@runtime_checkable
class Planning(Protocol):
    """An adapter that says how memory would be divided, before an engine of that context is opened."""

    def plan(self, options: Options, *, memory: int, context: int) -> Mapping[str, int]:
        """Say who gets how many bytes.

        Args:
            options: Of an engine.
            memory: Bytes there are; 0: what is free on the device now.
            context: Tokens that a session is to hold.

        Returns:
            ``total``, ``weights``, ``state`` (one session), ``workspace`` (a prefill of ``workspace_rows`` rows,
            measured at ``workspace_measured_at`` tokens), ``snapshots`` (what is left), ``prefix`` (one snapshot of the
            whole context), ``prefixes`` (how many of these fit), ``fits_up_to`` (longest context in tokens of which one
            fits).
        """
        ...
