"""Texts that say what certificates say, and ones in which exactly one thing is not so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.certifying.events import make_event
from harness.certifying.issue import issue
from harness.certifying.ledger import regenerate, write_event
from harness.certifying.store import read_store
from harness.deriving.fields import value_at
from harness.deriving.prose import read_prose
from harness.model.values import ReasonCode
from tests.gating.fixtures import ASKED, KEY, VALID, a_failing_run, a_run, fixture, valid, valid_stop
from tests.gating.foreign_fixtures import KEY as KEY_OF_OTHERS
from tests.gating.foreign_fixtures import valid_foreign
from tests.gating.fresh_fixtures import another_tree, valid_fresh
from tests.gating.policy_fixtures import stop_elsewhere

NAME = "README.md"
BLOCK = "<!-- statecert:begin view=matrix claim=T02/fake-digests/cpu-* -->"
END = "<!-- statecert:end -->"


def current(folder: Path) -> str:
    """First digits of the certificate in force."""
    return next(one.id[:12] for one in read_store(folder).certificates.values() if one.status.state == "current")


def row(folder: Path) -> str:
    heads = "| claim | decision | cells passed | measured | certificate |\n|---|---|---|---|---|\n"
    return f"{heads}| {KEY} | pass | 1 of 1 | 2026-01-01 | {current(folder)} |\n"


def honest(folder: Path) -> str:
    """A text with a block and citations of every form; each holds."""
    one = current(folder)
    return (
        f"# A product\n\nIt [passed](cert:{one}), [1 of 1 cells](cert:{one}#cells), and [all of 1](cert:{KEY}#cells).\n"
        f"Exactness is a [pass](cert:{KEY}#axis.exactness), one cell [passed](cert:{one}#at=1), with `f16/q8_0 passes on CUDA`.\n\n"
        f"- The run took [{ELAPSED}](cert:{one}#/run/elapsed_ns), that is [at least 59.9 min](cert:{one}#/run/elapsed_ns).\n\n"
        f"```\nq8_0/q8_0 passes on Metal\n```\n\n{BLOCK}\n{row(folder)}{END}\n"
    )


ELAPSED = "3,600 s"


def says(text: Callable[[Path], str], **more: Any) -> Callable[[Path], dict[str, Any]]:
    """Ask about one text."""
    return lambda folder: {"prose": [read_prose(NAME, text(folder).encode())], **more}


def cites(text: str, **more: Any) -> Callable[[Path], dict[str, Any]]:
    """Ask about a text with the current certificate in the place of a star."""
    return says(lambda folder: text.replace("*", current(folder)), **more)


VALID.update(valid_claims=valid)
ASKED.update(valid_claims=says(honest))


def claims(
    rule: str, about: Callable[[Path], dict[str, Any]], build: Callable[[Path], None], name: str, *besides: str
) -> None:
    def made(folder: Path) -> None:
        build(folder)

    made.__name__ = name
    fixture(rule, *besides, about=about)(made)


def _withdrawn(folder: Path) -> None:
    """Two certificates of two machines, one of them withdrawn."""
    valid(folder)
    old = next(iter(read_store(folder).certificates))
    write_event(folder, make_event("withdraw", old, ReasonCode.HARNESS_BUG, "2026-01-02T00:00:00Z"))
    regenerate(folder, KEY)
    issue(a_run(3, 3).data(), folder)


def valid_contested(folder: Path) -> None:
    """One machine passes, another stops; valid, and not to be cited as if there were only one."""
    issue(a_run(1, 1).data(), folder)
    stop_elsewhere(folder)


def passed(folder: Path) -> str:
    """First digits of the certificate that passes."""
    held = read_store(folder).certificates.values()
    return next(one.id[:12] for one in held if value_at(one.body, "decision", "overall") == "pass")


VALID.update(valid_contested=valid_contested)
ASKED.update(valid_contested=says(lambda folder: f"It [passed](cert:{passed(folder)}), and is contested.\n"))


def _superseded(folder: Path) -> None:
    issue(a_failing_run().data(), folder)
    issue(a_run(2, 2).data(), folder)


def old(folder: Path) -> str:
    return next(one.id[:12] for one in read_store(folder).certificates.values() if one.status.state != "current")


_BLOCK = says(lambda folder: f"{BLOCK}\n{row(folder).replace('1 of 1', '2 of 2')}{END}\n")
claims("CG801", _BLOCK, valid, "block_edited")
claims("CG801", says(lambda folder: f"{BLOCK}\n{row(folder)}"), valid, "block_without_end")
claims("CG801", says(lambda _: f"{BLOCK.replace('matrix', 'nicer')}\n{END}\n"), valid, "block_of_no_view")
claims("CG802", cites("It [passed](cert:0123456789ab).\n"), valid, "cites_nothing")
claims("CG802", cites("It took [17 ms](cert:*#/run/elapsed_ns).\n"), valid, "cites_another_number")
claims("CG802", cites("It [stopped](cert:*).\n"), valid, "cites_another_word")
claims("CG802", cites("It was [quick](cert:*#/run/speed).\n"), valid, "cites_no_value")
claims("CG802", cites("It took [0 bytes](cert:*#/run/elapsed_ns).\n"), valid, "cites_another_unit")
claims("CG802", cites("It [passed without a stop](cert:*).\n"), valid_stop, "cites_a_stop_as_a_pass")
claims("CG802", cites("It [did not pass](cert:*).\n"), valid, "cites_the_opposite")
claims("CG802", cites("It [passed in 1 ns](cert:*#overall&/run/elapsed_ns).\n"), valid, "cites_a_number_beside_a_word")
claims("CG802", cites("It [passed 500 of 500 cells](cert:*).\n"), valid, "counts_beside_a_word")
claims("CG802", cites("It [1 of 9](cert:*#/totals/planned).\n"), valid, "cites_one_number_of_two")
claims("CG802", cites("# It [stopped](cert:*)\n"), valid, "cites_in_a_heading")
claims("CG802", cites("````\n```\n````\nIt [stopped](cert:*).\n"), valid, "cites_after_a_fence")
claims(
    "CG802", says(lambda folder: f"It is an [error](cert:{KEY_OF_OTHERS}).\n"), valid_foreign, "cites_others_as_its_own"
)
claims("CG801", cites("It [stopped][x].\n\n[x]: cert:*\n"), valid, "cites_in_another_form")
claims("CG804", cites("## Claims\n\nOn an H100 it [passed](cert:*).\n"), valid, "cites_another_device")
claims("CG804", cites("## Claims\n\nWith q4_0/q4_0 it [passed](cert:*).\n"), valid, "cites_another_pair")
claims("CG803", cites("[2 of 2 cells](cert:*#cells) passed.\n"), valid, "counts_too_many")
claims("CG803", cites("[All seven rows](cert:*#cells) pass.\n"), valid, "all_of_too_few")
claims("CG803", cites("[Every cell](cert:*#cells) passed.\n"), valid, "counts_nothing")
claims("CG804", cites("## Qualification\n\nOn Metal q8_0/q8_0 passed.\n"), valid, "uncited_under_qualification")
claims("CG804", cites("# Claims\n\n| CUDA | f16 | f16 | 64/64 |\n"), valid, "uncited_row_of_a_table")
claims("CG805", says(lambda folder: f"It [stopped](cert:{old(folder)}).\n"), _superseded, "cites_a_superseded")
claims("CG805", cites("It [passed](cert:*).\n", fresh_in=[str(another_tree())]), valid_fresh, "cites_a_stale", "CG601")
claims("CG805", says(lambda folder: f"It [passed](cert:{old(folder)}).\n"), _withdrawn, "cites_a_withdrawn")
claims("CG805", says(lambda folder: f"It [passed](cert:{passed(folder)}).\n"), valid_contested, "cites_a_contested")
claims(
    "CG805",
    says(lambda folder: f"It took [{ELAPSED}](cert:{passed(folder)}#/run/elapsed_ns).\n"),
    valid_contested,
    "cites_a_number_of_a_contested",
)
claims("CG804", cites("On Metal q4_0/q4_0 passes.\n"), valid_foreign, "contradicts_a_certificate")
