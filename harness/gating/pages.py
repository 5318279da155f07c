"""The page of a claim key, as the ledger and the certificates give it: made again here, to compare bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from harness.gating.rule import CertificateFacts, Ledger
from harness.gating.states import state_of
from harness.model.certificate import Event

_WHY: Final = {
    "rerun_same_inputs": "the same inputs were run again",
    "source_changed": "files of the engine or of the harness changed",
    "scenario_changed": "the scenario changed",
    "model_changed": "the model changed",
    "environment_changed": "the environment changed",
    "hardware_changed": "the device changed",
    "harness_bug": "the harness had a bug",
    "measurement_invalid": "the measurement was not valid",
    "schema_migration": "the form of the record changed",
    "record_error": "the record was wrong",
}
_ID12: Final = 12
_MOST: Final = 8


def readme(claim_key: str, certificates: Sequence[CertificateFacts], ledger: Ledger) -> bytes:
    """Return the bytes of the page."""
    newest_first = sorted(certificates, key=lambda one: (one.created, one.id), reverse=True)
    own = {one.id for one in certificates}
    told = [_told(event) for event in ledger.events if event.target in own]
    lines = [
        f"# {claim_key}",
        "",
        "Generated from the certificates beside it and from the ledger. Only a current certificate supports a claim.",
        "",
        "| certificate | date | decision | status | superseded by |",
        "|---|---|---|---|---|",
        *(_row(one, ledger) for one in newest_first),
        *(["", *told] if told else []),
    ]
    return ("\n".join(lines) + "\n").encode()


def _row(one: CertificateFacts, ledger: Ledger) -> str:
    status = state_of(ledger.by_target.get(one.id, ()))
    by = f"`{status['superseded_by'][:_ID12]}`" if "superseded_by" in status else ""
    return f"| `{one.id[:_ID12]}` | {one.created[:10]} | {one.overall} | {status['state']} | {by} |"


def _told(event: Event) -> str:
    begin, target, why = f"- {event.created[:10]}:", event.target[:_ID12], _WHY[str(event.reason_code)]
    match event.kind:
        case "supersede":
            rest = " ".join(_details(event))
            return f"{begin} `{event.by[:_ID12]}` replaced `{target}`: {why}.{' ' if rest else ''}{rest}"
        case "withdraw":
            return f"{begin} `{target}` was withdrawn: {why}. It supports no claim."
        case "reinstate":
            return f"{begin} `{target}` holds again: {why}."
        case _:
            return f"{begin} a note on `{target}` ({event.kind}): {why}."


def _details(event: Event) -> Iterator[str]:
    more = len(event.differs) - _MOST
    if event.differs:
        names = ", ".join(f"`{name}`" for name in event.differs[:_MOST])
        yield f"Differs in {names}{f' and {more} more' if more > 0 else ''}."
    if event.dropped_cells:
        yield f"No longer covered: {', '.join(f'`{cell}`' for cell in event.dropped_cells)}."
