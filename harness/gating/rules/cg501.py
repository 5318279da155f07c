"""CG501: the ledger can be true."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from harness.gating.known import Known
from harness.gating.rule import Body, FolderFacts, Problem, Problems, Rule
from harness.model.certificate import Event
from harness.model.values import Sha256

_HELD: Final = 8
"""Bodies that are kept at a time: an event speaks of two, and the next one of one of these again."""


def check(facts: FolderFacts) -> Problems:
    """Targets and successors exist and belong together, nobody comes back to himself, what differs is listed."""
    if not facts.ledger.events:
        return
    from harness.deriving.status import ledger_problems

    last = _last_day(facts.asked.day)
    for event in facts.ledger.events:
        if event.created[:10] > last:
            message = (
                f"is of {event.created[:10]}, a day to come: whatever is said of its target later would be read first"
            )
            yield Problem(facts.ledger.paths.get(event.id, ""), f"day_to_come: {message}")
    current = defaultdict(list)
    for one in facts.certificates:
        if one.state == "current":
            current[one.claim_key, one.machine].append(one.id)
    for events in _families(facts.ledger.events, facts.certificates):
        for problem in ledger_problems(_Bodies(facts, events, current), events):
            known = facts.certificates.of_id(problem.id)
            at = facts.ledger.paths.get(problem.id) or ("" if known is None else known.path)
            yield Problem(at, f"{problem.code}: {problem.message}")


def _last_day(day: str) -> str:
    """Return the last day that an event may bear: one after today, or after the day that was asked for, if later."""
    import time

    tomorrow = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 86_400))  # clocks and time zones of other machines
    return max(day, tomorrow)


def _families(events: Sequence[Event], certificates: Known) -> Iterator[Sequence[Event]]:
    """Events that hang together through the certificates that they name, or the claim key and machine of these."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for event in events:
        target = certificates.of_id(event.target)
        if target is not None:
            leader[find(event.target)] = find(f"{target.claim_key} {target.machine}")
        if event.by:
            leader[find(event.by)] = find(event.target)
    families: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        families[find(event.target)].append(event)
    yield from families.values()


class _Bodies(Mapping[Sha256, Body]):
    """Bodies of the certificates that some events speak of, or that stand in their places; read when asked for."""

    def __init__(
        self, facts: FolderFacts, events: Sequence[Event], current: Mapping[tuple[str, str], Sequence[str]]
    ) -> None:
        said = {name for event in events for name in (event.target, event.by)}
        found = [one for one in map(facts.certificates.of_id, said) if one is not None]
        places = {(one.claim_key, one.machine) for one in found}
        named = {Sha256(one.id) for one in found}
        named |= {Sha256(one) for place in places for one in current.get(place, ())}
        self._ids = dict.fromkeys(sorted(named))
        self._body = lru_cache(maxsize=_HELD)(facts.body)

    def __getitem__(self, key: Sha256) -> Body:
        if key not in self._ids:
            raise KeyError(key)
        return self._body(key)

    def __iter__(self) -> Iterator[Sha256]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


RULE = Rule(
    id="CG501",
    text="Every ledger event names certificates that are there and belong together, in an order that can be true.",
    pain="A stop is superseded by a record of something else, or by nothing, and drops out of sight.",
    hint="restore the event as it was written; events are made by `statecert run`, never by hand",
    failing=(
        "event_without_target",
        "event_without_successor",
        "ledger_circle",
        "event_of_a_day_to_come",
        "differs_wrong",
        "withdrawn_twice",
        "stop_withdrawn",
        "stop_behind_a_chain",
        "failed_cell_not_run_again",
        "ledger_fork",
        "successor_with_fewer_cells",
    ),
    passing="valid_ledger",
    folder=check,
)
