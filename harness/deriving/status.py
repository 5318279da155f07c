"""What the ledger says of a certificate, and whether the ledger can be true.

A body never changes; events do the talking. ``supersede`` names a successor, ``withdraw`` takes a record back,
``reinstate`` undoes either; ``waive`` and ``annotate`` change no state. Events are read in the order of their times,
then ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.deriving.changes import differs, dropped_cells
from harness.deriving.fields import text_at
from harness.model.certificate import Event, Status
from harness.model.values import CertificateState, Sha256

Body = Mapping[str, object]

SUPERSEDE: Final = "supersede"
WITHDRAW: Final = "withdraw"
REINSTATE: Final = "reinstate"
KINDS: Final = (SUPERSEDE, WITHDRAW, REINSTATE, "waive", "annotate")


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerProblem:
    """One invariant of the ledger that does not hold."""

    code: str
    """Like ``target_missing``."""
    id: str
    """Of the event, or of the certificate where no single event is at fault."""
    message: str


def in_order(events: Iterable[Event]) -> list[Event]:
    """Return events in the order in which they are read."""
    return sorted(events, key=lambda event: (event.created, event.id))


def derive_status(certificate: str, events: Iterable[Event]) -> Status:
    """Return the status of one certificate.

    Args:
        certificate: Its id.
        events: The whole ledger, or any part of it that holds all events of this certificate.
    """
    state, by, since, reason = CertificateState.CURRENT, "", "", ""
    own = [event for event in in_order(events) if event.target == certificate]
    for event in own:
        if event.kind == SUPERSEDE:
            state, by, since, reason = CertificateState.SUPERSEDED, event.by, event.created, str(event.reason_code)
        elif event.kind == WITHDRAW:
            state, by, since, reason = CertificateState.WITHDRAWN, "", event.created, str(event.reason_code)
        elif event.kind == REINSTATE:
            state, by, since, reason = CertificateState.CURRENT, "", event.created, str(event.reason_code)
    return Status(
        state=state, since=since, superseded_by=by, reason_code=reason, events=tuple(event.id for event in own)
    )


def ledger_problems(bodies: Mapping[Sha256, Body], events: Sequence[Event]) -> list[LedgerProblem]:
    """Return every invariant that does not hold, events first, in their order.

    Args:
        bodies: Id to body of every certificate.
        events: The whole ledger.
    """
    problems = [problem for event in in_order(events) for problem in _event_problems(event, bodies)]
    problems += _sequences(events)
    problems += _circles(events)
    problems += _several_current(bodies, events)
    return problems


def _event_problems(event: Event, bodies: Mapping[Sha256, Body]) -> Iterator[LedgerProblem]:
    if event.target not in bodies:
        yield _problem("target_missing", event, f"there is no certificate {event.target}")
        return
    if event.kind != SUPERSEDE:
        if event.by or event.differs or event.dropped_cells:
            yield _problem("successor_not_allowed", event, f"a {event.kind} event names no successor")
    elif event.by not in bodies:
        yield _problem("successor_missing", event, f"there is no certificate {event.by or '(empty)'}")
    elif event.by == event.target:
        yield _problem("circle", event, "a certificate cannot supersede itself")
    else:
        yield from _supersede_problems(event, bodies[event.target], bodies[Sha256(event.by)])
    if event.created < text_at(bodies[event.target], "run", "created"):
        yield _problem("too_early", event, f"was made at {event.created}, before its target's run")


def _supersede_problems(event: Event, old: Body, new: Body) -> Iterator[LedgerProblem]:
    if old.get("claim_key") != new.get("claim_key"):
        message = f"target has claim key {old.get('claim_key')}, successor {new.get('claim_key')}"
        yield _problem("other_claim_key", event, message)
    if text_at(old, "environment", "machine") != text_at(new, "environment", "machine"):
        yield _problem("other_machine", event, "another machine corroborates; it supersedes nothing")
    if text_at(new, "run", "created") < text_at(old, "run", "created"):
        yield _problem("older_successor", event, "the successor's run is older than the target's")
    if tuple(event.differs) != differs(old, new):
        yield _problem("differs_wrong", event, f"must list {', '.join(differs(old, new)) or 'nothing'}")
    if tuple(event.dropped_cells) != dropped_cells(old, new):
        yield _problem("dropped_cells_wrong", event, f"must list {', '.join(dropped_cells(old, new)) or 'nothing'}")


def _sequences(events: Sequence[Event]) -> Iterator[LedgerProblem]:
    """Walk the states of each certificate: what is not current is neither superseded nor withdrawn again."""
    states: dict[str, str] = {}
    for event in in_order(events):
        before = states.get(event.target, "current")
        if event.kind == SUPERSEDE and before != "current":
            yield _problem("two_successors", event, f"supersedes a certificate that is {before} already")
        if event.kind == WITHDRAW and before == "withdrawn":
            yield _problem("withdrawn_twice", event, "withdraws a certificate that is withdrawn already")
        if event.kind == REINSTATE and before == "current":
            yield _problem("nothing_to_reinstate", event, "reinstates a certificate that is current")
        if event.kind in _AFTER:
            states[event.target] = _AFTER[event.kind]


_AFTER: Final = {SUPERSEDE: "superseded", WITHDRAW: "withdrawn", REINSTATE: "current"}


def _circles(events: Sequence[Event]) -> Iterator[LedgerProblem]:
    """Follow live successors from every certificate; nobody may come back."""
    targets = sorted({event.target for event in events})
    successor = {target: derive_status(target, events).superseded_by for target in targets}
    reported: set[str] = set()
    for start in targets:
        seen: list[str] = []
        here: str = start
        while here and here not in seen and here not in reported:
            seen.append(here)
            here = successor.get(Sha256(here), "")
        if here and here in seen:
            reported.update(seen)
            yield LedgerProblem(code="circle", id=here, message=f"supersedes itself through {len(seen)} certificates")


def _several_current(bodies: Mapping[Sha256, Body], events: Sequence[Event]) -> Iterator[LedgerProblem]:
    holders: dict[tuple[str, str], str] = {}
    for identity in sorted(bodies):
        if derive_status(identity, events).state is not CertificateState.CURRENT:
            continue
        body = bodies[identity]
        place = (str(body.get("claim_key")), text_at(body, "environment", "machine"))
        first = holders.setdefault(place, identity)
        if first != identity:
            yield LedgerProblem(
                code="two_current", id=identity, message=f"is current beside {first}, same claim key and machine"
            )


def _problem(code: str, event: Event, message: str) -> LedgerProblem:
    return LedgerProblem(code=code, id=event.id, message=message)
