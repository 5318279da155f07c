"""Archives of K/V rows, made and read by the harness inside the child process: what an engine must decode, and to what.

The harness encodes the rows that a session has and decodes them again by its own plain path, so what an engine makes
of the archive is compared with what it must be, bit for bit, and not with what another engine made of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.engines.interface import StatePart
from harness.errors import RefusedError
from harness.model.values import Family, RefusalCode

CACHEGEN: Final = "lmcache-cachegen"
VERSIONS: Final[Mapping[int, str]] = {1: "LCG1", 2: "LCG2"}
"""Versions of this codec to the segments that an archive holds."""

WORTH_COMPILING: Final = 16 << 20
"""Bytes of rows from which the compiled path makes up for the second that the import of numba takes in each child."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Coded:
    """An archive, and what a session has after it was decoded into it."""

    archive: bytes
    views: Sequence[memoryview]
    """Bytes of every part; those of K/V rows decoded."""
    page_bytes: int
    """Bytes of the K/V rows."""
    path: str
    """Path of the harness's own codec: ``compiled`` for many bytes where numba is there, else ``numpy``."""


def coded(parts: Sequence[StatePart], views: Sequence[memoryview], codec: str, version: int) -> Coded:
    """Return the archive of a session's K/V rows: all K layers, then all V layers, as they are listed.

    Args:
        parts: Of the session; rows of family ``kv`` whose names end in ``.k`` and ``.v`` are coded.
        views: Their bytes, flat.
        codec: Only ``lmcache-cachegen`` is made.
        version: 1 for LCG1 segments, 2 for LCG2.

    Raises:
        RefusedError: Another codec or version, no rows, or rows that no record of an archive holds (``unsupported``).
    """
    from harness.codec.archive import Component, decode_page, encode_page
    from harness.codec.compiled import available
    from harness.codec.errors import CodecError
    from harness.codec.paths import coder

    if codec != CACHEGEN or version not in VERSIONS:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"the harness makes {CACHEGEN} 1 and 2, not {codec} {version}")
    order = [*_side(parts, ".k"), *_side(parts, ".v")]
    k, v = [parts[at] for at in _side(parts, ".k")], [parts[at] for at in _side(parts, ".v")]
    if not k or len(k) != len(v) or not _alike(k) or not _alike(v) or k[0].shape[0] != v[0].shape[0]:
        raise RefusedError(RefusalCode.UNSUPPORTED, "an archive needs rows of K and V, of one shape and type each")
    page = b"".join(views[at] for at in order)
    path = coder("compiled" if len(page) >= WORTH_COMPILING and available() else "numpy")
    try:
        component = Component(
            layers=len(k),
            tokens=int(k[0].shape[0]),
            k_element=k[0].element_type,
            v_element=v[0].element_type,
            k_channels=_channels(k[0]),
            v_channels=_channels(v[0]),
        )
        archive = encode_page(page, [component], version=2 if version == max(VERSIONS) else 1, path=path)
        decoded = memoryview(decode_page(archive, path=path))
    except CodecError as error:
        raise RefusedError(RefusalCode.UNSUPPORTED, str(error)) from error
    found, at = list(views), 0
    for place in order:
        found[place] = decoded[at : at + views[place].nbytes]
        at += views[place].nbytes
    return Coded(archive=archive, views=found, page_bytes=at, path=path.name)


def _side(parts: Sequence[StatePart], end: str) -> list[int]:
    return [at for at, part in enumerate(parts) if part.family == Family.KV and part.name.endswith(end)]


def _alike(parts: Sequence[StatePart]) -> bool:
    return len({(tuple(part.shape), part.element_type) for part in parts}) == 1


def _channels(part: StatePart) -> int:
    return math.prod(int(extent) for extent in part.shape[1:])
