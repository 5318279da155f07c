"""Render certificates for reviewers: on the terminal, as Markdown, as self-contained HTML pages. Decides nothing.

``--check`` makes the pages again and compares them with what is on disk.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.commands.common import use_colour, width
from harness.errors import ExitCode, NothingToDoError, UsageError

EXAMPLE = "example: statecert report\n         statecert report certificates --format html --out build/site"


def configure(parser: argparse.ArgumentParser) -> None:
    """A folder, a format, where to write."""
    parser.add_argument("folder", nargs="?", type=Path, default=Path("certificates"), help="default: certificates")
    parser.add_argument("--format", choices=("terminal", "md", "html"), default="terminal", help="default: terminal")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where pages go (default: reports)")
    parser.add_argument("--check", action="store_true", help="compare with what is on disk; 1 if it differs")
    parser.add_argument(
        "--certificate", default="", metavar="ID", help="terminal: one certificate, by the head of its id"
    )


def run(args: argparse.Namespace) -> ExitCode:
    """Render, write or compare."""
    from harness import pipeline

    if not args.folder.is_dir():
        raise UsageError(f"no folder {args.folder}")
    if args.format == "terminal":
        text = pipeline.terminal_report(args.folder, args.certificate, colour=use_colour(), width=width())
        sys.stdout.write(text)
        return ExitCode.GOOD
    pages = pipeline.report_pages(args.folder, args.format)
    if not pages:
        raise NothingToDoError(f"no certificate in {args.folder}")
    out = args.out or Path("reports")
    stale = pipeline.stale_pages(out, pages)
    if args.check:
        for name in stale:
            sys.stdout.write(f"differs: {out / name}\n")
        sys.stdout.write(f"{len(pages)} pages, {len(stale)} differ from {out}\n")
        return ExitCode.FINDINGS if stale else ExitCode.GOOD
    pipeline.write_pages(out, pages)
    sys.stdout.write(f"{len(pages)} pages in {out}\n")
    return ExitCode.GOOD
