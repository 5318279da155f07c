"""One fresh process of the matrix: it opens pages of an adapter, measures them on one clock, and tells lines of JSON.

Started as ``python -m harness.campaigning.kv_child`` with a job on standard input; standard output holds one record a
line. The process is the unit that two runs may differ by, so nothing is kept from one to the next.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from harness.campaigning.kv_probes import Paths, probe_all
from harness.campaigning.memory import peak_kib, reset_peak
from harness.codec.archive import read_archive
from harness.codec.paths import coder, encode_tile
from harness.deriving.kv_plan import CONTROL, EXACT, PLANTED, Group, order_of, plan_groups
from harness.deriving.prompts import prompt_ids
from harness.engines import registry
from harness.engines.pages import Paged, PageEngine, PageSession
from harness.model.scenario import PromptSegment, PromptSpec

DECODES: Final = 4
"""Decode steps after the first, kept for each arm and round."""
_SEED: Final = 700
_ROOM: Final = 128
_BUDGET: Final = 1 << 33
Tell = Callable[[Mapping[str, object]], None]


def main() -> None:
    """Read a job, do it."""
    job = json.loads(sys.stdin.read())
    adapter = registry.load(job["adapter"], job["group"])
    if not isinstance(adapter, Paged):
        raise SystemExit(f"{job['adapter']} has no pages")
    pages = adapter.open_pages(job["options"])
    if job["probes"]:
        for one in probe_all(pages, Paths(job["procedure"]["path"], job["procedure"]["restore"])):
            tell({"type": "kv_probe", **one})
    if job["process"] >= 0:
        done = set(job["done"])
        for group in [one for one in plan_groups(job["procedure"]) if one.id not in done]:
            Measured(pages, job["procedure"], job["process"], group, tell).run()
        tell({"type": "kv_oracle", "process": job["process"], "spans": {"oracle": _oracle()}})


def tell(record: Mapping[str, object]) -> None:
    """Write one record."""
    sys.stdout.write(json.dumps(record, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def prompt_of(tokens: int) -> list[int]:
    """The prefix of a page, the same in every process."""
    return list(prompt_ids({"A": PromptSpec(segments=[PromptSegment(tokens=tokens, seed=_SEED)])}, "A"))


def digest(parts: Mapping[str, tuple[str, bytes]]) -> str:
    """SHA-256 over names, types and bytes of all parts."""
    sha = hashlib.sha256()
    for name, (kind, data) in parts.items():
        sha.update(f"{name}\0{kind}\0{len(data)}\0".encode())
        sha.update(data)
    return sha.hexdigest()


class Measured:
    """All rounds of one group in one process.

    Args:
        pages: of the adapter.
        procedure: what to do.
        process: number of this process.
        group: which page.
        out: where records go.
    """

    def __init__(self, pages: PageEngine, procedure: Mapping[str, Any], process: int, group: Group, out: Tell) -> None:
        self.pages, self.procedure, self.process, self.group, self.tell = pages, procedure, process, group, out
        self.path, self.restore = str(procedure["path"]), str(procedure["restore"])
        model = procedure["models"][group.model]
        room = -(-(group.prefix + int(procedure["steps"]) + 2 * DECODES) // _ROOM) * _ROOM
        options = {**model, "k_type": group.k, "v_type": group.v, "chunk": 1024, "max_seq_len": room}
        self.source = pages.open(options)
        self.source.prefill(prompt_of(group.prefix))
        self.target = self.source.fork()
        self.tail = self.source.tail()
        self.raw = len(self.source.page(transposed=False))
        self.forms: dict[str, bytes] = {}
        self.ran: dict[str, set[str]] = {}
        """The paths that imports of each lossy arm took, as the engine told them."""

    def run(self) -> None:
        """Warm up, rounds, memory, the page's facts; in the first process also the continuation."""
        rounds = int(self.procedure["rounds"])
        for number in range(int(self.procedure["warmups"])):
            self.round(number)
        for number in range(rounds):
            self.tell(
                {
                    "type": "kv_round", "process": self.process, "group": self.group.id, "number": number,
                    "order": order_of(self.procedure, number), "arms": self.round(number),
                }
            )  # fmt: skip
        self.memory()
        self.facts()
        if self.process == 0:
            self.imported(EXACT, self.forms[EXACT])
            told = [self.target.step(-1) for _ in range(int(self.procedure["steps"]))]
            for version in self.procedure["versions"]:
                self.walk(int(version), told)

    def round(self, number: int) -> dict[str, object]:
        """Every arm once, in the order of the round."""
        return {arm: self.arm(arm) for arm in order_of(self.procedure, number)}

    def arm(self, arm: str) -> dict[str, object]:
        """Encode, write, read, import, first token: begin and end of each on one clock, and a few decode steps."""
        now = time.monotonic_ns
        spans: dict[str, list[int]] = {}
        begin = now()
        data = self.encoded(arm)
        spans["encode"] = [begin, now()]
        identity = identity_of(arm, self.raw)
        with tempfile.TemporaryDirectory(prefix="kv-") as folder:  # is removed after the first token, not before it
            shelf = self.pages.shelf(Path(folder), _BUDGET)
            begin = now()
            shelf.publish("page", identity, data, self.tail)
            spans["write"] = [begin, now()]
            _drop_cached(Path(folder))
            begin = now()
            found = shelf.find("page", str(identity["class"]))
            spans["read"] = [begin, now()]
            if found is None:
                raise SystemExit(f"{self.group.id}: {arm} was published and is not found")
            held = found[0]
            begin = now()
            self.imported(arm, held)
            spans["import"] = [begin, now()]
            begin = now()
            self.target.step(-1)
            spans["first_token"] = [begin, now()]
        steps = []
        for _ in range(DECODES):
            begin = now()
            self.target.step(-1)
            steps.append(now() - begin)
        self.forms[arm] = held
        return {"spans": spans, "decode_ns": steps}

    def encoded(self, arm: str) -> bytes:
        """The stored form of the page."""
        if arm in (EXACT, CONTROL):
            return self.source.page(transposed=False)
        return self.source.archive(int(arm[-1]), self.path, transposed=False)

    def imported(self, arm: str, data: bytes) -> None:
        """The page in the target session."""
        if arm in (EXACT, CONTROL):
            self.target.bring(data, self.tail, transposed=False)
        else:
            ran = self.target.bring_archive(data, self.tail, self.restore, transposed=False)
            self.ran.setdefault(arm, set()).add(ran)

    def memory(self) -> None:
        """The most memory above what was held before, of one import of each form; last, some that is planted."""
        planted = len(self.forms[EXACT]) + (int(self.procedure["limits"]["host_kib"]) << 10)
        for arm in (*order_of(self.procedure, 0), PLANTED):
            self.pages.device_peak()
            reset_peak()
            before = peak_kib()
            if arm == PLANTED:
                bytearray(b"\1") * planted
            else:
                self.imported(arm, self.forms[arm])
            self.tell(
                {
                    "type": "kv_memory", "process": self.process, "group": self.group.id, "arm": arm,
                    "host_kib": max(0, peak_kib() - before), "device_bytes": self.pages.device_peak(),
                }
            )  # fmt: skip

    def facts(self) -> None:
        """What the page is, from its bytes; the exact form must come back as it was."""
        self.imported(EXACT, self.forms[EXACT])
        back = digest(self.target.parts())
        archives = {}
        for version in self.procedure["versions"]:
            arm = f"lossy_lcg{version}"
            data = self.forms[arm]
            self.imported(arm, data)
            bins = [one.segment.bins for one in read_archive(data).records if one.segment is not None]
            archives[arm] = {
                "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "path": self.path,
                "restored": "_and_".join(sorted(self.ran[arm])), "bins": sorted(set(bins)),
                "state": digest(self.target.parts()),
            }  # fmt: skip
        self.tell(
            {
                "type": "kv_page", "process": self.process, "group": self.group.id,
                "raw": len(self.forms[EXACT]), "state": digest(self.source.parts()), "back": back, "archives": archives,
                "components": [asdict(one) for one in self.source.components(transposed=False)],
            }
        )  # fmt: skip

    def walk(self, version: int, told: Sequence[tuple[int, bytes]]) -> None:
        """Go on from a lossy form: with the tokens that the exact one told, and freely."""
        steps, arm = len(told), f"lossy_lcg{version}"
        self.imported(arm, self.forms[arm])
        forced = [_logits(self.target.step(token)[1]) for token, _ in told]
        self.imported(arm, self.forms[arm])
        free = [self.target.step(-1)[0] for _ in range(steps)]
        exact = [_logits(logits) for _, logits in told]
        same = [int(one.argmax()) == token for one, (token, _) in zip(forced, told, strict=True)]
        alike = [mine == token for mine, (token, _) in zip(free, told, strict=True)]
        pairs = list(zip(exact, forced, strict=True))
        entropy = [abs(_entropy(one) - _entropy(other)) for one, other in pairs]
        top = [abs(_top(one) - _top(other)) for one, other in pairs]
        self.tell(
            {
                "type": "kv_walk", "group": self.group.id, "version": version, "steps": steps, "agreed": sum(same),
                "first_mismatch": _first(same), "free_first_mismatch": _first(alike),
                "entropy_mean_nano": _nano(sum(entropy) / steps), "entropy_most_nano": _nano(max(entropy)),
                "top_mean_nano": _nano(sum(top) / steps), "top_most_nano": _nano(max(top)),
            }
        )  # fmt: skip


