"""Folders that hold nothing, or nothing that counts.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules.
"""

from __future__ import annotations

from pathlib import Path

from tests.gating.fixtures import add_event, fixture, ids, valid, valid_stop


@fixture("CG001")
def empty(folder: Path) -> None:
    (folder / ".gitattributes").write_bytes(b"* -text\n")


@fixture("CG001")
def all_withdrawn(folder: Path) -> None:
    valid(folder)
    add_event(folder, target=ids(folder)[0])


@fixture("CG010", require_pass=True)
def cell_fails(folder: Path) -> None:
    valid_stop(folder)


@fixture("CG010", require_pass=True)
def draft(folder: Path) -> None:
    valid(folder)
    (folder / f"draft-T02-{7:032x}.json").write_bytes(b"{}\n")
