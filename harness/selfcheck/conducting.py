"""Writes the records of a self-check into a run folder, closes them, and derives the summary that follows."""

from __future__ import annotations

import platform
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from harness import __version__
from harness.deriving.campaign import derive_campaign
from harness.deriving.selfcheck import SCHEMA
from harness.engines.subject import path_sets_of
from harness.gating.outputs import rules_digest
from harness.pipeline import plain, private_names, read_bytes, utc_now
from harness.running.probe import probe_environment
from harness.running.source import source_of
from harness.wire import canonical
from harness.wire.campaign_doc import CampaignWriter, read_campaign, write_summary

OWN_SETS: Final = {
    "statecert": ("harness:*.py", "harness:certifying/**/*.py", "harness:gating/**/*.py", "harness:selfcheck/**/*.py")
}
"""Files that a self-check is about, besides those that every record names."""
GATE: Final = "gate"
SETS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    GATE: OWN_SETS,
    "codec": {"statecert": ("harness:codec/**/*.py", "harness:selfcheck/**/*.py")},
}
"""Part of the harness to the files that a self-check of it is about."""
_LIBRARIES: Final = ("orjson", "jsonschema", "jsonschema-rs", "pyyaml", "cryptography", "pynacl", "rfc8785")

Write = Callable[[Mapping[str, object]], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """A self-check that is over."""

    evidence: Path
    body: Mapping[str, object]


def conduct(
    folder: Path, name: str, procedure: Mapping[str, object], work: Callable[[Write], None], *, about: str = GATE
) -> Checked:
    """Carry a self-check out and write its two files into a folder.

    Args:
        folder: Where to.
        name: ``fuzz`` or ``selftest``.
        procedure: What is going to be done.
        work: Does it, and writes the records.
        about: Which part of the harness it is about: ``gate`` or ``codec``.

    Raises:
        StorageError: The disk refuses.
        InvalidDocumentError: A record does not fit its schema, or holds something private.
    """
    path = folder / f"{name}.jsonl"
    source = source_of(SETS[about])
    writer = CampaignWriter(path, names=private_names())
    began = time.monotonic_ns()
    try:
        writer.write(
            {
                "type": "header",
                "schema": SCHEMA,
                "campaign": name,
                "run_id": uuid.uuid4().hex,
                "created": utc_now(),
                "procedure": procedure,
                "target": _target(about),
                "environment": plain(probe_environment()),
                "source": plain(source),
            }
        )
        work(writer.write)
        writer.close(finished=utc_now(), elapsed_ns=time.monotonic_ns() - began)
    except BaseException:
        writer.abandon()
        raise
    body = derive_campaign(read_campaign(read_bytes(path), path.name), path.name)
    write_summary(path.with_suffix(".json"), body)
    return Checked(evidence=path, body=body)


def _target(about: str) -> dict[str, object]:
    sets = [plain(one) for one in path_sets_of(SETS[about])]
    return {
        "adapter": "none",
        "group": "harness.engines",
        "engine": "statecert",
        "engine_version": __version__,
        "model": about,
        "model_digest": rules_digest() if about == GATE else canonical.digest({"path_sets": sets}),
        "hw_class": f"cpu-{platform.machine().lower() or 'unknown'}",
        "capabilities": [],
        "identity": {f"library.{name}": found for name in _LIBRARIES if (found := _version(name))},
        "device": {"type": "cpu"},
        "path_sets": sets,
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