def _first(same: Sequence[bool]) -> int:
    """The first step that differs; -1 if none does."""
    return same.index(False) if False in same else -1


def _nano(value: float) -> int:
    return round(value * 1e9) if math.isfinite(value) else -1


def _logits(data: bytes) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.frombuffer(data, "<f4").astype(np.float64)


def _log_shares(logits: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    shifted = logits - logits.max()
    return cast("np.ndarray[Any, np.dtype[np.float64]]", shifted - math.log(float(np.exp(shifted).sum())))


def _entropy(logits: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """In nats."""
    shares = _log_shares(logits)
    return -float((np.exp(shares) * shares).sum())


def _top(logits: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """The logarithm of the largest probability."""
    return float(_log_shares(logits).max())


def identity_of(arm: str, length: int) -> Mapping[str, str | int]:
    """Who made the bytes of an arm."""
    exact, nothing = arm in (EXACT, CONTROL), hashlib.sha256(b"").hexdigest()
    return {
        "name": "raw" if exact else "lmcache-cachegen", "version": 1 if exact else int(arm[-1]),
        "class": "exact" if exact else "lossy", "decoded_length": length, "calibration": nothing,
    }  # fmt: skip


def _drop_cached(folder: Path) -> None:
    """Ask the system to forget the pages of files, so that a read reads; where it cannot be asked, it is not."""
    if not hasattr(os, "posix_fadvise"):
        return
    for place in folder.iterdir():
        with place.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _oracle() -> list[int]:
    """Begin and end of a timed run of the oracle, which belongs to no restore."""
    values = np.linspace(-1, 1, 64 * 32, dtype=np.float32).reshape(64, 32).astype(np.float16)
    begin = time.monotonic_ns()
    encode_tile(values, bins=16, version=1, path=coder("oracle"))
    return [begin, time.monotonic_ns()]


if __name__ == "__main__":
    main()


__all__ = ["Measured", "PageSession", "digest", "main", "prompt_of"]
