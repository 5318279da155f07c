"""Makes the golden images, one of each version. Without ``--write`` it only compares.

The bytes are put together here with `struct` alone, so that the goldens hold the format's page and
not whatever the code does.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
PARTS = (
    # name, family, layer, element type, kind, shape, bytes
    ("layer0.recurrent", "recurrent", 0, "f32", 0, (2, 4), 32),
    ("logits", "logits", -1, "f32", 0, (8,), 32),
    ("sampler.rng", "sampler", -1, "i64", 0, (3,), 24),
    ("layer1.k", "kv", 1, "bf16", 1, (3, 2), 12),
)
IDENTITY = {"engine": "golden", "k_type": "bf16", "turns": False}
HISTORY = (7, 8, 9, 511)
POSITION = 3
META = bytes(range(16))


def part_bytes(name: str, size: int) -> bytes:
    return (hashlib.sha256(name.encode()).digest() * 2)[:size]


def golden(version: int) -> bytes:
    """The bytes of one version: version 1 has no history and no owed forward."""
    identity = json.dumps(IDENTITY, sort_keys=True, separators=(",", ":")).encode()
    history = HISTORY if version == 2 else ()
    flags = 1 | 4 | (2 if version == 2 else 0)
    table_bytes = sum(64 + 8 * len(p[5]) + len(p[0]) + len(p[1]) + len(p[3]) for p in PARTS)
    fields = 96 + len(identity) + len(META) + table_bytes + 4 * len(history)
    header_bytes = (fields + 63) // 64 * 64
    table, payload, end = b"", b"", header_bytes
    for name, family, layer, element, kind, shape, size in PARTS:
        raw = part_bytes(name, size)
        offset = (end + 63) // 64 * 64
        payload += bytes(offset - end) + raw
        end = offset + size
        lengths = struct.pack("<HBBBBH", len(name), len(family), len(element), kind, len(shape), 0)
        table += lengths + struct.pack("<iIQQ", layer, 0, size, offset) + hashlib.sha256(raw).digest()
        table += struct.pack(f"<{len(shape)}Q", *shape) + (name + family + element).encode()
    counts = struct.pack("<QIIQII", POSITION, len(PARTS), len(identity), len(history), len(META), len(table))
    prefix = b"SCIMAGE\x1a" + struct.pack("<IIQQ", version, flags, end, header_bytes) + counts
    rest = identity + META + table + struct.pack(f"<{len(history)}I", *history)
    rest += bytes(header_bytes - 96 - len(rest))
    digest = hashlib.sha256(prefix + bytes(32) + rest).digest()
    return prefix + digest + rest + payload


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the golden files")
    write = parser.parse_args().write
    different = 0
    for version in (1, 2):
        path = FOLDER / f"image-v{version}.bin"
        made = golden(version)
        if write:
            path.write_bytes(made)
        elif path.read_bytes() != made:
            print(f"{path.name}: not what the generator makes")
            different += 1
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
