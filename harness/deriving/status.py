"""What the ledger says of a certificate, and whether the ledger can be true.

A body never changes; events do the talking. ``supersede`` names a successor, ``withdraw`` takes a record back,
``reinstate`` undoes either; ``waive`` and ``annotate`` change no state. Events are read in the order of their times,
then ids.

Two branches that are merged may contradict one another without a conflict of text. What counts is what was said since
the last ``reinstate``: there a record is superseded once or withdrawn once, and has at most one successor that still
holds. So every contradiction can be mended by further events, and none by taking one away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from harness.deriving.changes import cells_run, covers, differs, dropped_cells, is_stop, not_run_again, same_place
from harness.deriving.fields import text_at
from harness.model.certificate import Event, Status
from harness.model.noun import dataclass, field
from harness.model.values import CertificateState, Sha256

Body = Mapping[str, object]

SUPERSEDE: Final = "supersede"
WITHDRAW: Final = "withdraw"
REINSTATE: Final = "reinstate"
WAIVE: Final = "waive"
ANNOTATE: Final = "annotate"
KINDS: Final = (SUPERSEDE, WITHDRAW, REINSTATE, WAIVE, ANNOTATE)


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerProblem:
    """One invariant of the ledger that does not hold."""

    code: str
    """Like ``target_missing``."""
    id: str
    """Of the event, or of the certificate where no single event is at fault."""
    message: str
    """Names both sides by their whole ids."""


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


def open_events(certificate: str, events: Iterable[Event]) -> list[Event]:
    """Return what took a certificate out of force and was not undone: its events since the last ``reinstate``."""
    found: list[Event] = []
    for event in in_order(event for event in events if event.target == certificate):
        if event.kind == REINSTATE:
            found = []
        elif event.kind in (SUPERSEDE, WITHDRAW):
            found.append(event)
    return found


def ledger_problems(bodies: Mapping[Sha256, Body], events: Sequence[Event]) -> list[LedgerProblem]:
    """Return every invariant that does not hold, events first, in their order.

    Args:
        bodies: Id to body of every certificate.
        events: The whole ledger.
    """
    book = _Book.of(events)
    problems = [problem for event in book.ordered for problem in _event_problems(event, bodies)]
    problems += _sequences(book)
    problems += _forks(book)
    problems += _circles(book)
    problems += _hidden_stops(bodies, book)
    problems += _several_current(bodies, book)
    return problems


@dataclass(frozen=True, kw_only=True, slots=True)
class _Book:
    """The ledger, indexed once."""

    ordered: Sequence[Event]
    by_target: Mapping[str, Sequence[Event]]
    statuses: Mapping[str, Status] = field(default_factory=dict)
    """Of every certificate that an event names as its target."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> _Book:
        ordered = in_order(events)
        by_target: dict[str, list[Event]] = defaultdict(list)
        for event in ordered:
            by_target[event.target].append(event)
        statuses = {target: derive_status(target, own) for target, own in by_target.items()}
        return cls(ordered=ordered, by_target=by_target, statuses=statuses)

    def state(self, certificate: str) -> CertificateState:
        """Return the state of any certificate; one without events is current."""
        status = self.statuses.get(certificate)
        return CertificateState.CURRENT if status is None else status.state


def _event_problems(event: Event, bodies: Mapping[Sha256, Body]) -> Iterator[LedgerProblem]:
    if event.target not in bodies:
        by = f", which {event.by} is said to replace" if event.by else ""
        yield _problem("target_missing", event, f"there is no certificate {event.target}{by}")
        return
    if event.kind != SUPERSEDE:
        if event.by or event.differs or event.dropped_cells:
            yield _problem("successor_not_allowed", event, f"a {event.kind} event of {event.target} names a successor")
    elif event.by not in bodies:
        message = f"there is no certificate {event.by or '(empty)'} to replace {event.target}"
        yield _problem("successor_missing", event, message)
    elif event.by == event.target:
        yield _problem("circle", event, f"certificate {event.target} cannot supersede itself, {event.by}")
    else:
        yield from _supersede_problems(event, bodies[event.target], bodies[Sha256(event.by)])
    began = text_at(bodies[event.target], "run", "created")
    if event.created < began:
        yield _problem("too_early", event, f"was made at {event.created}, before the run of {event.target} at {began}")


