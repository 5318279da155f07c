"""What may and what may not be said on the strength of one certificate, and what it does not prove.

Every sentence follows from the record by a rule below; none is an opinion, none goes further than the
cells that passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.deriving import reuse
from harness.model.certificate import Certificate
from harness.model.values import DecisionAxis
from harness.reporting.exactness import NEAR, checks_of, comparisons, controls, parts_compared, seen_whole, share
from harness.reporting.limit_words import limit_sentences
from harness.reporting.reading import integer, items, text, texts
from harness.reporting.reasons import reason_sentence
from harness.reporting.units import counted, number

_MOST_NAMED = 4
_STATES_WITH_BE = frozenset({"not_supported", "excluded"})
_EVEN_SCALE = "1"
"""Witnesses by which counters of the engine show that state came back."""


def subject(body: Mapping[str, object]) -> str:
    """Return what was tested, like ``torch 0.1.0 with model tiny on cpu-x86_64-avx512``."""
    engine = f"{text(body, 'subject', 'engine', 'name')} {text(body, 'subject', 'engine', 'version')}"
    return f"{engine} with model {text(body, 'subject', 'model', 'name')} on {text(body, 'environment', 'hw_class')}"


def sentence(body: Mapping[str, object]) -> str:
    """Return the one sentence below the banner: what was tested on what, how much, and the headline limit."""
    states = _outcomes(body)
    passed, excluded = states.count("pass"), states.count("excluded")
    left_out = f", {number(excluded)} excluded by a rule of the scenario" if excluded else ""
    return (
        f"{subject(body)}: {number(passed)} of {counted(len(states), 'declared cell')} passed{left_out}; "
        f"{comparisons(body)} comparisons equal over {counted(parts_compared(body), 'part digest')}, "
        f"{controls(body)} planted corruptions seen. {headline_limit(body)}"
    )


def headline_limit(body: Mapping[str, object]) -> str:
    """Return the limit that a reader must not miss, said to be one."""
    limit = foremost_limit(body)
    return f"Headline limit: {limit[:1].lower()}{limit[1:]}"


def foremost_limit(body: Mapping[str, object]) -> str:
    """Return the limit that a reader must not miss, as a sentence."""
    grade = text(body, "observability")
    if grade != "parts":
        return f"State parts were not seen; this rests on {grade} alone."
    scales = _scales(body)
    if _EVEN_SCALE not in scales and scales:
        return f"Prompts are shortened, all lengths divided by {' and '.join(scales)}."
    return f"One machine of class {text(body, 'environment', 'hw_class')}, one run."


def open_cells(body: Mapping[str, object]) -> str:
    """Return why a record came to no conclusion although nothing that ran failed; empty: that is not so."""
    states = _outcomes(body)
    missing = states.count("not_supported")
    if text(body, "decision", "overall") != "inconclusive" or not missing:
        return ""
    passed = states.count("pass")
    ran = f"all {number(passed)} that ran passed" if passed > 1 else "the one that ran passed" if passed else "none ran"
    return f"No conclusion about the whole: {number(missing)} of {counted(len(states), 'cell')} not supported; {ran}."


def ran_passed(body: Mapping[str, object]) -> bool:
    """Tell whether a record lacks a conclusion for cells that are not supported alone: all others passed."""
    states = set(_outcomes(body)) - {"excluded"}
    unreasoned = text(body, "decision", "overall") == "inconclusive" and not items(body, "decision", "reasons")
    return unreasoned and states == {"pass", "not_supported"}


def _outcomes(body: Mapping[str, object]) -> list[str]:
    return [text(cell, "outcome") for cell in items(body, "cells")]


def claims(certificate: Certificate) -> list[str]:
    """Return what may be said, ready to paste, each sentence with its certificate."""
    body = certificate.body
    if certificate.status.state != "current" or items(body, "decision", "reasons") or is_mutant(body):
        return []
    cite = f"[cert:{certificate.id[:12]}]"
    cells = items(body, "cells")
    passed = [text(cell, "id") for cell in cells if text(cell, "outcome") == "pass"]
    if not passed:
        return []
    of_passed = {"cells": [cell for cell in cells if text(cell, "outcome") == "pass"]}
    said = [
        f"{text(body, 'scenario', 'id')}, {subject(body)}: {_cells(passed, len(cells))} passed {cite}.",
        *_exact_claim(body, of_passed, cite),
    ]
    seen = controls(of_passed)
    if seen.all and seen.passed == seen.all:
        said.append(f"The same cells noticed {seen} planted corruptions {cite}.")
    return said


def no_claims(certificate: Certificate) -> list[str]:
    """Return what may not be said."""
    body = certificate.body
    said: list[str] = []
    if certificate.status.state != "current":
        said.append(f"Nothing as of today: the certificate is {certificate.status.state.value}.")
    for state, words in (
        ("fail", "failed"),
        ("error", "broke"),
        ("inconclusive", "came to no conclusion"),
        ("not_run", "did not run"),
        ("not_supported", "not supported by this target"),
        ("excluded", "excluded by a rule of the scenario"),
    ):
        named = [text(cell, "id") for cell in items(body, "cells") if text(cell, "outcome") == state]
        verb = "" if state not in _STATES_WITH_BE else "is " if len(named) == 1 else "are "
        said += [f"Nothing about {_cells(named, 0)}, which {verb}{words}."] if named else []
    reasons = texts(body, "decision", "reasons")
    said += [f"Nothing at all: {reason_sentence(reason)}" for reason in reasons]
    said += _unjudged(body)
    if _EVEN_SCALE not in _scales(body):
        said.append("Nothing about prompts at full length: the run was scaled down.")
    said.append("No speed-up, mean or percentile: each time was measured once.")
    said.append("No other model, engine version, element type or class of hardware.")
    return said


def limits(body: Mapping[str, object]) -> list[str]:
    """Return what the record does not cover and does not prove."""
    if body.get("kind") == "foreign":
        return [
            *limit_sentences(texts(body, "limits")),
            "The bytes are as published; who published them vouches for what they say.",
            "An id or a signature shows who filed the record, not that the run took place.",
        ]
    return [
        *limit_sentences(texts(body, "limits")),
        *_reuse_told(body),
        _trust(body),
        "The adapter handed over the bytes: it may be wrong and is taken not to be malicious.",
        "An id or a signature shows who reported, not that the hardware existed or that the run took place.",
        "Equal state in these prompts is no proof for all prompts; it is a proof that these questions were asked.",
        "Whether the record is fresh for the present source tree is not said here: ask the gate.",
    ]


def _reuse_told(body: Mapping[str, object]) -> list[str]:
    """Say where only the engine's word shows that state was reused: nothing planted came back through its restore.

    An engine that computes every hit again and counts as if it had not has equal state, and its counts add up.
    """
    count = reuse.told(body)
    if not count:
        return []
    if "corrupt" in texts(body, "subject", "capabilities"):
        words = (
            "no control of theirs brings something planted back through a restore (those of A01 do, where they can run)"
        )
    else:
        words = "nothing planted comes back through its restore, since it does not declare the capability corrupt"
    said = f"That state was reused is told by the engine alone in {counted(count, 'comparison')}: {words}."
    return [f"{said} An engine that computes all again, and counts as if it had not, would pass them too."]


def _trust(body: Mapping[str, object]) -> str:
    trust = {name: integer(body, "trust", name) for name in ("children", "known_answers", "spot_checks", "mismatches")}
    return (
        f"Digests were made by the {text(body, 'trust', 'hashed_by')} ({text(body, 'trust', 'algorithm')}) in "
        f"{counted(trust['children'], 'child', 'children')}: {counted(trust['known_answers'], 'known answer')} right, "
        f"{counted(trust['spot_checks'], 'part')} hashed again by the parent, "
        f"{counted(trust['mismatches'], 'mismatch', 'mismatches')}."
    )


def is_mutant(body: Mapping[str, object]) -> bool:
    """Tell whether the engine carries a planted fault."""
    return text(body, "subject", "engine", "group") != "harness.engines"


def _exact_claim(body: Mapping[str, object], passed: Mapping[str, object], cite: str) -> list[str]:
    """Say that states were equal, no further than what was seen of them."""
    whole, rest = seen_whole(passed)
    said = []
    if whole:
        seen = {
            "parts": "in every state part that the engine lists",
            "image": "as one opaque image",
        }.get(text(body, "observability"))
        said += [f"{counted(whole, 'comparison')} found the state equal bit for bit, {seen} {cite}."] if seen else []
    if rest:
        said.append(f"{counted(rest, 'comparison')} found equal logits or tokens, without parts {cite}.")
    near = share(checks_of(passed), NEAR)
    if near.passed:
        said.append(
            f"{counted(near.passed, 'comparison')} of two numeric paths stayed within the scenario's limits; "
            f"this is no equality {cite}."
        )
    return said


def _unjudged(body: Mapping[str, object]) -> list[str]:
    axes = [axis.value for axis in DecisionAxis if axis is not DecisionAxis.TOLERANCE]
    unjudged = [
        axis for axis in axes if text(body, "decision", "by_axis", axis, default="not_evaluated") == "not_evaluated"
    ]
    return [f"Nothing about {_listed(unjudged)}: not evaluated."] if unjudged else []


def _scales(body: Mapping[str, object]) -> list[str]:
    return texts(body, "run", "scales")


def _cells(named: Sequence[str], declared: int) -> str:
    if declared and len(named) == declared:
        return f"all {counted(declared, 'declared cell')}" if declared > 1 else "the one declared cell"
    more = f" and {number(len(named) - _MOST_NAMED)} more" if len(named) > _MOST_NAMED else ""
    of = f" of {number(declared)}" if declared else ""
    return f"{number(len(named))}{of} {'cell' if len(named) == 1 else 'cells'} ({', '.join(named[:_MOST_NAMED])}{more})"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
