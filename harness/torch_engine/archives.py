"""An archive of K/V rows decoded into a session that has them: straight into the resident rows, nothing else touched.

The archive is validated whole, and matched with the session's rows, before the first write. What only a tile shows (a
symbol outside its bins) comes after it; the session is then reset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import torch
from torch import Tensor

from harness.codec.archive import read_archive
from harness.codec.errors import CodecError, GeometryError, PathError
from harness.torch_engine.coded.restoring import TORCH, fits, import_page, require_path
from harness.torch_engine.errors import LayoutError, MetadataError, OptionError, TransferError
from harness.torch_engine.models.attention import AttentionState
from harness.torch_engine.session import TorchSession

CODEC: Final = "lmcache-cachegen"
VERSIONS: Final = (1, 2)


class Archiver:
    """Brings archives into sessions; every step is a method to override.

    Args:
        path: What decodes: ``torch``, or ``triton``, kernels for segments of version 2 alone, all tiles in one batch.
        device: Where the rows lie.

    Raises:
        OptionError: The path cannot run there. No other one takes its place.
    """

    def __init__(self, path: str = TORCH, device: torch.device | None = None) -> None:
        try:
            self.ran_as = require_path(path, device or torch.device("cpu"))
        except PathError as error:
            raise OptionError(f"archive_path: {error}") from error
        self.path = path
        """As declared; ``ran_as`` is what a certificate tells."""
        self.codecs: Mapping[str, Sequence[int]] = {CODEC: VERSIONS if path == TORCH else VERSIONS[1:]}

    def bring(self, session: TorchSession, data: bytes, codec: str, version: int) -> int:
        """Decode an archive into the K/V rows of a session; return the bytes written.

        Raises:
            OptionError: Another codec or version; nothing was touched.
            MetadataError: It is no archive, or holds segments of another version; nothing was touched.
            LayoutError: It does not fit the session's rows; nothing was touched.
            SessionStateError: A call is in progress, or there are no rows; nothing was touched.
            TransferError: A tile was wrong; the session is reset.
        """
        if version not in self.codecs.get(codec, ()):
            raise OptionError(f"archive: expected one of {dict(self.codecs)}, found {codec} {version}")
        session.idle("import_archive")
        targets = self.targets(session)
        self.validate(data, targets, version)
        try:
            return self.decode(data, targets)
        except CodecError as error:
            session.reset()
            raise TransferError(f"archive: expected its tiles to decode, found {error}") from error

    def targets(self, session: TorchSession) -> Sequence[Tensor]:
        """Live rows in the order of a page: all K, then all V; (tokens, channels) or (tokens, row bytes)."""
        layers = [one for one in session.buffers.layers if isinstance(one, AttentionState)]
        rows = [*(one.k[: one.kv_rows] for one in layers), *(one.v[: one.kv_rows] for one in layers)]
        return [one.tensors[0].flatten(1) for one in rows if len(one)]

    def validate(self, data: bytes, targets: Sequence[Tensor], version: int) -> None:
        """Refuse whatever can be told before the first write."""
        try:
            archive = read_archive(data, limit=sum(one.numel() * one.element_size() for one in targets) or 1)
            if any(found != version for found in archive.versions):
                raise MetadataError(f"archive: expected segments of version {version}, found {archive.versions}")
            fits(archive, targets)
        except GeometryError as error:
            raise LayoutError(str(error)) from error
        except CodecError as error:
            raise MetadataError(str(error)) from error

    def decode(self, data: bytes, targets: Sequence[Tensor]) -> int:
        """Decode into the rows."""
        return import_page(data, targets, path=self.path)
