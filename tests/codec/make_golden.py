"""Writes ``tests/codec/golden``: archives and segments that must stay readable. Run by hand, when a format is added:

python -m tests.codec.make_golden
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from harness.codec import archive, paths, rans
from harness.codec.segments import Version
from tests.codec import pages

VERSIONS: tuple[Version, ...] = (1, 2)
FOLDER = Path(__file__).parent / "golden"


def golden() -> dict[str, bytes]:
    """Name to bytes, all made by the oracle path."""
    oracle = paths.coder("oracle")
    made: dict[str, bytes] = {}
    for bins in (16, 32):
        for version in VERSIONS:
            made[f"wave-{bins}.lcg{version}"] = paths.encode_tile(pages.wave(), bins=bins, version=version, path=oracle)
    for version in VERSIONS:
        made[f"page-v{version}.ckg1"] = archive.encode_page(
            pages.page(), pages.COMPONENTS, version=version, path=oracle
        )
    made["page.raw"] = pages.page()
    made |= entries(made["page.raw"], made["page-v2.ckg1"])
    made["tiny.cgv1"] = rans.encode_tile(pages.TINY.astype(float).tolist())
    return made


def entries(page: bytes, coded: bytes) -> dict[str, bytes]:
    """Entries of a shelf as they were written: version 1 without an identity, version 2 of either class."""
    nothing = hashlib.sha256(b"").hexdigest()
    kinds = {"exact": ("raw", 1, page), "lossy": ("lmcache-cachegen", 2, coded)}
    made: dict[str, bytes] = {}
    for kind, (name, version, data) in kinds.items():
        codec = {"name": name, "version": version, "class": kind, "decoded_length": len(page), "calibration": nothing}
        for head in (1, 2):
            about: dict[str, object] = {"version": head, "key": f"entry-v{head}", "page": len(data), "tail": 4}
            about["sha256"] = hashlib.sha256(data + b"tail").hexdigest()
            about |= {"codec": codec} if head == 2 else {}
            if head == 2 or kind == "exact":
                line = json.dumps(about, sort_keys=True).encode() + b"\n"
                made[f"entry-v{head}.{kind}.page"] = line + data + b"tail"
    return made


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, data in golden().items():
        (FOLDER / name).write_bytes(data)
