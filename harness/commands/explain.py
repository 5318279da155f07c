"""Say where two states first differ: part, layer, row, element, both values, how many differ, and what that looks like.

From an evidence file (every located difference, or those of one cell and check), or from two raw dumps.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.common import add_json, use_colour, width
from harness.errors import ExitCode, NothingToDoError, UsageError

if TYPE_CHECKING:
    from harness.reporting.explain import Explanation

EXAMPLE = (
    "example: statecert explain runs/*/evidence/A01-torch-tiny.jsonl --check flip-seen\n"
    "         statecert explain --files cold.bin warm.bin --type f32 --shape 100,64"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """An evidence file with filters, or two files with type and shape."""
    parser.add_argument("evidence", nargs="?", type=Path, help="an evidence file")
    parser.add_argument("--cell", default="", help="only this cell")
    parser.add_argument("--check", default="", help="only this check")
    parser.add_argument(
        "--files", nargs=2, type=Path, metavar=("REFERENCE", "CANDIDATE"), help="two raw dumps of a part"
    )
    parser.add_argument("--type", default="u8", help="element type of the dumps (default: %(default)s)")
    parser.add_argument("--shape", default="", help="shape of the dumps, like 100,64; rows first (default: one row)")
    add_json(parser)


def run(args: argparse.Namespace) -> ExitCode:
    """Explain."""
    from harness.reporting import explain

    if args.files:
        found = explain.explain_files(*args.files, element_type=args.type, shape=_shape(args.shape))
        if found is None:
            sys.stdout.write("the files are equal, byte for byte\n")
            return ExitCode.GOOD
        told = [found]
    else:
        told = _from_evidence(args)
    if args.json:
        sys.stdout.buffer.write(explain.render_json(told))
    else:
        sys.stdout.write(explain.render_terminal(told, colour=use_colour(), width=width()))
    return ExitCode.GOOD


def _from_evidence(args: argparse.Namespace) -> list[Explanation]:
    from harness.pipeline import read_bytes
    from harness.reporting.explain import explain_evidence
    from harness.wire.evidence_doc import read_evidence

    if args.evidence is None:
        raise UsageError("explain wants an evidence file, or --files with two dumps")
    if not args.evidence.is_file():
        raise UsageError(f"no evidence file {args.evidence}")
    evidence = read_evidence(read_bytes(args.evidence), args.evidence.name)
    told = explain_evidence(evidence, cell=args.cell, check=args.check)
    if not told:
        raise NothingToDoError(f"{args.evidence.name} holds no located difference that matches")
    return told


def _shape(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(",")) if text else ()
    except ValueError:
        raise UsageError(f"--shape wants whole numbers like 100,64; found {text!r}") from None
