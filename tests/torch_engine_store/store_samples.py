"""A toy state as the disk tier sees it: chains of links over a few sections, and forged files."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

from harness.torch_engine.keys import CacheKey
from harness.torch_engine.store import DiskStore, Record, Section, SectionKind

DOMAIN = b'{"model":"toy"}'
BUILD = "toy 1"
BUDGET = 1 << 20
CUT = 8
"""Tokens of a link."""


def key(boundary: int, *, seed: str = "a", domain: bytes = DOMAIN) -> CacheKey:
    fingerprint = hashlib.sha256(f"{seed}/{boundary}".encode()).digest()[:8]
    return CacheKey(domain=domain, boundary=boundary, fingerprint=int.from_bytes(fingerprint, "little"))


def record(boundary: int, *, seed: str = "a", domain: bytes = DOMAIN, root: bool = False) -> Record:
    """The link at a boundary; its parent is `CUT` tokens shallower."""
    start = 0 if root else boundary - CUT
    return Record(
        key=key(boundary, seed=seed, domain=domain),
        parent=key(start, seed=seed, domain=domain) if start else None,
        position=boundary,
        meta=struct.pack("<QQ", 1, boundary),
        sections=(
            Section(name="layer0.recurrent", kind=SectionKind.FIXED, row_bytes=100),
            Section(name="layer0.conv", kind=SectionKind.FIXED, row_bytes=24),
            Section(name="layer1.k", kind=SectionKind.ROWS, row_bytes=16, start=start, stop=boundary),
            Section(name="layer1.pooled", kind=SectionKind.ROWS, row_bytes=4, start=start // 4, stop=boundary // 4),
        ),
    )


def payload(of: Record, *, seed: str = "a") -> list[bytes]:
    """Distinct bytes for every section, the same in every process."""
    return [stream(f"{seed}/{of.key.boundary}/{section.name}", section.nbytes) for section in of.sections]


def stream(seed: str, size: int) -> bytes:
    blocks = (hashlib.sha256(f"{seed}/{at}".encode()).digest() for at in range(-(-size // 32)))
    return b"".join(blocks)[:size]


def open_store(folder: Path, **options: object) -> DiskStore:
    chosen: dict[str, object] = {"build": BUILD, "budget_bytes": BUDGET} | options
    return DiskStore.open(folder, **chosen)  # type: ignore[arg-type]


def fill(store: DiskStore, depth: int = 3, *, seed: str = "a") -> list[CacheKey]:
    """Store a chain, root first; its keys in that order."""
    keys = []
    for boundary in range(CUT, CUT * (depth + 1), CUT):
        link = record(boundary, seed=seed)
        assert store.put(link, payload(link, seed=seed)) == "stored"
        keys.append(link.key)
    return keys


def exact(store: DiskStore, leaf: CacheKey, *, seed: str = "a") -> bool:
    """Whether a chain loads and every byte is the one that was stored."""
    chain = store.load_chain(leaf)
    return all([bytes(v) for v in link.payload] == payload(link.record, seed=seed) for link in chain)


def path_of(store: DiskStore, folder: Path, at: CacheKey) -> Path:
    """The file of a link."""
    rows = store.entries()
    return folder / next(str(row["name"]) for row in rows if row.get("key") == at.hex)


def flip(path: Path, offset: int, mask: int = 1) -> None:
    raw = bytearray(path.read_bytes())
    raw[offset] ^= mask
    path.write_bytes(raw)


# What the format's page says of the prefix, written down once more.
FIELDS = {
    "magic": (0, "<8s"),
    "version": (8, "<I"),
    "flags": (12, "<I"),
    "file_bytes": (16, "<Q"),
    "header_bytes": (24, "<Q"),
    "build": (32, "<32s"),
    "digest": (64, "<32s"),
    "domain_bytes": (96, "<I"),
    "sections": (100, "<I"),
    "meta_bytes": (104, "<I"),
    "table_bytes": (108, "<I"),
    "boundary": (112, "<Q"),
    "fingerprint": (120, "<Q"),
    "position": (128, "<Q"),
    "parent_boundary": (136, "<Q"),
    "parent_fingerprint": (144, "<Q"),
}
PREFIX_BYTES = 152
ENTRY_FIELDS = {
    "name_bytes": (0, "<H"),
    "kind": (2, "<B"),
    "zero8": (3, "<B"),
    "zero32": (4, "<I"),
    "row_bytes": (8, "<Q"),
    "start": (16, "<Q"),
    "stop": (24, "<Q"),
    "offset": (32, "<Q"),
    "sha256": (40, "<32s"),
}


def get(raw: bytes | bytearray, name: str) -> int:
    offset, form = FIELDS[name]
    return int(struct.unpack_from(form, raw, offset)[0])


def put_field(raw: bytes, name: str, value: int | bytes) -> bytearray:
    """A file with one field of the prefix set and the header's digest made right again."""
    changed = bytearray(raw)
    offset, form = FIELDS[name]
    struct.pack_into(form, changed, offset, value)
    return changed if name == "digest" else reseal(changed)


def put_entry(raw: bytes, name: str, value: int | bytes) -> bytearray:
    """A file with one field of the first table entry set and the header's digest made right again."""
    changed = bytearray(raw)
    offset, form = ENTRY_FIELDS[name]
    at = PREFIX_BYTES + get(raw, "domain_bytes") + get(raw, "meta_bytes")
    struct.pack_into(form, changed, at + offset, value)
    return reseal(changed)


def reseal(raw: bytearray) -> bytearray:
    header = bytearray(raw[: min(get(raw, "header_bytes"), len(raw))])
    header[64:96] = bytes(32)
    raw[64:96] = hashlib.sha256(header).digest()
    return raw


def name_of(raw: bytes | bytearray) -> str:
    """The name that a file's own header asks for, so that a forger can give it."""
    domain = bytes(raw[PREFIX_BYTES : PREFIX_BYTES + get(raw, "domain_bytes")])
    head = bytes(raw[32:64]) + len(domain).to_bytes(8, "little") + domain
    return hashlib.sha256(head + bytes(raw[112:128])).hexdigest()[:32] + ".snap"
