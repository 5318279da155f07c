"""What a certified matrix already shows of the mutants that are here now, and which ones are to be run all the same.

A mutant need not be run again where a matrix of the same engine stopped it in the very files that it is written in, by
the very procedure of the scenario that it names. All others are run: one that is new, whatever it is. What a matrix
shows follows from its evidence, never from the body of its certificate.

Of those that are shown some are run too, so that no change goes by unmet: one of each kind of fault, and one of each
scenario as well where engine, harness or machine are not those of the matrix. Which one follows from the path sets: the
same for the same files, another one after a change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from harness.certifying.store import certificate_files, parse_in_place, read_evidence
from harness.deriving.campaign import derive_campaign
from harness.deriving.fields import mappings_at, text_at, value_at
from harness.deriving.matrix import MATRIX, STOPPED, kind_of
from harness.engines import registry
from harness.model.campaign import CampaignRecords, Record
from harness.model.scenario import Scenario
from harness.model.target import PathSet
from harness.model.values import CertificateState
from harness.mutation.workshops import Workshop
from harness.pipeline import plain, read_bytes
from harness.wire.campaign_doc import read_campaign

NO_MATRIX: Final = "no matrix lists it"
NOT_STOPPED: Final = "no matrix shows it stopped"
UNTOLD: Final = "its files are not told"
OTHER_FILES: Final = "its files changed"
OTHER_SCENARIO: Final = "its scenario changed"
OF_KIND: Final = "one of its kind"
OF_SCENARIO: Final = "one of its scenario"
Ground = tuple[tuple[str, str], ...]
"""Engine, harness and machine, as names and digests."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """What the evidence of one matrix says."""

    rows: Mapping[str, Mapping[str, object]]
    """By mutant, as derived."""
    told: Mapping[str, Record]
    """By mutant: what it said of itself, and the digest of its files."""
    procedures: Mapping[str, str]
    """By scenario: digest of its procedure."""
    ground: Ground
    """What :func:`ground_of` says of the engine, the harness and the machine."""


def matrix_of(found: CampaignRecords) -> Matrix:
    """Return what the records of a matrix say.

    Raises:
        InvalidDocumentError: The records are not those of its pairs.
    """
    body = derive_campaign(found)
    header = found.header
    return Matrix(
        rows={text_at(row, "id"): row for row in mappings_at(body, "mutants")},
        told={text_at(one, "id"): one for one in found.records if one["type"] == "mutant"},
        procedures={
            text_at(one, "id"): text_at(one, "procedure_digest") for one in found.records if one["type"] == "scenario"
        },
        ground=ground_of(
            {text_at(one, "name"): text_at(one, "digest") for one in mappings_at(header, "source", "path_sets")},
            hw_class=text_at(header, "target", "hw_class"),
            torch=text_at(header, "environment", "facts", "package.torch"),
        ),
    )


def ground_of(digests: Mapping[str, str], *, hw_class: str, torch: str) -> Ground:
    """Return what must be equal for two runs to stand on the same ground.

    Args:
        digests: Of path sets, by name.
        hw_class: Class of the machine.
        torch: Version of the library.
    """
    return (*sorted(digests.items()), ("hw_class", hw_class), ("torch", torch))


def ground_now(shop: Workshop) -> Ground:
    """Return the ground that a workshop stands on, whose clean engine is up."""
    return ground_of(
        {one.name: one.digest for one in shop.source.path_sets},
        hw_class=shop.facts[registry.ENGINES, shop.engine].hw_class,
        torch=str(shop.environment.facts.get("package.torch", "")),
    )


def newest_matrix(folder: Path, engine: str, preset: str) -> Matrix | None:
    """Return the newest current matrix of an engine in a certificates folder; None: there is none.

    Raises:
        InvalidDocumentError: A certificate or its evidence is not whole.
        StorageError: A file cannot be read.
    """
    own = [path for path in certificate_files(folder) if path.relative_to(folder).parts[0] == MATRIX]
    found = [parse_in_place(folder, path, read_bytes(path)) for path in own]
    current = [
        one.body
        for one in found
        if one.status.state is CertificateState.CURRENT
        and text_at(one.body, "subject", "engine", "adapter") == engine
        and value_at(one.body, "subject", "identity", "preset") == preset
    ]
    if not current:
        return None
    newest = max(current, key=lambda body: text_at(body, "run", "created"))
    evidence = text_at(newest, "run", "evidence", "sha256")
    return matrix_of(read_campaign(read_evidence(folder, evidence), f"{evidence}.jsonl"))


def why_not_shown(name: str, shown: Matrix | None, files: PathSet | None, scenarios: Mapping[str, Scenario]) -> str:
    """Say why a mutant must be run; empty: the matrix shows it stopped, and nothing of it has changed since.

    Args:
        name: Of the mutant.
        shown: The matrix; None: there is none.
        files: What it is written in now; None: nobody can tell.
        scenarios: As they are now.
    """
    if shown is None or name not in shown.rows:
        return NO_MATRIX
    row, told = shown.rows[name], shown.told[name]
    if row["named"] != STOPPED or row["unsound"]:
        return NOT_STOPPED
    if files is None or "files" not in told:
        return UNTOLD
    if told["files"] != plain(files):
        return OTHER_FILES
    scenario = scenarios.get(str(row["scenario"]))
    if scenario is None or scenario.procedure_digest != shown.procedures.get(scenario.id):
        return OTHER_SCENARIO
    return ""


def to_run(
    names: Sequence[str],
    shown: Matrix | None,
    files: Callable[[str], PathSet | None],
    scenarios: Mapping[str, Scenario],
    ground: Ground,
) -> dict[str, str]:
    """Return the mutants that are to be run, each with the reason.

    Args:
        names: Of all mutants.
        shown: The matrix; None: there is none, and all are run.
        files: Says what a mutant is written in.
        scenarios: As they are now.
        ground: Of :func:`ground_of`, now.
    """
    why = {name: why_not_shown(name, shown, files(name), scenarios) for name in names}
    if shown is None:
        return why
    rest = sorted((name for name in names if not why[name]), key=lambda name: _lot(name, ground))
    if ground != shown.ground:
        _draw(rest, why, OF_SCENARIO, lambda name: str(shown.rows[name]["scenario"]))
    _draw(rest, why, OF_KIND, kind_of)
    return {name: reason for name, reason in why.items() if reason}


def _draw(rest: Sequence[str], why: dict[str, str], reason: str, group: Callable[[str], str]) -> None:
    """Give a reason to the first of each group that none of has one."""
    met = {group(name) for name in rest if why[name]}
    for name in rest:
        if group(name) not in met:
            met.add(group(name))
            why[name] = reason


def _lot(name: str, ground: Ground) -> str:
    return sha256(f"{ground} {name}".encode()).hexdigest()
