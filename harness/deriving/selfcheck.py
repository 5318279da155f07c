"""What follows from the records of a fuzzing campaign and of a self-test. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from harness.deriving.campaign_body import integer_of, mapping_of
from harness.errors import InvalidDocumentError
from harness.model.campaign import CampaignRecords, Record
from harness.model.values import Verdict

FUZZ: Final = "fuzz"
SELFTEST: Final = "selftest"
SCHEMA: Final = "statecert/selfcheck/v1"
KIND: Final = "harness"
GROUPS: Final = ("rules", "references", "determinism", "hostile", "mutants")
_SUMS: Final = ("cases", "accepted", "refused", "new")
_MOST: Final = ("slowest_ns", "largest_kib")
_LISTED: Final = 1000


def derive_fuzz(found: CampaignRecords, where: str) -> dict[str, object]:
    """Return counts, controls, what was wrong, and the decision.

    Raises:
        InvalidDocumentError: Rounds are not in order, or a record is of another kind.
    """
    rounds, controls, crashers = (_of(found, kind) for kind in ("round", "control", "crasher"))
    _only(found, {"round", "control", "crasher"}, where)
    if [one["number"] for one in rounds] != list(range(len(rounds))):
        raise InvalidDocumentError("found rounds out of order", where=where)
    totals: dict[str, object] = {"rounds": len(rounds)}
    totals |= {name: sum(integer_of(one, name) for one in rounds) for name in _SUMS}
    totals |= {name: max((integer_of(one, name) for one in rounds), default=0) for name in _MOST}
    wrong = _counted(rounds, "wrong")
    by_target = _counted(rounds, "by_target")
    targets = mapping_of(found.header, "procedure")["targets"]
    names = [str(name) for name in targets] if isinstance(targets, (list, tuple)) else []
    return {
        "schema": SCHEMA,
        "results": [{"target": name, "cases": by_target.get(name, 0)} for name in names],
        "totals": totals,
        "wrong": dict(sorted(wrong.items())),
        "controls": [{name: one[name] for name in ("name", "found", "cases")} for one in controls],
        "crashers": [
            {name: one[name] for name in ("target", "number", "wrong", "sha256")} for one in crashers[:_LISTED]
        ],
        "limits": ["seeds_of_one_folder", "no_coverage_of_lines"],
        "decision": _fuzz_decision(found, by_target, wrong, controls, names),
    }


def _fuzz_decision(
    found: CampaignRecords,
    by_target: Mapping[str, int],
    wrong: Mapping[str, int],
    controls: Sequence[Record],
    names: Sequence[str],
) -> dict[str, object]:
    asked = mapping_of(found.header, "procedure")["controls"]
    planted = list(asked) if isinstance(asked, (list, tuple)) else []
    nothing = {
        "nothing_tried": not names or any(not by_target.get(name) for name in names),
        "control_not_found": [one["name"] for one in controls if one["found"]] != planted,
        "ended_early": integer_of(found.end, "elapsed_ns") < 60_000_000_000 * integer_of(_procedure(found), "minutes"),
    }
    return _decided(nothing, dict.fromkeys(sorted(wrong), True))


def derive_selftest(found: CampaignRecords, where: str) -> dict[str, object]:
    """Return counts by group, what failed, and the decision.

    Raises:
        InvalidDocumentError: A record is of another kind, or of a group that was not announced.
    """
    asked = _of(found, "asked")
    _only(found, {"asked"}, where)
    listed = _procedure(found)["groups"]
    groups = [str(name) for name in listed] if isinstance(listed, (list, tuple)) else []
    if strange := {str(one["group"]) for one in asked} - set(groups):
        raise InvalidDocumentError(f"found the groups {', '.join(sorted(strange))}, not announced", where=where)
    twice = [
        name for name, count in Counter((str(one["group"]), str(one["name"])) for one in asked).items() if count > 1
    ]
    if twice:
        raise InvalidDocumentError(f"found {' '.join(twice[0])} asked twice", where=where)
    results = [_group(name, [one for one in asked if one["group"] == name]) for name in groups]
    failed = [one for one in asked if one["outcome"] == "fail"]
    unasked = [f"not_asked:{name}" for name in GROUPS if name not in groups]
    not_run = [f"not_run:{one['group']}:{one['name']}" for one in asked if one["outcome"] == "not_run"]
    nothing = {"nothing_asked": not groups or any(not row["pass"] and not row["fail"] for row in results)}
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "results": results,
        "failed": [
            {"group": one["group"], "name": one["name"], "reason": one.get("reason", "failed")}
            for one in failed[:_LISTED]
        ],
        "limits": [*unasked, *not_run],
        "decision": _decided(nothing, {f"failed_{row['group']}": bool(row["fail"]) for row in results}),
    }


def _group(name: str, asked: Sequence[Record]) -> dict[str, object]:
    outcomes = Counter(str(one["outcome"]) for one in asked)
    return {
        "group": name,
        "asked": len(asked),
        **{word: outcomes[word] for word in ("pass", "fail", "not_run")},
        "count": sum(integer_of(one, "count") for one in asked),
    }


def _decided(nothing: Mapping[str, bool], wrong: Mapping[str, bool]) -> dict[str, object]:
    for verdict, reasons in ((Verdict.ERROR, nothing), (Verdict.STOP, wrong)):
        if any(reasons.values()):
            return {"overall": str(verdict), "reasons": [word for word, holds in reasons.items() if holds]}
    return {"overall": str(Verdict.PASS), "reasons": []}


def _procedure(found: CampaignRecords) -> Record:
    return mapping_of(found.header, "procedure")


def _of(found: CampaignRecords, kind: str) -> list[Record]:
    return [one for one in found.records if one["type"] == kind]


def _only(found: CampaignRecords, kinds: set[str], where: str) -> None:
    strange = {str(one["type"]) for one in found.records} - kinds - {"header", "end"}
    if strange:
        raise InvalidDocumentError(f"found records of type {', '.join(sorted(strange))}", where=where)


def _counted(rounds: Sequence[Record], name: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in rounds:
        for word, count in mapping_of(one, name).items():
            found[word] += count if isinstance(count, int) else 0
    return found
