"""The probes of entries H01 to H10 and G11: what is tried on an engine's codec and pages, beside the harness's own.

The expectation of each is made here, by the plain paths of `harness.codec`, from the bytes that the engine hands over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from harness.campaigning.kv_probes import coding, harming, storing, typed
from harness.campaigning.kv_probes.tools import Paths, Probe
from harness.engines.pages import PageEngine

__all__ = ["Paths", "probe_all"]

_PARTS: Final[Mapping[str, Callable[[PageEngine, Paths], Iterator[Probe]]]] = {
    "H01": coding.tiles,
    "H02": coding.packed,
    "H03": coding.bins,
    "H04": coding.layouts,
    "H05": harming.harms,
    "H07": typed.pairs,
    "H09": storing.apart,
    "H10": typed.types,
    "G11": storing.identities,
}


def probe_all(pages: PageEngine, paths: Paths, only: str = "") -> Iterator[Mapping[str, object]]:
    """Yield every probe as a record without its type.

    Args:
        pages: what to try it on.
        paths: declared paths of the codec.
        only: the one entry to try; empty for all.
    """
    for entry, part in _PARTS.items():
        if only in ("", entry):
            for name, observed, expected in part(pages, paths):
                yield {"entry": entry, "name": name, "observed": observed, "expected": expected}
