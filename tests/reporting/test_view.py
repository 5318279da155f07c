from __future__ import annotations

import dataclasses

import pytest
from hypothesis import example, given, settings

from harness.model.certificate import Certificate, Event
from harness.model.values import ReasonCode, RefusalCode, Sha256
from harness.reporting import html, markdown, terminal
from harness.reporting.building import Archive, certificate_view, claim_page, overview
from harness.reporting.reading import mapping
from harness.reporting.reasons import reason_sentence
from harness.reporting.view import CertificateView
from harness.wire.certificate_doc import require_body
from tests.reporting.bodies import KEY, PASSED, STOPPED, body, cell, certificate, exact, seen
from tests.reporting.hostile import HOSTILE, poison, texts


def view(one: Certificate, *others: Certificate, events: tuple[Event, ...] = ()) -> CertificateView:
    return certificate_view(one, Archive([one, *others], events=events, titles={"A16": "Snapshot at any position"}))


def test_the_bodies_of_these_tests_fit_their_schema() -> None:
    require_body(PASSED, "passed")
    require_body(STOPPED, "stopped")


def test_a_pass_may_be_claimed_with_its_certificate_and_its_limit_is_said() -> None:
    one = certificate(PASSED)

    made = view(one)

    cite = f"[cert:{one.id[:12]}]"
    assert made.title == "A16 Snapshot at any position"
    assert made.claims == [
        f"A16, torch 0.1.0 with model tiny on cpu-x86_64-avx512: all 3 declared cells passed {cite}.",
        f"3 comparisons found the state equal bit for bit, in every state part that the engine lists {cite}.",
        f"The same cells noticed 3/3 planted corruptions {cite}.",
    ]
    assert "Nothing about quality, latency and footprint: not evaluated." in made.no_claims
    assert "No speed-up, mean or percentile: each time was measured once." in made.no_claims
    assert made.sentence.endswith("Headline limit: prompts are shortened, all lengths divided by 16.")
    assert not made.problems


def test_the_time_of_a_run_beside_others_says_so() -> None:
    def taken(jobs: int) -> str:
        made = view(certificate(body(cell("end", "pass", [exact()]), environment=environment(jobs))))
        return next(fact.value for fact in made.environment if fact.name == "Run took")

    assert taken(1) == "1 min 0 s"
    assert taken(2) == "1 min 0 s; one of 2 jobs side by side, so times are not those of a quiet machine"


def test_a_record_without_options_says_how_a_run_of_its_target_begins() -> None:
    said = view(certificate(PASSED)).digests[0]

    assert said.name == "The run must begin with"
    assert said.value.startswith("torch tiny on cpu-x86_64-avx512; if it names another model, add the `--option")


def test_a_record_with_options_is_reproduced_by_one_command() -> None:
    subject = {**mapping(PASSED, "subject"), "options": {"preset": "tiny", "rebuild": "in tensors", "flash": True}}
    one = body(cell("end", "pass", [exact(), seen()]), subject=subject)
    require_body(one, "with options")

    made = view(certificate(one))

    assert made.command.endswith("--target torch --preset tiny --option flash=true --option 'rebuild=in tensors'")
    assert made.digests[0].value == "torch tiny on cpu-x86_64-avx512"


def test_a_count_of_copied_bytes_that_cannot_be_is_said_in_words() -> None:
    wrong = exact("fail", reason="restore_not_witnessed", detail={"witness": "copied", "how": "more_bytes_than_state"})

    place = view(certificate(body(cell("end", "fail", [wrong]), overall="stop"))).problems[0].place

    assert place == "Witness copied: more bytes were counted as copied back than the state has."


def environment(jobs: int) -> dict[str, object]:
    found = PASSED["environment"]
    assert isinstance(found, dict)
    return {**found, "facts": {**found["facts"], "jobs": jobs}}


def test_what_failed_comes_first_with_its_place() -> None:
    made = view(certificate(STOPPED))

    assert [problem.state for problem in made.problems] == ["fail", "inconclusive", "not_run"]
    worst = made.problems[0]
    assert (worst.cell, worst.check, worst.code) == ("A16[scale=16,at=end+1]", "warm", "EXACT.STATE@1")
    assert (worst.observed, worst.limit) == ("2 parts", "0 parts")
    assert "first at layer3.delta (recurrent, layer 3); row 0, element 9" in worst.place
    assert "one single bit is flipped" in worst.place
    assert worst.place.startswith("Right after a restore, import or rollback")
    assert worst.place.endswith("2 of 18 parts differ.")


def test_failed_and_open_cells_may_not_be_claimed() -> None:
    made = view(certificate(STOPPED))

    assert "Nothing about 1 cell (A16[scale=16,at=end+1]), which failed." in made.no_claims
    assert "Nothing about 1 cell (A16[scale=16,at=far]), which did not run." in made.no_claims
    assert made.claims[0].startswith("A16, torch 0.1.0 with model tiny on cpu-x86_64-avx512: 1 of 4 cell")


