"""The chain of a claim key: which certificate came after which, why, and what changed between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.deriving.status import ANNOTATE, in_order
from harness.model.certificate import Certificate, Event
from harness.reporting.reading import text
from harness.reporting.reasons import event_reason
from harness.reporting.view import Link

_MOST_NAMED = 8


def history(certificates: Sequence[Certificate], events: Sequence[Event], *, here: str = "") -> list[Link]:
    """Return the certificates of one claim key, newest first.

    Args:
        certificates: All of the claim key.
        events: Ledger events; those of other certificates are passed over.
        here: Id of the certificate that the page is about.
    """
    newest_first = sorted(certificates, key=lambda one: (text(one.body, "run", "created"), one.id), reverse=True)
    return [_link(one, events, here=here) for one in newest_first]


def state_note(certificate: Certificate, events: Sequence[Event]) -> str:
    """Return what a reader must know first: that a certificate is not current, and what was noted beside it.

    Args:
        certificate: Which one.
        events: Its ledger events; those of other certificates are passed over.
    """
    return " ".join([*_out_of_force(certificate), *notes(certificate, events)])


def notes(certificate: Certificate, events: Sequence[Event]) -> list[str]:
    """Return what the ledger notes beside a certificate, each as a sentence; a note changes nothing of its decision."""
    mine = [event for event in in_order(events) if event.target == certificate.id and event.kind == ANNOTATE]
    return [
        f"Noted on {event.created[:10]}: {event_reason(event.reason_code)}{f' ({event.note})' if event.note else ''}."
        for event in mine
    ]


def _out_of_force(certificate: Certificate) -> Iterator[str]:
    status = certificate.status
    if status.state == "current":
        return
    by = f" by {status.superseded_by[:12]}" if status.superseded_by else ""
    since = f" on {status.since[:10]}" if status.since else ""
    why = f" because {event_reason(status.reason_code)}" if status.reason_code else ""
    yield f"{status.state.value.capitalize()}{since}{by}{why}. Do not cite it as present evidence."


def _link(certificate: Certificate, events: Sequence[Event], *, here: str) -> Link:
    mine = [event for event in events if event.target == certificate.id]
    differs = [name for event in mine for name in event.differs]
    dropped = [cell for event in mine for cell in event.dropped_cells]
    reason = certificate.status.reason_code
    return Link(
        id12=certificate.id[:12],
        created=text(certificate.body, "run", "created"),
        state=certificate.status.state.value,
        overall=text(certificate.body, "decision", "overall"),
        reason=event_reason(reason) if reason else "",
        changed=f"changed: {_named(differs)}" if differs else "",
        dropped=f"cells dropped: {_named(dropped)}" if dropped else "",
        here=certificate.id == here,
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
