"""Pages with one planted fault: the probes are tried on them, or the smallest matrix is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.campaigning import kv
from harness.campaigning.kv import PREFIXES, Asked, job, procedure_of
from harness.deriving.kv import derive_cells
from harness.deriving.kv_entries import derive_entries
from harness.engines import registry
from harness.errors import UsageError
from harness.model.campaign import CampaignRecords
from harness.model.values import Sha256

PAGE_MUTANTS: Final = "harness.page_mutants"
"""Entry-point group of adapters whose pages have one planted fault."""


def probe(adapter: str, group: str, device: str, path: str = "compiled") -> Sequence[Mapping[str, object]]:
    """Try the probes alone on an adapter, and return the rows of the entries that are made of them."""
    procedure = procedure_of(Asked(path=path), device)
    records = list(kv.child(job(adapter, group, device, procedure, process=-1, probes=True)))
    apart = {"type": "kv_oracle", "process": 0, "inside": 0, "ns": 1}  # the timed one belongs to a matrix
    return [row for row in derive_entries(records, [], [apart]) if row["entry"] != "H08"]


def caught(mutant: str, device: str) -> Mapping[str, str]:
    """Try the probes, or measure the smallest matrix, on pages with one planted fault.

    Returns:
        The mutant, the entry and the probe that it names, whether that one failed, and every probe that did.

    Raises:
        UsageError: There is no such mutant, or it does not say what must stop it.
        ProtocolError: Its process ended otherwise.
    """
    told = getattr(registry.load(mutant, PAGE_MUTANTS), "caught_by", None)
    if told is None:
        raise UsageError(f"{mutant} does not say which probe must stop it")
    if told.model:
        failed = {told.entry: small_matrix(mutant, PAGE_MUTANTS, device, told.model)}
    else:
        failed = {str(row["entry"]): _texts(row["failed"]) for row in probe(mutant, PAGE_MUTANTS, device)}
    return {
        "mutant": mutant,
        "entry": told.entry,
        "probe": told.probe,
        "stopped": "yes" if told.probe in failed.get(told.entry, []) else "no",
        "failed": "; ".join(f"{entry} {name}" for entry, names in failed.items() for name in names),
    }


def small_matrix(adapter: str, group: str, device: str, model: str) -> list[str]:
    """Measure the smallest matrix of a model on an adapter, in two fresh processes, and return what its cell says.

    Raises:
        ProtocolError: A process ended without telling all that it was asked for.
    """
    procedure = small_procedure(model)
    jobs = [job(adapter, group, device, procedure, process=process, probes=False) for process in range(2)]
    return reasons_of(procedure, [record for one in jobs for record in kv.child(one)])


def small_procedure(model: str) -> Mapping[str, object]:
    """Return the smallest matrix that is judged: one page of ten tokens, in LCG2."""
    asked = Asked(scale=400, pairs=("f16",), models=(model,), steps=2, versions=(2,), path="numpy")
    return {**procedure_of(asked), "prefixes": [PREFIXES[0] // 400]}


def reasons_of(procedure: Mapping[str, object], records: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the reasons that the one cell of a small matrix gives."""
    header = {"type": "header", "procedure": procedure}
    found = CampaignRecords(records=[header, *records], sha256=Sha256("0" * 64), bytes=0)
    [cell] = derive_cells(found, "records")
    return _texts(cell["reasons"])


def _texts(names: object) -> list[str]:
    return [str(name) for name in names] if isinstance(names, list) else []
