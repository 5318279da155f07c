"""The generated page of a claim key's folder: which certificate holds, and what replaced what.

A forge renders it exactly where the next reader lands, beside the files. Everything in it follows from the
certificates and the ledger: whoever files a certificate writes it, and a gate makes it again and compares bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from harness.deriving.ids import id12
from harness.deriving.status import derive_status, in_order
from harness.model.certificate import Event
from harness.model.values import ReasonCode

_WORDS: Final = {
    ReasonCode.RERUN_SAME_INPUTS: "the same inputs were run again",
    ReasonCode.SOURCE_CHANGED: "files of the engine or of the harness changed",
    ReasonCode.SCENARIO_CHANGED: "the scenario changed",
    ReasonCode.MODEL_CHANGED: "the model changed",
    ReasonCode.ENVIRONMENT_CHANGED: "the environment changed",
    ReasonCode.HARDWARE_CHANGED: "the device changed",
    ReasonCode.HARNESS_BUG: "the harness had a bug",
    ReasonCode.MEASUREMENT_INVALID: "the measurement was not valid",
    ReasonCode.SCHEMA_MIGRATION: "the form of the record changed",
    ReasonCode.RECORD_ERROR: "the record was wrong",
}
_MOST: Final = 8
"""Names shown of what differs; the event file has all."""


class Listed(NamedTuple):
    """What the page says of one certificate beside its status."""

    id: str
    created: str
    """When its run began."""
    overall: str


def page(claim_key: str, certificates: Sequence[Listed], ledger: Mapping[str, Sequence[Event]]) -> bytes:
    """Return the page of one claim key.

    Args:
        claim_key: The claim key.
        certificates: All certificates of the claim key, in any order.
        ledger: At least the events that speak of them, by target.
    """
    newest_first = sorted(certificates, key=lambda one: (one.created, one.id), reverse=True)
    items = [line for event in _in_order(certificates, ledger) for line in told(event)]
    lines = [
        f"# {claim_key}",
        "",
        "Generated from the certificates beside it and from the ledger. Only a current certificate supports a claim.",
        "",
        "| certificate | date | decision | status | superseded by |",
        "|---|---|---|---|---|",
        *(_row(one, ledger) for one in newest_first),
        *(["", *items] if items else []),
    ]
    return ("\n".join(lines) + "\n").encode()


def _in_order(certificates: Sequence[Listed], ledger: Mapping[str, Sequence[Event]]) -> Sequence[Event]:
    return in_order(event for one in certificates for event in ledger.get(one.id, ()))


def _row(one: Listed, ledger: Mapping[str, Sequence[Event]]) -> str:
    status = derive_status(one.id, ledger.get(one.id, ()))
    by = f"`{id12(status.superseded_by)}`" if status.superseded_by else ""
    return f"| `{id12(one.id)}` | {one.created[:10]} | {one.overall} | {status.state} | {by} |"


def told(event: Event) -> Iterator[str]:
    """Tell one event as an item of a list, in Markdown."""
    day, target, why = event.created[:10], id12(event.target), _WORDS[event.reason_code]
    if event.kind == "supersede":
        yield f"- {day}: `{id12(event.by)}` replaced `{target}`: {why}.{_differing(event)}{_dropped(event)}"
    elif event.kind == "withdraw":
        yield f"- {day}: `{target}` was withdrawn: {why}. It supports no claim."
    elif event.kind == "reinstate":
        yield f"- {day}: `{target}` holds again: {why}."
    else:
        yield f"- {day}: a note on `{target}` ({event.kind}): {why}."


def _differing(event: Event) -> str:
    if not event.differs:
        return ""
    more = len(event.differs) - _MOST
    rest = f" and {more} more" if more > 0 else ""
    return f" Differs in {', '.join(f'`{name}`' for name in event.differs[:_MOST])}{rest}."


def _dropped(event: Event) -> str:
    if not event.dropped_cells:
        return ""
    return f" No longer covered: {', '.join(f'`{cell}`' for cell in event.dropped_cells)}."
