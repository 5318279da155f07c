"""Page mutants of what cannot be, and of the matrix as a whole: a small matrix must give the reason that they name."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from harness.adapters.mutants.kv_archive_faults import WrongBinsPager
from harness.adapters.mutants.kv_page_mutant import HEAD, RECORD, Caught, PageMutant
from harness.codec.archive import Component
from harness.codec.errors import GeometryError
from harness.codec.paths import coder, half_values
from harness.torch_engine.coded.restoring import Placed
from harness.torch_engine.pages import Pager
from harness.torch_engine.session import TorchSession


class _AnyPair(Pager):
    def check(self, k_type: str, v_type: str, *, transposed: bool) -> None:
        del k_type, v_type, transposed


class ImpossiblePairOpened(PageMutant):
    """V of blocks is opened although its pages are to lie channel by channel, which cuts every block."""

    mutant_id = "K06.impossible-pair-opened"
    caught_by = Caught("H07", "opened transposed q8_0")
    pager = _AnyPair


class _KeptWhole(Pager):
    def archive(self, session: TorchSession, version: int, path: str, *, transposed: bool = False) -> bytes:
        try:
            return super().archive(session, version, path, transposed=transposed)
        except GeometryError:
            page = self.page(session, transposed=transposed)
            head = RECORD.pack(1, 1, 0, 0, len(page), 0, 0, 0, len(page))
            return HEAD.pack(b"CKG1", len(page), 1) + head + page


class UncodedTypeKeptWhole(PageMutant):
    """A page of a type that has no code is put into an archive as it is, and nobody is told."""

    mutant_id = "K06.uncoded-type-kept-whole"
    caught_by = Caught("H07", "coded bf16")
    pager = _KeptWhole


class _OracleFirst(Pager):
    def decode(self, placed: Placed, path: str) -> str:
        for record, _ in placed.rows:
            if record.segment is not None:
                half_values(record.segment, path=coder("oracle"))
        return super().decode(placed, path)


class OracleInRestore(PageMutant):
    """Every import is decoded by the plain oracle as well, inside the time of the restore."""

    mutant_id = "K12.oracle-in-restore"
    caught_by = Caught("H09", "import without the oracle")
    pager = _OracleFirst


class _ExactCoded(Pager):
    def bring(self, session: TorchSession, page: bytes, tail: bytes, *, transposed: bool = False) -> None:
        super().bring(session, page, tail, transposed=transposed)
        for target in self.targets(session, session.position, transposed=transposed):
            if target.dtype == torch.float16:
                target.view(torch.int16).bitwise_and_(-2)


class ExactFormNarrowed(PageMutant):
    """The form that is called exact comes back without the last bit of each value."""

    mutant_id = "K10.exact-form-narrowed"
    caught_by = Caught("H06", "exact_differs", model="wide")
    pager = _ExactCoded


class _CoarseBins(WrongBinsPager):
    def coarse(self, parts: Sequence[Component]) -> bool:
        return parts[0].layers < 10


class SmallerThanItsFormula(PageMutant):
    """Shallow caches take the coarse bins as well: a matrix shows archives that are smaller than they can be."""

    mutant_id = "K10.smaller-than-its-formula"
    caught_by = Caught("H06", "size_formula", model="wide")
    pager = _CoarseBins


class _SlowByTurns(Pager):
    """What is slow is the exact import in one process and the lossy one in the next, told by a file of their parent."""

    pause = 0.2

    def __init__(self) -> None:
        super().__init__()
        mark = Path(tempfile.gettempdir()) / f"kv-by-turns-{os.getppid()}"
        self.slow_exact = not mark.exists()
        if self.slow_exact:
            mark.touch()
        else:
            mark.unlink()

    def bring(self, session: TorchSession, page: bytes, tail: bytes, *, transposed: bool = False) -> None:
        time.sleep(self.pause if self.slow_exact else 0)
        super().bring(session, page, tail, transposed=transposed)

    def decode(self, placed: Placed, path: str) -> str:
        time.sleep(0 if self.slow_exact else self.pause)
        return super().decode(placed, path)


class VerdictByProcess(PageMutant):
    """One process restores the exact form slowly, the next one the lossy form: each alone would give a verdict."""

    mutant_id = "K12.verdict-by-process"
    caught_by = Caught("H08", "restore_unstable", model="wide")
    pager = _SlowByTurns


class _FallsBack(Pager):
    def decode(self, placed: Placed, path: str) -> str:
        del path
        return super().decode(placed, "torch")


class PathFallsBack(PageMutant):
    """Whatever path is declared, archives are decoded by the one that is always there."""

    mutant_id = "K10.path-falls-back"
    caught_by = Caught("H06", "path_differs", model="wide")
    pager = _FallsBack
