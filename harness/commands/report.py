"""Render certificates for reviewers: on the terminal, as Markdown, as self-contained HTML pages. Decides nothing.

``--check`` makes the Markdown pages again and compares them with what is on disk. Only pages that this command made
are ever replaced or removed: their first line says so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.commands.common import add_json, require_folder, show, use_colour, width
from harness.errors import ExitCode, NothingToDoError, UsageError
from harness.reporting.units import counted
from harness.wire import files

EXAMPLE = (
    "example: statecert report\n"
    "         statecert report certificates --certificate A01/torch-tiny\n"
    "         statecert report certificates --format html --out build/site"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """A folder, a format, where to write."""
    parser.add_argument("folder", nargs="?", type=Path, default=Path("certificates"), help="default: certificates")
    parser.add_argument(
        "--format", choices=("terminal", "md", "html"), help="default: terminal; Markdown (md) with --check"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where pages go (default: reports)")
    parser.add_argument(
        "--check", action="store_true", help="compare Markdown pages with those on disk; 1 if they differ"
    )
    parser.add_argument(
        "--certificate",
        default="",
        metavar="ID",
        help="terminal: one certificate, by the head of its id or by its claim key",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Render, write or compare."""
    from harness.reporting import site

    _refuse_a_run(args.folder)
    form = args.format or ("md" if args.check else "terminal")
    if args.check and form != "md":
        raise UsageError("--check compares Markdown pages; leave --format away or say --format md")
    if args.out and form == "terminal":
        raise UsageError("--out is for pages; add --format md or --format html")
    out = args.out or Path("reports")
    if form != "terminal":
        require_folder(out, "--out")
    if form == "terminal":
        _show(args.folder, args.certificate, as_json=args.json)
        return ExitCode.GOOD
    pages = site.render_all(args.folder) if form == "md" else site.render_site(args.folder)
    if len(pages) < 2:
        raise NothingToDoError(f"no certificate in {args.folder}")
    if args.check:
        return _check(out, pages, as_json=args.json)
    _write(out, pages)
    first = out / ("README.md" if form == "md" else "index.html")
    _say(
        f"{counted(len(pages), 'page')} in {out}; begin with {first}",
        sorted(pages) if args.json else (),
        as_json=args.json,
    )
    return ExitCode.GOOD


def _refuse_a_run(folder: Path) -> None:
    if not (folder / "evidence").is_dir():
        return
    if (folder / "certificates").is_dir():
        raise UsageError(f"{folder} is the folder of a run; try: statecert report {folder / 'certificates'}")
    if (folder / "drafts").is_dir():
        raise UsageError(f"{folder} is the folder of a run that made drafts alone; judge the files in its evidence/")


def _show(folder: Path, identity: str, *, as_json: bool) -> None:
    """Print one certificate, or one line for each claim key."""
    from harness.reporting import building, listed, site, terminal

    archive = site.read_archive(folder)
    if not archive.certificates:
        raise NothingToDoError(f"no certificate in {folder}")
    if identity or len(archive.certificates) == 1:
        view = building.certificate_view(site.find_certificate(archive, identity), archive)
        if as_json:
            sys.stdout.buffer.write(listed.certificate_json(view))
        else:
            sys.stdout.write(terminal.render_certificate(view, colour=use_colour(), width=width()))
        return
    overview = building.overview(archive)
    if as_json:
        show(listed.overview_table(overview), as_json=True)
    else:
        sys.stdout.write(terminal.render_overview(overview, colour=use_colour(), width=width()))


def _check(out: Path, pages: Mapping[str, bytes], *, as_json: bool) -> ExitCode:
    from harness.reporting import site

    found = site.out_of_date(out, pages)
    _say(f"{counted(len(pages), 'page')} made again, {len(found)} not as in {out}", found, as_json=as_json)
    return ExitCode.FINDINGS if found else ExitCode.GOOD


def _say(what: str, lines: Sequence[str], *, as_json: bool) -> None:
    """Print what was done, and lines of pages before it; as JSON: the same as a table."""
    from harness.reporting.listed import pages_table

    if as_json:
        show(pages_table(what, lines), as_json=True)
    else:
        sys.stdout.write("".join(f"{line}\n" for line in (*lines, what)))


def _write(out: Path, pages: Mapping[str, bytes]) -> None:
    from harness.reporting.site import is_generated

    there = [path for path in (out / name for name in pages) if path.exists()]
    foreign = next((path for path in there if path.suffix == ".md" and not is_generated(path)), None)
    if foreign is not None:
        raise UsageError(f"{foreign} was not made by this command and would be replaced; choose another --out")
    for name, data in pages.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        files.replace(out / name, data)
    for stale in out.rglob("*.md"):
        if "README.md" in pages and stale.relative_to(out).as_posix() not in pages and is_generated(stale):
            stale.unlink()
