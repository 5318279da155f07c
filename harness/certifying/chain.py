"""The chain of a certificate: what it replaced, what replaced that, and what replaced it, with every event in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from harness.certifying.store import Store
from harness.deriving.fields import text_at
from harness.deriving.pages import told
from harness.deriving.status import SUPERSEDE, in_order
from harness.model.certificate import Certificate, Event
from harness.wire.certificate_doc import status_to_mapping
from harness.wire.event_doc import event_to_mapping


def chain(store: Store, certificate: Certificate) -> Sequence[Certificate]:
    """Return all certificates that hang together with one through successions, oldest run first."""
    beside: dict[str, set[str]] = defaultdict(set)
    for event in store.events:
        if event.kind == SUPERSEDE:
            beside[event.target].add(event.by)
            beside[event.by].add(event.target)
    reached, waiting = {str(certificate.id)}, [str(certificate.id)]
    while waiting:
        fresh = beside[waiting.pop()] - reached
        reached |= fresh
        waiting += fresh
    found = [one for one in store.certificates.values() if one.id in reached]
    return sorted(found, key=lambda one: (text_at(one.body, "run", "created"), one.id))


def in_words(event: Event) -> Sequence[str]:
    """Return sentences about one event, without marks of any format."""
    lines = [line.removeprefix("- ").replace("`", "") for line in told(event)]
    if event.rule:
        lines.append(f"Waived: {event.rule}{f' until {event.until}' if event.until else ', without end'}.")
    if event.note:
        lines.append(f"Note: {event.note}")
    return lines


def as_text(store: Store, certificate: Certificate) -> str:
    """Return the chain for a terminal."""
    lines = [text_at(certificate.body, "claim_key")]
    for one in chain(store, certificate):
        by = f" by {one.status.superseded_by[:12]}" if one.status.superseded_by else ""
        mark = "  <- asked for" if one.id == certificate.id else ""
        day, overall = text_at(one.body, "run", "created")[:10], text_at(one.body, "decision", "overall")
        lines.append(f"  {one.id[:12]}  {day}  {overall:<12}  {one.status.state}{by}{mark}")
        lines += [f"      {sentence}" for event in _about(store, one) for sentence in in_words(event)]
    return "\n".join(lines) + "\n"


def as_value(store: Store, certificate: Certificate) -> Mapping[str, object]:
    """Return the chain as a document value."""
    return {
        "asked_for": certificate.id,
        "claim_key": text_at(certificate.body, "claim_key"),
        "chain": [
            {
                "id": one.id,
                "created": text_at(one.body, "run", "created"),
                "overall": text_at(one.body, "decision", "overall"),
                "status": status_to_mapping(one.status),
                "events": [
                    {"id": event.id, **event_to_mapping(event), "words": list(in_words(event))}
                    for event in _about(store, one)
                ],
            }
            for one in chain(store, certificate)
        ],
    }


def _about(store: Store, certificate: Certificate) -> Sequence[Event]:
    return in_order(event for event in store.events if event.target == certificate.id)
