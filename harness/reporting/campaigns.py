"""What a report says of a campaign: copied and counted from its certificate, nothing decided.

One function per campaign, by its name. A campaign that is not known here is shown by its numbers alone, and never as
something that may be claimed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Final

from harness.model.certificate import Certificate
from harness.reporting import selfchecks
from harness.reporting.campaign_counts import KILL, SOAK, told_with
from harness.reporting.campaign_kv import kv
from harness.reporting.campaign_matrix import matrix
from harness.reporting.claimable import headline_limit, is_mutant, subject
from harness.reporting.foreign import FOREIGN, foreign
from harness.reporting.reading import integer, items, mapping, text, texts
from harness.reporting.reasons import reason_sentence
from harness.reporting.told import Told
from harness.reporting.units import counted, number
from harness.reporting.view import Fact, Head, Problem, Section, Sheet

CAMPAIGN: Final = "campaign"
HARNESS: Final = "harness"
"""A self-test: told in the same way, since it has no cells either."""
_MOST: Final = 40
_ALL_TYPES: Final = ("f32", "f16", "bf16")
_COLUMNS: Final = (
    ("flips", "flips"),
    ("located", "located at once"),
    ("refused", "refused"),
    ("restored", "parts at once"),
    ("prefilled", "parts later"),
    ("logits", "logits"),
    ("logits_end", "logits at the end"),
    ("tokens", "tokens"),
)
_WAYS: Final = (
    "How many of the flips each way of looking noticed. Located at once: part, row, element and bit, before the next "
    "token was forwarded. Parts later: by part digests after the rest of the prompt. Logits and tokens: by these alone."
)


def is_campaign(body: Mapping[str, object]) -> bool:
    """Tell whether a body is one of a campaign."""
    return text(body, "kind") in (CAMPAIGN, HARNESS, FOREIGN)


def told(certificate: Certificate) -> Told:
    """Return what is said of a campaign."""
    tell = _CAMPAIGNS.get(text(certificate.body, "campaign"))
    return tell(certificate) if tell is not None else _unknown(certificate.body)


def _unknown(body: Mapping[str, object]) -> Told:
    name = text(body, "campaign")
    return Told(title=f"Campaign {name}", sentence=f"{subject(body)}: nothing is known here of the campaign {name}.")


# -- single-bit faults -------------------------------------------------------------------------


def _faults(certificate: Certificate) -> Told:
    body = certificate.body
    found, note = _fault_problems(body)
    flips, located = _sum(body, "flips"), _sum(body, "located")
    return Told(
        title="Single-bit faults",
        sentence=_fault_sentence(body),
        claims=_fault_claims(certificate),
        no_claims=_fault_no_claims(certificate),
        problems=found,
        problems_note=note,
        sections=_fault_sections(body),
        command=_fault_command(body),
        count=f"{number(located)}/{number(flips)} flips located",
        headline=found[0].reason if found else _seen_otherwise(body),
    )


def _fault_sentence(body: Mapping[str, object]) -> str:
    kinds = counted(len(items(body, "results")), "element type")
    refused = _sum(body, "refused")
    also = f" and {number(refused)} refused by name" if refused else ""
    return (
        f"{subject(body)}: {number(_sum(body, 'located'))} of {counted(_sum(body, 'flips'), 'single-bit flip')} "
        f"located before the next token was forwarded{also}, in {kinds} of K and V. {_seen_otherwise(body)} "
        f"{headline_limit(body)}"
    )


def _seen_otherwise(body: Mapping[str, object]) -> str:
    return (
        f"Of the same flips, part digests after the prompt show {number(_sum(body, 'prefilled'))}, the logits there "
        f"{number(_sum(body, 'logits'))}, {counted(integer(body, 'procedure', 'decode'), 'greedy token')} "
        f"{number(_sum(body, 'tokens'))}."
    )


def _fault_claims(certificate: Certificate) -> list[str]:
    body = certificate.body
    unfit = certificate.status.state != "current" or text(body, "decision", "overall") not in ("pass", "stop")
    if unfit or is_mutant(body):
        return []
    cite = f"[cert:{certificate.id[:12]}]"
    said = [
        f"Single-bit faults, {subject(body)}, {text(row, 'element_type')} K and V: {number(integer(row, 'located'))} "
        f"of {counted(integer(row, 'flips'), 'flip')} located by part, row, element and bit before the next token was "
        f"forwarded {cite}."
        for row in items(body, "results")
        if integer(row, "located")
    ]
    refused = _sum(body, "refused")
    if refused:
        said.append(f"{counted(refused, 'flip')} in a stored snapshot made the engine refuse it by name {cite}.")
    return [*said, f"{_seen_otherwise(body)[:-1]} {cite}."] if said else said


def _fault_no_claims(certificate: Certificate) -> list[str]:
    body = certificate.body
    said: list[str] = []
    if certificate.status.state != "current":
        said.append(f"Nothing as of today: the certificate is {certificate.status.state.value}.")
    if text(body, "decision", "overall") == "error":
        said += [f"Nothing at all: {reason_sentence(reason)}" for reason in texts(body, "decision", "reasons")]
    missed = len(items(body, "missed"))
    if missed:
        said.append(f"Nothing about {counted(missed, 'flip')} that {'was' if missed == 1 else 'were'} not located.")
    return [
        *said,
        f"Nothing about parts of these families, in which no bit was flipped: {_left_out(body)}.",
        "Nothing about faults of more than one bit, other prompts or other boundaries.",
        "No rate of faults: places and bits were drawn from a seed, none was observed in the field.",
        "No other model, engine version or class of hardware.",
    ]


def _fault_problems(body: Mapping[str, object]) -> tuple[list[Problem], str]:
    whole = [
        _problem("all flips", "error", "decision", reason_sentence(reason), "")
        for reason in texts(body, "decision", "reasons")
        if text(body, "decision", "overall") == "error"
    ]
    missed = items(body, "missed")
    found = [*whole, *(_missed(one) for one in missed[:_MOST])]
    if not found:
        return [], "Every flip was located or refused, and every run without a flip equals the reference."
    more = len(missed) - _MOST
    return found, f"{number(more)} more flips were not located; the record has all." if more > 0 else ""


def _missed(one: object) -> Problem:
    where = "in the stored snapshot" if text(one, "where") == "store" else "right after the restore"
    bit = f"row {text(one, 'row')}, element {text(one, 'element')}, bit {text(one, 'bit')}"
    name = f"{text(one, 'element_type')} flip {text(one, 'number')}"
    return _problem(name, "fail", "located", reason_sentence("not_located"), f"{text(one, 'part')}: {bit}, {where}")


def _problem(cell: str, state: str, check: str, reason: str, place: str) -> Problem:
    return Problem(cell=cell, state=state, check=check, code="", observed="", limit="", reason=reason, place=place)


def _fault_sections(body: Mapping[str, object]) -> list[Section]:
    return [
        Section(title="What was flipped", facts=_fault_facts(body)),
        Section(title="What each way of looking saw", sheet=_seen(body, "results", "element_type", "K, V", _WAYS)),
        Section(title="By family of the part", sheet=_seen(body, "by_family", "family", "family")),
        Section(title="By kind of bit", sheet=_seen(body, "by_bits", "bits", "bit")),
        Section(title="Runs without a flip", sheet=_clean(body)),
    ]


def _fault_facts(body: Mapping[str, object]) -> list[Fact]:
    procedure = mapping(body, "procedure")
    return [
        Fact(name="Element types of K and V", value=", ".join(texts(procedure, "element_types"))),
        Fact(name="Flips per element type", value=number(integer(procedure, "flips"))),
        Fact(name="Seed of places and bits", value=text(procedure, "seed")),
        Fact(name="Where", value="by turns in the stored snapshot and in the live state right after its restore"),
        Fact(name="Snapshot at", value=counted(integer(procedure, "boundary"), "token")),
        Fact(name="Prompt", value=_prompt(procedure)),
        Fact(name="Decoded after it", value=counted(integer(procedure, "decode"), "greedy token")),
        Fact(name="Families without flips", value=_left_out(body)),
    ]


def _prompt(procedure: Mapping[str, object]) -> str:
    tokens = counted(integer(procedure, "prompt", "tokens"), "token")
    return f"{tokens}, seed {text(procedure, 'prompt', 'seed')}"


def _left_out(body: Mapping[str, object]) -> str:
    return ", ".join(texts(body, "procedure", "left_out")) or "none"


def _seen(body: Mapping[str, object], name: str, key: str, head: str, note: str = "") -> Sheet:
    heads = [Head(text=head), *(Head(text=words, right=True) for _, words in _COLUMNS)]
    rows = [[text(row, key), *(number(integer(row, column)) for column, _ in _COLUMNS)] for row in items(body, name)]
    return Sheet(heads=heads, rows=rows, note=note)


def _clean(body: Mapping[str, object]) -> Sheet:
    words = ("restores without a flip", "of these unequal", "parts flipped in", "bit positions")
    names = ("clean", "clean_differing", "parts", "bit_positions")
    heads = [Head(text="K, V"), *(Head(text=one, right=True) for one in words), Head(text="cold runs agree")]
    rows = [
        [text(row, "element_type"), *(number(integer(row, name)) for name in names), text(row, "repeatable")]
        for row in items(body, "results")
    ]
    return Sheet(heads=heads, rows=rows)


def _fault_command(body: Mapping[str, object]) -> str:
    procedure = mapping(body, "procedure")
    kinds = texts(procedure, "element_types")
    kind = "all" if tuple(kinds) == _ALL_TYPES else kinds[0] if len(kinds) == 1 else ""
    words = ["statecert", "faults", "--flips", text(procedure, "flips"), "--seed", text(procedure, "seed")]
    words += ["--type", kind] if kind else []
    return shlex.join([*words, "--target", text(body, "subject", "engine", "adapter")])


def _sum(body: Mapping[str, object], column: str) -> int:
    return sum(integer(row, column) for row in items(body, "results"))


_CAMPAIGNS: Final[Mapping[str, Callable[[Certificate], Told]]] = {
    "faults": _faults,
    FOREIGN: foreign,
    "fuzz": selfchecks.fuzz,
    "selftest": selfchecks.selftest,
    "kv": kv,
    "matrix": matrix,
    "soak": told_with(SOAK),
    "kill": told_with(KILL),
}
