"""Probes of a restore and of what is stored: no oracle inside it, and who coded it: H09 and G11."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from harness.campaigning.kv_probes.tools import Paths, Probe, identity_of, require_none, session_of, told, word_of
from harness.codec.archive import decode_page
from harness.codec.paths import coder
from harness.engines.pages import PageEngine


def apart(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    """The best of three imports beside the best of three runs of the oracle, which takes many times as long.

    Both are told in time of this process's processors: how long a busy machine keeps either waiting is no part of it.
    """
    source = session_of(pages, {"k_type": "f16", "v_type": "f16"}, tokens=64)
    data, tail, target = source.archive(2, paths.code, transposed=False), source.tail(), source.fork()

    def tried() -> str:
        imports, oracles = [], []
        for _ in range(3):
            imports.append(spent(lambda: target.bring_archive(data, tail, paths.restore, transposed=False)))
            oracles.append(spent(lambda: decode_page(data, path=coder("oracle"))))
        return "apart" if 2 * min(imports) < min(oracles) else "inside"

    yield "import without the oracle", told(tried), ""


def spent(work: Callable[[], object]) -> int:
    """Nanoseconds that the processors spend on a piece of work of this process."""
    begin = time.process_time_ns()
    work()
    return time.process_time_ns() - begin


def identities(pages: PageEngine, paths: Paths) -> Iterator[Probe]:
    """G11: identities that are unknown, stripped, newer or contradict themselves; lossy for exact."""
    source = session_of(pages, {"k_type": "f16", "v_type": "f16"}, tokens=40)
    data, tail = source.archive(2, paths.code, transposed=False), source.tail()
    exact = source.page(transposed=False)
    good = identity_of(2, len(exact))
    with tempfile.TemporaryDirectory(prefix="kv-") as folder:
        shelf = pages.shelf(Path(folder), 1 << 30)
        shelf.publish("page", good, data, tail)
        yield "shelf lossy for exact", word_of(lambda: require_none(shelf.find("page", "exact")), done="miss"), ""
        yield "shelf lossy", "served" if shelf.find("page", "lossy") == (data, tail) else "other", ""
        shelf.publish("page", identity_of(0, len(exact)), exact, tail)
        yield "shelf exact", "served" if shelf.find("page", "exact") == (exact, tail) else "other", ""
    changed: Mapping[str, Mapping[str, object]] = {
        "good": good,
        "unknown": {**good, "name": "cachegen-next"},
        "stripped": {name: value for name, value in good.items() if name != "calibration"},
        "newer": {**good, "version": 3},
        "length": {**good, "decoded_length": int(str(good["decoded_length"])) + 1},
        "class": {**good, "class": "exact"},
        "lossy for exact": good,
    }
    for name, identity in changed.items():
        wanted = "exact" if name == "lossy for exact" else "lossy"
        target = source.fork()
        word = word_of(lambda t=target, i=identity, w=wanted: t.bring_stored(i, data, tail, paths.restore, w))  # type: ignore[misc]
        yield name, word, ""
