"""The matrix of element types: what follows from its records, and what pages with a fault come to."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.adapters.mutants.kv_coder_faults import BitOrderSwapped
from harness.adapters.mutants.kv_page_mutant import PageMutant
from harness.adapters.mutants.kv_pages import PAGE_MUTANTS
from harness.adapters.torch_adapter import TorchAdapter
from harness.campaigning.kv import Asked, Pace, child, procedure_of
from harness.campaigning.kv_child import Measured
from harness.campaigning.kv_mutants import PAGE_MUTANTS as GROUP
from harness.campaigning.kv_mutants import caught, reasons_of, small_procedure
from harness.campaigning.kv_probes import Paths, probe_all
from harness.campaigning.memory import peak_kib, reset_peak
from harness.certifying.issue import issue
from harness.commands.kv import table
from harness.deriving.ids import certificate_id
from harness.deriving.kv_entries import NAMES, TYPES, derive_entries
from harness.deriving.kv_figures import composed, fewest_of, interval, lcg2_bytes, lower_bound_ppm, overlap, percentile
from harness.deriving.kv_plan import Group, is_slice, plan_groups
from harness.engines import host, registry
from harness.engines.process import started
from harness.errors import ExitCode, InvalidDocumentError, UsageError
from harness.gating.gate import gate
from harness.model.certificate import Certificate, Status
from harness.model.values import CertificateState
from harness.pipeline import rejudge
from harness.reporting import html, kv_sheets, markdown, terminal
from harness.reporting.building import Archive, certificate_view
from harness.reporting.units import duration
from tests.fakes.campaign import Flown, Line
from tests.fakes.kv import COMPONENT, PROCEDURE, TIMES, altered, measured, of_version, timed

pytestmark = pytest.mark.usefixtures("forked")


def cell(of: Flown, codec: str = "lcg2") -> tuple[str, list[str]]:
    [row] = [one for one in of.body()["results"] if one["codec"] == codec]
    return row["outcome"], row["reasons"]


def decision(of: Flown) -> tuple[str, list[str]]:
    found = of.body()["decision"]
    return found["overall"], found["reasons"]


# -- arithmetic --------------------------------------------------------------------------------------


def test_the_published_size_of_an_lcg2_archive_comes_out() -> None:
    """28 layers, 8 heads of 128, 19,000 tokens: 4,200 records, 578,493,616 bytes with their heads."""
    page = {**COMPONENT, "layers": 28, "tokens": 19_000, "k_channels": 1024, "v_channels": 1024, "exact_bytes": 0}

    assert lcg2_bytes([page]) == 578_493_616


def test_agreement_of_61_in_64_shows_no_more_than_0_883() -> None:
    assert lower_bound_ppm(64, 64) // 1000 == 954
    assert lower_bound_ppm(61, 64) // 1000 == 883
    assert lower_bound_ppm(0, 64) == 0


def test_the_interval_of_ten_leaves_out_one_at_each_end() -> None:
    assert interval(range(10)) == (1, 8)
    assert interval([5, 1]) == (1, 5)


def test_a_percentile_is_told_where_one_sample_lies_above_it_with_95_percent() -> None:
    """0.9 to the power of 29 is the first below 0.05; 0.95 to that of 59, 0.99 to that of 299."""
    assert [fewest_of(percent) for percent in (50, 90, 95, 99)] == [5, 29, 59, 299]
    assert [percentile(range(1, 31), percent) for percent in (50, 90, 95)] == [15, 27, 29]


def test_a_cell_tells_the_percentiles_that_its_samples_show_and_how_many_those_are() -> None:
    """Thirty decode steps, ten restores."""
    row = measured().body()["results"][1]

    assert (row["lossy_decode_samples"], row["lossy_restore_samples"]) == (30, 10)
    assert row["lossy_decode_p90_ns"] == row["exact_decode_p90_ns"] == 810
    assert not [name for name in row if "p95" in name or "restore_p9" in name]
    sheet = kv_sheets.percentiles({"results": [row]})
    assert sheet.rows[1][2:] == ["too few (10 < 29)", "too few (10 < 59)", "810 ns", "too few (30 < 59)"]


def test_an_older_procedure_tells_no_percentile_but_the_median() -> None:
    body = of_version(2).body()

    assert "median_only" in body["limits"]
    assert not [name for name in body["results"][0] if name.endswith("_samples")]


def test_a_slice_of_the_matrix_stands_beside_the_whole_one() -> None:
    whole = procedure_of(Asked())

    assert not is_slice(whole)
    assert not is_slice(procedure_of(Asked(scale=1, rounds=30)))
    for slice_ in (Asked(pairs=("f16",)), Asked(models=("wide",)), Asked(versions=(2,))):
        assert is_slice(procedure_of(slice_))
    assert measured().body()["claim_key"].startswith("kv_slice/")
    assert of_version(2).body()["claim_key"].startswith("kv/")  # before it was asked


def test_overlapping_spans_are_counted_once() -> None:
    spans = {"read": [0, 100], "import": [60, 150], "first_token": [170, 200]}

    assert composed(spans) == 180
    assert overlap(spans) == 40


def as_told_before(of: Flown, *, by: str) -> Flown:
    """Every round with the times that the first process, or the first round of its order, had: measured once."""
    first: dict[object, Any] = {}

    def tell(line: dict[str, Any]) -> None:
        other = line["number"] if by == "process" else (line["process"], tuple(line["order"]))
        line["arms"] = first.setdefault(other, line["arms"])

    return altered(of, lambda one: one["type"] == "kv_round", tell)


def _ends_early(line: dict[str, Any]) -> None:
    """The first token is there before its rows are."""
    spans = line["arms"]["lossy_lcg2"]["spans"]
    spans["first_token"] = [spans["import"][0], spans["import"][0] + 1]


def _stands(line: dict[str, Any]) -> None:
    """Every span of a round takes as long as in the first one."""
    for name, arm in line["arms"].items():
        at = arm["spans"]["encode"][0]
        for span, length in TIMES[name].items():
            arm["spans"][span] = [at, at + length]
            at += length


MOVED = ["restore_control_moved", "import_control_moved", "total_control_moved"]


def _is_odd(line: Line) -> bool:
    return bool(line["type"] == "kv_round" and line["number"] % 2 == 1)


def _dearer(line: dict[str, Any]) -> None:
    line["arms"]["lossy_lcg2"]["spans"]["encode"][1] += 6


# -- judging -----------------------------------------------------------------------------------------


def test_a_smaller_faster_and_cheaper_form_is_within_its_limits() -> None:
    body = measured().body()

    assert [(one["outcome"], one["reasons"], one["class"]) for one in body["results"]] == [("pass", [], "lossy")] * 2
    assert body["decision"] == {"overall": "pass", "reasons": []}
    assert body["quality"] == "not_evaluated"
    assert {one["types"]: one["cells"] for one in body["excluded"]} == {"f32": 10, "bf16": 6}


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (lambda: timed("lossy_lcg2", encode=9000), ("stop", ["total_dearer"])),
        (lambda: timed("lossy_lcg2", read=3000, encode=0, write=0), ("stop", ["restore_slower"])),
        (lambda: timed("lossy_lcg2", **{"import": 900}), ("stop", ["import_slower"])),
        (lambda: altered(timed("lossy_lcg2", encode=3497), _is_odd, _dearer), ("inconclusive", ["total_in_noise"])),
        (lambda: timed("lossy_lcg2", **{"import": 1}), ("inconclusive", ["import_implausible"])),
        (lambda: timed("exact_again", **{"import": 900}), ("inconclusive", MOVED)),
        (
            lambda: altered(
                measured(), lambda one: one.get("arm") == "lossy_lcg2", lambda one: one.update(host_kib=900)
            ),
            ("stop", ["more_memory"]),
        ),
    ],
)
def test_a_cell_says_why_it_is_not_within_its_limits(of: Callable[[], Flown], expected: tuple[str, list[str]]) -> None:
    assert cell(of()) == expected


def test_a_clock_that_always_says_the_same_shows_nothing() -> None:
    found = altered(measured(), lambda one: one["type"] == "kv_round", _stands)

    assert cell(found) == ("inconclusive", ["restore_constant", "import_constant", "total_constant"])


def test_planted_memory_that_is_not_seen_leaves_the_limit_unjudged() -> None:
    found = altered(measured(), lambda one: one.get("arm") == "planted", lambda one: one.update(host_kib=8))

    assert cell(found) == ("inconclusive", ["memory_not_seen"])


def test_planted_memory_is_seen_here() -> None:
    reset_peak()
    before = peak_kib()
    bytearray(b"\1") * (8 << 20)

    assert peak_kib() - before >= 7 << 10


def test_a_smaller_payload_with_a_dearer_total_is_a_stop() -> None:
    found = timed("lossy_lcg2", encode=9000)
    [row] = [one for one in found.body()["results"] if one["codec"] == "lcg2"]

    assert row["size_ppm"] < 1_000_000
    assert decision(found) == ("stop", ["total_dearer"])


def test_processes_that_disagree_are_unstable() -> None:
    def slower(line: dict[str, Any]) -> None:
        """Its first token takes longer, and everything after that begins later."""
        line["arms"]["lossy_lcg2"]["spans"]["first_token"][1] += 3000
        for arm in line["order"][line["order"].index("lossy_lcg2") + 1 :]:
            spans = line["arms"][arm]["spans"]
            line["arms"][arm]["spans"] = {name: [begin + 3000, end + 3000] for name, (begin, end) in spans.items()}

    found = altered(measured(), lambda one: one["type"] == "kv_round" and one["process"] == 1, slower)

    assert cell(found) == ("inconclusive", ["restore_unstable"])


def test_an_exact_form_that_comes_back_otherwise_is_an_error() -> None:
    found = altered(measured(), lambda one: one["type"] == "kv_page", lambda one: one.update(back="0" * 64))

    assert cell(found) == ("error", ["exact_differs"])


def test_lcg2_bytes_that_are_not_those_of_the_formula_are_an_error() -> None:
    def longer(line: dict[str, Any]) -> None:
        line["archives"]["lossy_lcg2"]["bytes"] += 1

    found = altered(measured(), lambda one: one["type"] == "kv_page", longer)

    assert cell(found) == ("error", ["size_formula"])
    assert decision(found) == ("error", ["cell_in_error"])


def test_a_probe_that_did_not_hold_stops_and_one_that_was_not_tried_is_an_error() -> None:
    def taken(line: dict[str, Any]) -> None:
        line["observed"] = "taken"

    wrong = altered(measured(), lambda one: one.get("name") == "lossy for exact", taken)
    missing = measured().without(lambda line: line.get("name") == "lossy for exact")

    assert decision(wrong) == ("stop", ["entry_failed"])
    assert decision(missing) == ("error", ["entry_missing"])


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_procedure_is_held_to_what_it_asked_for(version: int) -> None:
    assert decision(of_version(version)) == ("pass", [])
    assert "restored" not in of_version(version).body()["results"][0]


@pytest.mark.parametrize("probe", ["import without the oracle", "flipped bits of a head", "flipped bits of an entry"])
def test_what_is_asked_since_a_later_version_is_missed_in_it(probe: str) -> None:
    newer = measured().without(lambda line: line.get("name") == probe)

    assert decision(newer) == ("error", ["entry_missing"])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_version_that_was_dropped_or_lowered_is_seen_by_the_records(version: int) -> None:
    """Whoever leaves the version out asks for less, and the records still hold what was asked for."""
    found = measured() if version == 3 else of_version(2)
    told = {name: one for name, one in PROCEDURE.items() if name not in ("version", "restore")}
    found.lines[0]["procedure"] = (
        {**told, "version": 2} if version == 3 else told if version == 2 else {**told, "restore": "compiled"}
    )

    with pytest.raises(InvalidDocumentError, match=r"version [12]"):
        found.body()


def test_a_path_that_another_one_took_the_place_of_is_an_error() -> None:
    def elsewhere(line: dict[str, Any]) -> None:
        line["archives"]["lossy_lcg2"]["restored"] = "compiled_and_torch"

    found = altered(measured(), lambda one: one["type"] == "kv_page", elsewhere)

    assert cell(found) == ("error", ["path_differs"])
    assert cell(found, "lcg1") == ("pass", [])


def test_an_oracle_inside_a_restore_is_found() -> None:
    whole = measured()
    first = next(line for line in whole.lines if line["type"] == "kv_round")
    begin = first["arms"]["exact"]["spans"]["read"][0]
    inside = {"oracle": [begin, begin + 3]}
    of_first = lambda one: one["type"] == "kv_oracle" and one["process"] == 0  # noqa: E731
    found = altered(whole, of_first, lambda one: one.update(spans=inside))

    [row] = [one for one in found.body()["entries"] if one["entry"] == "H09"]
    assert row["failed"] == ["process 0"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda found: found.without(lambda line: line.get("number") == 3), "found no kv_round"),
        (lambda found: found.with_line("kv_round", 2, order=["exact"]), "another order"),
        (lambda found: found.with_line("kv_page", 1, raw=5), "differs between processes"),
        (lambda found: as_told_before(found, by="process"), "overlaps"),
        (lambda found: as_told_before(found, by="number"), "overlaps"),
        (lambda found: altered(found, _is_odd, _ends_early), "first_token ends before import"),
    ],
)
def test_records_that_were_not_planned_are_refused(change: Callable[[Flown], Flown], words: str) -> None:
    with pytest.raises(InvalidDocumentError, match=words):
        change(measured()).body()


def test_a_label_that_the_page_contradicts_is_refused() -> None:
    other = [{**COMPONENT, "k_element": "f32"}]
    found = altered(measured(), lambda one: one["type"] == "kv_page", lambda one: one.update(components=other))

    with pytest.raises(InvalidDocumentError, match="holds"):
        found.body()


@pytest.mark.parametrize(
    "asked", [Asked(processes=1), Asked(rounds=2), Asked(pairs=("bf16",)), Asked(models=("none",)), Asked(scale=0)]
)
def test_a_matrix_that_could_say_nothing_is_not_begun(asked: Asked) -> None:
    with pytest.raises(UsageError):
        procedure_of(asked)


def test_the_table_for_people_has_units_and_that_for_programs_what_is_recorded() -> None:
    body = timed("lossy_lcg1", **{"import": 90_000}).body()

    [shown, _], [told, _] = table(body, exact=False).rows, table(body).rows

    assert str(shown["restore_ppm"]).endswith("x")
    assert str(shown["size_ppm"]).endswith(" %")
    assert shown["lossy_host_kib"] == "40.0 KiB"
    assert told["restore_ppm"] == body["results"][0]["restore_ppm"]
    assert "restore_slower" in str(shown["why"])


# -- certificate -------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", [measured, lambda: timed("lossy_lcg2", encode=9000)])
def test_its_certificate_is_judged_again_and_told_in_every_rendering(of: Callable[[], Flown], tmp_path: Path) -> None:
    issue(of().data(), tmp_path)

    assert [same for _, same in rejudge(tmp_path)] == [True]
    assert gate([tmp_path]).exit_code is ExitCode.GOOD
    body = of().body()
    one = Certificate(id=certificate_id(body), body=body, status=Status(state=CertificateState.CURRENT))
    made = certificate_view(one, Archive([one]))
    for text in (
        terminal.render_certificate(made, colour=False, width=160),
        markdown.render_certificate(made).decode(),
        html.render_certificate(made).decode(),
    ):
        assert "lossy" in text
        assert "H04" in text
        for head in ("bins", "composed", "overlap", "device", "entropy, most", "Path of the decoder"):
            assert head in text


def _early(line: dict[str, Any]) -> None:
    """The import begins while the read goes on: 100 ns of both lie in the other."""
    spans = line["arms"]["lossy_lcg2"]["spans"]
    spans["import"][0] = spans["read"][1] - 100


def test_what_overlapped_is_a_column_beside_the_restore_that_was_composed() -> None:
    body = altered(measured(), lambda one: one["type"] == "kv_round", _early).body()
    [lcg1, lcg2] = body["results"]
    sheet = kv_sheets.restores(body)
    at = {head.text: column for column, head in enumerate(sheet.heads)}
    shown = {row[1]: (row[at["composed"]], row[at["overlap"]]) for row in sheet.rows}

    assert (lcg1["lossy_overlap_ns"], lcg2["lossy_overlap_ns"]) == (0, 100)
    assert shown["lcg2"] == (duration(lcg2["lossy_composed_ns"]), "100 ns")
    assert shown["lcg1"][1] == shown["exact"][1] == "0 ns"


@pytest.mark.parametrize(("bins", "shown"), [([32], "32"), ([16, 32], "16+32")])
def test_the_bins_that_ran_stand_beside_each_coded_form(bins: list[int], shown: str) -> None:
    def ran(line: dict[str, Any]) -> None:
        for one in line["archives"].values():
            one["bins"] = bins

    found = altered(measured(), lambda one: one["type"] == "kv_page", ran)
    sheet = kv_sheets.cells(found.body())
    column = [head.text for head in sheet.heads].index("bins")

    assert [row[column] for row in sheet.rows] == ["", "-", shown, shown]
    [told, _] = table(found.body(), exact=False).rows
    assert told["bins"] == shown


@pytest.mark.parametrize(
    ("old", "new"), [(b'"outcome": "pass"', b'"outcome": "stop"'), (b'"agreed": 61', b'"agreed": 64')]
)
def test_its_certificate_with_one_word_changed_ends_in_2(old: bytes, new: bytes, tmp_path: Path) -> None:
    issue(measured().data(), tmp_path)
    [path] = list(tmp_path.glob("kv_slice/*/*/*.json"))
    path.write_bytes(path.read_bytes().replace(old, new, 1))

    assert gate([tmp_path]).exit_code is ExitCode.INVALID


def test_what_is_left_is_told_by_the_tokens_that_are_not_measured_yet() -> None:
    """A page of 100 tokens and one of 900, in two processes: 1,000 of 2,000 tokens took a minute and a half."""
    groups = [Group(model="wide", prefix=prefix, k="f16", v="f16") for prefix in (100, 900)]
    pace = Pace(groups, 2, {})
    pace.note({"type": "kv_probe"}, 5.0)
    pace.note({"type": "kv_probe"}, 10.0)
    assert pace.left() == ""
    pace.note({"type": "kv_page", "group": groups[0].id}, 19.0)
    assert (pace.pages, pace.left()) == (1, "about 3 min left, ")
    pace.note({"type": "kv_page", "group": groups[1].id}, 90.0)
    assert pace.left() == "about 80 s left, "

    gone_on = Pace(groups, 2, {0: [one.id for one in groups]})
    gone_on.note({"type": "kv_round"}, 10.0)
    gone_on.note({"type": "kv_page", "group": groups[1].id}, 100.0)
    assert (gone_on.pages, gone_on.left()) == (3, "about 10 s left, ")
    gone_on.note({"type": "kv_page", "group": groups[0].id}, 110.0)
    assert gone_on.left() == ""


def test_an_engine_without_pages_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "fakes"))
    monkeypatch.setattr(host, "started", started)  # it does not need what the others are forked of

    assert cli.main(["kv", "--target", "toy", "--out", str(tmp_path)]) == ExitCode.NOTHING
    assert "toy does not offer its K/V rows as pages" in capsys.readouterr().err


# -- engines -----------------------------------------------------------------------------------------


def failed(adapter: TorchAdapter, entry: str) -> list[str]:
    found = list(probe_all(adapter.open_pages({"device": "cpu"}), Paths("compiled", "compiled"), entry))
    apart = {"process": 0, "inside": 0, "ns": 1}
    [row] = [one for one in derive_entries(found, [], [apart]) if one["entry"] == entry]
    assert row["outcome"] != "error"
    names = row["failed"]
    assert isinstance(names, list)
    return names


@pytest.mark.parametrize("entry", [*sorted(NAMES), "H09"])
def test_the_clean_engine_holds_every_entry(entry: str) -> None:
    assert failed(TorchAdapter(), entry) == []


@pytest.mark.parametrize("mutant", [one for one in PAGE_MUTANTS if not one.caught_by.model], ids=lambda m: m.mutant_id)
def test_pages_with_a_fault_are_stopped_at_the_probe_that_they_name(mutant: type[PageMutant]) -> None:
    assert mutant.caught_by.probe in failed(mutant(), mutant.caught_by.entry)


def test_pages_that_nobody_can_decode_are_tried_to_the_end() -> None:
    """Bits that lie the other way round give symbols that no bins have: a refusal in every probe that decodes."""
    assert failed(BitOrderSwapped(), "H09") == ["import without the oracle"]
    assert "rows f16/f16" in failed(BitOrderSwapped(), "H02")


def small(adapter: TorchAdapter, model: str = "wide") -> list[str]:
    """Reasons of the one cell of the smallest matrix, both of whose processes are this one."""
    procedure = small_procedure(model)
    job = {"options": {"device": "cpu"}, "procedure": procedure, "probes": False, "done": []}
    return reasons_of(procedure, [line for process in (0, 1) for line in told(adapter, {**job, "process": process})])


@pytest.mark.parametrize("mutant", [one for one in PAGE_MUTANTS if one.caught_by.model], ids=lambda m: m.mutant_id)
def test_a_matrix_of_pages_with_a_fault_gives_the_reason_that_they_name(mutant: type[PageMutant]) -> None:
    assert mutant.caught_by.probe in small(mutant(), mutant.caught_by.model)


def test_the_command_tells_whether_a_mutant_of_the_matrix_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def here(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        adapter = registry.load(job["adapter"], job["group"])
        assert isinstance(adapter, TorchAdapter)
        return iter(told(adapter, job))

    monkeypatch.setattr("harness.campaigning.kv.child", here)
    found = caught("K10.exact-form-narrowed", "cpu")

    assert (found["entry"], found["probe"], found["stopped"]) == ("H06", "exact_differs", "yes")


def test_a_matrix_of_the_clean_engine_is_exact_and_of_the_size_of_the_formula() -> None:
    assert not {"exact_differs", "size_formula", "too_few_pairs"} & {*small(TorchAdapter())}


def test_every_page_mutant_is_an_entry_point_and_every_entry_has_one() -> None:
    assert set(registry.names(GROUP)) == {one.mutant_id for one in PAGE_MUTANTS}
    assert {one.caught_by.entry for one in PAGE_MUTANTS} == {f"H{n:02}" for n in range(1, 11)} | {"G11"}


def told(adapter: TorchAdapter, job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a process tells that does a job, done here; what the engine does is measured, probes are as they should be."""
    lines: list[dict[str, Any]] = []
    pages, procedure, process = adapter.open_pages(job["options"]), job["procedure"], job["process"]
    if job["probes"]:
        lines += [dict(line) for line in measured().lines if line["type"] == "kv_probe"]
    for group in [one for one in plan_groups(procedure) if one.id not in job["done"]]:
        Measured(pages, procedure, process, group, lambda line: lines.append(dict(line))).run()
    now = time.monotonic_ns()
    return [*lines, {"type": "kv_oracle", "process": process, "spans": {"oracle": [now, now + 1]}}]


