"""Limits that a certificate states about itself, as codes, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.reporting.reasons import spaced

_PLAIN: Final[Mapping[str, str]] = {
    "seeded_weights": "The model's weights come from a seed: this is about the engine, not about a trained model.",
    "observability_image": "State parts were not seen one by one, only as one opaque image.",
    "observability_logits": "State parts were not seen; equality rests on the logits and the tokens.",
    "observability_tokens": "State parts and logits were not seen; equal tokens are a weak witness.",
    "no_repository": "The engine was imported from an installed package: there is no commit to compare with.",
    "measured_in_sittings": "It was broken off and taken up again: pages of one process may be of two.",
    "lossy_and_exact_are_different_classes": "Lossy and exact are classes of their own; nothing lossy is called exact.",
    "slice_of_the_matrix": "A slice of the matrix: it stands beside the whole one and takes no place of it.",
    "percentiles_where_samples_suffice": "Percentiles are told where one sample lies above them with 95 %.",
    "median_only": "Times are told by their median and its interval; there are too few samples for a percentile.",
    "pages_in_the_page_cache_dropped": "The system was asked to forget a file before it was read; it may not have.",
    "mutant": "The engine carries a planted fault. This is no certificate of any engine.",
    "one_boundary": "One prompt with its snapshot at one boundary: other lengths and positions were not tried.",
    "one_model": "One model of one size.",
    "snapshots_in_memory_only": "Snapshots were held in memory; no disk tier was open.",
    "resident_memory_of_the_child": "Memory is the resident set of the engine's process as the system tells it.",
    "outcomes_as_recorded": "Checks are recorded by what they came to; evidence of faulty engines is not kept.",
    "reach_claims": "A mutant met its own scenario and those that list it, no others.",
    "reach_kind": "A mutant met the scenarios that list a fault of its kind, two cells of each at most.",
    "reach_all": "A mutant met two cells of each scenario at most.",
    "scaled_down": "Prompts are shortened.",
    "one_prompt_length": "All prompts have one length.",
    "no_loss_of_power": "The process was killed; the system and its caches lived on.",
    "one_process_at_a_time": "One process had a folder open at a time.",
    "no_spot_checks": "No part was hashed a second time by the parent process.",
}
_WITH_SUBJECT: Final[Mapping[str, str]] = {
    "not_run": "Not run",
    "not_supported": "Not supported by this target",
    "excluded": "Excluded by a rule of the scenario",
    "control_dropped": "Control left out, since the target lacks what it needs",
    "family_absent": "Families that the scenario asks for and this target's state does not have",
    "session_exact": "Compared with the live session, not with a cold run",
    "tolerance": "Compared within the limits of the scenario, not for equality",
    "tokens_only": "Compared by tokens only",
    "left_out": "No bit was flipped in parts of these families",
}
_MOST_NAMED: Final = 6


def limit_sentences(codes: Sequence[str]) -> list[str]:
    """Return one sentence per kind of limit; what belongs to cells or checks is gathered."""
    gathered: dict[str, list[str]] = {}
    for code in codes:
        kind, _, rest = code.partition(":")
        gathered.setdefault(kind, []).extend([rest] if rest else [])
    return [_sentence(kind, subjects) for kind, subjects in gathered.items()]


def _sentence(kind: str, subjects: Sequence[str]) -> str:
    if subjects:
        more = f" and {len(subjects) - _MOST_NAMED} more" if len(subjects) > _MOST_NAMED else ""
        return f"{_WITH_SUBJECT.get(kind, _capital(kind))}: {', '.join(subjects[:_MOST_NAMED])}{more}."
    return _PLAIN.get(kind, f"{_capital(kind)}.")


def _capital(code: str) -> str:
    return spaced(code).capitalize()
