"""Writes ``tests/codec/golden``: archives and segments that must stay readable. Run by hand, when a format is added:

python -m tests.codec.make_golden
"""

from __future__ import annotations

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
    made["tiny.cgv1"] = rans.encode_tile(pages.TINY.astype(float).tolist())
    return made


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, data in golden().items():
        (FOLDER / name).write_bytes(data)
