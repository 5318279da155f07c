"""What every adapter must show before a scenario runs on it: obligations, each with its own engine and its own answer.

An obligation is probed in the child process of :class:`harness.engines.host.EngineHost`. A crash, a hang or an error
of the engine fails that obligation and no other: the next one starts with a new child if need be. An obligation that
rests on another one is not probed where that one failed, so that one fault is told once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from harness.deriving.prompts import prompt_ids
from harness.deriving.support import templated
from harness.engines import registry
from harness.engines.client import Look, RemoteEngine, RemoteSession
from harness.engines.host import EngineHost
from harness.engines.interface import Begun, Options
from harness.errors import (
    EngineCrashedError,
    EngineError,
    EngineHungError,
    NothingToDoError,
    OutOfMemoryError,
    ProtocolError,
    RefusedError,
    StatecertError,
    UsageError,
)
from harness.model.evidence import PartRow
from harness.model.scenario import PromptSegment, PromptSpec
from harness.model.target import TargetFacts
from harness.model.values import Capability, Outcome, RefusalCode

CHUNK: Final = 128
"""Prefill chunk that engines are opened with."""
CAPACITY: Final = 1024
DECODE: Final = 6
_SPECS: Final = {
    "long": PromptSpec(segments=[PromptSegment(tokens=3 * CHUNK + 44, seed=101)]),
    "other": PromptSpec(segments=[PromptSegment(tokens=2 * CHUNK + 17, seed=202)]),
    "more": PromptSpec(segments=[PromptSegment(tokens=CHUNK + 9, seed=303)]),
}
LONG: Final = prompt_ids(_SPECS, "long")
"""The prompt that is looked at: three chunks and a bit."""
OTHER: Final = prompt_ids(_SPECS, "other")
"""A prompt that makes a session dirty."""
MORE: Final = prompt_ids(_SPECS, "more")
"""Tokens of another turn."""


LOST: Final = (EngineCrashedError, EngineHungError, OutOfMemoryError, ProtocolError)
"""Errors after which a child is replaced."""


class UnmetError(StatecertError):
    """An obligation is not met; the message says what to do."""


class UnaskedError(StatecertError):
    """An obligation cannot be asked of this target; the message says which one could be asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Life:
    """One prompt from its begin to its last token, looked at on the way."""

    begun: Begun
    forwarded: int
    """Sum of what the prefill calls say."""
    looks: Mapping[str, Look]
    """``begun`` (before anything was forwarded), a boundary like ``at 128``, ``prefilled``, ``decoded``."""
    tokens: Sequence[int]


class Kit:
    """Engines and sessions for the probes, and what was found out so far.

    Args:
        host: A started host.
        facts: What its start told.
    """

    def __init__(self, host: EngineHost, facts: TargetFacts) -> None:
        self.host = host
        self.facts = facts

    def can(self, *needs: Capability) -> bool:
        """Tell whether the adapter declares all of these."""
        return self.host.capabilities >= set(needs)

    @property
    def templated(self) -> bool:
        """Whether the engine puts a template around prompts, and says by itself how many tokens one has."""
        return templated(self.facts.identity)

    @contextmanager
    def engine(self, **options: str | int | bool) -> Iterator[RemoteEngine]:
        """Open an engine with an empty store, and close it again if its child lives."""
        opened = self.host.open_engine({"chunk": CHUNK, "max_seq_len": CAPACITY, **options})
        try:
            yield opened
        except BaseException:
            with suppress(EngineError):
                self._close(opened)
            raise
        self._close(opened)

    def _close(self, engine: RemoteEngine) -> None:
        if self.host.alive:
            engine.close()

    @contextmanager
    def session(self, options: Options | None = None) -> Iterator[RemoteSession]:
        """Open a session on an engine of its own."""
        with self.engine() as engine:
            yield engine.open_session(options or {})

    def live(
        self, session: RemoteSession, prompt: Sequence[int] = LONG, *, cache: bool = False, decode: int = DECODE
    ) -> Life:
        """Run a prompt through: begin, prefill with a look at every boundary, commit, decode."""
        begun = session.begin(prompt, cache=cache).value
        looks = {"begun": session.look(spool=False)}
        forwarded = 0
        for end in [end for end in begun.schedule if self.templated or end > begun.cached]:
            forwarded += session.prefill(end).value
            name = "prefilled" if end == begun.schedule[-1] else f"at {end}"
            looks[name] = session.look(spool=False)
        if cache:
            session.commit()
        tokens = session.decode(decode, {}).value.tokens
        looks["decoded"] = session.look(spool=False)
        return Life(begun=begun, forwarded=forwarded, looks=looks, tokens=tokens)

    def dirty(self, session: RemoteSession) -> None:
        """Leave another prompt's state in a session, so that whatever a restore forgets can be seen."""
        self.live(session, OTHER, decode=3)


