"""Generated parts of texts: what certificates give, as Markdown, to be compared byte for byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from harness.deriving.prose import Block
from harness.gating.prose import of_claims, run_rows
from harness.gating.rule import FolderFacts

_ID12: Final = 12
_ESCAPED: Final = str.maketrans({"|": "\\|", "<": "&lt;", "[": "\\[", "`": "'"})


def generated(facts: FolderFacts, block: Block) -> str | None:
    """Return what lies in a block; None: there is no such view, or a setting of it is missing."""
    view = _VIEWS.get(block.settings.get("view", ""))
    if view is None or set(block.settings) != {"view", "claim"}:
        return None
    return "".join(f"{line}\n" for line in view(facts, block.settings["claim"]))


def _matrix(facts: FolderFacts, pattern: str) -> Iterator[str]:
    """One row for each current certificate of a pattern of claim keys."""
    yield "| claim | decision | cells passed | measured | certificate |"
    yield "|---|---|---|---|---|"
    for one in sorted(of_claims(facts, pattern), key=lambda one: (one.claim_key, one.id)):
        told = run_rows(facts.body(one.id))
        count = f"{sum(row.outcome == 'pass' for row in told)} of {len(told)}" if told else ""
        cells = (one.claim_key, one.overall, count, one.created[:10], one.id[:_ID12])
        yield f"| {' | '.join(cell.translate(_ESCAPED) for cell in cells)} |"


def _counts(facts: FolderFacts, pattern: str) -> Iterator[str]:
    """One row for each engine and model: current certificates, and what they say."""
    groups: dict[str, Counter[str]] = {}
    for one in of_claims(facts, pattern):
        groups.setdefault(one.claim_key.split("/")[1], Counter())[one.overall] += 1
    yield "| engine and model | certificates | pass | stop | inconclusive | error |"
    yield "|---|---|---|---|---|---|"
    for name, said in sorted(groups.items()):
        numbers = [sum(said.values()), *(said[word] for word in ("pass", "stop", "inconclusive", "error"))]
        yield f"| {name.translate(_ESCAPED)} | {' | '.join(map(str, numbers))} |"


_VIEWS: Final[Mapping[str, Callable[[FolderFacts, str], Iterator[str]]]] = {"matrix": _matrix, "counts": _counts}
VIEWS: Final = tuple(_VIEWS)
