"""Part 0: what the host must know to continue, as little-endian u64 words.

Words: version, position, flags, decoded, layer count; then four per layer: kind code and three
lengths. Flags: bit 0 the logits are those after the last token, bit 1 the sampler has been seeded,
bit 2 the last token has been sampled but not forwarded: it is the history's last, above the position.
Lengths of an attention layer are K/V rows, raw index rows and pooled index rows; of the others,
tokens seen and two zeros. Per-layer embeddings have an entry like these behind the layers. Route ``mtp``
has two more entries then: the draft head with lengths like an attention layer, and the drafter with depth,
rounds and pending drafts. A pinned prefix is one entry more, the last: its tokens and two zeros.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from harness.torch_engine.errors import MetadataError

VERSION = 1
KIND_CODES = {"delta": 1, "attention": 2, "sliding": 3, "draft": 4, "drafter": 5, "pin": 6, "ple": 7}
_HEAD = 5
_PER_LAYER = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Metadata:
    """Part 0, decoded."""

    position: int
    """Tokens forwarded so far."""
    logits_valid: bool
    """Whether the logits part holds the logits after the last token."""
    sampler_valid: bool
    """Whether the sampler part holds the state of a seeded generator."""
    decoded: int
    """Tokens sampled since the prompt began."""
    layers: tuple[tuple[int, int, int, int], ...]
    """Kind code and three lengths of every layer, and of the draft head and the drafter where there is one."""
    owed: bool = False
    """Whether the last token of the history has still to be forwarded."""
    pinned: int = 0
    """Tokens of the pinned prefix, 0 for none."""

    def encode(self) -> bytes:
        """The words as bytes."""
        flags = int(self.logits_valid) | int(self.sampler_valid) << 1 | int(self.owed) << 2
        pin = ((KIND_CODES["pin"], self.pinned, 0, 0),) if self.pinned else ()
        head = (VERSION, self.position, flags, self.decoded, len(self.layers) + len(pin))
        words = (*head, *(word for layer in (*self.layers, *pin) for word in layer))
        return struct.pack(f"<{len(words)}Q", *words)


def decode_metadata(raw: bytes) -> Metadata:
    """Read part 0.

    Raises:
        MetadataError: wrong length, version or flags.
    """
    if len(raw) % 8 or len(raw) < 8 * _HEAD:
        raise MetadataError(f"metadata: expected at least {8 * _HEAD} bytes in words, found {len(raw)}")
    words = struct.unpack(f"<{len(raw) // 8}Q", raw)
    version, position, flags, decoded, count = words[:_HEAD]
    if version != VERSION:
        raise MetadataError(f"metadata word 0: expected version {VERSION}, found {version}")
    if flags > 7 or flags & 5 == 5:
        raise MetadataError(f"metadata word 2: expected flags 0..7 without both 1 and 4, found {flags}")
    if len(words) != _HEAD + _PER_LAYER * count:
        raise MetadataError(f"metadata: expected {count} layers, found {len(words)} words")
    body = words[_HEAD:]
    layers = tuple((body[i], body[i + 1], body[i + 2], body[i + 3]) for i in range(0, len(body), _PER_LAYER))
    pinned = 0
    if layers and layers[-1][0] == KIND_CODES["pin"]:
        pinned, layers = layers[-1][1], layers[:-1]
    return Metadata(
        position=position,
        logits_valid=bool(flags & 1),
        sampler_valid=bool(flags & 2),
        decoded=decoded,
        layers=layers,
        owed=bool(flags & 4),
        pinned=pinned,
    )
