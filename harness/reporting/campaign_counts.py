"""What a report says of campaigns that come to one row of counts: the soak and the kills.

All that is particular to one of them is a table here: its words, its sentence, what it claims. Nothing is decided.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.model.certificate import Certificate
from harness.reporting.claimable import headline_limit, is_mutant, subject
from harness.reporting.reading import integer, items, text, texts
from harness.reporting.reasons import reason_sentence
from harness.reporting.told import Told
from harness.reporting.units import counted, number
from harness.reporting.view import Fact, Problem, Section

Body = Mapping[str, object]
Row = Mapping[str, object]
_MOST: Final = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """One campaign in words."""

    title: str
    facts: Mapping[str, str]
    """Counts of the row in the order in which they are shown, each with its words."""
    procedure: Mapping[str, str]
    """What was going to be done, likewise."""
    sentence: Callable[[Row], str]
    """What was found, without a full stop's worth of opinion; also what may be claimed."""
    count: Callable[[Row], str]
    """For the overview."""
    broken: str
    """What one of the listed breaches is called, like ``turn``."""
    no_claims: Sequence[str]
    command: Callable[[Body], Sequence[str]]


SOAK: Final = Words(
    title="Soak",
    facts={
        "count": "turns",
        "cached": "turns that began with a restore",
        "rss_first_kib": "memory after the warm-up, KiB",
        "rss_last_kib": "memory at the end, KiB",
        "rss_growth_kib": "growth, KiB",
        "allowance_kib": "growth allowed, KiB",
        "rss_most_kib": "most memory after any turn, KiB",
        "steps": "steps at which bytes held were asked for",
        "held_most_bytes": "most bytes held",
        "budget_bytes": "budget, bytes",
        "over_budget": "steps over the budget",
        "evictions": "snapshots evicted",
        "compared": "turns repeated without the cache",
        "differing": "of these with another state or other tokens",
        "leak_growth_kib": "growth with snapshots kept on purpose, KiB",
    },
    procedure={
        "seed": "Seed of the conversations",
        "conversations": "Conversations",
        "warmup": "Turns of warm-up",
        "window": "Turns whose median memory is compared",
        "chunk": "Tokens forwarded at a time",
        "longest": "Tokens from which on a conversation begins anew",
    },
    sentence=lambda row: (
        f"over {counted(integer(row, 'count'), 'turn')} memory grew by {number(integer(row, 'rss_growth_kib'))} KiB "
        f"after the warm-up ({number(integer(row, 'allowance_kib'))} allowed); "
        f"at {number(integer(row, 'over_budget'))} of {counted(integer(row, 'steps'), 'step')} "
        "snapshots held more than the budget; "
        f"{number(integer(row, 'compared') - integer(row, 'differing'))} of "
        f"{counted(integer(row, 'compared'), 'turn')} repeated without the cache were the same"
    ),
    count=lambda row: f"{number(integer(row, 'count'))} turns, {number(integer(row, 'rss_growth_kib'))} KiB growth",
    broken="turn",
    no_claims=(
        "Nothing about memory of the device, or of other processes.",
        "Nothing about growth below what is allowed.",
        "Nothing about longer runs, other prompts or several sessions at a time.",
        "No other model, engine version or class of hardware.",
    ),
    command=lambda body: [
        "soak",
        "--turns",
        text(body, "procedure", "turns"),
        "--seed",
        text(body, "procedure", "seed"),
    ],
)

