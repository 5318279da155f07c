"""What a report says of a record that others published: as recorded, as judged, and what its reader should know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.model.certificate import Certificate
from harness.reporting.reading import integer, items, mapping, text, texts
from harness.reporting.reasons import reason_sentence
from harness.reporting.told import Told
from harness.reporting.units import counted, number
from harness.reporting.view import Fact, Head, Problem, Section, Sheet

FOREIGN: Final = "foreign"
_MOST: Final = 60
_BAD: Final = ("fail", "error")
_WORDS: Final[Mapping[str, str]] = {
    "composed_time": "The time to the first token was added up of read, decode, import and one decode step.",
    "percentile_is_the_first_step": "The 99th percentile is the very step that was counted as first token.",
    "percentile_is_one_step": "A 99th percentile of so few steps is one step, the slowest.",
    "implausible_gain": "Decode steps became much faster by a codec that does not touch them.",
    "not_smaller": "The coded form is not smaller than the native one.",
    "one_sample": "One sample carries the time.",
    "verdict_flipped": "The verdict flipped between repeats.",
    "control_moved": "The native arm itself moved between repeats.",
    "bound_below_minimum": "The ratio meets the minimum, its lower bound does not.",
    "reasons_missing": "It failed, and no reason is given.",
    "run_told_twice": "Two runs have the same times to the nanosecond: one run was told twice.",
    "does_not_recompute": "A number does not follow from the others.",
    "passed_against_its_thresholds": "It passed against thresholds of its own.",
    "one_name_two_digests": "One name of a model stands for two files.",
    "no_model_digest": "The file of the model is not named by a digest.",
    "several_commits": "Cells of several commits lie in one record, and it does not say which ran at which.",
    "decision_in_one_word": "The decision is a sentence in one word, and no word of a closed list.",
    "exclusion_in_prose": "That a pair cannot run stands in a note only.",
    "nothing_recorded": "The record judges nothing.",
    "round_trip_left_out": "The bytes of the state did not come back equal, and the verdict does not count that.",
    "round_trip_constant": "The round trip is reported, and is true by construction for this kind of payload.",
    "output_not_compared": "The output was not compared.",
    "amplification_of_other_terms": "The amplification is not written bytes per ideal byte.",
    "one_token_compared": "One token was compared of each run, and nothing of the state.",
    "text_compared": "Text was compared, and nothing of the state.",
    "wire_narrowed": "Activations cross the wire in a narrower type than they were computed in.",
    "digest_not_compared": "A digest of the state is given, and no other one that it was compared with.",
    "two_clocks_added": "The time to the first token was added up of times of two machines.",
    "provisional_families": "Some of its families are provisional: no oracle was asked for.",
    "mismatch_filed_as_untested": "A run that did not match is filed under this word as well.",
}
"""Codes of findings in words."""


def foreign(certificate: Certificate) -> Told:
    """Return what is said of a foreign record."""
    body = certificate.body
    recorded, judged = mapping(body, "totals", "recorded"), mapping(body, "totals", "judged")
    engine = f"{text(body, 'subject', 'engine', 'name')} {text(body, 'subject', 'engine', 'version')}"
    about = f"{engine} with model {text(body, 'subject', 'model', 'name')} on {text(body, 'environment', 'hw_class')}"
    mixed = integer(recorded, "one_pass_one_fail")
    also = f" (of these {number(mixed)} one pass, one fail)" if mixed else ""
    said = (
        f"{about}, published by others and measured by nobody here. As recorded: {number(integer(recorded, 'pass'))} "
        f"pass, {number(integer(recorded, 'stop'))} stop{also}. As judged by the rules here: "
        f"{number(integer(judged, 'pass'))} pass, {number(integer(judged, 'inconclusive'))} inconclusive, "
        f"{number(integer(judged, 'fail'))} fail, {number(integer(judged, 'error'))} error."
    )
    found = items(body, "findings")
    problems = [*_failing(body), *(_problem(one) for one in found[:_MOST])]
    more = len(found) - _MOST
    return Told(
        title="Foreign record",
        sentence=said,
        no_claims=[
            "Nothing about any engine: nothing of this was measured by the harness.",
            "No verdict about a time: pairs, their order and their processes are not published.",
        ],
        problems=problems,
        problems_note=f"{number(more)} more findings; the certificate has all." if more > 0 else "",
        sections=[
            Section(title="The record", facts=_facts(body)),
            Section(title="As recorded, as judged", sheet=_sheet(body)),
            Section(title="Pairs that are not there", sheet=_missing(body)),
            Section(title="Numbers made again", sheet=_numbers(body)),
        ],
        command=f"statecert import FILE --engine {text(body, 'subject', 'engine', 'name')}",
        count=f"{number(integer(recorded, 'pass'))} pass, {number(integer(recorded, 'stop'))} stop recorded",
        headline=f"{counted(len(found), 'finding')}; {number(integer(judged, 'pass'))} pass by the rules here.",
    )


def rows_of(body: Mapping[str, object]) -> list[list[str]]:
    """Return one row of text for each thing that a record judges: name, recorded, judged, why, samples, recomputed."""
    return [
        [
            text(row, "name"),
            text(row, "recorded").replace("_", " "),
            text(row, "judged"),
            ", ".join(_reasons(row)),
            number(integer(row, "count")),
            _recomputed(row),
        ]
        for row in items(body, "results")
    ]


def _reasons(row: object) -> list[str]:
    said = [text(check, "reason", default="") for check in items(row, "checks")]
    return [reason.replace("_", " ") for reason in said if reason]


def _recomputed(row: object) -> str:
    made = items(row, "recomputed")
    return f"{sum(text(one, 'holds') == 'yes' for one in made)}/{len(made)}"


def _sheet(body: Mapping[str, object]) -> Sheet:
    heads = ("what", "recorded", "judged", "why", "samples", "numbers that hold")
    return Sheet(heads=[Head(text=one, right=one == "samples") for one in heads], rows=rows_of(body))


def _missing(body: Mapping[str, object]) -> Sheet:
    matrix = mapping(body, "matrix")
    rows = [
        [text(one, "name"), "excluded", f"note {text(one, 'note')}: {text(one, 'reason')}"]
        for one in items(matrix, "excluded")
    ]
    rows += [[name, "absent", "nothing is said of it"] for name in texts(matrix, "absent")]
    return Sheet(heads=[Head(text=one) for one in ("pair", "state", "why")], rows=rows)


def _numbers(body: Mapping[str, object]) -> Sheet:
    heads = [Head(text=one) for one in ("what", "number", "recorded", "made again", "holds")]
    rows = [
        [text(row, "name"), text(one, "name"), text(one, "recorded"), text(one, "computed"), text(one, "holds")]
        for row in items(body, "results")
        for one in items(row, "recomputed")
    ]
    return Sheet(heads=heads, rows=rows)


def _facts(body: Mapping[str, object]) -> list[Fact]:
    record = mapping(body, "record")
    commits = ", ".join(f"{text(one, 'name')} {text(one, 'commit')[:12]}" for one in items(record, "commits"))
    facts = [
        Fact(name="Digest", value=text(record, "sha256"), code=True),
        Fact(name="Shape", value=text(record, "shape").replace("_", " ")),
        Fact(name="Its own decision", value=text(body, "decision", "recorded")),
        Fact(name="Commits that it names", value=commits or "none"),
        Fact(name="Model", value=f"{text(body, 'subject', 'identity', 'model_id')}"),
        Fact(name="Digest of the model", value=text(body, "subject", "model", "digest"), code=True),
    ]
    named = [text(record, name, default="") for name in ("repository", "path")]
    where = "/".join(name for name in named if name)
    facts += [Fact(name="Published at", value=where)] if where else []
    return facts + (
        [Fact(name="Licence", value=text(record, "license"))] if text(record, "license", default="") else []
    )


def _failing(body: Mapping[str, object]) -> list[Problem]:
    """The rows that the decision rests on, each with the questions that it failed."""
    return [
        Problem(
            cell=text(row, "name"),
            state=text(row, "judged"),
            check=text(check, "id"),
            code="",
            observed=text(check, "observed", default=""),
            limit=text(check, "limit", default=""),
            reason=_WORDS.get(text(check, "reason", default="")) or reason_sentence(text(check, "reason", default="")),
            place="",
        )
        for row in items(body, "results")
        for check in items(row, "checks")
        if text(row, "judged") in _BAD and text(check, "outcome") in _BAD
    ]


def _problem(one: object) -> Problem:
    code = text(one, "code")
    detail = mapping(one, "detail")
    place = ", ".join(f"{name.replace('_', ' ')} {text(detail, name)}" for name in detail)
    return Problem(
        cell=text(one, "where"),
        state="inconclusive",
        check=code,
        code="",
        observed="",
        limit="",
        reason=_WORDS.get(code, code.replace("_", " ")),
        place=place,
    )
