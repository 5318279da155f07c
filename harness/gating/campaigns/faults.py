"""Counts of a single-bit campaign, held against each other and against the records by the gate's own few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

from harness.gating.rule import Body, Problem, Problems

_COLUMNS: Final = ("flips", "located", "refused", "restored", "prefilled", "logits", "logits_end", "tokens")
_SEEN: Final = ("restored", "prefilled", "logits", "logits_end", "tokens")
_ALL: Final = ("restored", "prefilled", "end", "logits", "logits_end", "tokens")
_FIRST: Final = 0


def in_body(body: Body) -> Problems:
    """Hold the counts of a body against each other, and its decision against its counts."""
    rows = body["results"]
    asked = body["procedure"]
    if [row["element_type"] for row in rows] != asked["element_types"]:
        yield Problem("/body/results", "are not of the element types of the procedure")
    for index, row in enumerate(rows):
        yield from _row(f"/body/results/{index}", row, body)
    for name in ("by_family", "by_bits"):
        for column in _COLUMNS:
            split, whole = (sum(one[column] for one in part) for part in (body[name], rows))
            if split != whole:
                yield Problem(f"/body/{name}", f"come to {split} for {column}; the results to {whole}")
    yield from _decision(body)


def _row(at: str, row: Body, body: Body) -> Problems:
    """Every flip has one end: located, refused or missed; nothing is seen more often than there were flips."""
    flips = row["flips"]
    if flips != body["procedure"]["flips"]:
        yield Problem(f"{at}/flips", f"says {flips}; the procedure asks for {body['procedure']['flips']}")
    missed = sum(one["element_type"] == row["element_type"] for one in body["missed"])
    if row["located"] + row["refused"] + missed != flips:
        ends = f"{row['located']} located, {row['refused']} refused, {missed} missed"
        yield Problem(f"{at}/located", f"{ends} do not make up {flips} flips")
    for column in _SEEN:
        if row[column] > flips - row["refused"]:
            yield Problem(f"{at}/{column}", f"says {row[column]}; {flips - row['refused']} flips were looked at")
    if row["located"] > row["restored"]:
        yield Problem(f"{at}/located", f"says {row['located']}; {row['restored']} were seen right after the restore")


def _decision(body: Body) -> Problems:
    rows, trust, decision = body["results"], body["trust"], body["decision"]
    reasons = [
        word
        for word, holds in (
            ("not_repeatable", not all(row["repeatable"] for row in rows)),
            ("differs_without_a_flip", any(row["clean_differing"] for row in rows)),
            ("digests_not_trusted", bool(trust["mismatches"]) or not trust["children"]),
        )
        if holds
    ]
    nothing = not rows or any(not row["flips"] or not row["clean"] for row in rows)
    missed = any(row["located"] + row["refused"] < row["flips"] for row in rows)
    wanted = "error" if reasons or nothing else "stop" if missed else "pass"
    if decision["overall"] != wanted:
        yield Problem("/body/decision/overall", f"says {decision['overall']}; its counts give {wanted}")
    if not reasons and missed:
        reasons = ["not_located"]
    if decision["reasons"] != reasons:
        yield Problem(
            "/body/decision/reasons", f"are {', '.join(decision['reasons']) or 'none'}; its counts give others"
        )


def in_records(body: Body, records: Sequence[Mapping[str, Any]]) -> Problems:
    """Count again what the records show, flip by flip, and hold the results against it."""
    boundary = records[_FIRST]["procedure"]["boundary"]
    for index, row in enumerate(body["results"]):
        at, kind = f"/body/results/{index}", row["element_type"]
        own = [one for one in records if one.get("element_type") == kind]
        references = [one for one in own if one["type"] == "reference"]
        if not references:
            yield Problem(at, f"speak of {kind}, of which there is no reference")
            continue
        rows = _rows(records, references[_FIRST]["restored"])
        counted = _counted([one for one in own if one["type"] == "flip"], references[_FIRST], rows, boundary)
        clean = [one for one in own if one["type"] == "clean"]
        counted["clean"] = len(clean)
        counted["clean_differing"] = sum(_differ(one, references[_FIRST]) for one in clean)
        for column, count in counted.items():
            if row[column] != count:
                yield Problem(f"{at}/{column}", f"says {row[column]}; the records show {count}")
        repeats = len(references) > 1 and not any(_differ(one, references[_FIRST]) for one in references)
        if row["repeatable"] != repeats:
            yield Problem(f"{at}/repeatable", "is not what the records of the cold runs show")


def _rows(records: Sequence[Mapping[str, Any]], root: str) -> Mapping[str, int]:
    """Elements in one row of each part of a table."""
    table = next((one for one in records if one["type"] == "parts" and one["root"] == root), {"rows": ()})
    return {part["name"]: max(1, prod(part["shape"][1:])) for part in table["rows"]}


def _counted(
    flips: Sequence[Mapping[str, Any]], reference: Mapping[str, Any], rows: Mapping[str, int], boundary: int
) -> dict[str, int]:
    looked = [one for one in flips if "refused" not in one]
    return {
        "flips": len(flips),
        "refused": len(flips) - len(looked),
        "located": sum(_is_located(one, rows, boundary) for one in looked),
        **{column: sum(one[column] != reference[column] for one in looked) for column in _SEEN},
    }


def _is_located(flip: Mapping[str, Any], rows: Mapping[str, int], boundary: int) -> bool:
    """The one part that changed is the flipped one, in its row and element, by exactly the flipped bit of the byte."""
    found = flip.get("located")
    if not found or flip["position"] != boundary or [*flip["changed"]] != [flip["part"]]:
        return False
    here, there = bytes.fromhex(found["reference"]), bytes.fromhex(found["candidate"])
    if not here or len(here) != len(there) or (found["part"], found["byte"]) != (flip["part"], flip["byte"]):
        return False
    if found["row"] * rows.get(flip["part"], 0) + found["element"] != flip["byte"] // len(here):
        return False
    wanted = bytearray(here)
    wanted[flip["byte"] % len(here)] ^= flip["mask"]
    return bytes(wanted) == there and found["differing_elements"] == 1 and flip["mask"].bit_count() == 1


def _differ(one: Mapping[str, Any], reference: Mapping[str, Any]) -> bool:
    return any(one[name] != reference[name] for name in _ALL)
