"""The digest of a model's vocabulary, which tells whether literal token ids of a scenario mean what they say there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

TOKENIZER: Final = "tokenizer_sha256"
"""Fact of an identity; see docs/formats/scenario.md."""


def vocabulary_digest(place: Path) -> str:
    """Return the SHA-256 of a vocabulary: every piece in the order of its id, each followed by a zero byte.

    Args:
        place: A GGUF file, or a folder with ``tokenizer.json``.
    """
    digest = hashlib.sha256()
    for piece in _pieces(place):
        digest.update(piece.encode("utf-8", errors="surrogateescape") + b"\0")
    return digest.hexdigest()


def _pieces(place: Path) -> Sequence[str]:
    if place.is_dir():
        told = json.loads((place / "tokenizer.json").read_text(encoding="utf-8"))
        vocabulary = dict(told["model"]["vocab"]) | {one["content"]: one["id"] for one in told.get("added_tokens", ())}
        return [piece for piece, _ in sorted(vocabulary.items(), key=lambda item: item[1])]
    from gguf import GGUFReader

    field = GGUFReader(str(place)).fields["tokenizer.ggml.tokens"]
    return [bytes(field.parts[index]).decode("utf-8", errors="surrogateescape") for index in field.data]