KILL: Final = Words(
    title="Kills inside a publish",
    facts={
        "count": "kills",
        "inside": "before the publish was answered",
        "between": "of these after some files were there",
        "reopened": "folders opened by a new process",
        "unfinished": "unfinished files that it removed",
        "put_aside": "files that it put aside as damaged",
        "restored_whole": "prompts restored whole",
        "restored_partly": "prompts restored in part",
        "restored_nothing": "prompts restored not at all",
        "torn": "kills after which a restore had another state",
        "lost": "kills after which something published was not restored",
        "earlier_asked": "earlier prompts asked for again",
        "earlier_restored": "of these restored",
        "controls": "bits flipped on purpose",
        "controls_seen": "of these seen",
    },
    procedure={
        "seed": "Seed of prompts and times",
        "lanes": "Folders side by side",
        "chunk": "Tokens of a link",
        "links": "Links of a prompt",
        "latest": "Latest kill, in thousandths of the time of a publish",
    },
    sentence=lambda row: (
        f"after {number(integer(row, 'reopened'))} of {counted(integer(row, 'count'), 'kill')}, "
        f"{number(integer(row, 'inside'))} of them inside a publish, a new process opened the folder; "
        f"{number(integer(row, 'torn'))} restores had another state, {number(integer(row, 'lost'))} lost what had been "
        f"published, {number(integer(row, 'put_aside'))} files were damaged"
    ),
    count=lambda row: f"{number(integer(row, 'reopened'))}/{number(integer(row, 'count'))} folders opened",
    broken="kill",
    no_claims=(
        "Nothing about a loss of power: the system outlived every kill.",
        "Nothing about several processes on one folder.",
        "No rate of failures: the times were drawn from a seed, none was observed in the field.",
        "No other model, engine version or class of hardware.",
    ),
    command=lambda body: [
        "kill",
        "--kills",
        text(body, "procedure", "kills"),
        "--seed",
        text(body, "procedure", "seed"),
        "--jobs",
        text(body, "procedure", "lanes"),
    ],
)


def told_with(words: Words) -> Callable[[Certificate], Told]:
    """Return the function that tells of a campaign in these words."""
    return lambda certificate: _told(words, certificate)


def _row(body: Body) -> Row:
    row = items(body, "results")[0]
    return row if isinstance(row, Mapping) else {}


def _told(words: Words, certificate: Certificate) -> Told:
    body = certificate.body
    row = _row(body)
    problems, note = _problems(words, body)
    return Told(
        title=words.title,
        sentence=f"{subject(body)}: {words.sentence(row)}. {headline_limit(body)}",
        claims=_claims(words, certificate),
        no_claims=_no_claims(words, certificate),
        problems=problems,
        problems_note=note,
        sections=[
            Section(title="What was done", facts=_facts(words.procedure, body["procedure"])),
            Section(title="What was counted", facts=_facts(words.facts, row)),
        ],
        command=shlex.join(["statecert", *words.command(body), "--target", text(body, "subject", "engine", "adapter")]),
        count=words.count(row),
        headline=problems[0].reason if problems else f"{words.sentence(row)}.",
    )


def _facts(words: Mapping[str, str], row: object) -> list[Fact]:
    found = row if isinstance(row, Mapping) else {}
    return [Fact(name=said, value=_shown(found[name])) for name, said in words.items() if name in found]


def _shown(value: object) -> str:
    return number(value) if isinstance(value, int) else str(value)


def _claims(words: Words, certificate: Certificate) -> list[str]:
    body = certificate.body
    if certificate.status.state != "current" or text(body, "decision", "overall") != "pass" or is_mutant(body):
        return []
    cite = f"[cert:{certificate.id[:12]}]"
    return [f"{words.title}, {subject(body)}: {words.sentence(_row(body))} {cite}."]


def _no_claims(words: Words, certificate: Certificate) -> list[str]:
    body = certificate.body
    said = []
    if certificate.status.state != "current":
        said.append(f"Nothing as of today: the certificate is {certificate.status.state.value}.")
    said += [f"Nothing at all: {reason_sentence(reason)}" for reason in texts(body, "decision", "reasons")]
    return [*said, *words.no_claims]


def _problems(words: Words, body: Body) -> tuple[list[Problem], str]:
    state = "error" if text(body, "decision", "overall") == "error" else "fail"
    found = [_problem("all", state, reason, reason) for reason in texts(body, "decision", "reasons")]
    broken = items(body, "broken")
    found += [
        _problem(f"{words.broken} {text(one, 'number')}", "fail", text(one, "rule"), text(one, "rule"))
        for one in broken[:_MOST]
    ]
    if not found:
        return [], "No rule was broken, and everything that had to be seen was."
    more = len(broken) - _MOST
    return found, f"{number(more)} more are in the record." if more > 0 else ""


def _problem(cell: str, state: str, check: str, reason: str) -> Problem:
    said = reason_sentence(reason)
    return Problem(cell=cell, state=state, check=check, code="", observed="", limit="", reason=said, place="")
