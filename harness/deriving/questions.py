"""Checks of one cell: from resolved values to nouns, and those that the harness adds itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.deriving.lengths import Scaling, optional_length
from harness.deriving.node import Node
from harness.model.noun import replace
from harness.model.scenario import Arm, CheckKind, CheckSpec, PointRef
from harness.model.values import ArmRole, Guarantee, Observability, Phase, Witness

MEASURES: Final = ("ulp", "relative_ppb", "absolute_nano")
"""What a limit of a ``near`` check may speak of; fields of :class:`harness.model.evidence.Distance`."""
_BEYOND: Final = {"ulp": 1 << 24, "relative_ppb": 10**9, "absolute_nano": 1 << 53}
"""What no limit may reach: from here on a part of zeros would be near to any other."""
FIELDS: Final = ("parts", "logits", "tokens")
"""What a comparison looks at unless it says otherwise."""

_UNITS: Final = {
    CheckKind.CACHED: "tokens",
    CheckKind.STORED: "units",
    CheckKind.SIZED: "bytes",
    CheckKind.FOOTPRINT: "ppm",
    CheckKind.REUSED: "ppm",
    CheckKind.ENTRIES: "entries",
    CheckKind.COUNTER: "count",
    CheckKind.BALANCE: "bytes",
    CheckKind.SAME_IMAGE: "bytes",
    CheckKind.ANSWERS: "tokens",
    CheckKind.QUICKER: "ns",
}

WITHIN_LIMITS: Final = frozenset({CheckKind.NEAR, CheckKind.ACROSS})
"""Kinds of checks that hold what they compare within stated distances."""
_IN_PPM: Final = frozenset({CheckKind.FOOTPRINT, CheckKind.REUSED})


def parse_check(node: Node, scaling: Scaling) -> CheckSpec:
    """Return one check of the scenario.

    Raises:
        InvalidScenarioError: A value is not what its field allows.
    """
    found = [(name, fields) for name, fields in node.items() if name != "id"]
    if len(found) != 1 or found[0][0] not in {str(kind) for kind in CheckKind}:
        node.fail(f"found {[name for name, _ in found]} beside the id; allowed is one kind of check")
    kind, fields = CheckKind(found[0][0]), found[0][1]
    return CheckSpec(
        id=node.child("id").text(),
        kind=kind,
        candidate=_ref(fields, "candidate"),
        reference=_ref(fields, "reference"),
        at=_ref(fields, "at"),
        guarantee=_guarantee(fields, kind),
        witness=fields.child("witness").choice(Witness) if "witness" in fields else Witness.NONE,
        phases=tuple(element.choice(Phase) for element in _list(fields, "phases")),
        equals=optional_length(fields, "equals", scaling),
        at_least=optional_length(fields, "at_least", scaling),
        at_most=_ppm(fields) if kind in _IN_PPM else optional_length(fields, "at_most", scaling),
        restarted=_ref(fields, "restarted"),
        unit=_ref(fields, "unit"),
        whole=tuple(_parsed(element) for element in _list(fields, "whole")),
        beyond_fixed=fields.optional_flag("beyond_fixed"),
        gaps_at_most=fields.child("gaps_at_most").integer() if "gaps_at_most" in fields else 0,
        counter=fields.optional_text("name", ""),
        terms=tuple(element.text() for element in _list(fields, "of")),
        sum_is=tuple(element.text() for element in _list(fields, "is")),
        within=tuple(element.text() for element in _list(fields, "within")),
        codes=tuple(element.text() for element in _list(fields, "codes")),
        reason=fields.optional_text("reason", ""),
        part=fields.optional_text("part", ""),
        ids=tuple(element.integer() for element in _list(fields, "ids")),
        or_ids=tuple(element.integer() for element in _list(fields, "or")),
        entire=fields.optional_flag("entire"),
        fields=tuple(element.text() for element in _list(fields, "fields")) or FIELDS,
        limits=_limits(fields, "limits") if kind in WITHIN_LIMITS else {},
        beyond=fields.optional_text("beyond", ""),
        reordered=_limits(fields, "if_reordered") if "if_reordered" in fields else {},
        pairs=_pairs(fields) if kind is CheckKind.QUICKER else (),
        margin_ppm=fields.child("margin_ppm").integer() if "margin_ppm" in fields else 0,
        steady_ppm=fields.child("steady_ppm").integer() if "steady_ppm" in fields else 0,
        gain_at_most=fields.child("gain_at_most").integer() if "gain_at_most" in fields else 0,
        unit_name="bytes" if kind is CheckKind.STORED and "unit" not in fields else _UNITS.get(kind, ""),
    )


def with_limits(checks: Sequence[CheckSpec]) -> tuple[CheckSpec, ...]:
    """Give each control that must lie beyond a check the limits of that one; none where it has none for this target."""
    limits = {check.id: check.limits for check in checks if check.kind in WITHIN_LIMITS}
    return tuple(replace(check, limits=limits.get(check.beyond, {})) if check.beyond else check for check in checks)


def automatic_checks(arms: Sequence[Arm], observability: Observability) -> tuple[CheckSpec, ...]:
    """Return what every cell is asked, whatever its scenario says."""
    checks = [
        CheckSpec(id=f"repeatable:{arm.id}", kind=CheckKind.REPEATABLE, at=PointRef(arm=arm.id, label=""))
        for arm in arms
        if arm.role is ArmRole.REFERENCE
    ]
    if observability is Observability.PARTS:
        checks.append(CheckSpec(id="inventory", kind=CheckKind.INVENTORY))
    checks.append(CheckSpec(id="finished", kind=CheckKind.FINISHED))
    return tuple(checks)


def _ref(fields: Node, key: str) -> PointRef | None:
    if key not in fields:
        return None
    return _parsed(fields.child(key))


def _parsed(node: Node) -> PointRef:
    arm, dot, label = node.text().partition(".")
    if not (arm and dot and label):
        node.fail("allowed is arm.label")
    return PointRef(arm=arm, label=label)


def _guarantee(fields: Node, kind: CheckKind) -> Guarantee:
    """Return what equality a check demands: nearness has one of its own, which no other kind can claim."""
    if kind in WITHIN_LIMITS:
        return Guarantee.TOLERANCE
    found = fields.child("guarantee").choice(Guarantee) if "guarantee" in fields else Guarantee.SAME_SCHEDULE
    if found is Guarantee.TOLERANCE:
        fields.fail(f"found the guarantee {found} without limits; allowed is a near check, which states them")
    return found


def _pairs(fields: Node) -> Sequence[tuple[PointRef, PointRef]]:
    candidates = [_parsed(element) for element in _list(fields, "candidates")]
    references = [_parsed(element) for element in _list(fields, "references")]
    if len(candidates) != len(references):
        fields.fail(f"found {len(candidates)} candidates and {len(references)} references; each pair is one of both")
    return tuple(zip(candidates, references, strict=True))


def _limits(fields: Node, name: str) -> Mapping[str, Mapping[str, int]]:
    """Return how far each part may lie away.

    Raises:
        InvalidScenarioError: No limit is stated, or one that is not what its field allows.
    """
    found = {name: _distances(node) for name, node in fields.child(name).items()}
    if not found:
        fields.fail("found no limits; a near check states how far each part may lie away")
    return found


def _distances(node: Node) -> Mapping[str, int]:
    found = {measure: value.integer() for measure, value in node.items()}
    if not found or not set(found) <= set(MEASURES) or min(found.values()) < 0:
        node.fail(f"found {dict(found)}; allowed are whole numbers from 0 on for {', '.join(MEASURES)}")
    beyond = next((measure for measure, limit in found.items() if limit >= _BEYOND[measure]), None)
    if beyond is not None:
        node.fail(
            f"found {beyond} {found[beyond]}; from {_BEYOND[beyond]} on a part of zeros would pass, and nothing fail"
        )
    return found


def _ppm(fields: Node) -> int:
    return fields.child("at_most_ppm").integer()


def _list(fields: Node, key: str) -> Sequence[Node]:
    return tuple(fields.child(key).elements()) if key in fields else ()
