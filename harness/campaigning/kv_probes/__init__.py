"""The probes of entries H01 to H10 and G11: what is tried on an engine's codec and pages, beside the harness's own.

The expectation of each is made here, by the plain paths of `harness.codec`, from the bytes that the engine hands over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from harness.campaigning.kv_probes import coding, harming, storing, typed
from harness.campaigning.kv_probes.tools import KERNELS, Paths, Probe, session_of
from harness.engines.pages import PageEngine, PageRefusedError

__all__ = ["KERNELS", "Paths", "probe_all", "refusal_of_paths"]

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


def refusal_of_paths(pages: PageEngine, paths: Paths) -> str:
    """Return with which words an engine refuses a declared path here; empty if it takes both.

    Other refusals are left to the probes.
    """
    source = session_of(pages, {"k_type": "f16", "v_type": "f16"}, tokens=8)
    try:
        data = source.archive(2, paths.code, transposed=False)
        source.fork().bring_archive(data, source.tail(), paths.restore, transposed=False)
    except PageRefusedError as error:
        return str(error) if error.word == "codec.path" else ""
    return ""
