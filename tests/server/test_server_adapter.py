"""Servers behind the seam: what they count is believed only as far as it adds up, and each way to be wrong has a name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.adapters.server_adapter import ServerAdapter, ServerEngine
from harness.adapters.server_dialects import DIALECTS
from harness.adapters.server_origin import installed
from harness.adapters.server_session import ServerSession, tokens_of
from harness.deriving.judge import judge
from harness.engines.host import EngineHost, HostOptions
from harness.engines.process import Limits
from harness.errors import EngineError, EngineHungError, ProtocolError, RefusedError
from harness.model.target import Target
from harness.model.values import Capability, Outcome
from tests.fakes.toy_support import run_toy, toy_plan
from tests.server.fake_server import MODEL, fake_server

pytestmark = pytest.mark.usefixtures("forked")
ENGINE = "server"
IDS = list(range(8, 48))
REUSED = {
    "observability": "tokens",
    "requires": ["snapshot", "extend"],
    "families": [],
    "chunk": 64,
    "prompts": {
        "A": [{"seed": 1, "length": 40}],
        "B": [{"seed": 2, "length": 40}],
        "more": [{"seed": 3, "length": 5}],
    },
    "arms": [
        {
            "id": "stayed",
            "role": "reference",
            "steps": [
                {"run": {"prompt": "A", "decode": 3, "as": "a"}},
                {"extend": {"prompt": "more", "decode": 4, "as": "more"}},
            ],
        },
        {
            "id": "restored",
            "role": "candidate",
            "steps": [
                {"run": {"prompt": "A", "decode": 3, "as": "a"}},
                {"snapshot": {"handle": "h", "as": "taken"}},
                {"run": {"prompt": "B", "decode": 3, "as": "b"}},
                {"restore": {"handle": "h", "as": "back"}},
                {"extend": {"prompt": "more", "decode": 4, "as": "more"}},
            ],
        },
        {
            "id": "other",
            "role": "control",
            "steps": [
                {"run": {"prompt": "B", "decode": 3, "as": "a"}},
                {"extend": {"prompt": "more", "decode": 4, "as": "more"}},
            ],
        },
    ],
    "checks": [
        {"id": "reused", "cached": {"at": "restored.more", "equals": 43}},
        {
            "id": "answers",
            "exact": {"candidate": "restored.more", "reference": "stayed.more", "guarantee": "tokens_only"},
        },
        {"id": "seen", "seen": {"candidate": "other.more", "reference": "stayed.more", "fields": ["tokens"]}},
    ],
}


def options(url: str, **more: str | int | bool) -> dict[str, str | int | bool]:
    return {"url": url, "model": MODEL, "slots": 1, "patience_s": 1, **more}


def opened(url: str, **more: str | int | bool) -> tuple[ServerEngine, ServerSession]:
    engine = ServerAdapter().open(options(url, **more))
    session = engine.open_session({})
    assert isinstance(session, ServerSession)
    return engine, session


def target(url: str, **more: str | int | bool) -> Target:
    return Target(name="server", adapter="server", options={"preset": "tiny", **options(url, **more)})


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("stream", [False, True])
def test_every_dialect_is_read(dialect: str, stream: bool) -> None:
    with fake_server() as url:
        _, session = opened(url, dialect=dialect, stream=stream, logprobs=1)
        cold = session.begin(IDS, cache=True)
        assert session.prefill(len(IDS)) == len(IDS)
        first = session.decode(3, {})
        again = session.begin(IDS, cache=True)

        assert (cold.cached, again.cached) == (0, len(IDS) - 1)
        assert session.prefill(len(IDS)) == 1
        assert session.decode(3, {}) == first
        assert session.logits()


@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        ("untold", ProtocolError, "does not tell how many tokens were cached"),
        ("short", ProtocolError, "without token ids|were asked for"),
        ("garbage", ProtocolError, "no JSON"),
        ("failed", EngineError, "ServerError.*500"),
        ("hang", EngineHungError, "no answer within 1 s"),
    ],
)
def test_a_wrong_server_is_named(wrong: str, kind: type[EngineError], words: str) -> None:
    with fake_server(wrong) as url:
        _, session = opened(url)
        with pytest.raises(EngineError, match=words) as caught:
            session.begin(IDS, cache=True)

    assert type(caught.value) is kind


def test_a_server_that_is_gone_is_named() -> None:
    with fake_server() as url:
        _, session = opened(url)
    with pytest.raises(EngineError, match="ServerGone"):
        session.begin(IDS, cache=False)


def test_a_running_server_must_have_the_model_that_was_asked_for() -> None:
    with fake_server() as url:
        with pytest.raises(RefusedError) as caught:
            ServerAdapter().open({**options(url), "model": "another"})
        with pytest.raises(RefusedError, match="which model"):
            ServerAdapter().open({**options(url), "model": ""})

    assert caught.value.code == "identity"


def outcomes(wrong: str, folder: Path) -> dict[str, tuple[Outcome, str]]:
    with fake_server(wrong) as url, EngineHost(target(url, patience_s=20), folder, quick()) as host:
        evidence = run_toy(host, toy_plan(REUSED), folder)
    cells = judge(evidence).decision.cells
    return {check.id: (check.outcome, check.reason) for cell in cells for check in cell.checks}


def quick() -> HostOptions:
    return HostOptions(limits=Limits(call_s=30))


def test_a_restore_that_is_reused_passes(tmp_path: Path) -> None:
    assert {outcome for outcome, _ in outcomes("", tmp_path).values()} == {Outcome.PASS}


def test_a_restore_that_answers_200_and_is_not_reused_fails(tmp_path: Path) -> None:
    found = outcomes("false_reuse", tmp_path)

    assert found["reused"] == (Outcome.FAIL, "tokens_unaccounted")  # more was forwarded than the turn has
    assert found["answers"] == (Outcome.FAIL, "restore_not_witnessed")  # the text is right: only the counts show it


def test_a_count_above_the_prompt_fails(tmp_path: Path) -> None:
    assert outcomes("too_many", tmp_path)["reused"][0] is Outcome.FAIL


def test_a_wrong_state_after_a_restore_fails(tmp_path: Path) -> None:
    assert outcomes("wrong_after_restore", tmp_path)["answers"] == (Outcome.FAIL, "tokens_differ")


@pytest.mark.parametrize(
    "bad",
    [
        {"nothing": 1},
        {"dialect": "smalltalk"},
        {"slots": 0},
        {"logprobs": -1},
        {"patience_s": True},
        {"k_type": "q1"},
        {"url": "ftp://x"},
        {"package": "older"},
        {"url": "", "package": "older"},
        {"url": "", "other_package": "older", "other_command": "serve {port} {alias}"},
        {"url": "", "build": "other"},
        {"url": "", "package": "older", "command": "serve {port} {alias}"},
    ],
)
def test_an_option_that_cannot_be_is_refused(bad: dict[str, str | int | bool]) -> None:
    with pytest.raises(RefusedError) as caught:
        ServerAdapter().open({**options("http://127.0.0.1:9"), **bad})

    assert caught.value.code == "unsupported"


@pytest.mark.parametrize(
    ("chosen", "restored_cache"),
    [
        ({}, True),
        ({"pin": True}, False),
        ({"dialect": "llama_openai"}, False),
        ({"dialect": "llama_openai", "endpoint": "chat", "slots": 1}, False),
        ({"command": "serve {port} {alias}"}, False),
        ({"command": "serve {port} {alias} {slots}"}, True),
        ({"url": "http://127.0.0.1:9", "model": "m"}, False),
    ],
)
def test_a_restored_slot_is_a_cache_where_slot_files_and_token_ids_are_at_hand(
    chosen: dict[str, str | int | bool], restored_cache: bool
) -> None:
    adapter = ServerAdapter()
    adapter.aim(chosen)

    assert (Capability.RESTORED_CACHE in adapter.capabilities()) is restored_cache


def test_two_packages_are_two_builds() -> None:
    pytest.importorskip("gguf", reason="statecert[llamacpp] is not installed")
    adapter = ServerAdapter()
    adapter.aim({"other_package": "older"})

    assert Capability.BUILDS in adapter.capabilities()
    with pytest.raises(RefusedError, match="no xllamacpp in the folder"):
        adapter.open({"other_package": "older", "build": "other"})


def test_the_version_of_an_unpacked_package_is_its_own(tmp_path: Path) -> None:
    about = tmp_path / "xllamacpp-2026.9.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: xllamacpp\nVersion: 2026.9.1\n")

    assert installed(str(tmp_path)) == "2026.9.1"
    with pytest.raises(RefusedError, match="no xllamacpp"):
        installed(str(tmp_path / "nothing"))


def words(*numbers: int) -> bytes:
    return b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in numbers)


@pytest.mark.parametrize(
    ("image", "tokens"),
    [
        (words(7, 2, 3, 8, 9, 10) + b"state", [8, 9, 10]),
        (words(7, 4, 6, -1, 1, 2, 8, 9, 0) + b"state", [8, 9]),
        (words(7, 2, 1 << 30, 8, 9), [8, 9]),
        (words(7, 2, 0), []),
    ],
)
def test_tokens_of_a_slot_file_are_read_whole(image: bytes, tokens: list[int]) -> None:
    assert list(tokens_of(image)) == tokens


def beside(folder: Path, wrong: str) -> str:
    """Run R09 against a fake server; return what its cell with three neighbours comes to."""
    from harness.deriving.product import expand
    from harness.pipeline import available_scenarios, bench, read_bytes, run_one
    from harness.wire.evidence_doc import read_evidence

    cell = "R09[scale=16,neighbours=3]"
    plan = expand(available_scenarios()["R09"], [16], suite="engines", selected=[cell], where="R09")
    with fake_server(wrong) as url:
        options: dict[str, str | int | bool] = {"url": url, "model": MODEL, "patience_s": 10}
        target = Target(name="t", adapter="server", device="remote", options=options)
        with bench(target, folder) as up:
            path, _ = run_one(up, plan)
    found = judge(read_evidence(read_bytes(path), path.name)).decision.cells
    one = next(one for one in found if one.id == cell)
    return next((f"{check.id}: {check.reason}" for check in one.checks if check.outcome is not Outcome.PASS), "pass")


def test_an_answer_beside_requests_in_flight_is_the_one_that_is_given_alone(tmp_path: Path) -> None:
    assert beside(tmp_path, "") == "pass"


def test_another_request_s_answer_fails(tmp_path: Path) -> None:
    assert beside(tmp_path, "mixed") == "same-answer: tokens_differ"


def test_neighbours_that_end_at_once_make_an_error(tmp_path: Path) -> None:
    assert beside(tmp_path, "hasty") == "same-answer: engine_error"


def test_a_neighbour_that_the_server_does_not_know_of_makes_an_error(tmp_path: Path) -> None:
    assert beside(tmp_path, "loses_one") == "same-answer: engine_error"


def test_a_server_that_does_not_tell_is_judged_by_what_comes_back(tmp_path: Path) -> None:
    assert beside(tmp_path, "untold_slots") == "pass"


@pytest.mark.parametrize(("wrong", "by"), [("", "slots"), ("untold_slots", "client")])
def test_the_identity_says_by_what_requests_in_flight_are_judged(wrong: str, by: str) -> None:
    with fake_server(wrong) as url:
        engine, _ = opened(url)

    assert engine.identity().facts["in_flight_by"] == by


def test_a_server_that_counts_otherwise_than_it_answers_does_not_add_up() -> None:
    with fake_server("claims_reuse") as url:
        engine, session = opened(url)
        engine.watch = replace(engine.watch, counts=True)
        cold = session.begin(IDS, cache=True)
        assert cold.cached + session.prefill(len(IDS)) == len(IDS)
        warm = session.begin(IDS, cache=True)

        assert warm.cached == len(IDS) - 1
        assert session.prefill(len(IDS)) == len(IDS)


def test_sessions_that_are_bound_to_slots_share_no_prefix_cache() -> None:
    one, two = ServerAdapter(), ServerAdapter()
    one.aim({"slots": 2})
    two.aim({"slots": 2, "pin": True})

    assert one.capabilities() - two.capabilities() == {Capability.PREFIX_CACHE, Capability.RESTORED_CACHE}
