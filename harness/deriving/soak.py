"""Soak campaigns: hundreds of turns of a few conversations on one engine, and what follows from them. Pure.

Which conversation takes which turn, and how far it grows, is a function of the procedure; a reader makes the plan again
and holds every record to it. Rules, in this order:

1. memory: the median of the last ``window`` turns lies no more than ``allowance_kib`` above that of the first
   ``window`` turns after the warm-up;
2. budget: at no step do the snapshots hold more bytes than the budget;
3. exact: turns that were repeated without the cache have the same state and the same tokens.

Each rule has something that it must see: snapshots kept on purpose after the last turn must make memory grow, the
budget must have been reached, and different prompts must have different states. Else nothing was shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.deriving.campaign_body import integer_of, mapping_of, require_children, trust_of
from harness.deriving.prompts import prompt_digest, prompt_ids
from harness.errors import InvalidDocumentError
from harness.model.campaign import CampaignRecords, Record
from harness.model.scenario import PromptSegment, PromptSpec
from harness.model.values import Verdict

SOAK: Final = "soak"
_MOST_TURNS: Final = 100_000
_LISTED: Final = 100
_ROW: Final = "turns"


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One turn as it was planned."""

    number: int
    conversation: int
    seed: int
    """Of the conversation's text."""
    tokens: int
    """Length of the prompt; always the beginning of one text."""


def plan_turns(procedure: Record) -> list[Turn]:
    """Return all turns in order: a conversation is drawn, grows, and begins anew where it would get too long."""
    seed, conversations = integer_of(procedure, "seed"), integer_of(procedure, "conversations")
    least, most, longest = (integer_of(procedure, name) for name in ("grows_least", "grows_most", "longest"))
    lengths, ages = [0] * conversations, [0] * conversations
    turns = []
    for number in range(integer_of(procedure, "turns")):
        one, grow = _draw(seed, number, conversations), least + _draw(seed, -1 - number, most - least + 1)
        lengths[one] += grow
        if lengths[one] > longest:
            lengths[one], ages[one] = grow, ages[one] + 1
        text = 1 + seed * 1_000_003 + ages[one] * conversations + one
        turns.append(Turn(number=number, conversation=one, seed=text, tokens=lengths[one]))
    return turns


def turn_ids(turn: Turn) -> Sequence[int]:
    """Return the token ids of a turn's prompt."""
    return prompt_ids({"A": PromptSpec(segments=[PromptSegment(tokens=turn.tokens, seed=turn.seed)])}, "A")


def is_compared(procedure: Record, number: int) -> bool:
    """Tell whether a turn is repeated without the cache."""
    return number % integer_of(procedure, "compare_every") == 0


def derive_soak(found: CampaignRecords, where: str) -> dict[str, object]:
    """Return results, turns that break a rule, limits and decision.

    Raises:
        InvalidDocumentError: The records are not those of the plan.
    """
    reading = _Reading(found, where)
    require_children(found, where)
    row, broken = reading.row(), reading.broken()
    limits = ["one_model", "snapshots_in_memory_only", "resident_memory_of_the_child"]
    return {
        "results": [row],
        "broken": broken[:_LISTED],
        "limits": limits,
        "decision": _decision(row, trust_of(found)),
    }


