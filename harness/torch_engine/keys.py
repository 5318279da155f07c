"""Keys of cached snapshots, and where a prompt may be cut. Pure functions of tokens and identity."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.torch_engine.chat import ChatFormat

Tokens = Sequence[int] | npt.NDArray[np.int32]
"""Token ids; an array is taken without a copy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheKey:
    """Names one snapshot: who could have made it, how deep it is, and after which tokens."""

    domain: bytes
    """Canonical encoding of every identity field that changes the bits."""
    boundary: int
    """Tokens of the prefix."""
    fingerprint: int
    """u64 from `prefix_fingerprint` of exactly those tokens."""

    @property
    def hex(self) -> str:
        """32 hex digits that name the key in tables."""
        tail = self.boundary.to_bytes(8, "little") + self.fingerprint.to_bytes(8, "little")
        head = len(self.domain).to_bytes(8, "little") + self.domain
        return hashlib.sha256(head + tail).hexdigest()[:32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """Where prompts are cut: a function of the tokens alone, so hits and misses cut alike."""

    chunk: int
    """Every multiple of it is a cut."""
    turn_token: int | None = None
    """A cut also follows each occurrence of this token, if set."""
    pin: int = 0
    """One more cut, after this many tokens; 0 for none."""
    chat: ChatFormat | None = None
    """A cut also lies where each message after the first one begins, if set."""

    def boundaries(self, prompt: Tokens, after: int, up_to: int) -> tuple[int, ...]:
        """Cuts in (after, up_to], ascending, each once; none past the prompt's end.

        Args:
            prompt: token ids.
            after: exclusive lower limit in tokens.
            up_to: inclusive upper limit in tokens.
        """
        end = min(up_to, len(prompt))
        cuts = set(range((after // self.chunk + 1) * self.chunk, end + 1, self.chunk))
        if self.turn_token is not None:
            low = max(after, 0)
            ends = np.flatnonzero(np.asarray(prompt[low:end]) == self.turn_token)
            cuts.update((ends + (low + 1)).tolist())
        if max(after, 0) < self.pin <= end:
            cuts.add(self.pin)
        if self.chat is not None:
            cuts.update(cut for cut in self.chat.cuts(prompt) if max(after, 0) < cut <= end)
        return tuple(sorted(cuts))


def encode_domain(fields: Mapping[str, str | int | bool]) -> bytes:
    """Canonical bytes of an identity: sorted keys, no spaces, ASCII; equal iff all fields are."""
    return json.dumps(dict(fields), sort_keys=True, separators=(",", ":")).encode()


def token_bytes(tokens: Tokens) -> bytes:
    """Token ids as little-endian u32."""
    return np.asarray(tokens, dtype="<u4").tobytes()


def prefix_fingerprint(tokens: Tokens) -> int:
    """First 8 bytes, as a little-endian u64, of SHA-256 over the tokens as little-endian u32."""
    return prefix_fingerprints(tokens, (len(tokens),))[0]


def prefix_fingerprints(tokens: Tokens, boundaries: Sequence[int]) -> list[int]:
    """`prefix_fingerprint` of several prefixes in one pass.

    Args:
        tokens: token ids.
        boundaries: lengths of the prefixes, ascending.
    """
    data = memoryview(token_bytes(tokens[: boundaries[-1]] if boundaries else ()))
    sha, done, found = hashlib.sha256(), 0, []
    for boundary in boundaries:
        sha.update(data[4 * done : 4 * boundary])
        done = boundary
        found.append(int.from_bytes(sha.copy().digest()[:8], "little"))
    return found
