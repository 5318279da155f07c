"""Say where two states first differ: part, layer, row, element, both values, how many differ, and what that looks like.

From an evidence file (every located difference, or those of one cell and check), or from two raw dumps.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.common import add_json, require_evidence, use_colour, width
from harness.errors import ExitCode, NotComparableError, NothingToDoError, UsageError

if TYPE_CHECKING:
    from harness.reporting.explain import Explanation

EXAMPLE = (
    "example: statecert explain runs/*/evidence/A01-torch-tiny.jsonl --check flip-seen\n"
    "         statecert explain --files cold.bin warm.bin --type f32 --shape 100,64"
)


_PLACE = frozenset({"Cell", "Check"})


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
        one_row = _one_row(args.files, args.type)
        try:
            found = explain.explain_files(
                *args.files, element_type=args.type, shape=_shape(args.shape) if args.shape else one_row
            )
        except NotComparableError as problem:
            raise UsageError(str(problem)) from problem
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
    from harness.deriving.bodies import body_of
    from harness.pipeline import read_bytes
    from harness.reporting.explain import explain_checks, explain_evidence, explain_left_out
    from harness.wire.evidence_doc import read_evidence

    if args.evidence is None:
        raise UsageError("explain wants an evidence file, or --files with two dumps")
    require_evidence(args.evidence, "explain")
    evidence = read_evidence(read_bytes(args.evidence), args.evidence.name)
    body = body_of(evidence) if evidence.end else {}
    others = explain_checks(body, cell=args.cell, check=args.check)
    if not others and not args.check:
        others = explain_left_out(body, cell=args.cell)
    try:
        located = explain_evidence(evidence, cell=args.cell, check=args.check)
    except NothingToDoError:
        if not others:
            raise
        return others
    places = {tuple(fact.value for fact in one.facts if fact.name in _PLACE) for one in located}
    return [*_unlocated(others, places), *located]


def _unlocated(others: Sequence[Explanation], places: set[tuple[str, ...]]) -> list[Explanation]:
    """Checks that no located difference belongs to."""
    return [one for one in others if tuple(fact.value for fact in one.facts if fact.name in _PLACE) not in places]


def _one_row(files: Sequence[Path], element_type: str) -> tuple[int, ...]:
    """The shape of dumps of which none is told: one row of all elements.

    Raises:
        UsageError: A file is not there, or the element type is unknown.
    """
    from harness.digest.difference import ELEMENT_BYTES

    for path in files:
        if not path.is_file():
            raise UsageError(f"no file {path}; --files wants two raw dumps")
    if element_type not in ELEMENT_BYTES:
        raise UsageError(f"there is no element type {element_type!r}; there are: {', '.join(ELEMENT_BYTES)}")
    size, width = files[0].stat().st_size, ELEMENT_BYTES[element_type]
    if size % width and size == files[1].stat().st_size:
        raise UsageError(f"{files[0]}: {size} bytes are no whole number of elements of type {element_type}")
    return (1, size // width)


def _shape(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(",")) if text else ()
    except ValueError:
        raise UsageError(f"--shape wants whole numbers like 100,64; found {text!r}") from None
