"""The steps that forward tokens: ``run``, ``resume``, ``extend`` and ``decode``.

The looks of a turn, in order: right after a restore, before anything else runs; in reference arms at every chunk
boundary; after the last prompt token, when the turn has ended; after the last decoded token. Times are those of the
engine calls alone, taken in the child.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.deriving.prompts import prompt_digest
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
    begun = session.remote.begin(tokens, cache=step.cache)
    session.caching = step.cache
    session.prompt, session.schedule, session.position = tokens, begun.value.schedule, begun.value.cached
    if begun.value.cached:
        arm.look(step.session, step.label, Phase.RESTORED)
    taken = _Taken(begin_ns=begun.ns)
    if step.until is not None:
        _prefill(arm, step, session, taken, step.until)
    else:
        _finish(arm, step, session, taken)
    _write(arm, step, begun.value, len(tokens), tokens, taken)


def resume(arm: ArmRun, step: Step) -> None:
    """Go on with a run that stopped at ``until``; counts what it forwards itself.

    Raises:
        EngineError: The engine refused or failed.
    """
    session, taken = arm.session(step), _Taken()
    if session.position >= len(session.prompt):
        raise RefusedError(RefusalCode.STATE, "no turn is open")
    _finish(arm, step, session, taken)
    nothing = Begun(cached=0, restored_bytes=0, schedule=session.schedule)
    _write(arm, step, nothing, len(session.prompt), session.prompt, taken)


def extend(arm: ArmRun, step: Step) -> None:
    """Prefill another turn on top of the present state.

    Raises:
        EngineError: The engine refused or failed.
    """
    arm.require(Capability.EXTEND)
    session, tokens = arm.session(step), arm.prompt(step)
    begun = session.remote.extend(tokens)
    session.caching = step.cache
    session.prompt, session.schedule, session.position = tokens, begun.value.schedule, begun.value.cached
    taken = _Taken(begin_ns=begun.ns)
    _finish(arm, step, session, taken)
    _write(arm, step, begun.value, begun.value.cached + len(tokens), tokens, taken)


def decode(arm: ArmRun, step: Step) -> None:
    """Decode tokens.

    Raises:
        EngineError: The engine refused or failed.
    """
    session, taken = arm.session(step), _Taken()
    _decode(arm, step, session, taken)
    arm.done(step, {"decoded": len(taken.tokens), "decode_ns": taken.decode_ns})


def _finish(arm: ArmRun, step: Step, session: ArmSession, taken: _Taken) -> None:
    """Prefill to the end, end the turn, look, decode."""
    end = session.schedule[-1] if session.schedule else session.position
    _prefill(arm, step, session, taken, end)
    _end_turn(step, session, taken)
    arm.look(step.session, step.label, Phase.PREFILLED)
    if step.decode:
        _decode(arm, step, session, taken)


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
    decoded = session.remote.decode(step.decode, step.sampler)
    taken.tokens, taken.decode_ns, taken.first_ns = decoded.value.tokens, decoded.ns, decoded.value.first_ns
    arm.look(step.session, step.label, Phase.END, taken.tokens)


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
            t_ns=recorder.now(),
        )
    )