class _Reading:
    """The records of a file, held to the plan."""

    def __init__(self, found: CampaignRecords, where: str) -> None:
        self._where = where
        self._procedure = mapping_of(found.header, "procedure")
        self._check_procedure(len(found.records))
        self._turns = self._numbered(found, "turn", integer_of(self._procedure, "turns"))
        self._leaks = self._numbered(found, "leak", integer_of(self._procedure, "leak_turns"))
        self._cold = [one for one in found.records if one["type"] == "cold"]
        self._hold_to_plan()
        known = {"header", "turn", "cold", "leak", "trust", "end"}
        if strange := {str(one["type"]) for one in found.records} - known:
            raise self._fault(f"found records of type {', '.join(sorted(strange))}")

    def row(self) -> dict[str, object]:
        """Return all counts."""
        procedure = self._procedure
        warmup, window = integer_of(procedure, "warmup"), integer_of(procedure, "window")
        sizes = [integer_of(one, "rss_kib") for one in self._turns]
        first, last = median(sizes[warmup : warmup + window]), median(sizes[-window:])
        held = [step for one in self._turns for step in _held(one)]
        budget = integer_of(procedure, "budget_bytes")
        leaks = [integer_of(one, "rss_kib") for one in self._leaks]
        return {
            "name": _ROW,
            "count": len(self._turns),
            "rss_first_kib": first,
            "rss_last_kib": last,
            "rss_growth_kib": last - first,
            "rss_most_kib": max(sizes),
            "steps": len(held),
            "held_most_bytes": max(held),
            "over_budget": sum(step > budget for step in held),
            "evictions": integer_of(self._turns[-1], "evictions"),
            "cached": sum(integer_of(one, "cached") > 0 for one in self._turns),
            "compared": len({integer_of(one, "number") for one in self._cold}),
            "differing": len(self._differing()),
            "repeats_differing": self._repeats_differing(),
            "prompts": len({one["digest"] for one in self._turns}),
            "states": len({one["parts"] for one in self._turns}),
            "leak_turns": len(leaks),
            "leak_growth_kib": median(leaks[len(leaks) // 2 :]) - last,
            "allowance_kib": integer_of(procedure, "allowance_kib"),
            "budget_bytes": budget,
        }

    def broken(self) -> list[dict[str, object]]:
        """Return turns that break a rule of their own, with the rule's name."""
        budget = integer_of(self._procedure, "budget_bytes")
        over = [integer_of(one, "number") for one in self._turns if max(_held(one)) > budget]
        found = [(number, "over_budget") for number in over] + [(number, "differs") for number in self._differing()]
        return [{"number": number, "rule": rule} for number, rule in sorted(found)]

    def _differing(self) -> list[int]:
        """Return repeated turns whose repeat is not the same."""
        pairs = [(one, self._turns[integer_of(one, "number")]) for one in self._cold]
        found = {integer_of(cold, "number") for cold, turn in pairs if _essence(cold) != _essence(turn)}
        return sorted(found)

    def _repeats_differing(self) -> int:
        """Return how many of the repeats differ from one another: the first one is made twice."""
        first = [_essence(one) for one in self._cold if one["number"] == self._cold[0]["number"]]
        return sum(one != first[0] for one in first)

    def _check_procedure(self, records: int) -> None:
        procedure = self._procedure
        turns, warmup, window = (integer_of(procedure, name) for name in ("turns", "warmup", "window"))
        if not turns <= min(records, _MOST_TURNS) or warmup + 2 * window > turns:
            raise self._fault(f"found {turns} turns with a warm-up of {warmup} and windows of {window}")
        if integer_of(procedure, "grows_most") < integer_of(procedure, "grows_least"):
            raise self._fault("found a growth whose most is less than its least")

    def _numbered(self, found: CampaignRecords, kind: str, count: int) -> list[Record]:
        records = [one for one in found.records if one["type"] == kind]
        if [one["number"] for one in records] != list(range(count)):
            raise self._fault(f"found {len(records)} records of type {kind}; expected {count}, in order")
        return records

    def _hold_to_plan(self) -> None:
        for turn, record in zip(plan_turns(self._procedure), self._turns, strict=True):
            planned = (turn.conversation, turn.tokens, prompt_digest(turn_ids(turn)))
            if (record["conversation"], record["tokens"], record["digest"]) != planned:
                raise self._fault(f"turn {turn.number} is not the one that the seed gives")
            if not integer_of(record, "cached") < turn.tokens:
                raise self._fault(f"turn {turn.number} says that all of its prompt was restored")
        wanted = [turn for turn in range(len(self._turns)) if is_compared(self._procedure, turn)]
        if [(one["number"], one["rep"]) for one in self._cold] != sorted([(wanted[0], 1), *((n, 0) for n in wanted)]):
            raise self._fault(f"found {len(self._cold)} repeats; expected those of turns {wanted[:3]} and so on")

    def _fault(self, message: str) -> InvalidDocumentError:
        return InvalidDocumentError(message, where=self._where)


def median(values: Sequence[int]) -> int:
    """Return the middle value; of two, the lower one. 0 where there is none."""
    return sorted(values)[(len(values) - 1) // 2] if values else 0


def _held(turn: Record) -> list[int]:
    held = turn["held"]
    return [int(str(step)) for step in held] if isinstance(held, list) and held else [0]


def _essence(record: Record) -> tuple[object, object]:
    return record["parts"], record["output"]


def _draw(seed: int, number: int, below: int) -> int:
    """Return a number from 0 to below ``below``, the same for the same arguments everywhere."""
    word = hashlib.sha256(f"{SOAK}:{seed}:{number}".encode()).digest()
    return int.from_bytes(word[:8], "big") % below


def _decision(row: Mapping[str, object], trust: Mapping[str, object]) -> dict[str, object]:
    allowance = integer_of(row, "allowance_kib")
    nothing = {
        "not_repeatable": bool(row["repeats_differing"]),
        "leak_not_seen": integer_of(row, "leak_growth_kib") <= allowance,
        "budget_never_reached": not row["evictions"],
        "states_do_not_differ": row["states"] != row["prompts"],
        "nothing_restored": not row["cached"],
        "digests_not_trusted": bool(trust["mismatches"]) or not trust["children"],
    }
    wrong = {
        "memory_grew": integer_of(row, "rss_growth_kib") > allowance,
        "over_budget": bool(row["over_budget"]),
        "differs": bool(row["differing"]),
    }
    for verdict, reasons in ((Verdict.ERROR, nothing), (Verdict.STOP, wrong)):
        if any(reasons.values()):
            return {"overall": str(verdict), "reasons": [word for word, holds in reasons.items() if holds]}
    return {"overall": str(Verdict.PASS), "reasons": []}
