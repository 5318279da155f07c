"""What servers call things: where the tokens of an answer are, their log-probabilities, and how many were cached.

A field that is absent is *unknown*, never 0: a turn that asked for reuse and is not told how much was reused is an
error of the server.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.errors import ProtocolError

Json = Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """One kind of server."""

    name: str
    path: str
    """Where completions of token ids are asked for."""
    native: bool
    """llama-server's own request and answer, not OpenAI's."""
    cached: Sequence[str]
    """Paths of the count of reused tokens, best first; steps are separated by dots."""
    computed: Sequence[str] = ()
    """Paths of a count of prompt tokens really forwarded; without one it is what the others leave."""
    total: Sequence[str] = ("usage.prompt_tokens",)
    slots: bool = False
    """Whether slots can be saved, restored and erased over HTTP."""
    cache_switch: str = ""
    """Field of a request that turns reuse on and off; empty: the server decides."""
    tried: bool = False
    """Whether this row was tried on a real server here; else it is read from public sources."""


DIALECTS: Final[Mapping[str, Dialect]] = {
    one.name: one
    for one in (
        Dialect(
            name="llama",
            path="/completion",
            native=True,
            cached=("timings.cache_n",),
            computed=("timings.prompt_n",),
            total=("tokens_evaluated",),
            slots=True,
            cache_switch="cache_prompt",
            tried=True,
        ),
        Dialect(
            name="llama_openai",
            path="/v1/completions",
            native=False,
            cached=("usage.prompt_tokens_details.cached_tokens", "timings.cache_n"),
            computed=("timings.prompt_n",),
            slots=True,
            cache_switch="cache_prompt",
            tried=True,
        ),
        Dialect(
            name="openai",
            path="/v1/completions",
            native=False,
            cached=("usage.prompt_tokens_details.cached_tokens",),
        ),
        Dialect(
            name="vllm",
            path="/v1/completions",
            native=False,
            cached=("usage.prompt_tokens_details.cached_tokens",),
        ),
        Dialect(
            name="sglang",
            path="/v1/completions",
            native=False,
            cached=("usage.prompt_tokens_details.cached_tokens", "meta_info.cached_tokens"),
        ),
        Dialect(
            name="hipfire",
            path="/v1/completions",
            native=False,
            cached=("usage.prompt_tokens_details.cached_tokens", "usage.cached_tokens"),
        ),
        Dialect(
            name="lucebox",
            path="/v1/completions",
            native=False,
            cached=("usage.prompt_tokens_details.cached_tokens", "timings.cache_n"),
        ),
        Dialect(
            name="mesh_llm",
            path="/v1/completions",
            native=False,
            cached=("usage.prompt_tokens_details.cached_tokens",),
        ),
    )
}
"""By name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """One answer, in one form for all servers."""

    tokens: Sequence[int]
    probabilities: Sequence[bytes]
    """For each token the distribution that it was drawn from, as far as it is told: ids and log-probabilities."""
    cached: int | None
    """None: the server does not say."""
    computed: int | None
    total: int | None
    slot: int


def request_of(dialect: Dialect, prompt: Sequence[int], count: int, *, reuse: bool, top: int, slot: int) -> Json:
    """Return the body of a request for ``count`` tokens after ``prompt``, greedy.

    Args:
        dialect: Of the server.
        prompt: Token ids.
        count: Tokens to sample.
        reuse: Whether cached prefixes may be reused.
        top: Log-probabilities to tell for each token; 0: none.
        slot: To run in; -1: the server's choice.
    """
    body: dict[str, object] = {"prompt": list(prompt), "temperature": 0, "return_tokens": True}
    if dialect.native:
        body |= {"n_predict": count, "n_probs": top, "ignore_eos": True, "samplers": ["temperature"], "id_slot": slot}
    else:
        # token ids are told beside log-probabilities only, or where a server knows return_token_ids
        body |= {"max_tokens": count, "ignore_eos": True, "logprobs": max(top, 1), "return_token_ids": True}
        body |= {"id_slot": slot} if dialect.slots else {}
    return body | ({dialect.cache_switch: reuse} if dialect.cache_switch else {})


def reply_of(dialect: Dialect, answer: Json, events: Sequence[Json] = ()) -> Reply:
    """Return what an answer says.

    Args:
        dialect: Of the server.
        answer: The answer; of a stream its last event that holds counts.
        events: All events of a stream; tokens and probabilities are gathered from them.

    Raises:
        ProtocolError: It has no tokens where the dialect has them.
    """
    tokens: list[int] = []
    told: list[Json] = []
    for one in events or [answer]:
        more, probabilities = _native(one) if dialect.native else _openai(one)
        tokens += more
        told += probabilities
    if not tokens:
        raise ProtocolError(f"{dialect.path}: found an answer without token ids; ask the server to return them")
    slot = answer.get("id_slot")
    return Reply(
        tokens=tokens,
        probabilities=[_distribution(one) for one in told],
        cached=_count(answer, dialect.cached),
        computed=_count(answer, dialect.computed),
        total=_count(answer, dialect.total),
        slot=slot if isinstance(slot, int) else 0,
    )


def _native(answer: Json) -> tuple[list[int], list[Json]]:
    tokens = answer.get("tokens")
    return [int(one) for one in tokens] if isinstance(tokens, list) else [], _mappings(
        answer, "completion_probabilities"
    )


def _openai(answer: Json) -> tuple[list[int], list[Json]]:
    choices = _mappings(answer, "choices")
    if not choices:
        return [], []
    tokens, logprobs = choices[0].get("tokens") or choices[0].get("token_ids"), choices[0].get("logprobs")
    told = _mappings(logprobs, "content") if isinstance(logprobs, dict) else []
    if not isinstance(tokens, list):
        tokens = [one["id"] for one in told if isinstance(one.get("id"), int)]
    return [int(str(one)) for one in tokens], told


def _mappings(answer: Json, name: str) -> list[Json]:
    found = answer.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _distribution(one: Json) -> bytes:
    """Return ids and log-probabilities of one place, by id: the servers' order among equals is not told."""
    rows = sorted(
        (int(str(row.get("id", -1))) & 0xFFFFFFFF, float(str(row.get("logprob", 0.0))))
        for row in _mappings(one, "top_logprobs")
    )
    ids = b"".join(struct.pack("<I", number) for number, _ in rows)
    return ids + b"".join(struct.pack("<f", value) for _, value in rows)


def _count(answer: Json, paths: Sequence[str]) -> int | None:
    for path in paths:
        found: object = answer
        for step in path.split("."):
            found = found.get(step) if isinstance(found, Mapping) else None
        if isinstance(found, int) and not isinstance(found, bool):
            return found
    return None
