"""Check texts against certificates: generated blocks, citations, counts, and sentences that cite nothing.

A citation is a link, [142 of 142 cells](cert:3f9a01c2d4e5#cells), by the first 12 digits of an id or by a claim key.
What a text says must be what the certificate says, to the last printed digit, and the certificate must hold. With --fix
the generated blocks are written anew first. The certificates are gated too, since a text is no better than what it
cites; the same rules run in a gate, with --claims.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.deriving.prose import Prose
from harness.errors import ExitCode, NothingToDoError, UsageError

DEFAULT = ("README.md", "docs")
EXAMPLE = (
    "example: statecert claims README.md docs\n"
    "         statecert claims --fix README.md\n"
    "         statecert claims description.md --fresh"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Texts, certificates, how to print."""
    parser.add_argument("text", nargs="*", help="texts, or folders of them (default: README.md docs)")
    parser.add_argument("--certificates", metavar="DIR", default="certificates", help="default: certificates")
    parser.add_argument("--fix", action="store_true", help="first write the generated blocks anew")
    parser.add_argument("--fresh", action="store_true", help="cited certificates must be of the files as they are now")
    parser.add_argument("--root", action="append", metavar="DIR", help="tree that packages lie below; with --fresh")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")


def run(args: argparse.Namespace) -> ExitCode:
    """Read, compare, print."""
    from harness.commands.texts import read_texts
    from harness.gating import outputs
    from harness.gating.gate import gate

    if args.root and not args.fresh:
        raise UsageError("--root says where --fresh looks; add it")
    names = args.text or [name for name in DEFAULT if Path(name).exists()]
    prose = read_texts(names)
    if args.fix:
        _fix(args.certificates, prose)
        prose = read_texts(names)
    fresh_in = (args.root or ["."]) if args.fresh else ()
    if sys.stderr.isatty():
        sys.stderr.write(f"judging the evidence of {args.certificates} again ...\n")
    report = gate([args.certificates], prose=prose, fresh_in=fresh_in)
    sys.stdout.buffer.write(outputs.to_json(report)) if args.json else sys.stdout.write(outputs.text(report))
    count = [sum(map(len, (one.blocks, one.citations))) for one in prose]
    sys.stderr.write(f"{len(prose)} texts with {sum(count)} citations and blocks\n")
    if report.exit_code is ExitCode.GOOD and not sum(count):
        raise NothingToDoError("no text cites a certificate or has a generated block")
    return report.exit_code


def _fix(folder: str, prose: Sequence[Prose]) -> None:
    """Write generated blocks anew, where they differ."""
    from harness.commands.texts import read_text
    from harness.gating.blocks import generated
    from harness.gating.gate import known
    from harness.wire import files

    facts = known(folder)
    for one in prose:
        before = read_text(Path(one.path)).decode("utf-8", "replace").split("\n")
        after = list(before)
        for block in sorted(one.blocks, key=lambda block: -block.line):
            wanted = generated(facts, block)
            if wanted is not None:
                after[block.line : block.line + block.held.count("\n")] = wanted.split("\n")[:-1]
        if after != before:
            files.replace(Path(one.path), "\n".join(after).encode())
            sys.stderr.write(f"fixed {one.path}\n")