def _supersede_problems(event: Event, old: Body, new: Body) -> Iterator[LedgerProblem]:
    pair = f"target {event.target} and successor {event.by}"
    if old.get("claim_key") != new.get("claim_key"):
        keys = f"claim keys {old.get('claim_key')} and {new.get('claim_key')}"
        yield _problem("other_claim_key", event, f"{pair} have {keys}")
    if text_at(old, "environment", "machine") != text_at(new, "environment", "machine"):
        message = f"{pair} are of two machines; another machine corroborates, it supersedes nothing"
        yield _problem("other_machine", event, message)
    if text_at(new, "run", "created") < text_at(old, "run", "created"):
        yield _problem("older_successor", event, f"{pair}: the successor's run is the older one")
    yield from _other_subject(event, old, new)
    if is_stop(old) and cells_run(new) < cells_run(old):
        message = f"{pair}: the target is a stop over {cells_run(old)} cells, the successor ran {cells_run(new)}"
        yield _problem("fewer_cells", event, message)
    if missing := not_run_again(old, new):
        message = f"{pair}: the successor did not run {', '.join(missing)}, which failed in the target"
        yield _problem("failed_cells_not_run_again", event, message)
    if tuple(event.differs) != differs(old, new):
        message = f"{pair}: must list {', '.join(differs(old, new)) or 'nothing'}"
        yield _problem("differs_wrong", event, message)
    if tuple(event.dropped_cells) != dropped_cells(old, new):
        message = f"{pair}: must list {', '.join(dropped_cells(old, new)) or 'nothing'}"
        yield _problem("dropped_cells_wrong", event, message)


def _other_subject(event: Event, old: Body, new: Body) -> Iterator[LedgerProblem]:
    """Two names may meet in one claim key; they are still two subjects."""
    for noun in ("engine", "model"):
        names = [text_at(body, "subject", noun, "name") for body in (old, new)]
        if names[0] != names[1]:
            message = f"target {event.target} and successor {event.by} are of the {noun}s {names[0]} and {names[1]}"
            yield _problem("other_subject", event, message)


def _sequences(book: _Book) -> Iterator[LedgerProblem]:
    """Walk what is open of each certificate: superseded and withdrawn exclude one another, and once is enough."""
    for target, own in sorted(book.by_target.items()):
        yield from _needless(target, own)
        withdrawals: list[Event] = []
        successions: list[Event] = []
        for event in open_events(target, own):
            yield from _second(event, withdrawals, successions)
            (withdrawals if event.kind == WITHDRAW else successions).append(event)


def _needless(target: str, own: Sequence[Event]) -> Iterator[LedgerProblem]:
    current = True
    for event in own:
        if event.kind == REINSTATE and current:
            yield _problem("nothing_to_reinstate", event, f"reinstates {target}, which is current")
        if event.kind in (SUPERSEDE, WITHDRAW, REINSTATE):
            current = event.kind == REINSTATE


def _second(event: Event, withdrawals: Sequence[Event], successions: Sequence[Event]) -> Iterator[LedgerProblem]:
    if event.kind == WITHDRAW and withdrawals:
        message = f"withdraws {event.target}, which event {withdrawals[0].id} withdrew already"
        yield _problem("withdrawn_twice", event, message)
    elif event.kind == WITHDRAW and successions:
        message = f"withdraws {event.target}, which {successions[0].by} superseded; the one excludes the other"
        yield _problem("superseded_and_withdrawn", event, message)
    elif event.kind == SUPERSEDE and withdrawals:
        message = f"{event.by} supersedes {event.target}, which event {withdrawals[0].id} withdrew"
        yield _problem("two_successors", event, f"{message}; withdrawn returns by reinstate only")
    elif event.kind == SUPERSEDE and any(one.by == event.by for one in successions):
        yield _problem("two_successors", event, f"{event.by} supersedes {event.target} a second time")