def test_a_fresh_process_tells_every_record_of_its_plan() -> None:
    job = {"adapter": "torch", "group": registry.ENGINES, "options": {"device": "cpu"}}
    found = list(child({**job, "procedure": small_procedure("wide"), "process": 1, "probes": False, "done": []}))

    assert [one["type"] for one in found] == ["kv_round"] * 5 + ["kv_memory"] * 4 + ["kv_page", "kv_oracle"]
    assert {one["process"] for one in found} == {1}


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """Exit code and records of the smallest matrix of two types on the torch engine."""
    folder = tmp_path_factory.mktemp("matrix")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.campaigning.kv_child.DECODES", 1)
        patch.setattr("harness.campaigning.kv.child", lambda job: iter(told(TorchAdapter(), job)))
        words = ["--scale", "1000", "--type", "f16", "--type", "q8_0", "--model", "wide", "--steps", "2"]
        code = cli.main(["kv", *words, "--path", "compiled", "--json", "--out", str(folder)])
    [path] = folder.rglob("kv.jsonl")
    return code, path


def body_and_lines(path: Path) -> tuple[Any, list[dict[str, Any]]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return json.loads(path.with_name("kv.json").read_text()), lines


def test_a_small_matrix_of_the_torch_engine_has_a_row_for_every_cell_and_a_reason_for_every_other_one(
    matrix: tuple[int, Path],
) -> None:
    body, _ = body_and_lines(matrix[1])
    kinds, cells = ("f16", "q8_0"), body["results"]

    assert [one["name"] for one in cells] == [
        f"k={k},v={v},model=wide,prefix={prefix},codec=lcg{version}"
        for prefix in (4, 19)
        for k in kinds
        for v in kinds
        for version in (1, 2)
    ]
    assert len(cells) + sum(one["cells"] for one in body["excluded"]) == 8 * 8 * 2 * 2
    assert {one["types"] for one in body["excluded"]} == {*TYPES} - {*kinds}
    assert {(one["entry"], one["outcome"]) for one in body["entries"]} == {
        (entry, "pass") for entry in (*NAMES, "H08", "H09")
    }
    assert {(one["class"], one["bins"][0]) for one in cells} == {("lossy", 32)}
    assert not [one for one in cells if one["outcome"] == "error"]


def test_nothing_but_the_restore_lies_between_the_read_and_the_first_token(matrix: tuple[int, Path]) -> None:
    _, lines = body_and_lines(matrix[1])
    rounds = [arm["spans"] for line in lines if line["type"] == "kv_round" for arm in line["arms"].values()]
    between = sorted(spans["import"][0] - spans["read"][1] for spans in rounds)

    assert between[len(between) // 2] < 50_000  # two readings of a clock; removing a folder takes longer


def test_bytes_of_a_small_matrix_are_those_of_its_pages(matrix: tuple[int, Path]) -> None:
    body, lines = body_and_lines(matrix[1])
    pages = {line["group"]: line for line in lines if line["type"] == "kv_page"}
    for cell in body["results"]:
        page = pages[cell["name"].rpartition(",codec=")[0]]
        assert len(page["components"]) == 2  # the base cache and the sliding one
        wide = {"f16": 2.0, "q8_0": 34 / 32}
        made = sum(
            one["layers"] * one["tokens"] * (one["k_channels"] * wide[cell["k"]] + one["v_channels"] * wide[cell["v"]])
            + one["exact_bytes"]
            for one in page["components"]
        )
        assert cell["exact_bytes"] == page["raw"] == made
        assert cell["lossy_bytes"] == page["archives"][f"lossy_{cell['codec']}"]["bytes"]
        assert cell["formula_bytes"] == (cell["lossy_bytes"] if cell["codec"] == "lcg2" else 0)
        assert ("larger" in cell["reasons"]) == (cell["lossy_bytes"] >= cell["exact_bytes"])
        assert page["back"] == page["state"] != page["archives"][f"lossy_{cell['codec']}"]["state"]


def test_limits_of_a_small_matrix_are_judged_from_its_raw_samples(matrix: tuple[int, Path]) -> None:
    body, lines = body_and_lines(matrix[1])
    spans_of: dict[str, Callable[[dict[str, list[int]]], int]] = {
        "restore": lambda s: s["first_token"][1] - s["read"][0],
        "import": lambda s: s["import"][1] - s["import"][0],
        "total": lambda s: sum(s[one][1] - s[one][0] for one in ("encode", "write", "read", "import")),
    }
    words = {"restore": "restore_slower", "import": "import_slower", "total": "total_dearer"}
    for cell in body["results"]:
        group, _, codec = cell["name"].rpartition(",codec=")
        rounds = [line["arms"] for line in lines if line["type"] == "kv_round" and line["group"] == group]
        assert cell["pairs"] == len(rounds) == 10
        for name, of in spans_of.items():
            ratios = sorted(
                of(arms[f"lossy_{codec}"]["spans"]) * 1_000_000 // of(arms["exact"]["spans"]) for arms in rounds
            )
            limit = body["procedure"]["limits"][f"{name}_ppm"]
            assert (cell[f"{name}_low_ppm"], cell[f"{name}_high_ppm"]) == (ratios[1], ratios[8])
            about = [reason for reason in cell["reasons"] if reason.startswith(f"{name}_")]
            assert len(about) == (0 if ratios[8] <= limit and not about else 1)
            assert (words[name] not in about) or ratios[1] > limit


def test_a_small_matrix_ends_as_its_decision_says_and_is_judged_again(matrix: tuple[int, Path], tmp_path: Path) -> None:
    code, path = matrix
    body, _ = body_and_lines(path)
    copy = tmp_path / "kv.jsonl"
    for name in ("kv.jsonl", "kv.json"):
        (tmp_path / name).write_bytes(path.with_name(name).read_bytes())

    assert code == {"pass": ExitCode.GOOD, "stop": ExitCode.FINDINGS}.get(body["decision"]["overall"], ExitCode.BROKEN)
    assert cli.main(["kv", "--check", str(copy), "--json"]) == code
    copy.write_bytes(copy.read_bytes().replace(b'"agreed":', b'"agreed": ', 1))
    assert cli.main(["kv", "--check", str(copy)]) == ExitCode.INVALID
