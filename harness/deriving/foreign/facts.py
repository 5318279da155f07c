"""Header members of an imported record that follow from its text and from what the importer was told. Pure.

The importer writes them, and deriving makes them again: a header cannot say of a record what the record does not say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from harness.deriving.foreign.nouns import Record
from harness.deriving.ids import slug
from harness.errors import InvalidDocumentError
from harness.model.values import Sha256
from harness.wire import canonical

GROUP: Final = "foreign"
"""In place of an entry-point group: nobody here ran an engine."""
UNKNOWN: Final = "0" * 64
"""Digest of a model of which the record gives none."""
_DATE: Final = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])\Z"
_DIGEST: Final = r"[0-9a-f]{64}\Z"
_COMMIT: Final = r"[0-9a-f]{7,64}\Z"

Told = Mapping[str, str]
"""``engine``, and where the record lacks them ``published``, ``model``, ``model_sha256``, ``hardware``."""


def created_of(record: Record, told: Told) -> str:
    """Return when the record was made: when it was published, if that is told; else the beginning of its day.

    Raises:
        InvalidDocumentError: Neither the record nor the importer says.
    """
    published = told.get("published", "")
    if record.date and re.match(_DATE, record.date) is None:
        raise InvalidDocumentError(
            f"found date {record.date[:40]!r}; expected one like 2026-01-31", where="record.date"
        )
    if published and record.date and published[:10] < record.date:
        raise InvalidDocumentError(
            f"was published {published[:40]}, before its date {record.date}", where="record.date"
        )
    if not published and not record.date:
        raise InvalidDocumentError("has no date; say when it was published with --published", where="record.date")
    return published or f"{record.date}T00:00:00Z"


def target_of(record: Record, told: Told) -> dict[str, object]:
    """Return engine, model and device as the record names them.

    Raises:
        InvalidDocumentError: It names no model or no hardware and the importer neither, or both name different ones.
    """
    name, digest = _model(record, told)
    return {
        "adapter": "none",
        "group": GROUP,
        "engine": told["engine"],
        "engine_version": _version(record),
        "model": slug(name),
        "model_digest": digest,
        "hw_class": _hw_class(record, told),
        "capabilities": [],
        "identity": {"model_id": name, **{f"reference_{key}": text for key, text in record.reference.items()}},
        "device": dict(record.hardware) or {"named": told.get("hardware", "")},
    }


def machine_of(target: Mapping[str, object]) -> Sha256:
    """Return a digest of the hardware that is named: it groups records, and tells no two machines of a kind apart."""
    device = target["device"]
    named = dict(device) if isinstance(device, Mapping) else {}
    for backend in ("backend", "runtime_backend", "codec_backend"):
        named.pop(backend, None)
    return Sha256(canonical.digest({"named_by_a_publisher": named}))


def _model(record: Record, told: Told) -> tuple[str, str]:
    named = record.models[0] if record.models else ("", "")
    name, digest = told.get("model", ""), told.get("model_sha256", "")
    for said, given, what in ((named[0], name, "model"), (named[1], digest, "model_sha256")):
        if said and given and said != given:
            raise InvalidDocumentError(f"says {said[:80]!r}, and not {given[:80]!r}", where=f"record.{what}")
    if not (named[0] or name):
        raise InvalidDocumentError("names no model; say which with --model", where="record.model")
    found = named[1] or digest or UNKNOWN
    if re.match(_DIGEST, found) is None:
        raise InvalidDocumentError(f"found digest {found[:80]!r}; expected 64 hex digits", where="record.model.sha256")
    return named[0] or name, found


def _version(record: Record) -> str:
    commits = sorted(set(record.commits.values()))
    for commit in commits:
        if re.match(_COMMIT, commit) is None:
            raise InvalidDocumentError(f"found commit {commit[:80]!r}; expected hex digits", where="record.commit")
    return commits[0] if len(commits) == 1 else "several" if commits else "unknown"


def _hw_class(record: Record, told: Told) -> str:
    hardware = record.hardware
    named = [hardware.get("runtime_backend", hardware.get("backend", "")), hardware.get("chip", "")]
    words = "-".join(one for one in named if one) or told.get("hardware", "")
    if not words:
        raise InvalidDocumentError("names no hardware; say which with --hardware", where="record.hardware")
    return slug(words)[:96].strip("-.")
