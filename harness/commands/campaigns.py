"""What the commands of campaigns share: where files go, ``--certify``, ``--check``, the exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.common import add_json, add_target, chosen_target, opened, show, typed
from harness.errors import ExitCode, UsageError
from harness.model.values import TreeState, Verdict

if TYPE_CHECKING:
    from harness.campaigning.campaign import Campaign
    from harness.pipeline import Bench
    from harness.reporting.tables import Table

Body = Mapping[str, object]
Conduct = Callable[["Bench"], "Campaign"]


def add_campaign(parser: argparse.ArgumentParser) -> None:
    """The target, the run folder, and what becomes of the result."""
    add_target(parser)
    add_result(parser)


def add_result(parser: argparse.ArgumentParser) -> None:
    """The run folder, and what becomes of the result."""
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), metavar="DIR", help="where run folders go (default: runs)"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--certify",
        type=Path,
        nargs="?",
        const=Path("certificates"),
        metavar="DIR",
        help="file the campaign as a certificate in this folder (default: certificates); a draft if files are changed",
    )
    how.add_argument("--check", type=Path, metavar="FILE", help="derive the summary of this file again; run nothing")
    add_json(parser)


def run_or_check(args: argparse.Namespace, carried: Callable[[], Campaign], table: Callable[[Body], Table]) -> ExitCode:
    """Carry a campaign out, or check the files of one; print the table.

    Args:
        args: Of a parser that :func:`add_result` was used on.
        carried: Carries it out.
        table: Makes the table of a body.
    """
    from harness.campaigning.campaign import require_equal

    if args.check:
        if not args.check.is_file():
            raise UsageError(f"no file {args.check}; --check wants the observations of a campaign")
        body = require_equal(args.check)
        show(table(body), as_json=args.json)
        return exit_code(body)
    done = carried()
    filed = _filed(done, args.certify) if args.certify else ""
    show(table(done.body), as_json=args.json)
    if not args.json:
        sys.stdout.write(f"observations  {done.evidence}\nsummary       {done.summary}\n{filed}")
    return exit_code(done.body)


def on_bench(args: argparse.Namespace, conduct: Conduct) -> Campaign:
    """Bring the target of the arguments up and carry a campaign out on it."""
    from harness.pipeline import new_run_folder

    with opened(chosen_target(args.target, args), new_run_folder(args.out)) as up:
        warn_of_draft(args, up)
        return conduct(up)


def warn_of_draft(args: argparse.Namespace, up: Bench) -> None:
    """Say at the start what would be a surprise at the end."""
    if args.certify and up.source.tree == TreeState.DIRTY:
        sys.stderr.write("files of engine or harness differ from their commit: this will be a draft\n")


def teller(args: argparse.Namespace, whole: int, every: int) -> Callable[[str, int], None] | None:
    """Return what tells progress on standard error, one line now and then; None: nobody wants to know.

    Args:
        args: With ``json``.
        whole: How much there is to do; 0: the caller's words say it.
        every: After how much a line is written.
    """
    if args.json:
        return None

    def tell(what: str, done: int) -> None:
        if done % every == 0 or done == whole:
            sys.stderr.write(f"{what}: {done} of {whole}\n" if whole else f"{what}: {done}\n")
            sys.stderr.flush()

    return tell


def exit_code(body: Body) -> ExitCode:
    """0: it passed; 1: it is a stop; 3: it proves nothing."""
    decision = body["decision"]
    overall = decision["overall"] if isinstance(decision, Mapping) else Verdict.ERROR
    codes = {Verdict.PASS: ExitCode.GOOD, Verdict.STOP: ExitCode.FINDINGS}
    return codes.get(Verdict(str(overall)), ExitCode.BROKEN)


def verdict(body: Body) -> str:
    """Return the decision and its reasons, in one line."""
    decision = body["decision"]
    words = [decision["overall"], *decision["reasons"]] if isinstance(decision, Mapping) else []
    return ", ".join(map(str, words))


def facts_table(title: str, body: Body, words: Mapping[str, str]) -> Table:
    """Return the one row of a campaign's results as a table of facts, in the order of ``words``."""
    from harness.reporting.tables import Column, Table

    results = body["results"]
    row = results[0] if isinstance(results, list) and results else {}
    columns = [Column(key="fact", header="fact"), Column(key="value", header="value", justify="right")]
    rows = [{"fact": words[name], "value": row[name]} for name in words if name in row]
    return Table(title=f"{title}: {verdict(body)}", columns=columns, rows=rows)


def _filed(done: Campaign, certificates: Path) -> str:
    """File a campaign; say in lines what was written."""
    from harness.pipeline import file_observed

    paths, reason = file_observed(done.evidence, certificates, done.evidence.parent / "drafts")
    if reason:
        return f"draft         {paths[0]} ({reason})\n"
    written = next((path for path in paths if path.parent.name not in {"evidence"} and path.suffix == ".json"), None)
    return f"certificate   {written or certificates}\nnext          {typed()} gate {certificates}\n"
