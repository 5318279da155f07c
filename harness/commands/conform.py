"""Tell what an adapter must still do before scenarios can run on it: one row for each obligation.

Each obligation is probed in a child process with engines of its own. A crash or a hang fails that obligation, with
the reason; the rest goes on. Where one obligation rests on another that failed it is not run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.common import add_json, add_lab, chosen_target, show
from harness.errors import ExitCode, UsageError
from harness.model.values import Outcome

if TYPE_CHECKING:
    from harness.engines.conformance import Finding
    from harness.reporting.tables import Table

EXAMPLE = "example: statecert conform torch --option arch=sliding\n         statecert conform --command ./driver"
STDIO = "stdio"
"""Adapter of engines that are programs of their own."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Engine, device, preset, options, patience."""
    parser.add_argument(
        "engine", nargs="?", default="", help="entry-point name of the adapter, like torch, or target of the lab file"
    )
    parser.add_argument("--command", metavar="PROGRAM", help="a program that speaks the stdio protocol, with arguments")
    parser.add_argument("--device", help="best, cpu, cuda, cuda:1, mps (default: the lab's, or best)")
    parser.add_argument("--preset", help="model preset of the engine (default: the lab's, or tiny)")
    add_lab(parser)
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="engine option; may be repeated"
    )
    parser.add_argument(
        "--patience", type=float, default=300.0, metavar="SECONDS", help="a call that takes longer counts as hung"
    )
    parser.add_argument("--log", type=Path, metavar="DIR", help="keep what the engine prints in this folder")
    add_json(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Probe, print, 1 if an obligation is not met."""
    _choose_engine(args)
    with tempfile.TemporaryDirectory() as temporary:
        findings = _findings(args, args.log or Path(temporary))
    show(table(args.engine, findings), as_json=args.json)
    failed = any(one.outcome is Outcome.FAIL for one in findings)
    return ExitCode.FINDINGS if failed else ExitCode.GOOD


def _choose_engine(args: argparse.Namespace) -> None:
    """Settle which adapter is meant; a command is an option of the stdio adapter.

    Raises:
        UsageError: No engine is named, or a command beside another adapter.
    """
    if args.command is None and not args.engine:
        raise UsageError("say which engine: its entry-point name, or --command PROGRAM")
    if args.command is not None:
        if args.engine not in ("", STDIO):
            raise UsageError(f"--command is for engines that speak the stdio protocol, not for {args.engine}")
        args.engine = STDIO
        args.option = [*args.option, f"command={args.command}", f"patience_s={max(1, int(args.patience))}"]


def _findings(args: argparse.Namespace, folder: Path) -> Sequence[Finding]:
    from harness.engines.conformance import conform
    from harness.engines.host import EngineHost, HostOptions
    from harness.engines.obligations import OBLIGATIONS
    from harness.engines.process import Limits

    target = chosen_target(args.engine, args)
    if not args.json:
        sys.stderr.write(f"starting {target.adapter} on {target.device} ...\n")
    limits = Limits(open_s=max(600.0, args.patience), call_s=args.patience)
    with EngineHost(target, folder, HostOptions(limits=limits)) as host:
        return conform(host, OBLIGATIONS, None if args.json else _tell)


def _tell(finding: Finding) -> None:
    sys.stderr.write(f"{finding.obligation}: {finding.outcome}\n")
    sys.stderr.flush()


def table(engine: str, findings: Sequence[Finding]) -> Table:
    """One row per obligation."""
    from harness.reporting.tables import Column, Table

    met = sum(one.outcome is Outcome.PASS for one in findings)
    rows = [
        {
            "obligation": one.obligation,
            "outcome": str(one.outcome),
            "text": one.text,
            **({"reason": one.reason} if one.reason else {}),
        }
        for one in findings
    ]
    columns = (
        Column(key="obligation", header="obligation"),
        Column(key="outcome", header="outcome"),
        Column(key="text", header="what must hold"),
        Column(key="reason", header="what to do"),
    )
    undeclared = sum(one.outcome is Outcome.NOT_SUPPORTED for one in findings)
    beside = f", {undeclared} not asked of this engine" if undeclared else ""
    return Table(title=f"{engine}: {met} of {len(findings)} obligations met{beside}", columns=columns, rows=rows)
