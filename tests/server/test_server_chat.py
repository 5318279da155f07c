"""Chats behind the seam: what a template hides is not counted, and what is counted is what the server tells."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.adapters.server_adapter import ServerAdapter, ServerEngine
from harness.adapters.server_chat import ChatSession, words_of
from harness.adapters.server_dialects import DIALECTS
from harness.deriving.product import expand
from harness.deriving.support import TEMPLATED_PROMPT, capabilities_missing
from harness.errors import EngineError, ProtocolError, RefusedError
from harness.pipeline import available_scenarios
from tests.server.fake_server import MODEL, fake_server

IDS = list(range(8, 48))
CHATTING = sorted(name for name, one in DIALECTS.items() if one.chat)
MISSING = [name for name in ("xllamacpp", "gguf") if find_spec(name) is None]


def opened(url: str, **more: str | int | bool) -> tuple[ServerEngine, ChatSession]:
    chosen: dict[str, str | int | bool] = {
        "url": url,
        "model": MODEL,
        "slots": 1,
        "patience_s": 1,
        "endpoint": "chat",
        "dialect": "openai",
    }
    engine = ServerAdapter().open({**chosen, **more})
    session = engine.open_session({})
    assert isinstance(session, ChatSession)
    return engine, session


@pytest.mark.parametrize("dialect", CHATTING)
@pytest.mark.parametrize("stream", [False, True])
def test_every_dialect_is_read_in_a_chat(dialect: str, stream: bool) -> None:
    with fake_server() as url:
        _, session = opened(url, dialect=dialect, stream=stream, logprobs=1)
        cold = session.begin(IDS, cache=True)
        assert (cold.cached, cold.prompt_tokens) == (0, len(IDS) + 3)  # the template's marks are the server's
        assert session.prefill(len(IDS)) == len(IDS) + 3
        first = [*session.decode(2, {}), *session.decode(3, {})]
        again = session.begin(IDS, cache=True)

        assert again.cached == len(IDS) + 2
        assert session.prefill(len(IDS)) == 1
        assert list(session.decode(5, {})) == first
        assert session.logits()


def test_an_answer_and_the_next_message_follow_the_first() -> None:
    with fake_server() as url:
        engine, session = opened(url)
        session.begin(IDS, cache=True)
        session.prefill(len(IDS))
        answer = session.decode(2, {})
        more = session.extend([8, 9])

        roles = [str(one["role"]) for one in session._history()]
        assert roles == ["user", "assistant", "user"]
        assert session.messages[1]["content"] == words_of(answer)
        assert more.prompt_tokens == len(IDS) + 2 + 2 + 2 * 3 + 1
        engine.close()


def test_a_message_without_an_answer_goes_on() -> None:
    with fake_server() as url:
        _, session = opened(url)
        session.begin(IDS, cache=True)
        session.prefill(len(IDS))
        session.extend([8, 9])

        assert session._history() == [{"role": "user", "content": words_of([*IDS, 8, 9])}]


def test_tokens_without_ids_are_known_by_what_they_read() -> None:
    with fake_server("texts") as url:
        _, session = opened(url)
        session.begin(IDS, cache=False)
        session.prefill(len(IDS))
        first = session.decode(3, {})
        session.begin(IDS, cache=True)
        session.prefill(len(IDS))

        assert list(session.decode(3, {})) == list(first)
        assert max(first) > 512  # numbers of texts, not ids of a vocabulary


@pytest.mark.parametrize(
    ("wrong", "words"),
    [("no_logprobs", "without single tokens"), ("untold", "does not tell how many tokens were cached")],
)
def test_a_chat_that_does_not_tell_is_named(wrong: str, words: str) -> None:
    with fake_server(wrong) as url:
        _, session = opened(url)
        with pytest.raises(ProtocolError, match=words):
            session.begin(IDS, cache=True)


def test_an_answer_that_begins_otherwise_than_before_is_an_error() -> None:
    with fake_server() as url:
        _, session = opened(url)
        session.begin(IDS, cache=True)
        session.prefill(len(IDS))
        session.answered = [7, 7]
        with pytest.raises(EngineError, match="AnotherAnswer"):
            session.decode(1, {})


def test_the_native_dialect_has_no_chat() -> None:
    with pytest.raises(RefusedError, match="llama_openai is the same server"):
        ServerAdapter().open({"endpoint": "chat"})


def test_the_identity_says_what_a_template_hides() -> None:
    with fake_server() as url:
        engine, _ = opened(url)
        facts = engine.identity().facts

    assert (facts["endpoint"], facts["prompts"]) == ("chat", "templated")


def test_counts_of_the_scenario_s_tokens_are_not_asked_of_a_chat() -> None:
    scenario = available_scenarios()["C01"]
    cell = expand(scenario, [16], suite="default", where="C01").cells[0]
    able = [str(one) for one in cell.requires]

    assert TEMPLATED_PROMPT in capabilities_missing(cell, able, told={"prompts": "templated"})
    assert TEMPLATED_PROMPT not in capabilities_missing(cell, able, told={})


def command(wrong: str = "") -> str:
    script = shlex.quote(str(Path(__file__).with_name("fake_server.py")))
    return f"{shlex.quote(sys.executable)} {script} --port {{port}} --alias {{alias}} --wrong '{wrong}'"


def test_a_server_of_a_command_is_started_known_and_ended(tmp_path: Path) -> None:
    model = tmp_path / "model.bin"
    model.write_bytes(b"weights")
    engine = ServerAdapter().open({"command": command(), "model": str(model), "dialect": "openai"})
    assert engine.own is not None
    process = engine.own._process
    session = engine.open_session({})
    session.begin(IDS, cache=True)
    told = engine.identity()
    engine.close()

    assert process.poll() is not None
    assert told.facts["model_digest_of"] == "file"
    assert len(str(told.facts["build_sha256"])) == 64


def test_a_command_that_does_not_hand_over_its_port_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"lacks \{port\}"):
        ServerAdapter().open({"command": "llama-server --alias {alias}"})


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (extra llamacpp)")
@pytest.mark.parametrize("stream", [False, True])
def test_a_real_chat_is_reused_and_repeats_itself(stream: bool) -> None:
    engine = ServerAdapter().open({"dialect": "llama_openai", "endpoint": "chat", "logprobs": 2, "stream": stream})
    session = engine.open_session({})
    cold = session.begin(IDS, cache=True)
    forwarded = session.prefill(len(IDS))
    first = session.decode(4, {})
    warm = session.begin(IDS, cache=True)
    again = session.prefill(len(IDS))

    assert cold.cached + forwarded == cold.prompt_tokens > len(IDS)
    assert (warm.cached, again) == (cold.prompt_tokens - 1, 1)
    assert list(session.decode(4, {})) == list(first)
    assert session.logits()
    engine.close()
