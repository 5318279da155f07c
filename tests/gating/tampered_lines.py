"""Lines of committed campaigns, left out or doubled, with every digest put right: who refuses it?

``python -m tests.gating.tampered_lines [CAMPAIGN...]`` tries every line (minutes) and lists what left a decision as it was.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from harness.certifying.store import read_evidence
from harness.deriving.bodies import body_of
from harness.errors import InvalidDocumentError
from harness.wire import canonical
from harness.wire.observed import read_observed

COMMITTED: Final = Path(__file__).parents[2] / "certificates"
EXCEPTIONS: Final = {
    "selftest asked deleted": "how many questions a group has is told by its records alone",
    "fuzz round deleted": "a campaign of minutes announces no rounds; only the last one can go",
    "matrix trust deleted": "the children of a matrix are replaced, and those of mutants tell nothing",
    "matrix trust doubled": "several hosts count their children, each from 1 on",
    "matrix scenario deleted": "of one that no mutant meets nothing is derived",
}
"""What leaves a decision as it was, and why: for these a signature must vouch."""


def current() -> dict[str, Any]:
    """Return the bodies of current campaigns made here, by the first step of their path and their subject."""
    found: dict[str, Any] = {}
    for path in sorted(COMMITTED.glob("[a-z]*/*/*/*.json")):
        value = json.loads(path.read_bytes())
        name = path.parts[-4]
        if value["status"]["state"] == "current" and name != "foreign":
            found[f"{name}/{path.parts[-3]}"] = value["body"]
    return found


def lines_of(body: Any) -> list[bytes]:
    """Return the lines of a campaign's evidence."""
    return read_evidence(COMMITTED, body["run"]["evidence"]["sha256"]).splitlines(keepends=True)


def closed(lines: Sequence[bytes]) -> bytes:
    """Return a file of these lines, whose last one counts and digests the others."""
    before, end = b"".join(lines[:-1]), json.loads(lines[-1])
    return before + canonical.line({**end, "records": len(lines) - 1, "sha256": hashlib.sha256(before).hexdigest()})


def decision(lines: Sequence[bytes]) -> object:
    """Return the decision that follows; None: the judge refuses the file."""
    try:
        return body_of(read_observed(closed(lines), "tampered"))["decision"]
    except InvalidDocumentError:
        return None


def tried(lines: Sequence[bytes], most: int, seed: str) -> Iterator[tuple[str, int, Sequence[bytes]]]:
    """Yield what was done to which line, and what is left: up to so many lines of each type."""
    by_type: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines[1:-1], start=1):
        by_type[json.loads(line)["type"]].append(number)
    draw = random.Random(seed)
    for kind, numbers in by_type.items():
        for number in numbers if len(numbers) <= most else draw.sample(numbers, most):
            yield f"{kind} deleted", number, [*lines[:number], *lines[number + 1 :]]
            yield f"{kind} doubled", number, [*lines[: number + 1], *lines[number:]]


def survivors(body: Any, most: int) -> list[tuple[str, int]]:
    """Return what left the decision as it was: what was done, and to which line."""
    lines = lines_of(body)
    held = decision(lines)
    return [
        (f"{body['campaign']} {word}", at) for word, at, left in tried(lines, most, "lines") if decision(left) == held
    ]


def main(names: Sequence[str]) -> None:
    """Try every line."""
    for name, body in current().items():
        if not names or name.partition("/")[0] in names:
            found = survivors(body, sys.maxsize)
            print(name, dict(Counter(word for word, _ in found)) or "nothing survives")


if __name__ == "__main__":
    main(sys.argv[1:])
