"""CG602: digests are of algorithms that this gate knows."""

from __future__ import annotations

from typing import Final

from harness.gating.rule import Problem, Problems, Rule, Subject
from harness.model.evidence import PART_DIGEST

_KNOWN: Final = frozenset({PART_DIGEST, "none"})


def check(subject: Subject) -> Problems:
    """The algorithm that a record names for its part digests; ``none`` where no child was asked."""
    named = subject.body.get("trust", {}).get("algorithm", "none")
    if named not in _KNOWN:
        yield Problem("/body/trust/algorithm", f"is {named}, which this gate does not know; nothing can be compared")


RULE = Rule(
    id="CG602",
    text="A record names the algorithm of its part digests, and it is one that this gate knows.",
    pain="Digests of a weaker or another kind are compared as if they were equal proof.",
    hint="run again with this version of the harness; or gate with the version that knows the algorithm",
    failing=("unknown_algorithm",),
    certificate=check,
)
