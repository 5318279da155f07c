"""The walk of the fuzzer: cases by number, each a function of the seed, with what was new kept and built upon.

A case whose signature nobody had before joins the corpus of its target. Every round of cases ends in one record. Before
the walk come controls: readers and gates with one planted hole each, which the same cases must find.
"""

from __future__ import annotations

import gc
import hashlib
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from harness.model.certificate import GateReport
from harness.selfcheck import codecs, specimens
from harness.selfcheck.assault import Answer, Folder, LedgerTarget, Target, changed, packed, readers

ROUND: Final = 500
"""Cases of one record."""
SLOW_NS: Final = 1_000_000_000
LARGE_KIB: Final = 64 * 1024
MOST_KEPT: Final = 240
MOST_KEPT_BYTES: Final = 8192
CONTROL_CASES: Final = 4000
"""In so many cases a planted hole must be found."""
_WEIGHTS: Final = {
    "json": 2,
    "certificate": 4,
    "event": 2,
    "evidence": 5,
    "signature": 1,
    "signers": 1,
    "reading": 2,
    "schema": 2,
    "policy": 1,
    "pack": 1,
    "folder": 5,
    "packed": 2,
    "ledger": 2,
}
TARGETS: Final = tuple(_WEIGHTS)
GATE: Final = "gate"
CODEC: Final = "codec"
SUBJECTS: Final[Mapping[str, Mapping[str, int]]] = {GATE: _WEIGHTS, CODEC: codecs.WEIGHTS}
"""What may be fuzzed, to its targets and their shares of the cases."""
MOST_CRASHERS: Final = 200


@dataclass(kw_only=True)
class Kept:
    """An input that showed something new."""

    target: str
    data: bytes
    signature: str

    @property
    def name(self) -> str:
        """File name in a corpus."""
        return f"{self.target}-{hashlib.sha256(self.data).hexdigest()[:16]}"


@dataclass(kw_only=True)
class Round:
    """What some hundreds of cases came to."""

    number: int
    cases: int = 0
    by_target: Counter[str] = field(default_factory=Counter)
    accepted: int = 0
    refused: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    new: int = 0
    slowest_ns: int = 0
    largest_kib: int = 0
    """Growth of the process's peak by one case."""
    digest: str = ""
    """Of all inputs of the round, in order."""


@dataclass(frozen=True, kw_only=True)
class Crasher:
    """An input with which something is wrong."""

    target: str
    number: int
    wrong: str
    signature: str
    data: bytes


class Walk:
    """All cases of one seed.

    Args:
        seed: Any number.
        scratch: An empty folder.
        judge: The gate; a control gives one with a hole.
        change_reader: Puts a reader with a hole in the place of one; None: none.
        targets: Names of targets; empty: all.
        of: What is fuzzed: a name of :data:`SUBJECTS`.
    """

    def __init__(
        self,
        seed: int,
        scratch: Path,
        *,
        judge: Callable[[Path], GateReport] | None = None,
        change_reader: Callable[[Target], Target] | None = None,
        targets: Sequence[str] = (),
        of: str = GATE,
    ) -> None:
        self._seed = seed
        self._folders: dict[str, Folder] = {}
        self._ledger: LedgerTarget | None = None
        readable = codecs.targets() if of == CODEC else self._of_gate(scratch, judge)
        self._readers = {one.name: change_reader(one) if change_reader else one for one in readable}
        weights = SUBJECTS[of]
        names = targets or tuple(weights)
        self._names = [name for name in names for _ in range(weights[name])]
        self._known: set[tuple[str, str]] = set()
        self.kept: list[Kept] = []
        self.crashers: list[Crasher] = []
        self._number = 0

    def _of_gate(self, scratch: Path, judge: Callable[[Path], GateReport] | None) -> Sequence[Target]:
        """Make folders and a ledger to be changed; return the readers of what lies in them."""
        source = scratch / "seeds"
        source.mkdir(parents=True)
        specimens.folders().VALID["valid_signed"](source)
        self._folders = {
            "folder": Folder(scratch / "folder", source, judge),
            "packed": Folder(scratch / "packed", packed(source, scratch / "seeds-packed"), judge),
        }
        self._ledger = LedgerTarget(scratch / "ledger", source)
        return readers(source)

    def rounds(self) -> Iterator[Round]:
        """Yield rounds without end."""
        number = 0
        while True:
            yield self.round(number)
            number += 1

    def round(self, number: int, cases: int = ROUND) -> Round:
        """Go on for some cases."""
        found = Round(number=number)
        inputs = hashlib.sha256()
        for _ in range(cases):
            data = self._case(found)
            inputs.update(hashlib.sha256(data).digest())
        found.digest = inputs.hexdigest()
        gc.collect()
        return found

    def _case(self, found: Round) -> bytes:
        rng = Random(f"{self._seed}:{self._number}")  # noqa: S311 - cases are to be made again, not to be secret
        self._number += 1
        target = rng.choice(self._names)
        data, ask = self._made(rng, target)
        before, began = _peak_kib(), time.process_time_ns()
        answer = _asked(ask)
        took, grown = time.process_time_ns() - began, _peak_kib() - before
        wrong = answer.wrong or ("slow" if took > SLOW_NS else "large" if grown > LARGE_KIB else "")
        found.cases += 1
        found.by_target[target] += 1
        good = answer.signature.startswith(("accepted", "judged", "good", "0"))
        found.accepted += good
        found.refused += not good
        found.slowest_ns = max(found.slowest_ns, took)
        found.largest_kib = max(found.largest_kib, grown)
        if wrong:
            found.wrong[wrong] += 1
            self.crashers.append(
                Crasher(target=target, number=self._number - 1, wrong=wrong, signature=answer.signature, data=data)
            )
        if (target, answer.signature) not in self._known:
            self._known.add((target, answer.signature))
            found.new += 1
            self._keep(Kept(target=target, data=data, signature=answer.signature))
        return data

    def _made(self, rng: Random, target: str) -> tuple[bytes, Callable[[], Answer]]:
        if target in self._folders:
            return self._folders[target].case(rng)
        if self._ledger is not None and target == "ledger":
            return self._ledger.case(rng)
        reader = self._readers[target]
        grown = [one.data for one in self.kept if one.target == target]
        data = rng.choice(grown if grown and rng.random() < 0.3 else reader.seeds)
        other = rng.choice(reader.seeds)
        if reader.change is not None:
            made = reader.change(rng, data, other)
        else:
            made = changed(rng, data, other, lines=target == "evidence")
        return made, lambda: reader.judge(made)

    def _keep(self, one: Kept) -> None:
        if one.target in self._readers and len(one.data) <= MOST_KEPT_BYTES and len(self.kept) < MOST_KEPT:
            self.kept.append(one)


