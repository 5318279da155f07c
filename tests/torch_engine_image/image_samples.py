"""A small session as the image sees it, and ways to change one thing of its image."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace

from harness.torch_engine.image import (
    Expectation,
    ExpectedPart,
    ImageDescription,
    PartKind,
    PartSpec,
    export_into,
    image_size,
)

CAPACITY = 64
IDENTITY: dict[str, str | int | bool] = {
    "engine": "sample",
    "k_type": "bf16",
    "model": "0123abcd",
    "namespace": "a",
    "chunk": 64,
}
PARTS = (
    PartSpec(
        name="layer0.recurrent",
        family="recurrent",
        layer=0,
        element_type="f32",
        kind=PartKind.FIXED,
        shape=(2, 3, 3),
    ),
    PartSpec(name="logits", family="logits", layer=-1, element_type="f32", kind=PartKind.FIXED, shape=(16,)),
    PartSpec(name="sampler.rng", family="sampler", layer=-1, element_type="i64", kind=PartKind.FIXED, shape=(3,)),
    PartSpec(name="layer1.k", family="kv", layer=1, element_type="bf16", kind=PartKind.ROWS, shape=(5, 2, 4)),
    PartSpec(name="layer1.pooled", family="index", layer=1, element_type="f32", kind=PartKind.ROWS, shape=(1, 4)),
)


def description(**changes: object) -> ImageDescription:
    about = ImageDescription(
        identity=IDENTITY,
        position=5,
        history=(11, 12, 13, 14, 15, 99),
        meta=b"part zero",
        logits_valid=True,
        owed_forward=True,
        sampler_present=True,
        parts=PARTS,
    )
    return replace(about, **changes)  # type: ignore[arg-type]


def payload(about: ImageDescription) -> list[bytes]:
    """Distinct bytes for every part, the same in every run."""
    return [stream(part.name, part.nbytes) for part in about.parts]


def stream(seed: str, size: int) -> bytes:
    blocks = (hashlib.sha256(f"{seed}/{at}".encode()).digest() for at in range(-(-size // 32)))
    return b"".join(blocks)[:size]


def image(about: ImageDescription | None = None) -> bytearray:
    about = about or description()
    made = bytearray(image_size(about))
    export_into(made, about, payload(about))
    return made


def rows_at(position: int) -> dict[str, int]:
    return {"layer1.k": position, "layer1.pooled": position // 4}


def expectation(**changes: object) -> Expectation:
    parts = tuple(
        ExpectedPart(
            name=part.name,
            family=part.family,
            layer=part.layer,
            element_type=part.element_type,
            kind=part.kind,
            shape=(CAPACITY, *part.shape[1:]) if part.kind is PartKind.ROWS else part.shape,
        )
        for part in PARTS
    )
    expected = Expectation(identity=IDENTITY, capacity=CAPACITY, parts=parts, rows_at=rows_at)
    return replace(expected, **changes)  # type: ignore[arg-type]


def expecting(part_name: str, /, **changes: object) -> Expectation:
    """The expectation with one part changed."""
    before = expectation()
    parts = tuple(replace(p, **changes) if p.name == part_name else p for p in before.parts)  # type: ignore[arg-type]
    return replace(before, parts=parts)


# What the format's page says, written down here once more and independently of the code.
FIELDS = {
    "magic": (0, "<8s"),
    "version": (8, "<I"),
    "flags": (12, "<I"),
    "total_bytes": (16, "<Q"),
    "header_bytes": (24, "<Q"),
    "position": (32, "<Q"),
    "part_count": (40, "<I"),
    "identity_bytes": (44, "<I"),
    "history_tokens": (48, "<Q"),
    "meta_bytes": (56, "<I"),
    "table_bytes": (60, "<I"),
    "digest": (64, "<32s"),
}
PREFIX_BYTES = 96
ENTRY_FIELDS = {
    "name_bytes": (0, "<H"),
    "family_bytes": (2, "<B"),
    "type_bytes": (3, "<B"),
    "kind": (4, "<B"),
    "dimensions": (5, "<B"),
    "zero16": (6, "<H"),
    "layer": (8, "<i"),
    "zero32": (12, "<I"),
    "bytes": (16, "<Q"),
    "offset": (24, "<Q"),
    "sha256": (32, "<32s"),
    "first dimension": (64, "<Q"),
}


def get(raw: bytes | bytearray, name: str) -> int:
    offset, form = FIELDS[name]
    return int(struct.unpack_from(form, raw, offset)[0])


def table_at(raw: bytes | bytearray) -> int:
    """Offset of the first entry of the part table."""
    return PREFIX_BYTES + get(raw, "identity_bytes") + get(raw, "meta_bytes")


def put(raw: bytes | bytearray, name: str, value: int | bytes) -> bytearray:
    """The image with one field of the prefix set and the header's digest made right again."""
    changed = bytearray(raw)
    offset, form = FIELDS[name]
    struct.pack_into(form, changed, offset, value)
    return changed if name == "digest" else reseal(changed)


def put_entry(raw: bytes | bytearray, name: str, value: int | bytes) -> bytearray:
    """The image with one field of the first table entry set and the header's digest made right again."""
    changed = bytearray(raw)
    offset, form = ENTRY_FIELDS[name]
    struct.pack_into(form, changed, table_at(raw) + offset, value)
    return reseal(changed)


def reseal(raw: bytearray) -> bytearray:
    """Make the whole digest right for what the header says now."""
    header = bytearray(raw[: min(get(raw, "header_bytes"), len(raw))])
    header[64:96] = bytes(32)
    raw[64:96] = hashlib.sha256(header).digest()
    return raw
