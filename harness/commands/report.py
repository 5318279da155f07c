"""Render certificates for reviewers: on the terminal, as Markdown, as self-contained HTML pages. Decides nothing.

``--check`` makes the Markdown pages again and compares them with what is on disk.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from harness.commands.common import use_colour, width
from harness.errors import ExitCode, NothingToDoError, UsageError
from harness.wire import files

EXAMPLE = (
    "example: statecert report\n"
    "         statecert report certificates --certificate 3f9a\n"
    "         statecert report certificates --format html --out build/site"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """A folder, a format, where to write."""
    parser.add_argument("folder", nargs="?", type=Path, default=Path("certificates"), help="default: certificates")
    parser.add_argument("--format", choices=("terminal", "md", "html"), default="terminal", help="default: terminal")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where pages go (default: reports)")
    parser.add_argument(
        "--check", action="store_true", help="compare Markdown pages with those on disk; 1 if they differ"
    )
    parser.add_argument(
        "--certificate", default="", metavar="ID", help="terminal: one certificate, by the head of its id"
    )


def run(args: argparse.Namespace) -> ExitCode:
    """Render, write or compare."""
    from harness.reporting import site

    if args.format == "terminal":
        sys.stdout.write(_terminal(args.folder, args.certificate))
        return ExitCode.GOOD
    pages = site.render_all(args.folder) if args.format == "md" else site.render_site(args.folder)
    if len(pages) < 2:
        raise NothingToDoError(f"no certificate in {args.folder}")
    out = args.out or Path("reports")
    if args.check:
        return _check(out, pages, markdown=args.format == "md")
    _write(out, pages)
    sys.stdout.write(f"{len(pages)} pages in {out}\n")
    return ExitCode.GOOD


def _terminal(folder: Path, identity: str) -> str:
    from harness.reporting import building, site, terminal

    archive = site.read_archive(folder)
    if not archive.certificates:
        raise NothingToDoError(f"no certificate in {folder}")
    if identity or len(archive.certificates) == 1:
        one = site.find_certificate(archive, identity)
        return terminal.render_certificate(building.certificate_view(one, archive), colour=use_colour(), width=width())
    return terminal.render_overview(building.overview(archive), colour=use_colour(), width=width())


def _check(out: Path, pages: Mapping[str, bytes], *, markdown: bool) -> ExitCode:
    from harness.reporting import site

    if not markdown:
        raise UsageError("--check compares Markdown pages; add --format md")
    found = site.out_of_date(out, pages)
    for sentence in found:
        sys.stdout.write(f"{sentence}\n")
    sys.stdout.write(f"{len(pages)} pages made again, {len(found)} not as in {out}\n")
    return ExitCode.FINDINGS if found else ExitCode.GOOD


def _write(out: Path, pages: Mapping[str, bytes]) -> None:
    for name, data in pages.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        files.replace(out / name, data)
    for stale in out.rglob("*.md"):
        if stale.relative_to(out).as_posix() not in pages and any(name.endswith(".md") for name in pages):
            stale.unlink()
