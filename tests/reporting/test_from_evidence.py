"""Views of bodies that were derived from evidence, not written by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.deriving.ids import certificate_id
from harness.model.certificate import Certificate, Status
from harness.model.values import CertificateState, CrashKind, Phase
from harness.reporting import html, markdown, terminal
from harness.reporting.building import Archive, certificate_view, claim_page
from harness.reporting.view import CertificateView
from tests.fakes.evidence import Recorded, recorded

GOOD = recorded()


def view(of: Recorded) -> CertificateView:
    body = of.body()
    one = Certificate(id=certificate_id(body), body=body, status=Status(state=CertificateState.CURRENT))
    return certificate_view(one, Archive([one]))


def test_a_perfect_engine_passes_everywhere_and_nothing_is_unknown() -> None:
    made = view(GOOD)

    assert made.badges[0].state == "pass"
    assert not made.problems
    facts = {fact.name: fact.value for fact in made.exactness}
    passed, _, asked = facts["Comparisons equal"].partition("/")
    assert passed == asked != "0"
    assert "unknown" not in terminal.render_certificate(made, colour=False)


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        (
            lambda good: good.with_part("warm", "again", Phase.RESTORED, "layer0.recurrent"),
            "fail",
            "State parts differ from the reference.",
        ),
        (lambda good: good.with_crash("warm", "again", CrashKind.HANG), "error", "no answer within the limit"),
        (lambda good: good.with_turn("warm", "again", cached=0), "fail", "counters do not bear out"),
    ],
)
def test_what_went_wrong_is_the_first_problem(change: Callable[[Recorded], Recorded], state: str, words: str) -> None:
    made = view(change(GOOD))

    assert made.badges[0].state in ("stop", "error")
    assert made.problems[0].state == state or state in {problem.state for problem in made.problems}
    assert any(words in problem.reason for problem in made.problems)
    assert not made.claims


def test_the_place_of_a_lost_part_is_named_in_all_three_renderings() -> None:
    made = view(GOOD.with_part("warm", "again", Phase.RESTORED, "layer0.recurrent"))
    body_page = markdown.render_certificate(made).decode()

    assert "first at layer0.recurrent" in body_page
    assert "first at layer0.recurrent" in html.render_certificate(made).decode()
    assert "layer0.recurrent" in terminal.render_certificate(made, colour=False)


def test_an_interrupted_run_says_so_for_each_cell() -> None:
    good = GOOD
    made = view(Recorded(header=good.header, observations=(), interrupted=True))

    assert {problem.state for problem in made.problems} == {"not_run"}
    assert made.problems[0].reason == "The run was broken off before this was done."


def test_a_page_made_twice_has_the_same_bytes() -> None:
    body = GOOD.body()
    one = Certificate(id=certificate_id(body), body=body, status=Status(state=CertificateState.CURRENT))
    key = str(body["claim_key"])

    first, second = (markdown.render_page(claim_page(key, Archive([one]))) for _ in range(2))

    assert first == second
