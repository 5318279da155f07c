"""Hold the harness to its own standard, on this machine, in about a minute.

Every rule of the gate fires on its broken folders and on nothing else; canonical form, digests, signatures and schemas
equal those of independent programs, where these are installed; judging gives the same bytes in every process; hostile
records end in their finding; one mutant of each kind of fault is stopped. With ``--certify`` the result is filed as a
certificate of kind ``harness``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.campaigns import exit_code
from harness.commands.common import add_json, show
from harness.errors import ExitCode

if TYPE_CHECKING:
    from harness.reporting.tables import Table
    from harness.selfcheck.conducting import Write

EXAMPLE = (
    "example: statecert selftest\n         statecert selftest --without mutants\n         statecert selftest --certify"
)
_GROUPS = ("rules", "references", "determinism", "hostile", "mutants")


def configure(parser: argparse.ArgumentParser) -> None:
    """What to leave out, where to write."""
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=_GROUPS,
        metavar="GROUP",
        help=f"leave out: {', '.join(_GROUPS)}",
    )
    parser.add_argument("--out", type=Path, default=Path("runs"), metavar="DIR", help="where run folders go")
    parser.add_argument(
        "--certify",
        type=Path,
        nargs="?",
        const=Path("certificates"),
        metavar="DIR",
        help="file it as a certificate in this folder (default: certificates); a draft if files are changed",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Ask, write, print."""
    from harness.pipeline import file_observed, new_run_folder
    from harness.selfcheck import selftest
    from harness.selfcheck.conducting import conduct

    groups = [name for name in _GROUPS if name not in args.without]
    mutants = list(selftest.MUTANTS) if "mutants" in groups else []
    folder = new_run_folder(args.out)
    began = time.monotonic()

    def work(write: Write) -> None:
        with tempfile.TemporaryDirectory(prefix="statecert-selftest-") as scratch:
            for one in selftest.questions(Path(scratch), groups):
                _tell(write, args, one._asdict())
            for one in selftest.mutants_or_why(mutants, folder) if mutants else ():
                _tell(write, args, one._asdict())

    done = conduct(folder, "selftest", {"groups": groups, "mutants": mutants}, work)
    show(table(done.body), as_json=args.json)
    if not args.json:
        sys.stdout.write(f"observations  {done.evidence}\n{time.monotonic() - began:.0f} s\n")
    if args.certify:
        paths, reason = file_observed(done.evidence, args.certify, folder / "drafts")
        sys.stdout.write(f"draft         {paths[0]} ({reason})\n" if reason else f"certificate   {args.certify}\n")
    return exit_code(done.body)


def _tell(write: Write, args: argparse.Namespace, one: Mapping[str, object]) -> None:
    record = {name: value for name, value in one.items() if value != "" or name != "reason"}
    write({"type": "asked", **record})
    if one["outcome"] != "pass" and not args.json:
        sys.stderr.write(f"{one['group']}: {one['name']}: {one['outcome']} ({one['reason']})\n")
        sys.stderr.flush()


def table(body: Mapping[str, object]) -> Table:
    """One row per group."""
    from harness.reporting.tables import Column, Table

    results, decision = body["results"], body["decision"]
    rows = [dict(row) for row in results] if isinstance(results, list) else []
    words = [decision["overall"], *decision["reasons"]] if isinstance(decision, Mapping) else []
    names = ("group", "asked", "pass", "fail", "not_run", "count")
    columns = [Column(key=name, header=name, justify="left" if name == "group" else "right") for name in names]
    return Table(title=f"self-test: {', '.join(map(str, words))}", columns=columns, rows=rows)
