"""A report shows nearness as what it is, beside equality and never within it."""

from __future__ import annotations

from typing import Any

from harness.model.certificate import Certificate
from harness.reporting import markdown
from harness.reporting.building import Archive, certificate_view
from tests.gating.fixtures import a_near_run, a_run, good_body
from tests.reporting.bodies import certificate


def page(body: dict[str, Any]) -> str:
    one: Certificate = certificate(body)
    return markdown.render_certificate(certificate_view(one, Archive([one], events=(), titles={}))).decode()


def test_nearness_has_a_count_of_its_own_and_none_of_equality() -> None:
    text = page(good_body(a_near_run()))

    assert "1/1, not counted as equal" in text
    assert "| Comparisons equal | 0/0 |" in text


def test_the_distance_that_uses_most_of_its_limit_is_shown_with_it() -> None:
    assert "7 of 100 ulp" in page(good_body(a_near_run()))


def test_what_may_be_said_calls_it_no_equality() -> None:
    text = page(good_body(a_near_run()))

    assert "stayed within the scenario's limits; this is no equality" in text
    assert "bit for bit" not in text


def test_a_report_without_nearness_says_nothing_of_it() -> None:
    assert "olerance" not in page(good_body(a_run()))
