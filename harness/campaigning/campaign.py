"""What all campaigns share: a file of records that is closed like evidence, and the summary that follows from it.

A campaign is a procedure and some work that writes records. :func:`conduct` writes the header, lets the work go on,
adds what was done for trust, closes the file and derives the summary. Nothing else of a campaign writes files.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from harness.deriving.campaign import SCHEMA, derive_campaign
from harness.errors import InvalidDocumentError, NothingToDoError
from harness.model.values import Capability
from harness.pipeline import Bench, plain, read_bytes, utc_now
from harness.wire.campaign_doc import CampaignWriter, read_campaign, read_summary, write_summary
from harness.wire.evidence_doc import observation_to_mapping

if TYPE_CHECKING:
    from harness.engines.host import EngineHost

Tell = Callable[[str, int], None]
"""Is told what is under way and how much of it is done."""
Write = Callable[[Mapping[str, object]], None]
"""Takes one record; may be called from several threads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Campaign:
    """A campaign that is over: its files and what follows from them."""

    evidence: Path
    summary: Path
    body: Mapping[str, object]


def conduct(
    bench: Bench,
    name: str,
    procedure: Mapping[str, object],
    work: Callable[[Write], Sequence[EngineHost]],
) -> Campaign:
    """Carry a campaign out on a target that is up, and write its two files into the run folder.

    Args:
        bench: The target.
        name: Of the campaign, like ``soak``.
        procedure: What is going to be done; a reader holds the records to it.
        work: Writes the records; returns the hosts whose children it used.

    Raises:
        EngineError: The engine did not go on.
        InvalidDocumentError: A record does not fit its schema, or the records contradict each other.
        StorageError: The disk refuses.
    """
    path = bench.folder / f"{name}.jsonl"
    writer = CampaignWriter(path, names=bench.names)
    lock = Lock()

    def write(record: Mapping[str, object]) -> None:
        with lock:
            writer.write(record)

    began = time.monotonic_ns()
    try:
        writer.write(_header(bench, name, procedure))
        for host in work(write):
            _write_trust(host, writer)
        writer.close(finished=utc_now(), elapsed_ns=time.monotonic_ns() - began)
    except BaseException:
        writer.abandon()
        raise
    body = derive_campaign(read_campaign(read_bytes(path), path.name), path.name)
    summary = path.with_suffix(".json")
    write_summary(summary, body)
    return Campaign(evidence=path, summary=summary, body=body)


def require_able(bench: Bench, needed: Sequence[Capability]) -> None:
    """Do nothing if a target is there and can do what a campaign needs.

    Raises:
        NothingToDoError: The device is absent, or a capability is not declared.
    """
    if bench.host.absent:
        raise NothingToDoError(f"{bench.target.adapter}: {bench.host.absent}")
    missing = [str(need) for need in needed if need not in bench.host.capabilities]
    if missing:
        raise NothingToDoError(f"{bench.target.adapter} does not declare {', '.join(missing)}")


def judge_again(path: Path) -> tuple[Mapping[str, object], bool]:
    """Derive the summary of a campaign's file again.

    Returns:
        The summary, and whether the one that lies beside the file says the same, byte for byte.

    Raises:
        InvalidDocumentError: The file is cut off, was changed or contradicts itself.
        StorageError: It, or the summary beside it, cannot be read.
    """
    body = derive_campaign(read_campaign(read_bytes(path), path.name), path.name)
    beside = path.with_suffix(".json")
    return body, read_summary(read_bytes(beside), beside.name) == body


def require_equal(path: Path) -> Mapping[str, object]:
    """Derive a summary again, and insist that the one beside the file is the same.

    Raises:
        InvalidDocumentError: It is not, or the file cannot be trusted.
    """
    body, same = judge_again(path)
    if not same:
        raise InvalidDocumentError("the summary is not what follows from the observations", where=path.name)
    return body


def facts_of(bench: Bench) -> Mapping[str, object]:
    """Return what a header says of a target that is up: target, environment, source."""
    return {
        "target": {**plain(bench.facts), "adapter": bench.target.adapter, "group": bench.target.group},
        "environment": plain(bench.environment),
        "source": plain(bench.source),
    }


def _header(bench: Bench, name: str, procedure: Mapping[str, object]) -> Mapping[str, object]:
    return {
        "type": "header",
        "schema": SCHEMA,
        "campaign": name,
        "run_id": uuid.uuid4().hex,
        "created": utc_now(),
        "procedure": procedure,
        **facts_of(bench),
    }


def _write_trust(host: EngineHost, writer: CampaignWriter) -> None:
    """End the child, and write what was done so that its digests can be believed.

    Raises:
        EngineError: It did not end in good order.
    """
    host.discard()
    lost = host.take_lost()
    if lost is not None:
        raise lost
    for trust in host.take_trust():
        writer.write(observation_to_mapping(trust))
