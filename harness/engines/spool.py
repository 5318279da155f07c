"""Bytes of reference parts, kept for as long as a comparison may need them.

A spool is a folder of files named by part digest, made for one cell and removed with it. Both sides know the folder:
the child writes and reads, the parent removes. A part that is there already is not written again, so equal parts of
two looks cost their bytes once. Above the budget nothing is written; whoever needs the bytes then makes them again.
"""

from __future__ import annotations

import mmap
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.errors import StorageError

if TYPE_CHECKING:
    from typing_extensions import Buffer

DEFAULT_BUDGET: Final = 2 * 1024**3
"""Bytes of all parts of one cell."""


class Spool:
    """Part bytes by digest, in one folder.

    Args:
        folder: Made if it is not there; what it holds already counts.
        budget: Bytes that may lie in it; 0 keeps nothing.
    """

    def __init__(self, folder: Path, budget: int = DEFAULT_BUDGET) -> None:
        self.folder = folder
        self.budget = budget
        self.refused = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._sizes = {path.name: path.stat().st_size for path in folder.iterdir() if path.suffix != ".part"}
        self.used = sum(self._sizes.values())

    def __contains__(self, sha256: str) -> bool:
        return sha256 in self._sizes

    def keep(self, sha256: str, data: Buffer, *, beyond_budget: bool = False) -> bool:
        """Write a part unless it is there; return whether it is there now.

        Args:
            sha256: Digest of ``data``; the name under which it can be read.
            data: C-contiguous bytes.
            beyond_budget: Write even if the budget is spent (for the one part that must be located).

        Raises:
            StorageError: The disk refuses.
        """
        if sha256 in self._sizes:
            return True
        size = memoryview(data).nbytes
        if self.used + size > self.budget and not beyond_budget:
            self.refused += 1
            return False
        self._write(sha256, data)
        self._sizes[sha256] = size
        self.used += size
        return True

    def read(self, sha256: str) -> memoryview:
        """Return the bytes of a part, mapped, not copied.

        Raises:
            StorageError: The part is not there.
        """
        if sha256 not in self._sizes:
            raise StorageError(f"part {sha256[:12]} is not in the spool; its arm must be run again")
        if not self._sizes[sha256]:
            return memoryview(b"")
        with (self.folder / sha256).open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def _write(self, sha256: str, data: Buffer) -> None:
        hidden = self.folder / f"{sha256}.part"
        try:
            with hidden.open("wb", buffering=0) as file:
                _write_all(file.fileno(), data)
            hidden.replace(self.folder / sha256)
        except OSError as error:
            hidden.unlink(missing_ok=True)
            raise StorageError(f"the spool could not keep a part ({error.strerror}); free some space") from error


def remove(folder: Path) -> None:
    """Remove a spool with everything in it; nothing happens if it is not there."""
    shutil.rmtree(folder, ignore_errors=True)


def _write_all(descriptor: int, data: Buffer) -> None:
    import os

    view = memoryview(data)
    rest = view.cast("B") if view.nbytes else memoryview(b"")
    while rest:
        rest = rest[os.write(descriptor, rest) :]
