"""Reason codes in words. A code that is not known here is shown as it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_EVENTS: Final[Mapping[str, str]] = {
    "rerun_same_inputs": "the same inputs were run again",
    "source_changed": "the source changed",
    "scenario_changed": "the scenario changed",
    "model_changed": "the model changed",
    "environment_changed": "the environment changed",
    "hardware_changed": "the hardware changed",
    "harness_bug": "the harness had a fault",
    "measurement_invalid": "the measurement was not valid",
    "schema_migration": "the form of the record changed",
    "record_error": "the record was wrong",
}

_REASONS: Final[Mapping[str, str]] = {
    "not_repeatable": "The reference was unequal to itself, so nothing can be blamed on the restore.",
    "parts_differ": "State parts differ from the reference.",
    "logits_differ": "The logits differ from the reference.",
    "tokens_differ": "The decoded tokens differ from the reference.",
    "no_device": "The hardware was not there.",
}


def event_reason(code: str) -> str:
    """Return why a ledger event was made, as the end of a sentence."""
    return _EVENTS.get(code, _spaced(code))


def reason_sentence(code: str) -> str:
    """Return why a check or a cell did not pass, as one sentence."""
    if not code:
        return "No reason was recorded."
    return _REASONS.get(code) or f"{_spaced(code).capitalize()}."


def _spaced(code: str) -> str:
    return code.replace("_", " ")
