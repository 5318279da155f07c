"""Put the evidence of a certificates folder in packs: the same bytes, a ninth of the size.

Nothing of a record changes: each evidence file keeps its name, which is the digest of its bytes, and is read from the
pack as it was from the folder. A gate with --since finds each byte for byte. With --extract an evidence file is
written to standard output, wherever it lies.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.errors import ExitCode, UsageError

EXAMPLE = (
    "example: statecert pack certificates\n"
    "         statecert pack certificates --superseded\n"
    "         statecert pack certificates --extract DIGEST > run.jsonl"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """The folder, and what of it."""
    parser.add_argument("folder", nargs="?", type=Path, default=Path("certificates"), help="default: certificates")
    parser.add_argument("--superseded", action="store_true", help="only evidence of certificates that are not current")
    parser.add_argument("--extract", metavar="DIGEST", default="", help="write one evidence file to standard output")


def run(args: argparse.Namespace) -> ExitCode:
    """Pack, or take one file out."""
    if not args.folder.is_dir():
        raise UsageError(f"no folder {str(args.folder)!r}; name one that holds certificates")
    if args.extract:
        return _extract(args.folder, args.extract)
    from harness.certifying.packing import folder_bytes, pack_folder

    whole = folder_bytes(args.folder)
    done = pack_folder(args.folder, superseded_only=args.superseded)
    for path in done.written:
        sys.stderr.write(f"wrote {path}\n")
    if not done.written:
        sys.stdout.write(f"nothing to pack; {args.folder} holds {whole} bytes\n")
        return ExitCode.GOOD
    sys.stdout.write(
        f"{len(done.taken_away)} evidence files of {done.before} bytes lie in {len(done.written)} packs of {done.after}"
        f" bytes; {args.folder} held {whole} bytes and holds {folder_bytes(args.folder)}\n"
    )
    return ExitCode.GOOD


def _extract(folder: Path, digest: str) -> ExitCode:
    from harness.certifying.store import read_evidence
    from harness.wire.packs import is_digest

    if not is_digest(digest, ""):
        raise UsageError(f"found {digest[:80]!a}; wanted is the digest of an evidence file, 64 hex digits")
    sys.stdout.buffer.write(read_evidence(folder, digest))
    return ExitCode.GOOD
