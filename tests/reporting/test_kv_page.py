"""What the page of the matrix of element types says to somebody who decides: verdict, failed limits, forms side by side."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.deriving.ids import certificate_id
from harness.model.certificate import Certificate, Status
from harness.model.values import CertificateState
from harness.reporting import html, markdown, terminal
from harness.reporting.building import Archive, certificate_view
from harness.reporting.units import percent, ratio
from harness.reporting.view import CertificateView, Sheet
from tests.fakes.campaign import Flown
from tests.fakes.kv import measured, timed


def page(body: dict[str, Any]) -> CertificateView:
    one = Certificate(id=certificate_id(body), body=body, status=Status(state=CertificateState.CURRENT))
    return certificate_view(one, Archive([one]))


def sheet(made: CertificateView, title: str) -> Sheet:
    return next(part.sheet for part in made.sections if part.title == title)


def slower() -> Flown:
    """A coded form whose restore and import take far longer than those of the exact form."""
    return timed("lossy_lcg1", **{"import": 90_000})


@pytest.mark.parametrize(
    ("ppm", "words"),
    [
        (533_515, "0.534x"),
        (1_000_000, "1.00x"),
        (3_334_925, "3.33x"),
        (29_972_915, "30.0x"),
        (999_999, "0.999999x"),
        (1_000_400, "1.0004x"),
        (2_000_001, "2.000001x"),
        (2_002_905, "2.003x"),
        (4, "0.000004x"),
        (0, "0x"),
    ],
)
def test_a_ratio_has_three_digits_and_is_never_rounded_to_a_whole_one_that_it_is_not(ppm: int, words: str) -> None:
    assert ratio(ppm) == words


def test_a_share_in_millionths_is_shown_in_percent() -> None:
    assert [percent(ppm) for ppm in (1_000_000, 533_515, 20_000, 999_999, 0)] == [
        "100 %",
        "53.4 %",
        "2.00 %",
        "99.9999 %",
        "0 %",
    ]


def test_the_verdict_comes_first_and_then_which_limits_were_passed_over_by_how_many_cells() -> None:
    made = page(slower().body())

    assert made.badges[0].state == "stop"
    assert made.sentence.startswith("Stop: 1 of 2 cells of coded pages within all limits")
    assert "restore to first token in 1 cell" in made.sentence


def test_a_failed_limit_stands_once_with_the_cells_that_fail_it() -> None:
    body = slower().body()
    slow = next(one for one in body["results"] if one["outcome"] == "stop")
    body["results"] = [{**slow, "codec": "lcg1", "prefix": prefix} for prefix in range(100, 1700, 100)]
    body["results"][3] = {**body["results"][3], "reasons": ["import_slower"]}

    made = page(body)

    found = {problem.check: problem for problem in made.problems}
    assert sorted(found) == sorted(slow["reasons"])
    assert len(made.problems) == len(found)
    assert (found["restore_slower"].cell, found["restore_slower"].state) == ("15 of 16 cells", "fail")
    assert found["restore_slower"].place == "all but K f16, V f16, 400 tokens, wide, lcg1"
    assert found["restore_slower"].limit == "at most 1.00x of the exact form"
    assert found["restore_slower"].observed == ratio(slow["restore_ppm"])
    assert found["import_slower"].place == "every cell"


def test_the_exact_form_stands_above_its_coded_forms_with_times_sizes_and_ratios() -> None:
    body = slower().body()
    rows = [list(row) for row in sheet(page(body), "Cells: coded form beside exact form").rows]

    limit, exact, first, second = rows
    assert limit[0] == "limit"
    assert exact[:3] == ["K f16, V f16, 300 tokens, wide", "exact", "-"]
    assert [first[:2], second[:2]] == [["", "lcg1"], ["", "lcg2"]]
    assert first[2:4] == ["32", "stop"]
    assert exact[4] == "300 KiB"
    assert re.fullmatch(r"[\d.]+ KiB \([\d.]+ %\)", first[4])
    assert re.fullmatch(r"[\d.]+ µs \([\d.]+x, over\)", first[5])
    assert "over" not in " ".join(second)


def test_what_lies_inside_the_noise_is_called_open_and_not_over() -> None:
    rows = sheet(page(timed("exact_again", **{"import": 900}).body()), "Cells: coded form beside exact form").rows

    assert [row[6].rpartition(", ")[2] for row in rows[2:]] == ["open)", "open)"]
    assert not any("over" in value for row in rows for value in row)


def test_no_raw_nanosecond_or_millionth_is_left_on_the_page() -> None:
    made = page(slower().body())

    for text in (
        terminal.render_certificate(made, colour=False, width=160),
        markdown.render_certificate(made).decode(),
        html.render_certificate(made).decode(),
    ):
        for section in made.sections:
            assert section.title in text
    heads = [head.text for part in made.sections for head in part.sheet.heads]
    assert not [head for head in heads if head.endswith((", ns", ", ppm"))]


def test_no_table_of_the_page_has_more_than_nine_columns() -> None:
    assert max(len(part.sheet.heads) for part in page(measured().body()).sections) <= 9


def test_a_figure_that_is_missing_is_unknown_and_never_nothing() -> None:
    body = measured().body()
    del body["results"][0]["lossy_restore_ns"], body["results"][0]["restore_ppm"]

    rows = sheet(page(body), "Cells: coded form beside exact form").rows

    assert rows[2][5] == "unknown (unknown)"


def test_an_overlap_is_a_column_beside_what_was_measured_and_composed() -> None:
    body = measured().body()
    body["results"][1] |= {"lossy_overlap_ns": 1500, "lossy_composed_ns": 8500, "lossy_restore_ns": 9000}

    found = sheet(page(body), "Restore to first token: measured and composed")

    assert [head.text for head in found.heads][2:] == ["measured", "composed", "overlap"]
    assert [row[-1] for row in found.rows] == ["0 ns", "0 ns", "1.50 µs"]
    assert list(found.rows[2][2:]) == ["9.00 µs", "8.50 µs", "1.50 µs"]


def test_memory_of_host_and_device_stands_beside_its_limit() -> None:
    body = measured().body()
    body["results"][0] |= {"lossy_device_bytes": 3 << 20}

    found = sheet(page(body), "Memory of an import")

    assert [list(row[1:]) for row in found.rows] == [
        ["exact", "40.0 KiB", "0 B"],
        ["lcg1", "40.0 KiB", "3.00 MiB"],
        ["lcg2", "40.0 KiB", "0 B"],
    ]


def test_drift_of_entropy_and_of_the_largest_probability_is_told_in_thousandths_of_a_nat() -> None:
    body = measured().body()
    body["results"][1] |= {"entropy_mean_nano": 4_604_389, "top_most_nano": -1}

    found = sheet(page(body), "Drift of a continuation")

    assert found.rows[1][2] == "4.60"
    assert found.rows[1][5] == "unknown"


def test_a_step_that_never_differs_is_called_none() -> None:
    body = measured().body()
    body["results"][0] |= {"first_mismatch": -1, "free_first_mismatch": -1}

    rows = sheet(page(body), "Continuation: no statement about quality").rows

    assert [list(row[2:]) for row in rows] == [
        ["61 of 64 (95.3 %)", "88.3 %", "none", "none"],
        ["61 of 64 (95.3 %)", "88.3 %", "step 7", "step 7"],
    ]


def test_a_cell_in_error_is_an_error_on_its_page() -> None:
    body = measured().body()
    for row in body["results"]:
        row |= {"outcome": "error", "reasons": ["exact_differs"]}

    [problem] = page(body).problems

    assert (problem.state, problem.check, problem.place) == ("error", "exact_differs", "every cell")
