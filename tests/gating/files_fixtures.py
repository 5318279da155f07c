"""Certificates folders with files of other kinds, names and places.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.gating.fixtures import KEY, fixture, only, valid, valid_ledger


@fixture("CG103", "CG001", "CG204", "CG502")
def symlink(folder: Path) -> None:
    valid(folder)
    elsewhere = folder.parent / f"{folder.name}-elsewhere.json"
    only(folder).rename(elsewhere)
    (folder / KEY / "2026-01-01-0123456789ab.json").symlink_to(elsewhere)


@fixture("CG103")
def executable(folder: Path) -> None:
    valid(folder)
    only(folder).chmod(0o755)


@fixture("CG103")
def stray_file(folder: Path) -> None:
    valid(folder)
    (folder / KEY / "notes.txt").write_text("all passed\n")


@fixture("CG103")
def stray_name_with_escapes(folder: Path) -> None:
    valid(folder)
    (folder / "\x1b[2J\u202egreen\n::error::.json").write_text("{}")


@fixture("CG103")
def overlong_name(folder: Path) -> None:
    valid(folder)
    (folder / KEY / ("x" * 250 + ".json")).write_text("{}")


@fixture("CG103")
def deep_folder(folder: Path) -> None:
    valid(folder)
    (folder / "/".join("abcdefghijkl")).mkdir(parents=True)


@fixture("CG103", "CG502")
def wrong_folder(folder: Path) -> None:
    valid(folder)
    (folder / KEY).rename(folder / "T02/fake-digests/cpu-arm64")


@fixture("CG103")
def wrong_day(folder: Path) -> None:
    valid(folder)
    only(folder).rename(only(folder).with_name(only(folder).name.replace("2026-01-01", "2026-01-02")))


@fixture("CG103")
def event_of_another_year(folder: Path) -> None:
    valid_ledger(folder)
    (folder / "ledger/2026").rename(folder / "ledger/2025")


@fixture("CG103")
def attributes_edited(folder: Path) -> None:
    valid(folder)
    (folder / ".gitattributes").write_bytes(b"* text=auto\n")


@fixture("CG103")
def signature_of_nothing(folder: Path) -> None:
    valid(folder)
    (folder / KEY / "2026-01-01-0123456789ab.json.sig").write_bytes(b"signature")


@fixture("CG103")
def unreadable_pipe(folder: Path) -> None:
    valid(folder)
    os.mkfifo(folder / "pipe")
