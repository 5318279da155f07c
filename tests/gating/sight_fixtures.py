"""Certificates whose claims do not bear a second look at the evidence, by the gate's own logic.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from harness.model.evidence import Distance, Point, Turn
from harness.model.values import Phase, Sha256
from tests.gating.fixtures import (
    NOBODY,
    Body,
    a_failing_run,
    a_near_run,
    a_run,
    a_run_with_a_control_beyond,
    a_varying_run,
    edited,
    file_run,
    fixture,
    good_body,
    part_name,
    relabelled,
    swapped,
)


@fixture("CG307", "CG301")
def differing_part_passes(folder: Path) -> None:
    swapped(folder, a_failing_run())


@fixture("CG307", "CG301")
def differing_tokens_pass(folder: Path) -> None:
    swapped(folder, a_run().with_point("warm", "again", Phase.END, tokens=(9, 9)))


@fixture("CG307", "CG301")
def differing_logits_pass(folder: Path) -> None:
    swapped(folder, a_run().with_point("warm", "again", Phase.PREFILLED, logits=NOBODY))


@fixture("CG307", "CG301")
def logits_not_finite(folder: Path) -> None:
    run = a_run()
    looks = [replace(one, logits_finite=False) if isinstance(one, Point) else one for one in run.observations]
    swapped(folder, replace(run, observations=tuple(looks)))


@fixture("CG307", "CG301")
def logits_of_no_bytes(folder: Path) -> None:
    nothing = Sha256(hashlib.sha256(b"").hexdigest())
    run = a_run()
    looks = [replace(one, logits=nothing) if isinstance(one, Point) else one for one in run.observations]
    swapped(folder, replace(run, observations=tuple(looks)))


@fixture("CG307", "CG301")
def rows_of_no_row(folder: Path) -> None:
    """K and V are listed at every look, and hold nothing: equal wherever they are compared."""
    nothing = Sha256(hashlib.sha256(b"").hexdigest())
    hollow = lambda row: replace(row, shape=(0,), bytes=0, sha256=nothing) if row.family == "kv" else row  # noqa: E731
    swapped(folder, relabelled(a_run(), hollow))


@fixture("CG307", "CG301")
def reference_varies(folder: Path) -> None:
    swapped(folder, a_varying_run())


@fixture("CG307", "CG301")
def pauses_left_out_of_both_runs(folder: Path) -> None:
    paused = lambda one: isinstance(one, Point) and one.phase is Phase.BOUNDARY  # noqa: E731
    swapped(folder, a_run().without(paused))


@fixture("CG307", "CG301")
def look_left_out(folder: Path) -> None:
    swapped(folder, a_run().without_point("warm", "again", Phase.PREFILLED))


@fixture("CG307", "CG301")
def reference_not_looked_at(folder: Path) -> None:
    swapped(folder, a_run().without_point("cold", "a", Phase.PREFILLED))


@fixture("CG307", "CG301")
def reference_varies_at_a_pause(folder: Path) -> None:
    swapped(folder, a_run().with_point("cold", "a", Phase.BOUNDARY, rep=1, logits=NOBODY))


@fixture("CG307", "CG301")
def turn_left_out(folder: Path) -> None:
    swapped(folder, a_run().without(lambda one: isinstance(one, Turn) and (one.arm, one.label) == ("warm", "first")))


@fixture("CG307", "CG301")
def part_unlisted(folder: Path) -> None:
    unlisted = part_name("recurrent")
    swapped(folder, relabelled(a_run(), lambda row: None if row.name == unlisted else row))


@fixture("CG307", "CG301")
def difference_invented(folder: Path) -> None:
    file_run(folder, a_run(), good_body(a_failing_run()))


@fixture("CG307", "CG301")
def distance_left_out(folder: Path) -> None:
    run = a_near_run()
    file_run(folder, run.without(lambda one: isinstance(one, Distance)), good_body(run))


@fixture("CG307", "CG301")
def distance_beyond_limit(folder: Path) -> None:
    run = a_near_run()
    far = [replace(one, ulp=101) if isinstance(one, Distance) else one for one in run.observations]
    file_run(folder, replace(run, observations=tuple(far)), good_body(run))


@fixture("CG308", "CG301", "CG307")
def restore_of_nothing(folder: Path) -> None:
    swapped(folder, a_run().with_turn("warm", "again", cached=0, prefilled=66))


@fixture("CG308", "CG301")
def no_bytes_copied(folder: Path) -> None:
    swapped(folder, a_run().with_turn("warm", "again", restored_bytes=0))


@fixture("CG308", "CG301")
def tokens_unaccounted(folder: Path) -> None:
    swapped(folder, a_run().with_turn("warm", "again", prefilled=1))


@fixture("CG308", "CG301")
def nobody_looked(folder: Path) -> None:
    swapped(folder, a_run().without_point("warm", "again", Phase.RESTORED))


@fixture("CG309", "CG301")
def control_not_seen(folder: Path) -> None:
    run = a_run()
    cold = {one.phase: one for one in run.observations if isinstance(one, Point) and (one.arm, one.rep) == ("cold", 0)}
    blind = [
        replace(one, root=cold[one.phase].root, logits=cold[one.phase].logits, tokens=cold[one.phase].tokens)
        if isinstance(one, Point) and one.arm == "other"
        else one
        for one in run.observations
    ]
    swapped(folder, replace(run, observations=tuple(blind)))


@fixture("CG309", "CG301")
def control_within_limits(folder: Path) -> None:
    file_run(folder, a_run_with_a_control_beyond(ulp=100), good_body(a_run_with_a_control_beyond(ulp=101)))


@fixture("CG309", "CG301")
def control_within_one_limit(folder: Path) -> None:
    good = good_body(a_run_with_a_control_beyond(ulp=101))
    file_run(folder, a_run_with_a_control_beyond(ulp=101, logits=100), good)


@fixture("CG309", "CG301")
def control_missing(folder: Path) -> None:
    def change(body: Body) -> None:
        cell = body["cells"][0]
        cell["checks"] = [check for check in cell["checks"] if not check["code"].startswith("CTRL.")]

    edited(folder, change)
