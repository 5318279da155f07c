"""What servers call things: where the tokens of an answer are, their log-probabilities, and how many were cached.

A field that is absent is *unknown*, never 0: a turn that asked for reuse and is not told how much was reused is an
error of the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final


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
    chat: str = "/v1/chat/completions"
    """Where chats are asked for; empty: the dialect has none."""
    slots: bool = False
    """Whether slots can be saved, restored and erased over HTTP."""
    flush: str = ""
    """Where a server that has no slots is asked to forget all prompts; empty: it cannot be."""
    busy: str = ""
    """Counter among ``/metrics`` of requests that are being answered; empty: none is known."""
    forwarded: str = ""
    """Counter among ``/metrics`` of prompt tokens forwarded so far, reused ones left out; empty: none is known."""
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
            chat="",
            native=True,
            cached=("timings.cache_n",),
            computed=("timings.prompt_n",),
            total=("tokens_evaluated",),
            slots=True,
            busy="llamacpp:requests_processing",
            forwarded="llamacpp:prompt_tokens_total",
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
            busy="llamacpp:requests_processing",
            forwarded="llamacpp:prompt_tokens_total",
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
            flush="/reset_prefix_cache",
            busy="vllm:num_requests_running",
        ),
        Dialect(
            name="sglang",
            path="/v1/completions",
            native=False,
            cached=("usage.prompt_tokens_details.cached_tokens", "meta_info.cached_tokens"),
            flush="/flush_cache",
            busy="sglang:num_running_reqs",
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
