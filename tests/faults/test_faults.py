"""A campaign locates every flip, says so when it does not, and its summary follows from its file alone."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.campaigning.campaign import require_equal
from harness.deriving import campaign as campaigns
from harness.deriving.campaign import derive_campaign
from harness.errors import ExitCode, InvalidDocumentError
from harness.model.campaign import CampaignRecords
from harness.wire.campaign_doc import read_campaign, read_summary

pytestmark = pytest.mark.usefixtures("forked")

ADAPTERS = Path(__file__).parents[1] / "conform" / "adapters"
FLIPS = 24


@pytest.fixture(autouse=True)
def _adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(ADAPTERS)])


def campaign(out: Path, *words: str) -> ExitCode:
    return ExitCode(cli.main(["faults", "--out", str(out), "--json", *words]))


def on_toy(out: Path, engine: str = "starter", flips: int = FLIPS) -> ExitCode:
    return campaign(out, "--target", engine, "--type", "native", "--flips", str(flips))


def files(out: Path) -> tuple[Path, dict[str, Any]]:
    [path] = out.rglob("faults.jsonl")
    return path, dict(read_summary(path.with_suffix(".json").read_bytes(), "summary"))


@pytest.fixture(scope="module")
def torch_campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("torch")
    assert campaign(out, "--type", "bf16", "--device", "cpu", "--flips", str(FLIPS)) == ExitCode.GOOD
    return files(out)[0]


@pytest.fixture(scope="module")
def toy_campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("toy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(ADAPTERS)])
        assert on_toy(out) == ExitCode.GOOD
    return files(out)[0]


def test_the_torch_engine_has_every_flip_located(torch_campaign: Path) -> None:
    body = read_summary(torch_campaign.with_suffix(".json").read_bytes(), "summary")

    [row] = listed(body, "results")
    assert (row["element_type"], row["flips"], row["located"], row["restored"]) == ("bf16", FLIPS, FLIPS, FLIPS)
    assert row["tokens"] < row["located"]
    assert (row["clean_differing"], row["repeatable"]) == (0, True)
    assert {one["family"] for one in listed(body, "by_family")} == {"kv", "index", "recurrent", "conv"}
    assert body["decision"] == {"overall": "pass", "reasons": []}


def test_the_record_shows_what_other_ways_of_looking_would_have_seen(toy_campaign: Path) -> None:
    body = derive_campaign(read(toy_campaign))

    [row] = listed(body, "results")
    assert row["located"] == FLIPS
    assert 0 < row["logits"] < FLIPS
    assert sum(one["flips"] for one in listed(body, "by_bits")) == FLIPS


def test_a_summary_is_what_follows_from_the_file(toy_campaign: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert require_equal(toy_campaign) == read_summary(toy_campaign.with_suffix(".json").read_bytes(), "summary")
    assert cli.main(["faults", "--check", str(toy_campaign)]) == ExitCode.GOOD
    assert "single-bit faults: pass" in capfd.readouterr().out


def test_an_edited_summary_is_seen(toy_campaign: Path, tmp_path: Path) -> None:
    path = copied(toy_campaign, tmp_path)
    summary = path.with_suffix(".json")
    summary.write_bytes(summary.read_bytes().replace(b'"located": 24', b'"located": 23'))

    assert cli.main(["faults", "--check", str(path)]) == ExitCode.INVALID


def test_a_file_that_was_cut_off_or_changed_is_refused(toy_campaign: Path) -> None:
    data = toy_campaign.read_bytes()
    lines = data.splitlines(keepends=True)
    for changed, words in (
        (b"".join(lines[:-1]), "cut off"),
        (data[:-1], "cut off"),
        (b"".join([*lines[:5], *lines[6:]]), "end record counts"),
        (data.replace(b'"where":"live"', b'"where":"store"', 1), "digests other bytes"),
        (b"", "cut off"),
    ):
        with pytest.raises(InvalidDocumentError, match=words):
            read_campaign(changed, "campaign")


def edited(record: dict[str, Any]) -> None:
    record["changed"] = {**record["changed"], "layer0.k": "0" * 64}


def moved(record: dict[str, Any]) -> None:
    record["byte"] += 1


def swapped(record: dict[str, Any]) -> None:
    record["number"] += 1


@pytest.mark.parametrize(
    ("change", "words"),
    [(edited, "do not give the root"), (moved, "not the one that the seed gives"), (swapped, "found flip")],
)
def test_records_that_contradict_each_other_are_refused(change: Any, words: str, toy_campaign: Path) -> None:
    lines = [dict(record) for record in records(toy_campaign)]
    change(next(record for record in lines if record["type"] == "flip"))

    with pytest.raises(InvalidDocumentError, match=words):
        derive_campaign(replace(read(toy_campaign), records=lines))


def test_flips_that_are_left_out_are_seen(toy_campaign: Path) -> None:
    lines = [record for record in records(toy_campaign) if record.get("number") != FLIPS - 1]

    with pytest.raises(InvalidDocumentError, match=f"found {FLIPS - 1} flips of {FLIPS}"):
        derive_campaign(replace(read(toy_campaign), records=lines))


def test_another_place_than_the_flipped_one_does_not_count_as_located(toy_campaign: Path) -> None:
    lines: list[dict[str, Any]] = [dict(record) for record in records(toy_campaign)]
    first = next(record for record in lines if record["type"] == "flip")
    first["located"] = {**first["located"], "element": first["located"]["element"] + 1}

    body = derive_campaign(replace(read(toy_campaign), records=lines))

    [missed] = listed(body, "missed")
    assert (missed["element_type"], missed["number"], missed["part"]) == ("native", 0, first["part"])
    assert body["decision"] == {"overall": "stop", "reasons": ["not_located"]}


def test_a_campaign_that_nobody_knows_has_no_body(toy_campaign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigns, "CAMPAIGNS", {})

    with pytest.raises(InvalidDocumentError, match="found campaign 'faults'"):
        derive_campaign(read(toy_campaign))


def test_a_header_that_asks_for_more_than_the_file_holds_is_refused(toy_campaign: Path) -> None:
    found = read(toy_campaign)
    procedure = found.header["procedure"]
    assert isinstance(procedure, Mapping)
    for change in ({"flips": 1_000_000}, {"left_out": ["kv", *procedure["left_out"]]}):
        header = {**found.header, "procedure": {**procedure, **change}}
        with pytest.raises(InvalidDocumentError, match="or other families left out"):
            derive_campaign(replace(found, records=[header, *found.records[1:]]))


def test_flips_that_do_not_take_place_end_in_1(tmp_path: Path) -> None:
    assert on_toy(tmp_path, "corrupts_nothing", 4) == ExitCode.FINDINGS

    body = files(tmp_path)[1]
    assert [one["number"] for one in body["missed"]] == [2, 3]


def test_an_engine_that_does_not_repeat_itself_proves_nothing(tmp_path: Path) -> None:
    assert on_toy(tmp_path, "unrepeatable", 2) == ExitCode.BROKEN

    assert files(tmp_path)[1]["decision"]["reasons"] == ["not_repeatable", "differs_without_a_flip"]


def test_a_refusal_of_a_changed_snapshot_counts_as_stopped(tmp_path: Path) -> None:
    assert on_toy(tmp_path, "seals", 4) == ExitCode.GOOD

    [row] = files(tmp_path)[1]["results"]
    assert (row["flips"], row["located"], row["refused"]) == (4, 2, 2)


def test_an_engine_that_cannot_corrupt_has_no_campaign(tmp_path: Path) -> None:
    assert on_toy(tmp_path, "tokens_only", 4) == ExitCode.NOTHING


@pytest.mark.parametrize("words", [("--flips", "0"), ("--type", "f32")])
def test_what_cannot_be_asked_for_is_a_usage_error(words: tuple[str, str], tmp_path: Path) -> None:
    assert campaign(tmp_path, "--target", "starter", "--type", "native", *words) == ExitCode.USAGE


def test_the_file_holds_no_path_and_no_floats(toy_campaign: Path) -> None:
    text = toy_campaign.read_text()

    assert str(toy_campaign.parent) not in text
    for line in text.splitlines():
        json.loads(line, parse_float=pytest.fail)


def test_the_end_record_digests_the_lines_before_it(toy_campaign: Path) -> None:
    data = toy_campaign.read_bytes()
    end = records(toy_campaign)[-1]
    before = data[: data.rstrip(b"\n").rindex(b"\n") + 1]

    assert end["sha256"] == hashlib.sha256(before).hexdigest()


def read(path: Path) -> CampaignRecords:
    return read_campaign(path.read_bytes(), path.name)


def records(path: Path) -> Sequence[Mapping[str, object]]:
    return read(path).records


def listed(body: Mapping[str, object], name: str) -> list[dict[str, Any]]:
    value = body[name]
    assert isinstance(value, list)
    return value


def copied(path: Path, folder: Path) -> Path:
    for one in (path, path.with_suffix(".json")):
        shutil.copy(one, folder)
    return folder / path.name
