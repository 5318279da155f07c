"""Derive decisions from evidence files, on any machine; nothing is run and nothing is believed that does not follow.

With ``--check`` the names are certificate folders: every committed certificate is derived again from its evidence and
compared byte for byte.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.commands.common import add_json, reason_words, require_evidence, show, why
from harness.deriving.fields import mappings_at
from harness.errors import ExitCode, NothingToDoError, UsageError
from harness.model.values import Outcome, Verdict

EXAMPLE = "example: statecert judge runs/*/evidence/A01-torch-tiny.jsonl\n         statecert judge --check certificates"


def configure(parser: argparse.ArgumentParser) -> None:
    """Evidence files or, with ``--check``, folders."""
    parser.add_argument("evidence", nargs="+", type=Path, help="evidence files (*.jsonl); folders with --check")
    parser.add_argument("--check", action="store_true", help="derive committed certificates again and compare bytes")
    add_json(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Judge each file; or check each folder."""
    return _check(args.evidence) if args.check else _judge(args.evidence, as_json=args.json)


def _judge(paths: list[Path], *, as_json: bool) -> ExitCode:
    from harness.commands.run import worse
    from harness.pipeline import judge
    from harness.reporting.tables import Column, Table
    from harness.reporting.units import counted

    rows: list[dict[str, str | int]] = []
    code = ExitCode.GOOD
    for path in paths:
        require_evidence(path, "judge")
        _, body = judge(path)
        decision = body["decision"]
        overall = Verdict(str(decision["overall"])) if isinstance(decision, Mapping) else Verdict.ERROR
        rows.extend({**row, "overall": overall, "evidence": path.name} for row in _rows(body))
        code = worse(code, _code(overall))
    several = ("evidence",) if as_json or len(paths) > 1 else ()
    columns = [Column(key=key, header=key) for key in ("cell", "outcome", "overall", "why", *several)]
    show(Table(title=counted(len(paths), "evidence file"), columns=columns, rows=rows), as_json=as_json)
    return code


def _rows(body: Mapping[str, object]) -> Iterator[dict[str, str | int]]:
    """One row per cell; of a campaign one per row of its results."""
    for cell in mappings_at(body, "cells"):
        said = why(cell)
        said = reason_words(said) if cell["outcome"] == Outcome.EXCLUDED else said
        yield {"cell": str(cell["id"]), "outcome": str(cell["outcome"]), **({"why": said} if said else {})}
    for row in mappings_at(body, "results"):
        found = f"{row['located']} of {row['flips']} located"
        yield {"cell": f"{body['campaign']} {row['element_type']}", "outcome": found}


def _code(overall: Verdict) -> ExitCode:
    if overall is Verdict.PASS:
        return ExitCode.GOOD
    return ExitCode.BROKEN if overall is Verdict.ERROR else ExitCode.FINDINGS


def _check(folders: list[Path]) -> ExitCode:
    from harness.pipeline import rejudge
    from harness.reporting.units import counted

    differing: list[str] = []
    count = 0
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"no folder {folder}; judge --check wants folders of certificates")
        for path, same in rejudge(folder):
            count += 1
            if not same:
                differing.append(str(path))
    for path_text in differing:
        sys.stdout.write(f"differs: {path_text}\n")
    sys.stdout.write(f"judged again: {counted(count, 'certificate')}, {count - len(differing)} to the same bytes\n")
    if not count:
        raise NothingToDoError(f"no certificate in {', '.join(map(str, folders))}")
    return ExitCode.INVALID if differing else ExitCode.GOOD
