"""Evidence files put together in packs, so that a folder of certificates stays small; nothing of them changes.

A file is taken away only after the pack that holds it was written, read back and compared, so an interruption leaves
a file twice and never not at all. The order is that of the certificates, whose readers then find the next file in the
pack that is open.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.certifying.store import EVIDENCE, evidence_path, read_store
from harness.deriving.fields import text_at
from harness.errors import InvalidDocumentError, StorageError
from harness.model.certificate import Certificate
from harness.model.values import CertificateState
from harness.wire import files, packs

_EVIDENCE_BYTES = 8 * 1024 * 1024

_Member = tuple[str, bytes]


class Packed(NamedTuple):
    """What packing did."""

    written: Sequence[Path]
    """Packs."""
    taken_away: Sequence[Path]
    """Evidence files that lie in them now."""
    before: int
    """Bytes of these files."""
    after: int
    """Bytes of the packs."""


def pack_folder(folder: Path, *, superseded_only: bool = False) -> Packed:
    """Put the evidence files of a certificates folder in packs; what lies in one already stays there.

    Args:
        folder: A certificates folder.
        superseded_only: Only evidence of certificates that are not current.

    Raises:
        InvalidDocumentError: A record cannot be trusted, or an evidence file is not what its name says.
        StorageError: The disk refuses; files that were not packed are where they were.
    """
    written: list[Path] = []
    taken_away: list[Path] = []
    before = 0
    for members in _groups(_wanted(folder, superseded_only=superseded_only)):
        path = _write(folder, members)
        written.append(path)
        for name, data in members:
            (folder / name).unlink()
            taken_away.append(folder / name)
            before += len(data)
    _drop_empty(folder / EVIDENCE)
    return Packed(written, taken_away, before, sum(path.stat().st_size for path in written))


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files of a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def _wanted(folder: Path, *, superseded_only: bool) -> Iterator[_Member]:
    """Plain evidence files of certificates, in the order of claim keys and days."""
    held = sorted(read_store(folder).certificates.values(), key=_order)
    seen: set[str] = set()
    for one in held:
        sha256 = text_at(one.body, "run", "evidence", "sha256")
        name = evidence_path(sha256).as_posix()
        spared = superseded_only and one.status.state is CertificateState.CURRENT
        if spared or name in seen or not (folder / name).is_file():
            continue
        seen.add(name)
        data = files.read(folder / name, max_bytes=_EVIDENCE_BYTES)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise InvalidDocumentError("is not what its name says; nothing of it is packed", where=name)
        yield name, data


def _order(one: Certificate) -> tuple[str, str, str]:
    return str(one.body["claim_key"]), text_at(one.body, "run", "created"), one.id


def _groups(members: Iterator[_Member]) -> Iterator[list[_Member]]:
    group: list[_Member] = []
    size = 0
    for name, data in members:
        if group and size + len(data) > packs.WANTED_BYTES:
            yield group
            group, size = [], 0
        group.append((name, data))
        size += len(data)
    if group:
        yield group


def _write(folder: Path, members: Sequence[_Member]) -> Path:
    name, data = packs.pack(members)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        files.write_new(path, data)
    back = packs.opened(str(path), name)
    if any(back.read(one) != bytes_ for one, bytes_ in members):
        raise StorageError(f"{path}: does not read back as it was written; nothing was taken away")
    return path


def _drop_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
