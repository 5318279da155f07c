"""Every obligation has an engine that fails exactly it; the starter and the torch engine meet all."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harness import cli
from harness.engines.conformance import Finding, conform
from harness.engines.host import EngineHost, HostOptions
from harness.engines.obligations import OBLIGATIONS
from harness.engines.process import Limits
from harness.errors import ExitCode, NothingToDoError, UsageError
from harness.model.target import Target
from harness.model.values import Outcome

pytestmark = pytest.mark.usefixtures("forked")

UNDECLARED = {"archive"}
"""What the small engines of these tests do not declare; mutants of the torch engine fail it."""
WITHOUT_ROWS = ("recurrent",)
"""Architectures without rows of K and V that an archive could hold."""
ADAPTERS = Path(__file__).parent / "adapters"

BAD = [
    ("odd_name", "identity", "slug"),
    ("tells", "identity", "absolute path"),
    ("other_each_time", "identity", "another one"),
    ("low_grade", "identity", "make them fit"),
    ("meta_frozen", "metadata", "meta never changes"),
    ("unrepeatable", "repeatable", "not_repeatable"),
    ("parts_come_and_go", "inventory", "layer1.recurrent"),
    ("rewrites_rows", "rows", "byte 5 below a boundary"),
    ("grows_while_fixed", "fixed", "layer0.k has"),
    ("snapshot_touches", "undisturbed", "snapshot() changed part layer1.recurrent"),
    ("hidden_state", "complete", "neither in parts() nor in the snapshot"),
    ("late_unless_looked_at", "unwatched", "a prompt on a restored prefix that nobody looks at gives another part"),
    ("late_unless_awaited", "unwatched", "a prompt on a restored prefix that nobody looks at gives another part"),
    ("late_taking_back", "unwatched", "a turn after rollback() that nobody looks at gives another part"),
    ("no_bytes_counted", "counters", "restored_bytes is 0"),
    ("forwards_more", "counters", "count where the work is done"),
    ("store_stands_still", "counters", "captures did not rise"),
    ("store_miscounts", "counters", "stored_bytes says"),
    ("raises_key_error", "refusals", "raised KeyError"),
    ("writes_then_refuses", "refusals", "part layer1.recurrent changed"),
    ("other_word", "refusals", "the word for it is 'state'"),
    ("takes_any_option", "refusals", "an unknown engine option was not refused"),
    ("cannot_sample", "capabilities", "sampling is declared and was refused"),
    ("tells_other_tokens", "capabilities", "and the largest of logits() is at"),
    ("corrupts_nothing", "capabilities", "corrupt is declared"),
    ("reuses_abandoned", "capabilities", "abandoned is reused"),
    ("reset_keeps_state", "reset", "after reset() part layer1.recurrent"),
    ("close_keeps_captures", "reset", "captures pending"),
    ("image_forgets", "complete", "into another engine: part layer1.recurrent"),
    ("export_touches", "undisturbed", "export_image() changed part layer1.recurrent"),
    ("takes_any_image", "refusals", "an image that is none was not refused"),
    ("cancels_nothing", "capabilities", "decoding after cancel() was not refused"),
    ("answers_while_busy", "capabilities", "in the middle of a prefill was not refused"),
    ("busy_is_missing", "capabilities", "in the middle of a prefill was refused as 'missing'"),
    ("loses_when_asked", "capabilities", "after a prefill in which snapshot was asked for"),
    ("takes_too_few_back", "capabilities", "after rollback(3) part"),
    ("takes_back_too_many", "capabilities", "taking back more than there is"),
    ("never_takes_back", "capabilities", "refused as unsupported, even after 17 tokens"),
    ("refuses_and_takes_back", "capabilities", "after a rollback(3) that was refused position"),
]


@pytest.fixture(autouse=True)
def _adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(ADAPTERS)])


def conformed(
    folder: Path, adapter: str, *, call_s: float = 60, device: str = "best", **options: str | int
) -> Sequence[Finding]:
    target = Target(name=adapter, adapter=adapter, device=device, options={"preset": "tiny", **options})
    with EngineHost(target, folder, HostOptions(limits=Limits(call_s=call_s))) as host:
        return conform(host, OBLIGATIONS)


def failed(findings: Sequence[Finding]) -> dict[str, str]:
    return {one.obligation: one.reason for one in findings if one.outcome is Outcome.FAIL}


@pytest.mark.parametrize("adapter", ["starter", "portable", "busy", "forgets_soon", "numbers_of_numpy"])
def test_the_starter_meets_every_obligation(adapter: str, tmp_path: Path) -> None:
    findings = conformed(tmp_path, adapter)

    assert {one.obligation for one in findings if one.outcome is not Outcome.PASS} == UNDECLARED
    assert len(findings) == len(OBLIGATIONS)


@pytest.fixture(scope="module")
def torch_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineHost]:
    """One child for all architectures: torch is imported once."""
    with EngineHost(torch_target("hybrid"), tmp_path_factory.mktemp("torch")) as host:
        yield host


def torch_target(arch: str) -> Target:
    return Target(name=arch, adapter="torch", device="cpu", options={"preset": "tiny", "arch": arch})


@pytest.mark.parametrize("arch", ["hybrid", "attention", "recurrent", "sliding"])
def test_the_torch_engine_meets_every_obligation(arch: str, torch_host: EngineHost) -> None:
    torch_host.target = torch_target(arch)

    findings = conform(torch_host, OBLIGATIONS)

    rest = [(one.obligation, one.outcome) for one in findings if one.outcome is not Outcome.PASS]
    assert rest == ([("archive", Outcome.NOT_SUPPORTED)] if arch in WITHOUT_ROWS else [])


@pytest.mark.parametrize(("adapter", "obligation", "words"), BAD)
def test_a_bad_engine_fails_exactly_the_obligation_that_it_breaks(
    adapter: str, obligation: str, words: str, tmp_path: Path
) -> None:
    found = failed(conformed(tmp_path, adapter))

    assert list(found) == [obligation], found
    assert words in found[obligation]


def test_every_obligation_has_a_bad_engine() -> None:
    assert {one.id for one in OBLIGATIONS} == {obligation for _, obligation, _ in BAD} | UNDECLARED


@pytest.mark.parametrize(
    ("mutant", "words"),
    [
        ("K04.archive-last-layer-left", "is not what the codec gives"),
        ("K06.archive-tail-ignored", "an archive with a byte too many was not refused"),
        ("K05.archive-half-written", "was refused, and yet part layer0.k changed"),
    ],
)
def test_an_engine_that_decodes_archives_wrongly_fails_that_obligation(mutant: str, words: str, tmp_path: Path) -> None:
    target = Target(
        name=mutant,
        adapter=mutant,
        device="cpu",
        group="harness.mutants",
        options={"preset": "tiny", "arch": "attention"},
    )
    with EngineHost(target, tmp_path) as host:
        found = failed(conform(host, [one for one in OBLIGATIONS if one.id in ("metadata", "inventory", "archive")]))

    assert list(found) == ["archive"], found
    assert words in found["archive"]


@pytest.mark.parametrize(
    ("adapter", "words"), [("meta_last", "part 0"), ("wrong_size", "shape [5]"), ("name_twice", "twice")]
)
def test_parts_that_contradict_themselves_fail_the_metadata(adapter: str, words: str, tmp_path: Path) -> None:
    found = failed(conformed(tmp_path, adapter))

    assert words in found["metadata"]


def test_a_part_that_is_not_brought_back_is_named(tmp_path: Path) -> None:
    found = failed(conformed(tmp_path, "forgets_recurrent"))

    assert "layer1.recurrent is not as in a cold run at 384" in found["complete"]


def test_a_count_that_is_no_boundary_fails_what_rests_on_it_and_breaks_nothing(tmp_path: Path) -> None:
    found = failed(conformed(tmp_path, "counts_high"))

    assert set(found) == {"complete", "counters", "capabilities"}
    assert "no boundary of the schedule" in found["complete"]


@pytest.mark.parametrize(("adapter", "words"), [("crashes", "the engine crashed"), ("hangs", "the engine hung")])
def test_a_crash_or_a_hang_fails_what_it_happened_in_and_the_rest_goes_on(
    adapter: str, words: str, tmp_path: Path
) -> None:
    findings = conformed(tmp_path, adapter, call_s=1.0)

    assert set(failed(findings)) == {"undisturbed", "complete", "counters", "refusals", "capabilities"} - {"refusals"}
    assert all(words in reason for reason in failed(findings).values())
    assert {one.obligation for one in findings if one.outcome is Outcome.PASS} >= {"rows", "refusals", "reset"}


def test_an_engine_that_cannot_be_opened_is_told_once(tmp_path: Path) -> None:
    findings = conformed(tmp_path, "cannot_open")

    assert "ValueError: no such weights" in findings[0].reason
    assert [one.outcome for one in findings[1:]] == [Outcome.NOT_RUN] * (len(OBLIGATIONS) - 1)


def test_what_is_not_declared_does_not_apply(tmp_path: Path) -> None:
    findings = conformed(tmp_path, "tokens_only")

    assert failed(findings) == {}
    assert {one.obligation for one in findings if one.outcome is Outcome.NOT_SUPPORTED} == {
        "metadata", "inventory", "rows", "fixed", "undisturbed", "complete", "archive",
    }  # fmt: skip


def test_an_absent_device_is_nothing_to_do(tmp_path: Path) -> None:
    with pytest.raises(NothingToDoError, match="no device of this engine is there"):
        conformed(tmp_path, "absent")


def test_an_unknown_engine_or_device_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no engine 'nobody'"):
        conformed(tmp_path, "nobody")
    with pytest.raises(UsageError, match="no device 'moon'"):
        conformed(tmp_path, "starter", device="moon")


def test_options_that_the_engine_does_not_take_are_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not take these options"):
        conformed(tmp_path, "starter", arch="hybrid")


def test_the_command_prints_rows_and_ends_in_0(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["conform", "starter", "--json"]) == ExitCode.GOOD

    told = json.loads(capfd.readouterr().out)
    assert told["title"] == "starter: 13 of 14 obligations met, 1 not asked of this engine"
    assert [row["obligation"] for row in told["rows"]] == [one.id for one in OBLIGATIONS]


def test_the_command_ends_in_1_and_says_what_to_do(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["conform", "raises_key_error"]) == ExitCode.FINDINGS

    assert "raise RefusedError('missing')" in " ".join(capfd.readouterr().out.split())


def test_the_command_ends_in_4_for_an_unknown_engine() -> None:
    assert cli.main(["conform", "nobody"]) == ExitCode.USAGE