def test_nothing_may_be_claimed_from_what_is_not_current() -> None:
    old = certificate(
        PASSED, state="superseded", superseded_by="1" * 64, since="2026-02-03T00:00:00Z", reason_code="source_changed"
    )

    made = view(old)

    assert not made.claims
    assert made.state == "superseded"
    assert made.state_note == (
        "Superseded on 2026-02-03 by 111111111111 because the source changed. Do not cite it as present evidence."
    )


def test_a_note_of_the_ledger_stands_beside_a_stop_and_changes_nothing_of_it() -> None:
    stop = certificate(STOPPED)
    note = Event(
        id=Sha256("4" * 64),
        kind="annotate",
        target=stop.id,
        reason_code=ReasonCode.HARNESS_BUG,
        note="the option was | not known",
        created="2026-02-03T00:00:00Z",
    )
    told = "Noted on 2026-02-03: the harness had a fault (the option was | not known)."
    plain, noted = Archive([stop]), Archive([stop], events=[note])

    made = certificate_view(stop, noted)

    assert certificate_view(stop, plain).state_note == ""
    assert made.state_note == told
    assert (made.state, made.badges, made.problems) == ("current", *_unnoted(stop))
    assert overview(noted).rows[0].headline == f"{overview(plain).rows[0].headline} {told}"
    assert b"not known" in markdown.render_page(claim_page(KEY, noted))


def _unnoted(stop: Certificate) -> tuple[object, object]:
    made = certificate_view(stop, Archive([stop]))
    return made.badges, made.problems


@pytest.mark.parametrize("code", sorted(RefusalCode))
def test_every_refusal_is_a_sentence(code: RefusalCode) -> None:
    assert reason_sentence(code).startswith("The engine refused")


def test_nothing_may_be_claimed_from_a_mutant_or_an_unbelievable_run() -> None:
    engine = {"name": "torch", "version": "1", "adapter": "K01.x", "group": "harness.mutants"}
    mutant = {**PASSED, "subject": {**PASSED["subject"], "engine": engine}}  # type: ignore[dict-item]
    doubtful = body(cell("end", "pass", [exact(), seen()]), overall="error")
    doubtful["decision"] = {**doubtful["decision"], "reasons": ["trust_mismatch"]}  # type: ignore[dict-item]

    assert not view(certificate(mutant)).claims
    assert not view(certificate(doubtful)).claims
    assert "Nothing at all: A part hashed again gave another digest." in view(certificate(doubtful)).no_claims


def test_equality_without_parts_is_not_called_equality_of_state() -> None:
    bare = exact(detail={"phases": "end", "parts_compared": 0, "guarantee": "tokens_only", "witness": "none"})

    made = view(certificate(body(cell("end", "pass", [bare]), observability="tokens")))

    assert not any("bit for bit" in claim for claim in made.claims)
    assert any("without parts" in claim for claim in made.claims)
    assert "Headline limit: state parts were not seen; this rests on tokens alone." in made.sentence


def test_the_chain_says_what_changed_and_what_was_dropped() -> None:
    new, old = certificate(PASSED), certificate(STOPPED, state="superseded", reason_code="source_changed")
    event = Event(
        id=Sha256("e" * 64), kind="supersede", target=old.id, by=new.id, reason_code=ReasonCode.SOURCE_CHANGED,
        created="2026-02-03T00:00:00Z", differs=("subject.path_sets.engine",), dropped_cells=("A16[scale=16,at=far]",),
    )  # fmt: skip

    links = {link.id12: link for link in view(new, old, events=(event,)).history}

    assert links[new.id[:12]].here
    assert links[old.id[:12]].changed == "changed: subject.path_sets.engine"
    assert links[old.id[:12]].dropped == "cells dropped: A16[scale=16,at=far]"


def test_the_sentence_says_why_a_pass_has_fewer_cells_than_were_declared() -> None:
    cells = [cell("end", "pass", [exact(), seen()]), cell("far", "excluded", reason="in_suite_full")]

    made = view(certificate(body(*cells)))

    assert "1 of 2 declared cells passed, 1 excluded by a rule of the scenario; " in made.sentence
    assert "excluded" not in view(certificate(PASSED)).sentence


def test_what_differs_and_is_no_part_is_counted_beside_the_parts() -> None:
    detail = {"phase": "end", "part": "layer3.delta", "parts_differing": 2, "parts_compared": 18}
    failed = exact("fail", reason="parts_differ", observed=4, detail=detail)

    (found,) = view(certificate(body(cell("end", "fail", [failed]), overall="stop"))).problems

    assert found.observed == "4 differing"
    assert found.place.endswith("2 of 18 parts and 2 of logits, tokens and position differ.")


