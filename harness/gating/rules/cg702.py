"""CG702: what is offered has been shown.

A matrix speaks of the pairs that it has rows of, and of no other; a campaign of the element types that it went through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from harness.deriving.reuse import shown
from harness.errors import ExitCode
from harness.gating.known import CertificateFacts
from harness.gating.rule import Body, FolderFacts, Problem, Problems, Rule
from harness.gating.rules.cg505 import contested
from harness.model.policy import SHOWN, Level, Promotion


def check(facts: FolderFacts) -> Problems:
    """Every row of the promotion table rests on current certificates that passed, none of them contested."""
    policy = facts.asked.policy
    if policy is None:
        return
    disputed = contested(facts.certificates)
    for row in policy.promotions:
        yield from _row(facts, row, policy.needs(row.level), disputed)


def _row(facts: FolderFacts, row: Promotion, needs: Level, disputed: Mapping[str, object]) -> Problems:
    evaluated: dict[str, list[str]] = {axis: [] for axis in needs.axes}
    seen = needs.reuse != SHOWN or not needs.certificates
    for name in needs.certificates:
        found = list(_bodies(facts, row, name))
        if not found:
            yield Problem("", f"has no current certificate of {name} for {row.name}, which the policy promotes")
        for one, body in found:
            if one.claim_key in disputed:
                yield Problem(one.path, f"is contested; the policy promotes {row.name}")
            elif trouble := _trouble(body, row):
                yield Problem(one.path, f"{trouble}; the policy promotes {row.name}")
            seen = seen or shown(body)
            for axis, said in body.get("decision", {}).get("by_axis", {}).items():
                evaluated.get(axis, []).append(said)
    for axis, said in evaluated.items():
        if "pass" not in said or set(said) - {"pass", "not_evaluated"}:
            words = ", ".join(sorted(set(said))) or "nothing"
            yield Problem("", f"says {words} of {axis} for {row.name}; the level needs pass")
    if not seen:
        message = f"has the engine's word alone that {row.name} reuses state"
        yield Problem("", f"{message}: nothing planted came back through a restore", hint=_SHOW)


def _bodies(facts: FolderFacts, row: Promotion, name: str) -> Iterator[tuple[CertificateFacts, Body]]:
    """Current certificates of a scenario or campaign that speak of a row's engine, device and element types."""
    for one in facts.certificates:
        first, middle, device = one.claim_key.split("/")
        fits = first == name and middle.split("-")[0] == row.engine and fnmatchcase(device, row.device)
        policy = facts.asked.policy
        own = not one.record or (policy is not None and policy.foreign)
        if one.state == "current" and fits and own:
            body = facts.body(one.id)
            if _speaks_of(body, row):
                yield one, body


def _speaks_of(body: Body, row: Promotion) -> bool:
    """Whether a certificate has this pair: in a row of its own, in what its campaign went through, or as a whole."""
    if any(_pair(one) for one in _rows(body)):
        return bool(_own_rows(body, row))
    kinds = body.get("procedure", {}).get("element_types")
    return {row.k, row.v} <= set(kinds) if kinds is not None else _of_types(body, row)


def _of_types(body: Body, row: Promotion) -> bool:
    """Whether the engine as a whole ran with these element types of K and V."""
    identity = body["subject"].get("identity", {})
    both = identity.get("kv_type", "")
    return (identity.get("k_type", both), identity.get("v_type", both)) == (row.k, row.v)


_SHOW: Final = (
    "run A01 on a target that declares corrupt (with store or snapshot), so that a flipped bit comes back; or say "
    "`reuse: told` of the level, or promote to a lower one"
)


class _Row(NamedTuple):
    """A cell of a scenario, of the matrix of element types, or a row of a foreign record."""

    name: str
    k: str
    v: str
    outcome: str


def _rows(body: Body) -> Iterator[_Row]:
    for cell in body.get("cells", ()):
        coords = cell["coords"]
        k, v = coords.get("k", coords.get("k_type", "")), coords.get("v", coords.get("v_type", ""))
        yield _Row(cell["id"], str(k), str(v), cell["outcome"])
    for one in body.get("results", ()):
        name = str(one.get("name", ""))
        if "judged" in one:
            k, _, v = name.partition("/")
            yield _Row(name, k, v, str(one["judged"]))
        elif "k" in one and "v" in one:
            yield _Row(name, str(one["k"]), str(one["v"]), str(one["outcome"]))


def _pair(one: _Row) -> bool:
    return bool(one.k and one.v)


def _own_rows(body: Body, row: Promotion) -> Sequence[_Row]:
    """Rows of a matrix of element types that are of this pair."""
    return [one for one in _rows(body) if (one.k, one.v) == (row.k, row.v)]


def _trouble(body: Body, row: Promotion) -> str:
    """Why a certificate does not carry a row; of a matrix only the row's own cells count."""
    own = _own_rows(body, row)
    if own:
        bad = next((one for one in own if one.outcome not in ("pass", "excluded")), None)
        passed = any(one.outcome == "pass" for one in own)
        return f"{bad.name} is {bad.outcome}" if bad else "" if passed else "no cell of this pair passed"
    overall = body["decision"]["overall"]
    return "" if overall == "pass" else f"is {overall}"


RULE = Rule(
    id="CG702",
    text="Whatever the policy's promotion table offers rests on current, uncontested passes of what its level needs.",
    pain="A pair of element types ships as the default on a device on which it was never shown, or stopped.",
    hint="run what is missing on that device; or promote the row to a lower level, in a change of its own",
    failing=(
        "promoted_foreign",
        "promoted_without_certificate",
        "promoted_stop",
        "promoted_axis_not_evaluated",
        "promoted_on_the_engines_word",
        "promoted_contested",
        "promoted_pair_of_another_row",
        "promoted_stop_of_its_row",
        "promoted_foreign_of_another_pair",
    ),
    passing="valid_policy",
    exit_code=ExitCode.FINDINGS,
    option="--policy",
    folder=check,
)
