"""Kill campaigns: an engine's process is killed while it publishes to its disk, and what the next one serves. Pure.

The prompts, and after which share of a publish the kill comes, are functions of the seed; a reader makes the plan again
and holds every record to it. What must hold of every kill:

1. a new process opens the folder;
2. what it restores equals the state that the killed process had at that boundary, and goes on to the same end; so does
   an earlier prompt, if it is still served;
3. the kill leaves nothing that has to be put aside: a link is there whole or not at all;
4. what was reported as published before the kill is served.

Kills must have come inside a publish, and a bit flipped in a stored snapshot must be seen. Else nothing was shown.
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

KILL: Final = "kill"
EVICT: Final = "evict"
CLOSE: Final = "close"
"""Ways of a publish: links are evicted, leaves first; or the engine is closed, roots first."""
_MOST: Final = 100_000
_LISTED: Final = 100
_ROW: Final = "kills"
_PER_MILLE: Final = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Shot:
    """One kill as it was planned."""

    number: int
    seed: int
    """Of the prompt."""
    way: str
    """How the publish comes about."""
    after: int
    """When the kill comes, in thousandths of the time that a publish takes."""
    earlier: int
    """Number of the earlier kill of the same lane whose prompt is asked for again; -1: there is none yet."""


def plan_shot(procedure: Record, number: int) -> Shot:
    """Return the plan of one kill."""
    seed, lanes = integer_of(procedure, "seed"), integer_of(procedure, "lanes")
    rounds, ways = number // lanes, ways_of(procedure)
    earlier = number % lanes + lanes * _draw(seed, f"earlier:{number}", rounds) if rounds else -1
    after = _draw(seed, f"after:{number}", integer_of(procedure, "latest"))
    text = 1 + seed * 1_000_003 + number
    return Shot(number=number, seed=text, way=ways[rounds % len(ways)], after=after, earlier=earlier)


def ways_of(procedure: Record) -> list[str]:
    """Return the ways of a publish, in their order."""
    ways = procedure.get("ways")
    return [str(way) for way in ways] if isinstance(ways, list) and ways else [EVICT]


def shot_ids(procedure: Record, seed: int) -> Sequence[int]:
    """Return the token ids of a kill's prompt."""
    tokens = integer_of(procedure, "chunk") * integer_of(procedure, "links") + integer_of(procedure, "suffix")
    return prompt_ids({"A": PromptSpec(segments=[PromptSegment(tokens=tokens, seed=seed)])}, "A")


def control_seed(procedure: Record, lane: int, number: int) -> int:
    """Return the seed of a control's prompt."""
    return 1 + integer_of(procedure, "seed") * 1_000_003 + _MOST * (1 + lane) + number


def derive_kill(found: CampaignRecords, where: str) -> dict[str, object]:
    """Return results, kills that break a rule, limits and decision.

    Raises:
        InvalidDocumentError: The records are not those of the plan.
    """
    reading = _Reading(found, where)
    row = reading.row()
    return {
        "results": [row],
        "broken": reading.broken()[:_LISTED],
        "limits": ["one_model", "one_prompt_length", "no_loss_of_power", "one_process_at_a_time"],
        "decision": _decision(row, trust_of(found)),
    }


