"""The matrix: what counts as a stop, and what follows from the records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import cli
from harness.campaigning.campaign import require_equal
from harness.certifying.issue import issue
from harness.deriving.ids import certificate_id
from harness.deriving.matrix import ALL, CLAIMS, KIND, pairs_of
from harness.errors import ExitCode, InvalidDocumentError
from harness.gating.gate import gate
from harness.model.certificate import Certificate, Status
from harness.model.values import CertificateState
from harness.pipeline import rejudge
from harness.reporting import html, markdown, terminal
from harness.reporting.building import Archive, certificate_view
from tests.fakes.campaign import Flown
from tests.fakes.crossed import check, crossed, pair
from tests.gating.count_fixtures import survived, unsound

pytestmark = pytest.mark.usefixtures("forked")

EXACT = check("exact", part="layer0.k", family="kv", reason="parts_differ")


def named(of: Flown) -> str:
    return str(of.body()["mutants"][0]["named"])


def with_first(*failed: dict[str, object], crash: str = "") -> Flown:
    return crossed().with_line("pair", cells=pair("K01.one", "A01", *failed, crash=crash)["cells"])


def test_a_matrix_says_which_scenario_stops_which() -> None:
    body = crossed().body()

    assert body["decision"] == {"overall": "pass", "reasons": []}
    assert body["mutants"][0]["stopped_by"] == ["A01"]
    assert body["mutants"][0]["not_by"] == ["A02"]
    assert [(row["name"], row["count"], row["stops"]) for row in body["results"]] == [("K01", 2, 1), ("K02", 1, 1)]


@pytest.mark.parametrize(
    ("of", "word"),
    [
        (lambda: with_first(EXACT), "stopped"),
        (with_first, "survived"),
        (survived, "survived"),
        (lambda: with_first(EXACT, crash="crash in warm.a"), "crash"),
        (lambda: with_first({**EXACT, "id": "other"}), "survived"),
        (lambda: with_first({**EXACT, "reason": "refused"}), "refused"),
        (lambda: with_first({**EXACT, "code": "CTRL.SEEN@1"}), "survived"),
        (lambda: with_first({**EXACT, "outcome": "error"}), "survived"),
    ],
)
def test_only_the_named_check_at_its_place_is_a_stop_at_home(of: Callable[[], Flown], word: str) -> None:
    assert named(of()) == word
    overall = of().body()["decision"]["overall"]
    assert overall == ("pass" if word == "stopped" else "stop")


def test_a_stop_where_the_clean_engine_fails_proves_nothing() -> None:
    assert unsound().body()["decision"] == {"overall": "error", "reasons": ["clean_engine_fails"]}


def test_the_reach_says_which_scenarios_a_mutant_meets() -> None:
    mutants = [{"id": "K01.one", "scenario": "A01"}]
    scenarios = [
        {"id": name, "faults": faults}
        for name, faults in (("A01", []), ("A02", ["K01.one"]), ("A03", ["K01.other"]), ("A04", []))
    ]

    met = {reach: [scenario for _, scenario in pairs_of(mutants, scenarios, reach)] for reach in (CLAIMS, KIND, ALL)}

    assert met == {CLAIMS: ["A01", "A02"], KIND: ["A01", "A02", "A03"], ALL: ["A01", "A02", "A03", "A04"]}


@pytest.mark.parametrize("kind", ["mutant", "pair"])
def test_a_mutant_or_a_pair_that_is_left_out_is_seen(kind: str) -> None:
    lines = crossed().lines
    last = max(number for number, line in enumerate(lines) if line["type"] == kind)

    with pytest.raises(InvalidDocumentError, match="found 1 mutants of 2" if kind == "mutant" else "found 2 pairs"):
        Flown(lines=[line for number, line in enumerate(lines) if number != last]).body()


def test_a_certificate_of_a_matrix_is_judged_again_and_gated(tmp_path: Path) -> None:
    issue(crossed().data(), tmp_path)

    assert [same for _, same in rejudge(tmp_path)] == [True]
    assert gate([tmp_path]).exit_code is ExitCode.GOOD
    [path] = tmp_path.glob("matrix/*/*/*.json")
    path.write_bytes(path.read_bytes().replace(b'"stops": 1', b'"stops": 2'))
    assert gate([tmp_path]).exit_code is ExitCode.INVALID


@pytest.mark.parametrize("of", [crossed, survived])
def test_every_rendering_tells_which_stops_which(of: Callable[[], Flown]) -> None:
    body = of().body()
    one = Certificate(id=certificate_id(body), body=body, status=Status(state=CertificateState.CURRENT))
    made = certificate_view(one, Archive([one]))

    assert bool(made.claims) != bool(made.problems)
    for text in (
        terminal.render_certificate(made, colour=False, width=160),
        markdown.render_certificate(made).decode(),
        html.render_certificate(made).decode(),
    ):
        assert "K01.one" in text
        assert "A02" in text


SHOWN = ("K10.recurrent-narrowed", "K10.keys-narrowed")


@pytest.fixture(scope="module")
def run_of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a matrix of two mutants of the torch engine; made once, read by tests."""
    out = tmp_path_factory.mktemp("matrix")
    assert cli.main(["matrix", *SHOWN, "--jobs", "1", "--json", "--out", str(out)]) == ExitCode.GOOD
    [path] = out.rglob("matrix.jsonl")
    return path


def test_mutants_of_the_torch_engine_are_crossed_with_their_scenarios(run_of_two: Path) -> None:
    assert require_equal(run_of_two)["decision"] == {"overall": "pass", "reasons": []}
    assert cli.main(["matrix", "--check", str(run_of_two), "--json"]) == ExitCode.GOOD


def test_what_a_certified_matrix_shows_is_not_run_again_but_for_one_of_its_kind(
    run_of_two: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    *lines, _ = map(json.loads, run_of_two.read_text().splitlines())
    issue(Flown(lines=lines).with_header(source={"tree": "clean"}).data(), tmp_path / "certificates")
    capsys.readouterr()

    words = ["mutants", *SHOWN, "K04.miss-reason-blank", "--quiet", "--jobs", "1", "--out", str(tmp_path / "again")]
    assert cli.main([*words, "--beyond", str(tmp_path / "certificates")]) == ExitCode.GOOD

    said = capsys.readouterr().out
    assert [line.split() for line in said.splitlines()[1:3]] == [
        ["1", "no", "matrix", "lists", "it"],
        ["1", "one", "of", "its", "kind"],
    ]
    assert said.splitlines()[-1] == "2 mutants, 2 stopped, 0 not stopped"


def test_an_unknown_mutant_is_nothing_to_do(tmp_path: Path) -> None:
    assert cli.main(["matrix", "K99", "--out", str(tmp_path)]) == ExitCode.NOTHING