def _asked(ask: Callable[[], Answer]) -> Answer:
    try:
        return ask()
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is what a fuzzer looks for
        return Answer(f"{type(problem).__name__}", "raised")


def _peak_kib() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


def controls(seed: int, scratch: Path, of: str = GATE) -> Iterator[tuple[str, bool, int]]:
    """Plant one hole after another; yield its name, whether the walk found it, and in how many cases."""
    for name, (target, wrong, options) in HOLES[of].items():
        walk = Walk(seed, scratch / name, targets=(target,), of=of, **options)  # type: ignore[arg-type]
        cases = 0
        while cases < CONTROL_CASES and not any(one.wrong == wrong for one in walk.crashers):
            cases += walk.round(0, 50).cases
        yield name, any(one.wrong == wrong for one in walk.crashers), cases


def _last_key_wins(target: Target) -> Target:
    """A reader that takes the last of two equal keys, as most do, beside one that refuses."""
    import json

    from harness.wire import strict

    def judge(data: bytes) -> Answer:
        try:
            json.loads(data)
        except (ValueError, RecursionError):
            return Answer("refused")
        try:
            strict.loads(data, where="")
        except Exception:  # noqa: BLE001 - this reader has a hole, and this is how it shows
            return Answer("accepted", "disagreed")
        return Answer("accepted")

    return target._replace(judge=judge) if target.name == "json" else target


def _without(*ids: str) -> Callable[[Path], GateReport]:
    from harness.gating.gate import gate
    from harness.gating.rules import RULES

    return lambda folder: gate([folder], day="2026-06-01", rules=[rule for rule in RULES if rule.id not in ids])


def _raises(target: Target) -> Target:
    """A reader that trusts the type of a field."""
    import json

    def judge(data: bytes) -> Answer:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return Answer("refused")
        return Answer("accepted " + value["kind"].upper()[:0])

    return target._replace(judge=judge) if target.name == "event" else target


_HOLES: Final[Mapping[str, tuple[str, str, Mapping[str, object]]]] = {
    "last_key_wins": ("json", "disagreed", {"change_reader": _last_key_wins}),
    "type_trusted": ("event", "raised", {"change_reader": _raises}),
    "readme_not_compared": ("folder", "false_pass", {"judge": _without("CG502")}),
    "spelling_not_compared": ("folder", "false_pass", {"judge": _without("CG104")}),
    "pack_not_compared": ("packed", "false_pass", {"judge": _without("CG204", "CG205")}),
    "evidence_not_hashed": ("folder", "false_pass", {"judge": _without("CG204")}),
}
"""Name to target, what must be wrong, and the planted hole."""
HOLES: Final[Mapping[str, Mapping[str, tuple[str, str, Mapping[str, object]]]]] = {
    GATE: _HOLES,
    CODEC: {name: (target, wrong, {"change_reader": hole}) for name, (target, wrong, hole) in codecs.HOLES.items()},
}
"""What is fuzzed to its holes."""
CONTROLS: Final = tuple(_HOLES)


def record_of(one: Round) -> Mapping[str, object]:
    """Return the record of a round."""
    return {
        "type": "round",
        "number": one.number,
        "cases": one.cases,
        "by_target": dict(sorted(one.by_target.items())),
        "accepted": one.accepted,
        "refused": one.refused,
        "wrong": dict(sorted(one.wrong.items())),
        "new": one.new,
        "slowest_ns": one.slowest_ns,
        "largest_kib": one.largest_kib,
        "digest": one.digest,
    }


def record_of_crasher(one: Crasher) -> Mapping[str, object]:
    """Return the record of an input with which something is wrong; the input itself lies in the run folder."""
    return {
        "type": "crasher",
        "target": one.target,
        "number": one.number,
        "wrong": one.wrong,
        "sha256": hashlib.sha256(one.data).hexdigest(),
        "bytes": len(one.data),
    }