class _Reading:
    """The records of a file, held to the plan."""

    def __init__(self, found: CampaignRecords, where: str) -> None:
        self._where = where
        self._procedure = mapping_of(found.header, "procedure")
        kills, lanes = (integer_of(self._procedure, name) for name in ("kills", "lanes"))
        if not lanes <= kills <= min(len(found.records), _MOST):
            raise self._fault(f"found {kills} kills in {lanes} lanes and {len(found.records)} records")
        shots = {integer_of(one, "number"): one for one in found.records if one["type"] == "kill"}
        paces = [one for one in found.records if one["type"] == "pace"]
        self._paces = {(integer_of(one, "lane"), str(one["way"])): one for one in paces}
        self._controls = [one for one in found.records if one["type"] == "planted"]
        counts = {kind: sum(one["type"] == kind for one in found.records) for kind in ("kill", "pace", "planted")}
        if sorted(shots) != list(range(kills)) or counts["kill"] != kills:
            raise self._fault(f"found {counts['kill']} kills; expected {kills}, each once")
        wanted = {(lane, way) for lane in range(lanes) for way in ways_of(self._procedure)}
        if set(self._paces) != wanted or counts["pace"] != len(wanted):
            raise self._fault(f"found {counts['pace']} paces; expected {len(wanted)}, one of each way in each lane")
        planned = [(lane, number) for lane in range(lanes) for number in range(integer_of(self._procedure, "controls"))]
        if sorted((integer_of(one, "lane"), integer_of(one, "number")) for one in self._controls) != planned:
            raise self._fault(f"found {counts['planted']} controls; expected {len(planned)}")
        strange = {str(one["type"]) for one in found.records} - {"header", "kill", "pace", "planted", "trust", "end"}
        if strange:
            raise self._fault(f"found records of type {', '.join(sorted(strange))}")
        require_children(found, where, hosts=lanes, least=kills + lanes)
        self._shots = [shots[number] for number in range(kills)]
        for record in self._shots:
            self._hold_to_plan(record)

    def row(self) -> dict[str, object]:
        """Return all counts."""
        links = integer_of(self._procedure, "links")
        opened = [one for one in self._shots if one["reopened"]]
        asked = [mapping_of(one, "earlier") for one in opened if "earlier" in one]
        depths = [self._depth(mapping_of(one, "again")) for one in opened]
        broken = [rule for one in self._shots for rule in self._rules_broken(one)]
        return {
            "name": _ROW,
            "count": len(self._shots),
            "inside": sum(not one["answered"] for one in self._shots),
            "between": sum(not one["answered"] and one["files_after"] != one["files_before"] for one in self._shots),
            "reopened": len(opened),
            "unfinished": sum(integer_of(one, "unfinished") for one in opened),
            "put_aside": sum(integer_of(one, "put_aside") for one in opened),
            "restored_whole": sum(depth == links for depth in depths),
            "restored_partly": sum(0 < depth < links for depth in depths),
            "restored_nothing": sum(depth == 0 for depth in depths),
            **{rule: broken.count(rule) for rule in ("torn", "lost", "cold_differs")},
            "earlier_asked": len(asked),
            "earlier_restored": sum("restored" in one for one in asked),
            "controls": len(self._controls),
            "controls_seen": sum(_seen(one) for one in self._controls),
        }

    def broken(self) -> list[dict[str, object]]:
        """Return kills after which a rule was broken, with the rule's name."""
        return [
            {"number": integer_of(one, "number"), "rule": rule}
            for one in self._shots
            for rule in sorted(self._rules_broken(one))
        ]

    def _depth(self, turn: Record) -> int:
        """Return how many links of a prompt were restored."""
        return integer_of(turn, "cached") // integer_of(self._procedure, "chunk")

    def _rules_broken(self, shot: Record) -> set[str]:
        if not shot["reopened"]:
            return {"not_reopened"}
        again, found = mapping_of(shot, "again"), set()
        if shot["put_aside"]:
            found.add("put_aside")
        links = integer_of(self._procedure, "links")
        if shot["answered"] and integer_of(shot, "published") >= links > self._depth(again):
            found.add("lost")
        turns = [(shot, again)]
        if "earlier" in shot:
            earlier = plan_shot(self._procedure, integer_of(shot, "number")).earlier
            turns.append((self._shots[earlier], mapping_of(shot, "earlier")))
        found.update("torn" if "restored" in turn else "cold_differs" for of, turn in turns if self._differs(of, turn))
        return found

    def _differs(self, shot: Record, turn: Record) -> bool:
        """Tell whether a turn differs from what the killed process saw of the same prompt."""
        if (turn["end"], turn["output"]) != (shot["end"], shot["output"]):
            return True
        roots, depth = shot["roots"], self._depth(turn)
        return isinstance(roots, list) and depth > 0 and turn["restored"] != roots[depth - 1]

    def _hold_to_plan(self, record: Record) -> None:
        procedure, number = self._procedure, integer_of(record, "number")
        shot = plan_shot(procedure, number)
        lane = number % integer_of(procedure, "lanes")
        delay = integer_of(self._paces[lane, shot.way], "publish_us") * shot.after // _PER_MILLE
        told = (record["digest"], record["delay_us"])
        if told != (prompt_digest(shot_ids(procedure, shot.seed)), delay):
            raise self._fault(f"kill {number} has not the prompt or the time that the seed gives")
        roots = record["roots"]
        if not isinstance(roots, list) or len(roots) != integer_of(procedure, "links") or record["first_cached"]:
            raise self._fault(f"kill {number}: the reference was not forwarded from its first token on")
        if isinstance(record.get("again"), Mapping) != bool(record["reopened"]):
            raise self._fault(f"kill {number}: its prompt was asked for again, or was not, against the plan")
        if isinstance(record.get("earlier"), Mapping) != (bool(record["reopened"]) and shot.earlier >= 0):
            raise self._fault(f"kill {number}: an earlier prompt was asked for, or was not, against the plan")
        for name in ("again", "earlier"):
            if name in record:
                self._hold_turn(mapping_of(record, name), number)

    def _hold_turn(self, turn: Record, number: int) -> None:
        chunk, links = integer_of(self._procedure, "chunk"), integer_of(self._procedure, "links")
        cached = integer_of(turn, "cached")
        if cached % chunk or not 0 <= cached <= chunk * links or (cached > 0) != ("restored" in turn):
            raise self._fault(f"kill {number}: found {cached} tokens restored; expected a multiple of {chunk}")

    def _fault(self, message: str) -> InvalidDocumentError:
        return InvalidDocumentError(message, where=self._where)


def _seen(control: Record) -> bool:
    """Tell whether a flipped bit was served and seen, or refused."""
    return "refused" in control or (control["cached"] == control["boundary"] and control["restored"] != control["root"])


def _draw(seed: int, what: str, below: int) -> int:
    """Return a number from 0 to below ``below``, the same for the same arguments everywhere."""
    word = hashlib.sha256(f"{KILL}:{seed}:{what}".encode()).digest()
    return int.from_bytes(word[:8], "big") % below


def _decision(row: Mapping[str, object], trust: Mapping[str, object]) -> dict[str, object]:
    nothing = {
        "not_repeatable": bool(row["cold_differs"]),
        "control_not_seen": row["controls_seen"] != row["controls"],
        "no_kill_inside": not row["inside"],
        "nothing_restored": not integer_of(row, "restored_whole") + integer_of(row, "restored_partly"),
        "digests_not_trusted": bool(trust["mismatches"]) or not trust["children"],
    }
    wrong = {
        "not_reopened": row["reopened"] != row["count"],
        "torn": bool(row["torn"]),
        "put_aside": bool(row["put_aside"]),
        "lost": bool(row["lost"]),
    }
    for verdict, reasons in ((Verdict.ERROR, nothing), (Verdict.STOP, wrong)):
        if any(reasons.values()):
            return {"overall": str(verdict), "reasons": [word for word, holds in reasons.items() if holds]}
    return {"overall": str(Verdict.PASS), "reasons": []}