def _forks(book: _Book) -> Iterator[LedgerProblem]:
    """At most one successor of a certificate still holds. Two branches that ran again at once make two."""
    for target, own in sorted(book.by_target.items()):
        holding: dict[str, Event] = {}
        for event in open_events(target, own):
            if event.kind == SUPERSEDE and book.state(event.by) is CertificateState.CURRENT:
                holding.setdefault(event.by, event)
        first, *others = holding or ("",)
        for other in others:
            message = f"{target} has two successors that hold, {first} and {other}; let the newer supersede the older"
            yield _problem("two_successors", holding[other], message)


def _circles(book: _Book) -> Iterator[LedgerProblem]:
    """Follow live successors from every certificate; nobody may come back."""
    reported: set[str] = set()
    for start in sorted(book.statuses):
        seen: dict[str, None] = {}
        here: str = start
        while here and here not in seen and here not in reported:
            seen[here] = None
            status = book.statuses.get(here)
            here = "" if status is None else status.superseded_by
        if here and here in seen:
            path = list(seen)
            round_trip = path[path.index(here) :]
            through = f" through {', '.join(round_trip[1:3])}" if round_trip[1:] else ""
            message = f"{here} supersedes itself{through}, in {len(round_trip)} steps"
            yield LedgerProblem(code="circle", id=here, message=message)
        reported.update(seen)


def last_successor(certificate: str, statuses: Mapping[str, Status]) -> str:
    """Return what stands at the end of the successions of a certificate; itself, if nothing superseded it."""
    seen: set[str] = set()
    here = str(certificate)
    while here not in seen and here in statuses and statuses[here].superseded_by:
        seen.add(here)
        here = statuses[here].superseded_by
    return here


def _hidden_stops(bodies: Mapping[Sha256, Body], book: _Book) -> Iterator[LedgerProblem]:
    """A stop gives way to a record that stands, not to one that was taken back; nor is it taken back itself.

    However many records lie between: the last successor decides.
    """
    for target in sorted(book.statuses):
        if Sha256(target) not in bodies or not is_stop(bodies[Sha256(target)]):
            continue
        last = last_successor(target, book.statuses)
        if book.state(last) is not CertificateState.WITHDRAWN:
            continue
        if last != target:
            message = f"{target} is a stop, and its successor {last} was withdrawn; reinstate {target}"
            yield LedgerProblem(code="stop_hidden", id=target, message=message)
        elif not _stands_instead(Sha256(target), bodies, book):
            message = f"{target} is a stop, and nothing that stands replaces it; run its cells again, or reinstate it"
            yield LedgerProblem(code="stop_hidden", id=target, message=message)


def _stands_instead(stop: Sha256, bodies: Mapping[Sha256, Body], book: _Book) -> bool:
    """Tell whether a later record of the same place holds that ran again whatever failed."""
    return any(
        other != stop
        and book.state(other) is CertificateState.CURRENT
        and same_place(bodies[stop], bodies[other])
        and covers(bodies[stop], bodies[other])
        for other in sorted(bodies)
    )


def _several_current(bodies: Mapping[Sha256, Body], book: _Book) -> Iterator[LedgerProblem]:
    holders: dict[tuple[str, str], str] = {}
    for identity in sorted(bodies):
        if book.state(identity) is not CertificateState.CURRENT:
            continue
        body = bodies[identity]
        place = (str(body.get("claim_key")), text_at(body, "environment", "machine"))
        first = holders.setdefault(place, identity)
        if first != identity:
            message = f"{identity} is current beside {first}, same claim key and machine"
            yield LedgerProblem(code="two_current", id=identity, message=message)


def _problem(code: str, event: Event, message: str) -> LedgerProblem:
    return LedgerProblem(code=code, id=event.id, message=message)
