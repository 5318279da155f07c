"""What a report says of a campaign's certificate: what was flipped, what was located, what else would have seen it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from harness.certifying.issue import issue
from harness.deriving.ids import certificate_id
from harness.model.certificate import Certificate, Status
from harness.model.values import CertificateState
from harness.reporting import html, markdown, terminal
from harness.reporting.building import Archive, certificate_view, claim_page, overview
from harness.reporting.site import render_all, render_site
from harness.reporting.view import CertificateView
from tests.fakes.campaign import Flown, flown
from tests.gating.campaign_fixtures import CAMPAIGN_KEY, a_missing_campaign, valid_campaign, valid_campaign_ledger
from tests.reporting.hostile import HOSTILE, poison


def certificate(body: dict[str, Any], state: CertificateState = CertificateState.CURRENT) -> Certificate:
    return Certificate(id=certificate_id(body), body=body, status=Status(state=state))


def view(of: Flown) -> CertificateView:
    one = certificate(of.body())
    return certificate_view(one, Archive([one]))


def renderings(made: CertificateView) -> list[str]:
    return [
        terminal.render_certificate(made, colour=False, width=160),
        markdown.render_certificate(made).decode(),
        html.render_certificate(made).decode(),
    ]


def test_all_renderings_say_what_was_flipped_and_what_each_way_of_looking_saw() -> None:
    made = view(flown(flips=240))

    assert made.title == "Single-bit faults"
    assert [badge.name for badge in made.badges] == ["overall"]
    assert "480 of 480 single-bit flips located before the next token was forwarded" in made.sentence
    assert "part digests after the prompt show 240, the logits there 240, 3 greedy tokens 0." in made.sentence
    sheet = next(part.sheet for part in made.sections if part.title == "What each way of looking saw")
    assert [tuple(row) for row in sheet.rows] == [
        ("bf16", "240", "240", "0", "240", "120", "120", "120", "0"),
        ("f32", "240", "240", "0", "240", "120", "120", "120", "0"),
    ]
    for text in renderings(made):
        for words in ("What was flipped", "Seed of places and bits", "By family of the part", "recurrent", "fake 1.0"):
            assert words in text
        assert "Matrix" not in text
        assert "Turns" not in text
        assert "unknown" not in text


def test_a_pass_may_be_claimed_per_element_type_and_no_further() -> None:
    made = view(flown())

    assert [claim.partition(" K and V: ")[2].partition(" by part")[0] for claim in made.claims[:2]] == [
        "4 of 4 flips located",
        "4 of 4 flips located",
    ]
    assert all("[cert:" in claim for claim in made.claims)
    assert any("image, logits, meta, sampler" in one for one in made.no_claims)
    assert any("No rate of faults" in one for one in made.no_claims)
    assert any("One prompt" in one for one in made.limits)
    assert made.command == "statecert faults --flips 4 --seed 1 --target fake"
    assert view(flown(kinds=("bf16",))).command.split()[-4:] == ["--type", "bf16", "--target", "fake"]


def test_a_miss_comes_first_with_its_place() -> None:
    made = view(a_missing_campaign())

    [problem] = made.problems
    assert (problem.cell, problem.state, problem.check) == ("bf16 flip 0", "fail", "located")
    assert problem.place.startswith("layer0.k: row ")
    assert problem.place.endswith("in the stored snapshot")
    assert "Nothing about 1 flip that was not located." in made.no_claims
    for text in renderings(made):
        assert "bf16 flip 0" in text
        assert "stop" in text


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (flown().with_line("reference", 1, logits="0" * 64), "The reference is unequal to itself"),
        (flown().with_line("clean", 1, logits="0" * 64), "A restore without a flip differs"),
        (flown().with_line("trust", mismatches=1), "A part hashed again gave another digest"),
    ],
)
def test_a_campaign_that_proves_nothing_claims_nothing(of: Flown, words: str) -> None:
    made = view(of)

    assert made.badges[0].state == "error"
    assert not made.claims
    assert made.problems[0].reason.startswith(words)
    assert any(one.startswith(f"Nothing at all: {words}") for one in made.no_claims)


def test_a_superseded_one_and_one_of_a_mutant_claim_nothing() -> None:
    old = certificate(flown().body(), CertificateState.SUPERSEDED)
    mutant = view(flown().with_header(target={"group": "harness.mutants"}))

    assert not certificate_view(old, Archive([old])).claims
    assert not mutant.claims


def test_a_refusal_is_told_beside_what_was_located() -> None:
    first = next(line for line in flown().lines if line["type"] == "flip")
    keep = {"type", "element_type", "number", "where", "part", "byte", "mask"}
    gone: dict[str, Any] = {name: None for name in first if name not in keep}
    refused = flown().with_line("flip", **gone, refused="damaged")

    made = view(refused)

    assert "7 of 8 single-bit flips located before the next token was forwarded and 1 refused by name" in made.sentence
    assert any("made the engine refuse it by name" in claim for claim in made.claims)


def test_a_campaign_that_is_not_known_is_shown_and_claims_nothing() -> None:
    one = certificate({**flown().body(), "campaign": "weather"})

    made = certificate_view(one, Archive([one]))

    assert not made.claims
    assert "nothing is known here of the campaign weather" in made.sentence


def test_the_overview_and_the_pages_show_it_beside_runs(tmp_path: Path) -> None:
    valid_campaign(tmp_path / "one")
    valid_campaign_ledger(tmp_path / "more")

    pages, site = render_all(tmp_path / "one"), render_site(tmp_path / "one")

    assert "8/8 flips located" in pages["README.md"].decode()
    assert f"{CAMPAIGN_KEY}.md" in pages
    assert "8/8 flips located" in site["index.html"].decode()
    assert b"SUPERSEDED" in render_all(tmp_path / "more")[f"{CAMPAIGN_KEY}.md"]
    one = certificate(flown().body())
    lines = terminal.render_overview(overview(Archive([one])), colour=False)
    assert "8/8 flips located" in lines
    assert "cells:" not in lines


@pytest.mark.parametrize("text", HOSTILE[:8])
def test_hostile_text_in_every_string_of_a_body_leaks_nowhere(text: str, tmp_path: Path) -> None:
    issue(flown().data(), tmp_path)
    body = poison(a_missing_campaign().body(), text)
    one = dataclasses.replace(certificate(flown().body()), body={**body, "kind": "campaign", "campaign": "faults"})
    archive = Archive([one])
    shown = certificate_view(one, archive)
    page = html.render_certificate(shown)
    lines = markdown.render_page(claim_page(text, archive))
    plain = terminal.render_certificate(shown, colour=False)

    assert b"<script" not in page + lines
    for told in (plain, page.decode(), lines.decode()):
        assert not [letter for letter in told if ord(letter) < 0x20 and letter != "\n"]
        assert not any(line.lstrip().startswith("::") for line in told.splitlines())
        assert "\u202e" not in told
