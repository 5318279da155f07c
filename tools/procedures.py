"""Writes ``scenarios/procedures.json``: the procedures that each scenario id may stand for, and its largest scale.

The first digest is the scenario's present one; ``--keep`` leaves former ones behind it, so that records made before an
edit still count, and writes down since when each makes no new ones. Without it a changed procedure makes its
certificates stale (rule CG603), which is what an edit of a check or a limit should do; former ones of scenarios that
did not change stay. ``--check`` compares with the file and writes nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from harness.pipeline import available_scenarios
from harness.wire import canonical, strict

FILE = Path(__file__).resolve().parent.parent / "scenarios" / "procedures.json"


def main() -> int:
    """Write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the file; 1 if it differs")
    parser.add_argument("--keep", action="store_true", help="keep former digests of changed procedures")
    options = parser.parse_args()
    former, replaced = known()
    keep = options.keep or options.check
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    scenarios = available_scenarios()
    digests = {
        name: [one.procedure_digest, *_former(former.get(name, []), one.procedure_digest, keep=keep)]
        for name, one in scenarios.items()
    }
    scales = {name: max(map(max, one.suites.values())) for name, one in scenarios.items()}
    ended = {name: [replaced.get((name, old), now) for old in held[1:]] for name, held in digests.items() if held[1:]}
    value = {"procedures": digests, "replaced": ended, "scales": scales, "schema": "statecert/procedures/v1"}
    data = canonical.render(value)
    if options.check:
        same = (
            FILE.is_file()
            and FILE.read_bytes() == data
            and all(former.get(k, [""])[0] == v[0] for k, v in digests.items())
        )
        print(
            "scenarios/procedures.json is up to date" if same else "scenarios/procedures.json is stale: make procedures"
        )
        return 0 if same else 1
    FILE.write_bytes(data)
    print(f"{len(digests)} scenarios in scenarios/procedures.json")
    return 0


def _former(held: list[str], digest: str, *, keep: bool) -> list[str]:
    """The digests that stay behind the present one."""
    return [old for old in held if old != digest] if keep or held[:1] == [digest] else []


def known() -> tuple[dict[str, list[str]], dict[tuple[str, str], str]]:
    """What the file says now: digests by scenario, and when each former one was replaced."""
    if not FILE.is_file():
        return {}, {}
    value = strict.loads(FILE.read_bytes(), where=FILE.name)
    if not isinstance(value, dict):
        return {}, {}
    procedures, replaced = _lists(value.get("procedures")), _lists(value.get("replaced"))
    times = {(k, old): at for k, held in procedures.items() for old, at in zip(held[1:], replaced.get(k, []))}  # noqa: B905 - an older file has none
    return procedures, times


def _lists(value: object) -> dict[str, list[str]]:
    return {str(k): [str(one) for one in v] for k, v in value.items()} if isinstance(value, dict) else {}


if __name__ == "__main__":
    sys.exit(main())