Probe = Callable[[Kit], None]
"""Raises :class:`UnmetError` with a reason, or an :class:`EngineError`; returns where the obligation is met."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Obligation:
    """One thing that an adapter owes."""

    id: str
    text: str
    """What must hold."""
    probe: Probe
    needs: Sequence[Capability] = ()
    """Without these the obligation does not apply."""
    any_of: Sequence[Capability] = ()
    """Without any of these it does not apply."""
    after: Sequence[str] = ()
    """Obligations that it rests on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The answer to one obligation."""

    obligation: str
    text: str
    outcome: Outcome
    """``pass``, ``fail``, ``not_supported``, or ``not_run`` where one that it rests on failed."""
    reason: str = ""


@dataclass(kw_only=True, slots=True)
class _Walk:
    """Findings so far."""

    findings: list[Finding] = field(default_factory=list)

    def failed(self, names: Sequence[str]) -> str:
        """Return the first of these that did not pass or was left out for the like reason; empty: none."""
        bad = {one.obligation for one in self.findings if one.outcome in (Outcome.FAIL, Outcome.NOT_RUN)}
        return next((name for name in names if name in bad), "")


def conform(
    host: EngineHost, obligations: Sequence[Obligation], tell: Callable[[Finding], None] | None = None
) -> Sequence[Finding]:
    """Probe every obligation, in order.

    Args:
        host: Not started yet.
        obligations: In an order in which each comes after those that it rests on.
        tell: Is told every finding when it is made.

    Raises:
        UsageError: The adapter or the device is unknown, or the adapter does not take the target's options.
        NothingToDoError: The device is absent.
    """
    walk = _Walk()
    kit, reason = _opened(host)
    for obligation in obligations:
        if kit is not None:
            finding = _probed(obligation, kit, walk)
        elif walk.findings:
            finding = _found(obligation, Outcome.NOT_RUN, "no engine could be opened")
        else:
            finding = _found(obligation, Outcome.FAIL, reason)
        walk.findings.append(finding)
        if tell is not None:
            tell(finding)
    return walk.findings


def _opened(host: EngineHost) -> tuple[Kit | None, str]:
    """Start the host; without an engine the reason says why there is none."""
    registry.find(host.target.adapter, host.target.group)
    try:
        host.ensure()
        if host.absent:
            raise NothingToDoError(f"{host.target.adapter}: {host.absent}")
        return Kit(host, host.start()), ""
    except RefusedError as refusal:
        if refusal.code == RefusalCode.UNSUPPORTED:
            raise UsageError(f"{host.target.adapter} does not take these options ({refusal})") from None
        return None, told(refusal)
    except EngineError as error:
        _let_go(host, error)
        return None, told(error)


def _probed(obligation: Obligation, kit: Kit, walk: _Walk) -> Finding:
    missing = [str(need) for need in obligation.needs if not kit.can(need)]
    if obligation.any_of and not any(kit.can(one) for one in obligation.any_of):
        missing.append(" or ".join(obligation.any_of))
    if missing:
        return _found(obligation, Outcome.NOT_SUPPORTED, f"not declared: {', '.join(missing)}")
    first = walk.failed(obligation.after)
    if first:
        return _found(obligation, Outcome.NOT_RUN, f"rests on {first}: mend that first")
    try:
        obligation.probe(kit)
    except UnmetError as unmet:
        return _found(obligation, Outcome.FAIL, str(unmet))
    except UnaskedError as unasked:
        return _found(obligation, Outcome.NOT_SUPPORTED, str(unasked))
    except EngineError as error:
        _let_go(kit.host, error)
        return _found(obligation, Outcome.FAIL, told(error))
    return _found(obligation, Outcome.PASS, "")


def _found(obligation: Obligation, outcome: Outcome, reason: str) -> Finding:
    return Finding(obligation=obligation.id, text=obligation.text, outcome=outcome, reason=reason)


def _let_go(host: EngineHost, error: EngineError) -> None:
    """Replace a child that cannot be trusted any more."""
    if isinstance(error, LOST):
        host.discard()


def told(error: EngineError) -> str:
    """Say in one line how the engine ended, and where to look."""
    line = str(error).splitlines()[0] if str(error) else type(error).__name__
    match error:
        case RefusedError():
            return f"{line}; what the seam asks for here must not be refused"
        case EngineCrashedError():
            return f"the engine crashed: {line}; its output is in the log of the child"
        case EngineHungError():
            return f"the engine hung: {line}; make the call return, and synchronize() wait for nothing else"
        case OutOfMemoryError():
            return f"out of memory: {line}; this kit opens {CAPACITY} tokens at most"
        case ProtocolError():
            return f"the seam was broken: {line}"
        case _:
            return f"the engine raised {line}; its trace is in the log of the child"


def first_difference(one: Look, other: Look, *, logits: bool = True) -> str:
    """Say in what two looks differ first; empty: they are equal."""
    if one.position != other.position:
        return f"position {other.position} instead of {one.position}"
    names = [row.name for row in one.rows], [row.name for row in other.rows]
    if names[0] != names[1]:
        odd = sorted(set(names[0]) ^ set(names[1]))
        return f"parts listed ({', '.join(odd) or 'their order'})"
    for left, right in zip(one.rows, other.rows, strict=True):
        if (left.sha256, tuple(left.shape)) != (right.sha256, tuple(right.shape)):
            return f"part {left.name}"
    return "logits" if logits and one.logits != other.logits else ""


def row_of(look: Look, name: str) -> PartRow | None:
    """Return the row of a part."""
    return next((row for row in look.rows if row.name == name), None)
