"""Digests of large files that an identity names, like the library that an engine really loaded.

Every child of a run says which library it has. To hash half a gigabyte takes a fifth of what a child takes to start,
so the host hands on what an earlier child of the same run has found. A digest is believed for exactly the file that it
was made of: the same device and inode, of the same size, not written and not touched since (a write changes the time of
change, which nobody can set back). The first child of every run reads the bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.errors import ProtocolError

_known: Final[dict[str, str]] = {}


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hex digits.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        key = _key(os.fstat(file.fileno()))
        if key not in _known:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            if _key(os.fstat(file.fileno())) != key:
                return found  # written meanwhile: true of what was read, and of nothing else
            _known[key] = found
    return _known[key]


def known() -> Mapping[str, str]:
    """Return what this process knows, for :func:`believe` in another one of the same run."""
    return dict(_known)


def believe(told: object) -> None:
    """Take over what another child of this run has found.

    Raises:
        ProtocolError: It is not what :func:`known` returns.
    """
    if not isinstance(told, dict) or not all(isinstance(one, str) for pair in told.items() for one in pair):
        raise ProtocolError("found digests of files that are not text")
    _known.update(told)


def _key(about: os.stat_result) -> str:
    return f"{about.st_dev}:{about.st_ino}:{about.st_size}:{about.st_mtime_ns}:{about.st_ctime_ns}"
