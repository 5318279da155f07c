"""Folders of disk tiers: one for each label of one run of an arm, gone when that run is over."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from harness.deriving.support import DISK_OPTION
from harness.errors import ProtocolError, RefusedError, StorageError
from harness.model.scenario import Scalar
from harness.model.values import RefusalCode


class Disks:
    """The folders of one run of an arm.

    Args:
        folder: Takes them; emptied first, so that no earlier run lends its snapshots.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.remove()

    def placed(self, options: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
        """Return engine options with the folder in the place of the label.

        Raises:
            StorageError: The folder cannot be made.
        """
        if DISK_OPTION not in options:
            return options
        folder = self._of(options)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"a disk folder could not be made: {error.strerror}") from error
        return {**options, DISK_OPTION: str(folder)}

    def file(self, options: Mapping[str, Scalar], name: str) -> Path:
        """Return a file of the folder that an engine has open.

        Raises:
            RefusedError: The engine has no disk.
            ProtocolError: The name is not a plain one, or there is no such file.
        """
        if DISK_OPTION not in options:
            raise RefusedError(RefusalCode.MISSING, "the engine of this arm has no disk")
        path = self._of(options) / name
        if Path(name).name != name or path.is_symlink() or not path.is_file():
            raise ProtocolError("found a file of the disk tier that is not a plain one in its folder")
        return path

    def remove(self) -> None:
        """Remove the folders; nothing happens if there are none."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _of(self, options: Mapping[str, Scalar]) -> Path:
        return (self._folder / str(options[DISK_OPTION])).absolute()
