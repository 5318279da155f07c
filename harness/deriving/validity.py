"""What the schema cannot say of a cell: references exist, comparisons can be made, and a control can be seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from harness.deriving.checks.answers import COMPARISONS
from harness.deriving.looks import LOOKED_AT, TURNS, expected_phases, step_of
from harness.deriving.node import Node
from harness.deriving.questions import WITHIN_LIMITS
from harness.deriving.support import DISK_OPTION, arm_needs
from harness.model.scenario import CellPlan, CheckKind, CheckSpec, PointRef, Scenario, Step, StepKind
from harness.model.values import ArmRole, Capability, Observability, Phase, Witness

Need = Callable[[Step], bool]

_DISK_LABEL: Final = r"[a-z0-9][a-z0-9-]{0,31}"
_SHOWN: Final = (Capability.PARTS, Capability.LOGITS)
"""Without these a target has nothing whose distance could be held within limits."""
_COMPARING: Final = frozenset({CheckKind.EXACT, CheckKind.NEAR, CheckKind.ACROSS, CheckKind.UNCHANGED, CheckKind.SEEN})
_OF_STORES: Final = (
    CheckKind.STORED,
    CheckKind.SIZED,
    CheckKind.FOOTPRINT,
    CheckKind.ENTRIES,
    CheckKind.COUNTER,
    CheckKind.BALANCE,
)


def require_valid(cell: CellPlan, where: str) -> None:
    """Do nothing if the checks of a cell can be asked.

    Raises:
        InvalidScenarioError: With the path of the first thing that cannot be.
    """
    _require_unique_arms(cell, where)
    _require_budgets(cell, where)
    _require_stops(cell, where)
    _require_disks(cell, where)
    _require_controls(cell, where)
    for index, check in enumerate(cell.checks):
        _Question(cell, check, f"{where}/checks/{index}").require()


def _require_unique_arms(cell: CellPlan, where: str) -> None:
    arms = Node(value=None, where=f"{where}/arms")
    ids = [arm.id for arm in cell.arms]
    checks = [check.id for check in cell.checks]
    if len(set(ids)) != len(ids):
        arms.fail(f"found arms {', '.join(ids)}; ids of arms are unique")
    twice = sorted({name for name in checks if checks.count(name) > 1})
    if twice:
        Node(value=None, where=f"{where}/checks").fail(
            f"found the check id {', '.join(twice)} twice; ids are unique, 'inventory' and 'finished' are taken"
        )


def _require_controls(cell: CellPlan, where: str) -> None:
    kinds = {check.kind for check in cell.checks}
    node = Node(value=None, where=f"{where}/checks")
    compared = sorted(kinds & {*COMPARISONS, CheckKind.NEAR, CheckKind.ACROSS})
    if compared and CheckKind.SEEN not in kinds:
        node.fail(f"found a check of kind {compared[0]} and no seen check; a run must prove that it could fail")
    roles = {arm.role for arm in cell.arms}
    if kinds & {CheckKind.EXACT, CheckKind.NEAR, CheckKind.ACROSS} and ArmRole.REFERENCE not in roles:
        node.fail(
            f"found a check of kind {compared[0]} and no arm with role reference; "
            "one must show that the engine repeats itself"
        )
    if cell.observability is Observability.PARTS and Capability.PARTS not in cell.requires:
        Node(value=None, where=f"{where}/requires").fail("observability parts needs the capability parts")


def require_sensible(cell: CellPlan, where: str) -> None:
    """Do nothing if each check that compares within limits has a control that must lie beyond them.

    Limits that nothing exceeds show nothing. Such checks are those of kind ``near`` and ``across``, and ``exact`` ones
    with ``if_reordered``. The control looks at all that the check holds within its limits, and no target that is asked
    the check can be without it: its arm needs nothing that the cell and the check's own arms do not need.

    Asked of scenarios that are about to run. Evidence of older ones, whose controls had to differ only, is judged as it
    was meant.

    Raises:
        InvalidScenarioError: A check within limits has none.
    """
    node = Node(value=None, where=f"{where}/checks")
    for check in cell.checks:
        if check.kind not in WITHIN_LIMITS and not check.reordered:
            continue
        controls = [one for one in cell.checks if one.kind is CheckKind.SEEN and one.beyond == check.id]
        if not controls:
            node.fail(
                f"found the check {check.id}, of kind {check.kind} within limits, and no seen check with "
                f"beyond: {check.id}; a wrong state must be shown to lie farther away than its limits"
            )
        if not any(_shows_limits_of(cell, control, check) for control in controls):
            node.fail(
                f"found beyond: {check.id} only in {', '.join(one.id for one in controls)}; allowed is a control that "
                f"looks at what {check.id} looks at ({', '.join(sorted(_within_limits(check)))}) and that every target "
                f"runs which {check.id} is asked of"
            )


def _shows_limits_of(cell: CellPlan, control: CheckSpec, check: CheckSpec) -> bool:
    arms = {arm.id: arm for arm in cell.arms}
    refs = (check.candidate, check.reference)
    needed = {*cell.requires, *_SHOWN} | {need for ref in refs if ref is not None for need in arm_needs(arms[ref.arm])}
    here = {
        need for ref in (control.candidate, control.reference) if ref is not None for need in arm_needs(arms[ref.arm])
    }
    return here <= needed and _within_limits(check) <= set(control.fields)


def _within_limits(check: CheckSpec) -> set[str]:
    return set(check.fields) & {"parts", "logits"}


def require_asked(scenario: Scenario, where: str) -> None:
    """Do nothing if each condition on the scale names one that a suite of the scenario has.

    A check under another scale would never be asked, and nobody would see that it is not.

    Raises:
        InvalidScenarioError: With the path of the first condition that no suite meets.
    """
    allowed = sorted({scale for scales in scenario.suites.values() for scale in scales})
    for name in ("checks", "exclude"):
        found = scenario.procedure.get(name, ())
        for index, one in enumerate(found if isinstance(found, (list, tuple)) else ()):
            when = one.get("when", {}) if isinstance(one, Mapping) else {}
            scales = when.get("scale", ()) if isinstance(when, Mapping) else ()
            for scale in scales if isinstance(scales, (list, tuple)) else (scales,):
                if scale not in allowed:
                    Node(value=scale, where=f"{where}/{name}/{index}/when/scale").fail(
                        f"found scale {scale}; scales of this scenario's suites are: {', '.join(map(str, allowed))}"
                    )


def _require_budgets(cell: CellPlan, where: str) -> None:
    seen: set[str] = set()
    for number, arm in enumerate(cell.arms):
        for index, step in enumerate(arm.steps):
            of = step.budget.get("of")
            if of is not None and of not in seen:
                Node(value=of, where=f"{where}/arms/{number}/steps/{index}/budget/of").fail(
                    f"found {of!r}; allowed is a store step that ran earlier: {', '.join(sorted(seen)) or 'none'}"
                )
            if step.kind is StepKind.STORE:
                seen.add(f"{arm.id}.{step.label}")


def _require_stops(cell: CellPlan, where: str) -> None:
    """A stop token that another step gives was decoded by a step further up."""
    seen: dict[str, int] = {}
    for number, arm in enumerate(cell.arms):
        for index, step in enumerate(arm.steps):
            of, at = step.stop.get("of"), int(step.stop.get("index", 0))
            if of is not None and at >= seen.get(str(of), 0):
                Node(value=of, where=f"{where}/arms/{number}/steps/{index}/stop_token").fail(
                    f"found token {at} of {of}; allowed are steps further up that decode so many: "
                    f"{', '.join(sorted(seen)) or 'none'}"
                )
            if step.decode:
                seen[f"{arm.id}.{step.label}"] = step.decode


def _require_disks(cell: CellPlan, where: str) -> None:
    """Disks are labels, and what works on one has one."""
    for number, arm in enumerate(cell.arms):
        label = {**cell.engine, **arm.engine}.get(DISK_OPTION)
        node = Node(value=label, where=f"{where}/arms/{number}")
        if label is not None and not (isinstance(label, str) and re.fullmatch(_DISK_LABEL, label)):
            node.fail(f"found the disk {label!r}; allowed is a label of small letters, digits and dashes")
        for step in arm.steps:
            if step.kind in (StepKind.SPOIL, StepKind.RIVAL) and label is None:
                node.fail(f"found a {step.kind} step in an arm without the engine option {DISK_OPTION}")
            if DISK_OPTION in step.options:
                node.fail(f"found another {DISK_OPTION} in step {step.label}; an arm has one")


class _Question:
    """One check, and what must hold of its references."""

    def __init__(self, cell: CellPlan, check: CheckSpec, where: str) -> None:
        self._cell = cell
        self._check = check
        self._node = Node(value=None, where=f"{where}/{check.kind}")

    def require(self) -> None:
        """Raise for the first reference that cannot be used."""
        check = self._check
        if check.kind in _COMPARING:
            self._comparison()
        self._of_turns()
        if check.kind in _OF_STORES:
            self._step("at", check.at, lambda step: step.kind is StepKind.STORE, "a store step")
        if check.kind is CheckKind.SIZED:
            self._step("reference", check.reference, _has_boundaries, "a run step")
            self._require_reference_arm(check.reference)
        for ref in check.whole:
            self._step("whole", ref, _has_boundaries, "a run step")
            self._require_reference_arm(ref)
        if check.unit is not None:
            self._step("unit", check.unit, lambda step: step.kind is StepKind.STORE, "a store step")
        if check.kind is CheckKind.SAME_IMAGE:
            self._step("candidate", check.candidate, _exports, "an export step")
            self._step("reference", check.reference, _exports, "an export step")
            self._require_two()
        if check.witness is Witness.DISK:
            self._require_restart()
        if check.kind is CheckKind.ACROSS:
            self._step("restarted", check.restarted, lambda step: step.kind is StepKind.RESTART, "a restart step")
            self._require_brought()
        if check.kind in (CheckKind.REFUSED, CheckKind.ACROSS):
            self._step("at", check.at, lambda step: step.may_refuse, "a step with may_refuse: true")

    def _of_turns(self) -> None:
        """What is asked about turns needs turns."""
        check = self._check
        if check.kind is CheckKind.QUICKER:
            self._require_pairs()
        if check.kind is CheckKind.CACHED:
            self._step("at", check.at, lambda step: step.kind in TURNS, "a run, resume or extend step")
        if check.kind is CheckKind.REUSED:
            self._step("at", check.at, lambda step: step.kind in TURNS, "a run, resume or extend step")
            self._step("reference", check.reference, _has_boundaries, "a run step")
        if check.kind is CheckKind.ENDED:
            self._step("at", check.at, lambda step: step.decode > 0, "a step that decodes")

    def _require_pairs(self) -> None:
        """Turns of one candidate arm, pair by pair, nothing timed between the two of a pair, each turn once."""
        pairs = self._check.pairs
        refs = [ref for pair in pairs for ref in pair]
        for ref in refs:
            self._step("a turn", ref, _has_boundaries, "a run step")
        arms = [arm for arm in self._cell.arms if arm.id in {ref.arm for ref in refs}]
        if len(arms) != 1 or arms[0].role is not ArmRole.CANDIDATE:
            self._node.fail("found pairs of other arms; pairs are turns of one candidate arm")
        order = {step.label: number for number, step in enumerate(arms[0].steps)}
        timed = sorted(refs, key=lambda ref: order[ref.label])
        ran = [set(timed[place : place + 2]) for place in range(0, len(timed), 2)]
        if len(set(refs)) != len(refs) or ran != [set(pair) for pair in pairs]:
            self._node.fail(
                "found pairs that do not run one after the other; each turn is in one pair, beside the other"
            )

    def _require_reference_arm(self, ref: PointRef | None) -> None:
        roles = {arm.role for arm in self._cell.arms if ref is not None and arm.id == ref.arm}
        if roles != {ArmRole.REFERENCE}:
            self._node.fail(f"found {ref}; only arms with role reference are looked at at every boundary")

    def _require_two(self) -> None:
        if self._check.candidate == self._check.reference:
            self._node.fail("found the same step as candidate and reference; it always equals itself")

    def _require_restart(self) -> None:
        """A state that a disk served begins in another process than the arm did."""
        candidate = self._check.candidate
        steps = next((arm.steps for arm in self._cell.arms if candidate and arm.id == candidate.arm), ())
        before = (
            [step.kind for step in steps[: [step.label for step in steps].index(candidate.label)]] if candidate else []
        )
        if StepKind.RESTART not in before:
            self._node.fail(f"found the witness disk and no restart step before {candidate}")

    def _require_brought(self) -> None:
        """What is asked of another build is an import after the restart into it, looked at as it came in."""
        restarted, at = self._check.restarted, self._check.at
        steps = next((arm.steps for arm in self._cell.arms if restarted and arm.id == restarted.arm), ())
        labels = [step.label for step in steps]
        after = steps[labels.index(restarted.label) + 1 :] if restarted else ()
        brought = [step.label for step in after if step.kind is StepKind.IMPORT]
        if restarted is None or at is None or at.arm != restarted.arm or at.label not in brought:
            self._node.fail(f"found {at}; what another build is handed is an import after {restarted}, in its arm")
        if self._check.candidate != at:
            self._node.fail(f"found the candidate {self._check.candidate}; it is looked at as it came in, at {at}")

    def _comparison(self) -> None:
        check = self._check
        images = check.kind is CheckKind.SEEN and self._both_export()
        need, allowed = (_exports, "an export step") if images else (_looked_at, "a step that is looked at")
        candidate = self._step("candidate", check.candidate, need, allowed)
        reference = self._step("reference", check.reference, need, allowed)
        self._require_two()
        if check.kind in WITHIN_LIMITS or check.reordered:
            self._require_limits()
        role = next(arm.role for arm in self._cell.arms if check.candidate and arm.id == check.candidate.arm)
        if check.kind in (CheckKind.EXACT, CheckKind.NEAR, CheckKind.ACROSS) and role is ArmRole.CONTROL:
            self._node.fail("found a candidate in a control arm; a control is judged by seen")
        if check.beyond:
            self._require_near()
        if check.kind is CheckKind.SEEN and role is not ArmRole.CONTROL:
            self._node.fail("found a candidate outside a control arm; allowed is a step of a control")
        if check.kind is not CheckKind.UNCHANGED and not images:
            self._phases(candidate, reference)

    def _require_limits(self) -> None:
        """Something that is looked at has a limit, else the check is an exact one under another name."""
        fields = set(self._check.fields)
        limits = self._check.limits or self._check.reordered
        lacking = "logits" in fields and "logits" not in limits
        if lacking or not fields & {"parts", "logits"}:
            self._node.fail(
                f"found limits for {', '.join(sorted(limits))} and the fields {', '.join(sorted(fields))}; "
                "a near check looks at parts or logits, and states a limit for the logits if it looks at them"
            )

    def _require_near(self) -> None:
        """What a control must lie beyond compares within limits, for all targets or for some."""
        near = [check.id for check in self._cell.checks if check.kind in WITHIN_LIMITS or check.reordered]
        if self._check.beyond not in near:
            self._node.fail(
                f"found beyond {self._check.beyond}; checks within limits of this cell are: {', '.join(near) or 'none'}"
            )
        if not set(self._check.fields) & {"parts", "logits"}:
            self._node.fail("found beyond and no look at parts or logits; distances are measured of these")

    def _both_export(self) -> bool:
        refs = (self._check.candidate, self._check.reference)
        steps = [step_of(self._cell.arms, ref) for ref in refs if ref is not None]
        return all(step is not None and _exports(step) for step in steps)

    def _phases(self, candidate: Step, reference: Step) -> None:
        restored = candidate.kind is StepKind.RUN and not candidate.unseen
        possible = set(expected_phases(candidate)) | ({Phase.RESTORED} if restored else set())
        for phase in self._check.phases:
            if phase not in possible:
                self._node.fail(f"found phase {phase}; this candidate has {', '.join(sorted(possible)) or 'none'}")
        there = set(expected_phases(reference))
        # a restore finds its place by position, and an observed session the state as the reference left it
        free = {Phase.RESTORED, Phase.SEEN} if there else {Phase.RESTORED}
        lacking = sorted(set(self._check.phases or expected_phases(candidate)) - free - there)
        if lacking:
            self._node.fail(f"the reference has no phase {', '.join(lacking)}; decode in both, or name the phases")

    def _step(self, field: str, ref: PointRef | None, need: Need, allowed: str) -> Step:
        step = step_of(self._cell.arms, ref) if ref is not None else None
        if step is None:
            self._node.fail(f"found {field} {ref}; there is no such step")
        if not need(step):
            self._node.fail(f"found {field} {ref}, a {step.kind} step; allowed is {allowed}")
        return step


def _has_boundaries(step: Step) -> bool:
    return step.kind is StepKind.RUN


def _exports(step: Step) -> bool:
    return step.kind is StepKind.EXPORT


def _looked_at(step: Step) -> bool:
    return step.kind in LOOKED_AT
