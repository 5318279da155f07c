"""Requests to servers and their answers, in one form for all dialects."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.adapters.server_dialects import Dialect
from harness.errors import ProtocolError

Json = Mapping[str, object]


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
    texts: Sequence[str] = ()
    """Of a chat: what each token reads."""


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
    return {**body, **_switched(dialect, reuse=reuse)}


def chat_request_of(
    dialect: Dialect, messages: Sequence[Json], count: int, *, reuse: bool, top: int, slot: int, model: str
) -> Json:
    """Return the body of a request for ``count`` tokens of the next message of a chat, greedy.

    Args:
        dialect: Of the server.
        messages: Role and content of each.
        count: Tokens to sample.
        reuse: Whether cached prefixes may be reused.
        top: Log-probabilities to tell for each token; one at least is asked for, since tokens are told beside them.
        slot: To run in; -1: the server's choice.
        model: Name of it; empty: the server has one.
    """
    body: dict[str, object] = {"messages": list(messages), "temperature": 0, "max_tokens": count, "ignore_eos": True}
    body |= {"logprobs": True, "top_logprobs": max(top, 1), "return_token_ids": True}
    body |= {"id_slot": slot} if dialect.slots else {}
    body |= {"model": model} if model else {}
    return {**body, **_switched(dialect, reuse=reuse)}


def _switched(dialect: Dialect, *, reuse: bool) -> Json:
    return {dialect.cache_switch: reuse} if dialect.cache_switch else {}


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
    return _reply(dialect, answer, tokens, told)


def chat_reply_of(dialect: Dialect, answer: Json, events: Sequence[Json] = ()) -> Reply:
    """Return what an answer of a chat says.

    A token is its id where the server tells it, else a number made of what it reads (:func:`label_of`).

    Raises:
        ProtocolError: It tells no single tokens.
    """
    told = [one for event in events or [answer] for one in _openai(event)[1]]
    if not told:
        raise ProtocolError(
            f"{dialect.chat}: found a chat without single tokens; the server must tell log-probabilities"
        )
    return _reply(dialect, answer, [label_of(one) for one in told], told)


def label_of(one: Json) -> int:
    """Return the id of a token; of one whose id is not told, 31 bits of the SHA-256 of what it reads."""
    found = one.get("id")
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    return int.from_bytes(hashlib.sha256(str(one.get("token", "")).encode()).digest()[:4], "little") >> 1


def merged(events: Sequence[Json]) -> Json:
    """Return the fields of events together, later ones over earlier ones."""
    found: dict[str, object] = {}
    for one in events:
        found.update(one)
    return found


def _reply(dialect: Dialect, answer: Json, tokens: Sequence[int], told: Sequence[Json]) -> Reply:
    slot = answer.get("id_slot")
    return Reply(
        tokens=tokens,
        texts=[str(one.get("token", "")) for one in told],
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
        (label_of(row) & 0xFFFFFFFF, float(str(row.get("logprob", 0.0)))) for row in _mappings(one, "top_logprobs")
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
