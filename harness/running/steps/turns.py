"""The steps that forward tokens: ``run``, ``resume``, ``extend`` and ``decode``; and ``cancel``, which ends them.

The looks of a turn, in order: right after a restore, before anything else runs, unless the step is to be unseen; in
reference arms at every chunk boundary; after the last prompt token, when the turn has ended; after the last decoded
token. Times are those of the engine calls alone, taken in the child.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from harness.deriving.prompts import prompt_digest
from harness.deriving.support import templated
from harness.engines.interface import Begun
from harness.errors import RefusedError
from harness.model.evidence import Turn
from harness.model.scenario import Step, TurnEnd
from harness.model.values import Capability, Phase, RefusalCode
from harness.running.arms import ArmRun, ArmSession


@dataclass(slots=True)
class _Taken:
    """What a turn took so far."""

    begin_ns: int = 0
    prefill_ns: int = 0
    commit_ns: int = 0
    decode_ns: int = 0
    first_ns: int = 0
    """Of the decode, until its first token."""
    prefilled: int = 0
    tokens: Sequence[int] = ()
    finish: str = ""
    """Why the turn ended; empty: it is open."""

    @property
    def first_token_ns(self) -> int:
        """From the start of the step to its first token; 0 if there is none."""
        return self.begin_ns + self.prefill_ns + self.commit_ns + self.first_ns if self.tokens else 0


def run(arm: ArmRun, step: Step) -> None:
    """Begin a prompt, prefill it, end the turn, decode.

    Raises:
        EngineError: The engine refused or failed.
    """
    if step.cache:
        arm.require(Capability.PREFIX_CACHE)
    session, tokens = arm.session(step), arm.prompt(step)
    begun = session.remote.begin(tokens, cache=step.cache, unseen=step.unseen)
    session.caching = step.cache
    session.prompt, session.schedule, session.position = tokens, begun.value.schedule, begun.value.cached
    if begun.value.cached and not step.unseen:
        arm.look(step.session, step.label, Phase.RESTORED)
    taken = _Taken(begin_ns=begun.ns)
    if step.until is not None:
        _prefill(arm, step, session, taken, step.until)
        _write(arm, step, begun.value, len(tokens), tokens, taken)
    else:
        with _written(arm, step, begun.value, _total(arm, begun.value, len(tokens)), tokens, taken):
            _finish(arm, step, session, taken)


def resume(arm: ArmRun, step: Step) -> None:
    """Go on with a run that stopped at ``until``; counts what it forwards itself.

    Raises:
        EngineError: The engine refused or failed.
    """
    session, taken = arm.session(step), _Taken()
    if session.position >= len(session.prompt):
        raise RefusedError(RefusalCode.STATE, "no turn is open")
    nothing = Begun(cached=0, restored_bytes=0, schedule=session.schedule)
    with _written(arm, step, nothing, len(session.prompt), session.prompt, taken):
        _finish(arm, step, session, taken)


def extend(arm: ArmRun, step: Step) -> None:
    """Prefill another turn on top of the present state.

    Raises:
        EngineError: The engine refused or failed.
    """
    arm.require(Capability.EXTEND)
    session, tokens = arm.session(step), arm.prompt(step)
    begun = session.remote.extend(tokens, unseen=step.unseen)
    session.caching = step.cache
    session.prompt, session.schedule, session.position = tokens, begun.value.schedule, begun.value.cached
    taken = _Taken(begin_ns=begun.ns)
    total = _total(arm, begun.value, begun.value.cached + len(tokens))
    with _written(arm, step, begun.value, total, tokens, taken):
        _finish(arm, step, session, taken)


def _total(arm: ArmRun, begun: Begun, given: int) -> int:
    """Return the tokens of a prompt: as given; of a target that puts a template around it, as the engine tells them."""
    return begun.prompt_tokens if templated(arm.cell.host.told) else given


def decode(arm: ArmRun, step: Step) -> None:
    """Decode tokens.

    Raises:
        EngineError: The engine refused or failed.
    """
    session, taken = arm.session(step), _Taken()
    _decode(arm, step, session, taken)
    arm.done(step, {"decoded": len(taken.tokens), "decode_ns": taken.decode_ns, "finish": taken.finish})


def cancel(arm: ArmRun, step: Step) -> None:
    """Cancel what a session is doing.

    Raises:
        EngineError: The engine refused or failed.
    """
    arm.require(Capability.CANCEL)
    session = arm.session(step)
    taken = session.remote.cancel()
    session.prompt, session.schedule = (), ()
    arm.done(step, {"position": session.position, "cancel_ns": taken.ns})


def meanwhile(arm: ArmRun, step: Step) -> None:
    """Prefill to the next chunk's end, or decode; in the middle of it ask the session for something else.

    The answer is this step's own end; the call that was in progress goes on.

    Raises:
        EngineError: The call in progress was refused or failed.
        RefusedError: What was asked was refused.
    """
    arm.require(Capability.MEANWHILE)
    session = arm.session(step)
    upto = 0 if step.count else next((end for end in session.schedule if end > session.position), 0)
    handle = arm.handles.get(step.handle, step.handle) if step.handle else ""
    code = session.remote.meanwhile(str(step.target["ask"]), upto=upto, count=step.count, handle=handle)
    session.position = upto or session.position
    if code:
        raise RefusedError(RefusalCode(code), f"refused in the middle of a call: {step.target['ask']}")
    arm.done(step, {"ask": step.target["ask"], "count": step.count, "position": upto})


def _finish(arm: ArmRun, step: Step, session: ArmSession, taken: _Taken) -> None:
    """Prefill to the end, end the turn, look, decode."""
    end = session.schedule[-1] if session.schedule else session.position
    _prefill(arm, step, session, taken, end)
    _end_turn(step, session, taken)
    arm.look(step.session, step.label, Phase.PREFILLED)
    taken.finish = "error"
    if step.decode:
        _decode(arm, step, session, taken)
    else:
        taken.finish = "length"


def _prefill(arm: ArmRun, step: Step, session: ArmSession, taken: _Taken, upto: int) -> None:
    pauses = [end for end in session.schedule if session.position < end < upto] if arm.pauses else []
    for end in (*pauses, upto):
        forwarded = session.remote.prefill(end)
        taken.prefill_ns += forwarded.ns
        taken.prefilled += forwarded.value
        session.position = end
        if arm.pauses and end < session.schedule[-1]:
            arm.look(step.session, step.label, Phase.BOUNDARY)


def _end_turn(step: Step, session: ArmSession, taken: _Taken) -> None:
    if session.caching and step.end is TurnEnd.COMMIT:
        taken.commit_ns += session.remote.commit().ns
    elif session.caching and step.end is TurnEnd.ABANDON:
        taken.commit_ns += session.remote.abandon().ns


def _decode(arm: ArmRun, step: Step, session: ArmSession, taken: _Taken) -> None:
    if step.sampler:
        arm.require(Capability.SAMPLING)
    if step.cancel_after:
        arm.require(Capability.CANCEL)
    stop = _stop_token(arm, step)
    decoded = session.remote.decode(step.decode, step.sampler, stop=stop, cancel_after=step.cancel_after)
    taken.tokens, taken.decode_ns, taken.first_ns = decoded.value.tokens, decoded.ns, decoded.value.first_ns
    taken.finish = decoded.value.finish
    if decoded.value.refusal is not None:
        raise decoded.value.refusal
    arm.cell.decoded.setdefault((arm.arm.id, step.label), tuple(taken.tokens))
    arm.look(step.session, step.label, Phase.END, taken.tokens)


def _stop_token(arm: ArmRun, step: Step) -> int:
    """Return the token that ends a decode; -1: none does."""
    if "of" not in step.stop:
        return int(step.stop.get("token", -1))
    name, _, label = str(step.stop["of"]).partition(".")
    tokens, index = arm.cell.decoded.get((name, label), ()), int(step.stop["index"])
    if index >= len(tokens):
        raise RefusedError(RefusalCode.MISSING, f"{name}.{label} decoded no token {index}")
    return tokens[index]


@contextmanager
def _written(arm: ArmRun, step: Step, begun: Begun, total: int, tokens: Sequence[int], taken: _Taken) -> Iterator[None]:
    """Write a turn down when it is over, also one whose decode the engine refused after the whole prompt was there."""
    try:
        yield
    except RefusedError:
        if taken.finish == "error":
            _write(arm, step, begun, total, tokens, taken)
        raise
    _write(arm, step, begun, total, tokens, taken)


def _write(arm: ArmRun, step: Step, begun: Begun, total: int, tokens: Sequence[int], taken: _Taken) -> None:
    recorder = arm.cell.recorder
    recorder.write(
        Turn(
            cell=arm.cell.plan.id,
            arm=arm.arm.id,
            rep=arm.rep,
            label=step.label,
            prompt_tokens=total,
            prompt_digest=prompt_digest(tokens),
            cached=begun.cached,
            prefilled=taken.prefilled,
            decoded=len(taken.tokens),
            restored_bytes=begun.restored_bytes,
            begin_ns=taken.begin_ns,
            prefill_ns=taken.prefill_ns,
            commit_ns=taken.commit_ns,
            decode_ns=taken.decode_ns,
            first_token_ns=taken.first_token_ns,
            finish=taken.finish,
            process=arm.cell.host.children,
            disk_bytes=begun.disk_bytes,
            t_ns=recorder.now(),
        )
    )
