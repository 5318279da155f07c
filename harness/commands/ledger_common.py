"""What the ledger commands share: the folder, certificates by the head of their ids, reasons, the time, the echo."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ExitCode, NothingToDoError, UsageError
from harness.model.values import ReasonCode

if TYPE_CHECKING:
    from harness.certifying.store import Store
    from harness.model.certificate import Certificate

REASONS = "reasons: " + ", ".join(ReasonCode)


def add_folder(parser: argparse.ArgumentParser) -> None:
    """``--folder``."""
    parser.add_argument(
        "--folder", type=Path, default=Path("certificates"), metavar="DIR", help="certificates (default: %(default)s)"
    )


def add_reason(parser: argparse.ArgumentParser, name: str = "--reason", text: str = "why, one of the codes") -> None:
    """``--reason`` or another name for the closed list of codes."""
    parser.add_argument(name, required=True, choices=list(ReasonCode), type=_reason, metavar="CODE", help=text)


def add_mend(parser: argparse.ArgumentParser) -> None:
    """``--mend``."""
    parser.add_argument(
        "--mend", action="store_true", help="first put aside, by a reinstate event, what was said of it so far"
    )


def opened(folder: Path) -> Store:
    """Return what a folder holds.

    Raises:
        UsageError: There is no folder.
        NothingToDoError: It holds no certificate.
        InvalidDocumentError: A body or an event cannot be trusted.
    """
    from harness.certifying.regenerating import read_bodies

    if not folder.is_dir():
        raise UsageError(f"no folder {folder}; name one with --folder")
    store = read_bodies(folder)
    if not store.certificates:
        raise NothingToDoError(f"no certificate in {folder}")
    return store


def now() -> str:
    """Return the time of this machine, RFC 3339 UTC, whole seconds."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def time_for(store: Store, *certificates: Certificate) -> str:
    """Return the time of a new event about certificates."""
    from harness.certifying.events import event_time

    return event_time(store, [one.id for one in certificates], now())


def echo(folder: Path, certificate: str, written: Sequence[Path]) -> ExitCode:
    """Print what was written and what the ledger now says of the claim key."""
    from harness.certifying.regenerating import read_bodies

    store = read_bodies(folder)
    claim_key = str(store.certificates[store.find(certificate).id].body["claim_key"])
    sys.stdout.write(f"{claim_key}\n")
    for one in store.of_claim(claim_key):
        by = f" by {one.status.superseded_by[:12]}" if one.status.superseded_by else ""
        mark = "  <-" if one.id == certificate else ""
        sys.stdout.write(f"  {one.id[:12]}  {one.status.state}{by}{mark}\n")
    for path in written:
        sys.stdout.write(f"wrote {path}\n")
    return ExitCode.GOOD


def _reason(word: str) -> ReasonCode:
    try:
        return ReasonCode(word)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"there is no reason {word[:40]!r}; there are: {', '.join(ReasonCode)}"
        ) from None
