"""The ladder of R12 on servers, by completions and by chats: right ones pass it, and each lie has its check."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.adapters.server_adapter import ServerAdapter
from harness.adapters.server_chat import unpacked
from harness.deriving.judge import judge
from harness.deriving.product import expand
from harness.errors import EngineError, RefusedError
from harness.model.target import Target
from harness.model.values import Outcome
from harness.pipeline import available_scenarios, bench, read_bytes, run_one
from harness.wire.evidence_doc import read_evidence
from tests.server.fake_server import MODEL, fake_server

Options = dict[str, str | int | bool]
pytestmark = pytest.mark.usefixtures("forked")
ENGINE = "server"
MISSING = [name for name in ("xllamacpp", "gguf") if find_spec(name) is None]
CHAT: Options = {"endpoint": "chat", "dialect": "llama_openai"}


def climbed(folder: Path, options: Options, *, device: str, kept: str = "memory", told: str = "tokens") -> str:
    """Run one cell of the ladder; return its first check that does not pass, and why."""
    cell = f"R12[scale=16,kept={kept},told={told}]"
    plan = expand(available_scenarios()["R12"], [16], suite="more", selected=[cell], where="R12")
    with bench(Target(name="t", adapter="server", device=device, options=options), folder) as up:
        path, _ = run_one(up, plan)
    found = next(one for one in judge(read_evidence(read_bytes(path), path.name)).decision.cells if one.id == cell)
    if found.outcome is Outcome.NOT_SUPPORTED:
        return f"not_supported: {found.reason}"
    return next((f"{check.id}: {check.reason}" for check in found.checks if check.outcome is not Outcome.PASS), "pass")


@pytest.mark.parametrize("more", [{}, {"stream": True}, CHAT, {"dialect": "vllm", "endpoint": "chat"}])
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("", "pass"),
        ("stale", "warm-answers: tokens_differ"),
        ("too_many", "cold-answers: restore_not_witnessed"),
    ],
)
def test_a_server_that_runs_is_asked_within_its_process(more: Options, wrong: str, why: str, tmp_path: Path) -> None:
    with fake_server(wrong) as url:
        found = climbed(tmp_path, {"url": url, "model": MODEL, "slots": 1, **more}, device="remote")

    assert found == why


def test_a_running_server_that_cannot_forget_is_not_asked(tmp_path: Path) -> None:
    with fake_server() as url:
        found = climbed(tmp_path, {"url": url, "model": MODEL, "dialect": "openai"}, device="remote")

    assert found == "not_supported: prefix_cache"


def test_a_running_server_that_does_not_forget_is_named() -> None:
    with fake_server("keeps") as url, pytest.raises(EngineError, match="NotEmptied"):
        ServerAdapter().open({"url": url, "model": MODEL, "dialect": "sglang"})


def test_a_chat_whose_slot_is_not_known_has_no_restart(tmp_path: Path) -> None:
    with fake_server() as url:
        found = climbed(tmp_path, {"url": url, "model": MODEL, **CHAT}, device="remote", kept="image")

    assert found == "not_supported: image"


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (extra server)")
@pytest.mark.parametrize(
    ("more", "kept"),
    [
        pytest.param({}, "image", id="completions-image"),
        pytest.param({**CHAT, "slots": 1}, "memory", id="chat-memory"),
        pytest.param({}, "memory", id="completions-memory", marks=pytest.mark.lengthy),
        pytest.param({**CHAT, "slots": 1}, "image", id="chat-image", marks=pytest.mark.lengthy),
    ],
)
def test_a_real_server_passes_to_the_last_log_probability(more: Options, kept: str, tmp_path: Path) -> None:
    assert climbed(tmp_path, {"logprobs": 4, **more}, device="cpu", kept=kept, told="logits") == "pass"


@pytest.mark.parametrize(
    ("image", "code"),
    [
        (b"SC", "short_buffer"),
        (b"SCCHAT01\xff\0\0\0[]", "short_buffer"),
        (b"ANOTHER1\2\0\0\0[]", "format"),
        (b"SCCHAT01\2\0\0\0[]", "format"),
        (b"SCCHAT01\2\0\0\0[,", "format"),
    ],
)
def test_an_image_of_a_chat_that_is_none_is_refused(image: bytes, code: str) -> None:
    with pytest.raises(RefusedError) as caught:
        unpacked(image)

    assert caught.value.code == code
