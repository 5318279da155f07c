"""Pages with one planted fault each, all of them; each is an entry point of ``harness.page_mutants`` by its id."""

from __future__ import annotations

from collections.abc import Sequence

from harness.adapters.mutants.kv_archive_faults import (
    CancelledImportKept,
    ChunkOf257,
    IndexRowsNarrowed,
    PageScalesDropped,
    ReservedByteNotRead,
    TransposedVMissed,
    WritesBeforeValidating,
    WrongBins,
)
from harness.adapters.mutants.kv_coder_faults import (
    BitOrderSwapped,
    CdfOffByOne,
    DeviceRoundsElsewhere,
    LastSymbolRepeated,
    PackedMaximaNarrowed,
    SymbolsRoundHalfUp,
)
from harness.adapters.mutants.kv_matrix_faults import (
    ExactFormNarrowed,
    ImpossiblePairOpened,
    OracleInRestore,
    PathFallsBack,
    SmallerThanItsFormula,
    UncodedTypeKeptWhole,
    VerdictByProcess,
)
from harness.adapters.mutants.kv_page_mutant import PageMutant
from harness.adapters.mutants.kv_shelf_faults import (
    LossyEntryServed,
    LossyShownAsExact,
    NewerCodecTaken,
    PublishedInPlace,
    ReaderLosesItsEntry,
    StoredFlipServed,
)
from harness.adapters.mutants.kv_type_faults import BlocksByRoundedScale, CodesTruncated, F32ReadAsUnset, NibblesSwapped

PAGE_MUTANTS: Sequence[type[PageMutant]] = (
    CdfOffByOne, BitOrderSwapped, SymbolsRoundHalfUp, WrongBins, TransposedVMissed, ChunkOf257,
    WritesBeforeValidating, CancelledImportKept, IndexRowsNarrowed, PageScalesDropped, F32ReadAsUnset,
    BlocksByRoundedScale, NibblesSwapped, CodesTruncated, LossyShownAsExact, LossyEntryServed,
    PublishedInPlace, ReaderLosesItsEntry, NewerCodecTaken, DeviceRoundsElsewhere, PackedMaximaNarrowed,
    LastSymbolRepeated, ImpossiblePairOpened, UncodedTypeKeptWhole, OracleInRestore, ExactFormNarrowed,
    SmallerThanItsFormula, VerdictByProcess, PathFallsBack, ReservedByteNotRead, StoredFlipServed,
)  # fmt: skip
