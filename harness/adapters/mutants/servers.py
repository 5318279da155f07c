"""Faults of several kinds on servers: what goes to a real llama-server, or comes of it, is changed on its way.

Their entry points ask for the extra ``server``, and they run where it does (``statecert mutants --target server``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from harness.adapters.mutants.base import Foreign, Stop
from harness.adapters.server_adapter import ServerAdapter, ServerEngine
from harness.adapters.server_http import Client, Json
from harness.adapters.server_options import checked
from harness.engines.interface import Identity, Options

_COMPLETES = "/completion"
_HELD = 32
"""Tokens of the first answer that are held."""


class ServerMutant(Foreign, ServerAdapter):
    """A server with one planted fault. A subclass names it, and gives the client that plants it."""

    client: ClassVar[type[Client]] = Client

    def __init_subclass__(cls) -> None:
        """Name the mutant as the registry wants it."""
        super().__init_subclass__()
        cls.name = cls.slug()

    def open(self, options: Options) -> ServerEngine:
        """Open a server, and put the fault between it and the adapter."""
        made = _Planted(checked(options))
        made.facts = self.told()
        made.client.__class__ = self.client
        return made


class _Planted(ServerEngine):
    facts: Mapping[str, str] = {}

    def identity(self) -> Identity:
        found = super().identity()
        sets = {**found.path_sets, "mutants": ["harness.adapters.mutants:*.py"]}
        return replace(found, facts={**found.facts, **self.facts}, path_sets=sets)


class _Stale(Client):
    first: Sequence[object] = ()

    def post(self, path: str, body: Json) -> Json:
        answer = super().post(path, body)
        tokens = answer.get("tokens")
        if path != _COMPLETES or not isinstance(tokens, list):
            return answer
        if not self.first:
            more = super().post(path, {**body, "n_predict": _HELD}).get("tokens")
            self.first = more if isinstance(more, list) else ()
        return {**answer, "tokens": list(self.first[: len(tokens)])} if _cached(answer) else answer


class StaleAnswer(ServerMutant):
    """A prompt that is cached is answered from what the cache held first."""

    mutant_id = "K08.server-stale"
    stopped_by = Stop(
        scenario="R12", cell={"kept": "image", "told": "tokens"}, check="warm-answers", reason="tokens_differ"
    )
    client = _Stale


class _Claims(Client):
    """Lets nothing be reused, and tells of what would have been."""

    held: Sequence[int] = ()

    def post(self, path: str, body: Json) -> Json:
        prompt = body.get("prompt")
        if path != _COMPLETES or not isinstance(prompt, list):
            return super().post(path, body)
        answer = super().post(path, {**body, "cache_prompt": False})
        cached = _same(self.held, prompt) if body.get("cache_prompt") is not False else 0
        self.held = list(prompt)
        return {**answer, "timings": {"cache_n": cached, "prompt_n": len(prompt) - cached}}


class ReuseClaimed(ServerMutant):
    """A prompt is computed whole, and the answer tells that its beginning was reused."""

    mutant_id = "K04.server-reuse-claimed"
    stopped_by = Stop(
        scenario="R12", cell={"kept": "image", "told": "tokens"}, check="warm-reused", reason="tokens_unaccounted"
    )
    client = _Claims


class _LosesFiles(Client):
    """Takes a slot file as if it read it, and tells of its tokens as reused afterwards."""

    lost = False

    def post(self, path: str, body: Json) -> Json:
        if path.endswith("action=restore"):
            self.lost = True
            return {"n_restored": 1, "n_read": 1}
        answer = super().post(path, body)
        prompt = body.get("prompt")
        if not self.lost or path != _COMPLETES or not isinstance(prompt, list):
            return answer
        return {**answer, "timings": {"cache_n": len(prompt) - 24, "prompt_n": 24}}


class LostInRestart(ServerMutant):
    """A restart lost the cache, and the new process answers that it has it and that it reused it."""

    mutant_id = "K04.server-lost-in-restart"
    stopped_by = Stop(
        scenario="R12", cell={"kept": "image", "told": "tokens"}, check="restarted-reused", reason="tokens_unaccounted"
    )
    client = _LosesFiles


class _Unused(Client):
    """Lets a slot file be read, and computes whole every prompt that comes after it."""

    restored = False

    def post(self, path: str, body: Json) -> Json:
        self.restored = self.restored or path.endswith("action=restore")
        return super().post(path, {**body, "cache_prompt": False} if self.restored and path == _COMPLETES else body)


class RestoreUnused(ServerMutant):
    """A slot is restored, with 200 and its tokens told, and what comes next is computed from its beginning."""

    mutant_id = "K04.server-restore-unused"
    stopped_by = Stop(scenario="R13", cell={"again": "same"}, check="restored-reused", reason="nothing_spared")
    client = _Unused


class _Mixed(Client):
    heard: object = None
    """Prompt of the request that began to be streamed last."""

    def stream(self, path: str, body: Json) -> Iterator[Json]:
        self.heard = body.get("prompt")
        yield from super().stream(path, body)

    def post(self, path: str, body: Json) -> Json:
        answer = super().post(path, body)
        if path != _COMPLETES or self.heard is None:
            return answer
        return {**answer, "tokens": super().post(path, {**body, "prompt": self.heard}).get("tokens")}


class AnswersMixed(ServerMutant):
    """Beside a request that is in flight an answer is that request's, not its own."""

    mutant_id = "K07.server-answers-mixed"
    stopped_by = Stop(scenario="R09", cell={"neighbours": 3}, check="same-answer", reason="tokens_differ")
    client = _Mixed


def _cached(answer: Json) -> int:
    timings = answer.get("timings")
    return int(timings.get("cache_n", 0)) if isinstance(timings, Mapping) else 0


def _same(held: Sequence[int], prompt: Sequence[int]) -> int:
    same = 0
    while same < min(len(held), len(prompt) - 1) and held[same] == prompt[same]:
        same += 1
    return same
