"""The soak and the kills: what follows from their records, and what an engine with a fault comes to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from harness import cli
from harness.campaigning.campaign import Campaign, require_equal
from harness.campaigning.kill import Asked as AskedKills
from harness.campaigning.kill import run_kills
from harness.campaigning.soak import Asked as AskedTurns
from harness.campaigning.soak import run_soak
from harness.certifying.issue import issue
from harness.deriving.ids import certificate_id
from harness.engines import registry
from harness.errors import ExitCode, InvalidDocumentError
from harness.gating.gate import gate
from harness.model.certificate import Certificate, Status
from harness.model.target import Target
from harness.model.values import CertificateState
from harness.pipeline import bench, rejudge
from harness.reporting import html, markdown, terminal
from harness.reporting.building import Archive, certificate_view
from tests.fakes.campaign import Flown, digest
from tests.fakes.soaked import killed, soaked
from tests.gating.count_fixtures import blind, changed_again, grown, lost, torn, unseen

pytestmark = pytest.mark.usefixtures("forked")
ELSEWHERE = digest("elsewhere")


def decision(of: Flown) -> tuple[str, list[str]]:
    found = of.body()["decision"]
    return found["overall"], found["reasons"]


def test_a_soak_that_keeps_its_memory_and_its_budget_passes() -> None:
    [row] = soaked().body()["results"]

    assert decision(soaked()) == ("pass", [])
    assert (row["count"], row["compared"], row["differing"], row["over_budget"]) == (20, 4, 0, 0)
    assert row["rss_growth_kib"] <= row["allowance_kib"] < row["leak_growth_kib"]


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (grown, ("stop", ["memory_grew"])),
        (lambda: soaked().with_line("turn", 4, held=[1001, 2]), ("stop", ["over_budget"])),
        (lambda: soaked().with_line("cold", 2, parts=ELSEWHERE), ("stop", ["differs"])),
        (blind, ("error", ["leak_not_seen"])),
        (lambda: soaked().with_line("turn", 19, evictions=0), ("error", ["budget_never_reached"])),
        (lambda: soaked().with_line("cold", 1, output=ELSEWHERE), ("error", ["not_repeatable"])),
        (lambda: soaked().with_line("trust", mismatches=1), ("error", ["digests_not_trusted"])),
    ],
)
def test_a_soak_says_what_went_wrong(of: Callable[[], Flown], expected: tuple[str, list[str]]) -> None:
    assert decision(of()) == expected


def test_a_breach_of_a_soak_is_listed_with_its_turn() -> None:
    assert soaked().with_line("turn", 4, held=[1001, 2]).body()["broken"] == [{"number": 4, "rule": "over_budget"}]


def test_kills_that_lose_and_tear_nothing_pass() -> None:
    [row] = killed().body()["results"]

    assert decision(killed()) == ("pass", [])
    assert (row["count"], row["inside"], row["reopened"], row["torn"], row["lost"]) == (6, 5, 6, 0, 0)
    assert row["restored_whole"] + row["restored_partly"] + row["restored_nothing"] == 6


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (torn, ("stop", ["torn"])),
        (lambda: changed_again(killed(), 2, output=ELSEWHERE), ("stop", ["torn"])),
        (lost, ("stop", ["lost"])),
        (lambda: killed().with_line("kill", 1, put_aside=1), ("stop", ["put_aside"])),
        (unseen, ("error", ["control_not_seen"])),
        (lambda: changed_again(killed(), 0, end=ELSEWHERE), ("error", ["not_repeatable"])),
    ],
)
def test_kills_say_what_went_wrong(of: Callable[[], Flown], expected: tuple[str, list[str]]) -> None:
    assert decision(of()) == expected


def test_a_folder_that_no_new_process_opens_is_a_stop() -> None:
    closed = dict.fromkeys(("again", "earlier", "unfinished", "put_aside"))

    assert decision(killed().with_line("kill", 5, reopened=False, **closed)) == ("stop", ["not_reopened"])


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (lambda: soaked().with_line("turn", 3, tokens=5), "not the one that the seed gives"),
        (lambda: soaked().with_line("turn", 3, cached=1000), "all of its prompt was restored"),
        (lambda: soaked().without(lambda line: line.get("number") == 19), "found 19 records"),
        (lambda: soaked().without(lambda line: line["type"] == "cold" and line["number"] == 10), "repeats"),
        (lambda: soaked().with_header(procedure={"warmup": 19}), "with a warm-up of 19"),
        (lambda: killed().with_line("kill", 2, delay_us=0), "not the prompt or the time"),
        (lambda: killed().with_line("kill", 2, first_cached=4), "not forwarded from its first token"),
        (lambda: killed().with_line("kill", 3, earlier=None), "against the plan"),
        (lambda: killed().without(lambda line: line.get("number") == 3), "found 5 kills"),
        (lambda: killed().without(lambda line: line["type"] == "pace"), "found 0 paces"),
        (lambda: killed().without(lambda line: line["type"] == "planted"), "found 0 controls"),
        (lambda: changed_again(killed(), 2, cached=3), "expected a multiple"),
    ],
)
def test_records_that_are_not_those_of_the_plan_are_refused(of: Callable[[], Flown], words: str) -> None:
    with pytest.raises(InvalidDocumentError, match=words):
        of().body()


@pytest.mark.parametrize("of", [soaked, killed])
def test_a_certificate_of_counts_is_judged_again_to_the_same_bytes(of: Callable[[], Flown], tmp_path: Path) -> None:
    issue(of().data(), tmp_path)

    assert [same for _, same in rejudge(tmp_path)] == [True]
    assert gate([tmp_path]).exit_code is ExitCode.GOOD


@pytest.mark.parametrize("of", [soaked, killed])
def test_a_certificate_of_counts_with_one_number_changed_ends_in_2(of: Callable[[], Flown], tmp_path: Path) -> None:
    issue(of().data(), tmp_path)
    [path] = [one for one in tmp_path.glob("*/*/*/*.json") if one.parts[-4] in ("soak", "kill")]
    path.write_bytes(path.read_bytes().replace(b'"count": 20', b'"count": 21').replace(b'"torn": 0', b'"torn": 1'))

    assert gate([tmp_path]).exit_code is ExitCode.INVALID


@pytest.mark.parametrize("of", [soaked, grown, killed, torn])
def test_every_rendering_tells_the_counts(of: Callable[[], Flown]) -> None:
    body = of().body()
    one = Certificate(id=certificate_id(body), body=body, status=Status(state=CertificateState.CURRENT))
    made = certificate_view(one, Archive([one]))

    assert bool(made.claims) == (body["decision"]["overall"] == "pass")
    assert bool(made.problems) == (body["decision"]["overall"] != "pass")
    for text in (
        terminal.render_certificate(made, colour=False, width=160),
        markdown.render_certificate(made).decode(),
        html.render_certificate(made).decode(),
    ):
        assert "What was counted" in text
        assert "unknown" not in text
        assert "<lambda>" not in text


def only_row(body: Mapping[str, object]) -> Mapping[str, Any]:
    rows = body["results"]
    assert isinstance(rows, list)
    [row] = rows
    assert isinstance(row, Mapping)
    return row


def on_mutant(name: str, folder: Path, conduct: Callable[[Any], Campaign]) -> Any:
    target = Target(name=name, adapter=name, device="cpu", options={"preset": "tiny"}, group=registry.MUTANTS)
    with bench(target, folder) as up:
        return conduct(up).body


def test_a_short_soak_of_the_torch_engine_passes_and_is_judged_again(tmp_path: Path) -> None:
    assert cli.main(["soak", "--turns", "20", "--json", "--out", str(tmp_path)]) == ExitCode.GOOD

    [path] = tmp_path.rglob("soak.jsonl")
    row = only_row(require_equal(path))
    assert row["evictions"] > 0
    assert cli.main(["soak", "--check", str(path), "--json"]) == ExitCode.GOOD
    summary = path.with_suffix(".json")
    summary.write_bytes(summary.read_bytes().replace(b'"differing": 0', b'"differing": 1'))
    assert cli.main(["soak", "--check", str(path)]) == ExitCode.INVALID


def test_a_soak_stops_an_engine_that_ignores_its_budget(tmp_path: Path) -> None:
    body = on_mutant("K15.budget-ignored", tmp_path, lambda up: run_soak(up, AskedTurns(turns=20, seed=1)))

    assert "over_budget" in body["decision"]["reasons"] or "budget_never_reached" in body["decision"]["reasons"]
    assert body["results"][0]["over_budget"] > 0


def test_a_soak_stops_an_engine_that_restores_wrongly(tmp_path: Path) -> None:
    body = on_mutant("K01.recurrent-kept", tmp_path, lambda up: run_soak(up, AskedTurns(turns=20, seed=1)))

    assert body["decision"] == {"overall": "stop", "reasons": ["differs"]}


def test_a_few_kills_of_the_torch_engine_pass(tmp_path: Path) -> None:
    assert cli.main(["kill", "--kills", "6", "--jobs", "1", "--json", "--out", str(tmp_path)]) == ExitCode.GOOD

    [path] = tmp_path.rglob("kill.jsonl")
    row = only_row(require_equal(path))
    assert (row["reopened"], row["torn"], row["controls_seen"]) == (6, 0, 3)


class Late(Timer):
    """A kill that comes when the publish is over, however long a busy machine takes for it."""

    def start(self) -> None:
        """Wait to be joined."""

    def join(self, timeout: float | None = None) -> None:
        self.function(*self.args)


def test_kills_stop_an_engine_that_restores_wrongly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.campaigning.kill.Timer", Late)
    body = on_mutant("K01.recurrent-kept", tmp_path, lambda up: run_kills(up, AskedKills(kills=2, seed=1, lanes=1)))

    assert body["results"][0]["torn"] > 0


def test_what_cannot_be_asked_for_is_a_usage_error(tmp_path: Path) -> None:
    for words in (["soak", "--turns", "19"], ["kill", "--kills", "0"], ["kill", "--kills", "2", "--jobs", "3"]):
        assert cli.main([*words, "--out", str(tmp_path)]) == ExitCode.USAGE
    assert cli.main(["soak", "--check", str(tmp_path / "nothing")]) == ExitCode.USAGE


def test_an_engine_without_a_store_has_neither_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parents[1] / "conform" / "adapters")])

    for name in ("soak", "kill"):
        assert cli.main([name, "--target", "tokens_only", "--out", str(tmp_path)]) == ExitCode.NOTHING
