"""CG702: what is offered has been shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from harness.errors import ExitCode
from harness.gating.known import CertificateFacts
from harness.gating.rule import Body, FolderFacts, Problem, Problems, Rule
from harness.gating.rules.cg505 import contested
from harness.model.policy import Level, Promotion


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
    for name in needs.certificates:
        found = list(_bodies(facts, row, name))
        if not found:
            yield Problem("", f"has no current certificate of {name} for {row.name}, which the policy promotes")
        for one, body in found:
            if one.claim_key in disputed:
                yield Problem(one.path, f"is contested; the policy promotes {row.name}")
            elif trouble := _trouble(body, row):
                yield Problem(one.path, f"{trouble}; the policy promotes {row.name}")
            for axis, said in body.get("decision", {}).get("by_axis", {}).items():
                evaluated.get(axis, []).append(said)
    for axis, said in evaluated.items():
        if "pass" not in said or set(said) - {"pass", "not_evaluated"}:
            words = ", ".join(sorted(set(said))) or "nothing"
            yield Problem("", f"says {words} of {axis} for {row.name}; the level needs pass")


def _bodies(facts: FolderFacts, row: Promotion, name: str) -> Iterator[tuple[CertificateFacts, Body]]:
    """Current certificates of a scenario or campaign that speak of a row's engine, device and element types."""
    for one in facts.certificates:
        first, middle, device = one.claim_key.split("/")
        fits = first == name and middle.split("-")[0] == row.engine and fnmatchcase(device, row.device)
        policy = facts.asked.policy
        own = not one.record or (policy is not None and policy.foreign)
        if one.state == "current" and fits and own:
            body = facts.body(one.id)
            if body.get("kind") != "qualification" or _own_cells(body, row) or _of_types(body, row):
                yield one, body


def _of_types(body: Body, row: Promotion) -> bool:
    """Whether the engine as a whole ran with these element types of K and V."""
    identity = body["subject"]["identity"]
    both = identity.get("kv_type", "")
    return (identity.get("k_type", both), identity.get("v_type", both)) == (row.k, row.v)


def _own_cells(body: Body, row: Promotion) -> Sequence[Body]:
    """Cells of a matrix of element types that are of this pair."""
    found = []
    for cell in body.get("cells", ()):
        coords = cell["coords"]
        k, v = coords.get("k", coords.get("k_type")), coords.get("v", coords.get("v_type"))
        if (k, v) == (row.k, row.v):
            found.append(cell)
    return found


def _trouble(body: Body, row: Promotion) -> str:
    """Why a certificate does not carry a row; of a matrix only the row's own cells count."""
    own = _own_cells(body, row)
    if own:
        bad = next((cell for cell in own if cell["outcome"] not in ("pass", "excluded")), None)
        passed = any(cell["outcome"] == "pass" for cell in own)
        return f"{bad['id']} is {bad['outcome']}" if bad else "" if passed else "no cell of this pair passed"
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
        "promoted_contested",
    ),
    passing="valid_policy",
    exit_code=ExitCode.FINDINGS,
    option="--policy",
    folder=check,
)