def test_turns_are_marked_as_single_measurements() -> None:
    made = view(certificate(PASSED))

    assert made.timings.rows[1] == ("16, end-1", "warm.a", "1,346", "1,024", "1.00 MiB", "800 ms", "41.0 ms")
    assert "one measurement" in made.timings.note
    assert [(bar.ppm, bar.restored) for bar in made.bars[:2]] == [(1_000_000, False), (44_956, True)]


def test_a_page_shows_the_current_certificate_and_lists_the_other() -> None:
    new, old = certificate(PASSED), certificate(STOPPED, state="superseded")

    page = claim_page(KEY, Archive([old, new]))

    assert [one.id for one in page.shown] == [new.id]
    assert {link.id12 for link in page.history} == {new.id[:12], old.id[:12]}


def test_the_overview_has_one_row_per_claim_key_worst_first() -> None:
    other = {**STOPPED, "claim_key": "B01/torch-tiny/cpu-x86_64-avx512"}

    made = overview(Archive([certificate(PASSED), certificate(other)]))

    assert [(row.claim_key[:3], row.overall) for row in made.rows] == [("B01", "stop"), ("A16", "pass")]
    assert made.rows[0].cells == "1/4 pass, 1 fail, 1 inconclusive, 1 not run"
    assert made.rows[0].headline == "warm: State parts differ from the reference. (2 more problems)"
    assert made.sentence == "2 claim keys: 1 stop, 1 pass. 2 certificates, 2 current."


def test_a_withdrawn_pass_is_counted_as_withdrawn_and_never_as_a_pass() -> None:
    taken_back = {**PASSED, "claim_key": "B01/torch-tiny/cpu-x86_64-avx512"}

    made = overview(Archive([certificate(PASSED), certificate(taken_back, state="withdrawn")]))

    assert made.sentence == "2 claim keys: 1 pass, 1 withdrawn. 2 certificates, 1 current."
    assert [(tally.state, tally.count) for tally in made.tallies] == [("withdrawn", 1), ("pass", 1)]


def test_a_row_without_a_conclusion_says_why() -> None:
    passed = [cell(at, "pass", [exact(), seen()]) for at in ("end-1", "end")]
    open_one = cell("far", "not_supported", reason="session_options")

    (row,) = overview(Archive([certificate(body(*passed, open_one, overall="inconclusive"))])).rows
    (whole,) = overview(Archive([certificate(PASSED)])).rows

    assert row.headline == "No conclusion about the whole: 1 of 3 cells not supported; all 2 that ran passed."
    assert whole.headline == "Prompts are shortened, all lengths divided by 16."


def test_an_empty_body_is_shown_as_unknown_and_never_as_good() -> None:
    empty = Certificate(id=Sha256("0" * 64), body={}, status=certificate(PASSED).status)

    made = view(empty)

    assert made.badges[0].state == "unknown"
    assert not made.claims
    for render in (terminal.render_certificate(made, colour=False), html.render_certificate(made).decode()):
        assert "unknown" in render


def rendered(text: str) -> tuple[str, bytes, bytes]:
    poisoned = poison(PASSED, text)
    one = dataclasses.replace(certificate(PASSED), body=poisoned)
    archive = Archive([one], titles={text: text})
    shown = certificate_view(one, archive)
    page = markdown.render_page(claim_page(text, archive))
    return terminal.render_certificate(shown, colour=False), html.render_certificate(shown), page


@example(HOSTILE[0])
@example(HOSTILE[1])
@example("::error::a\r::stop-commands::b\x1b[2J\u202e=cmd|' /C calc'!A0")
@given(texts)
@settings(max_examples=10, deadline=None)
def test_hostile_text_in_every_string_of_a_body_leaks_nowhere(text: str) -> None:
    for shown in rendered(text):
        plain = shown if isinstance(shown, str) else shown.decode()
        assert not [letter for letter in plain if ord(letter) < 0x20 and letter != "\n"]
        assert not any(line.lstrip().startswith("::") for line in plain.splitlines())
        assert "\u202e" not in plain
        assert "##[" not in plain
    _, page, lines = rendered(text)
    assert b"<script" not in page + lines
    assert page.count(b"<!--") == 0
    assert lines.count(b"<!--") == 1


def test_a_reason_that_stands_in_the_matrix_is_said_in_words() -> None:
    left = [cell("a", "not_supported", reason="no_control"), cell("b", "not_supported", reason="sampling")]

    made = view(certificate(body(cell("end", "pass", [exact(), seen()]), *left, overall="inconclusive")))

    facts = next(one.facts for one in made.sections if one.title == "Why cells were left out")
    assert [fact.name for fact in facts] == ["no_control", "sampling"]
    assert "needs the declared capability corrupt" in facts[0].value
    assert facts[1].value == "The target does not declare the capability sampling, which the cell needs."
    assert not [one for one in view(certificate(PASSED)).sections if one.title == "Why cells were left out"]
