"""What the bodies of all campaigns have in common, and how their records are read. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from harness.deriving import about
from harness.deriving.ids import campaign_key
from harness.errors import InvalidDocumentError
from harness.model.campaign import CampaignRecords, Record

SCHEMA: Final = "statecert/campaign/v1"
KIND: Final = "campaign"
_COUNTED: Final = ("known_answers", "spot_checks", "mismatches")


def common(found: CampaignRecords) -> dict[str, object]:
    """Return the members that do not depend on which campaign it was."""
    header = found.header
    target, source = mapping_of(header, "target"), mapping_of(header, "source")
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "campaign": found.name,
        "claim_key": campaign_key(found.name, str(target["engine"]), str(target["model"]), str(target["hw_class"])),
        "run": _run(found),
        "subject": about.subject(target, source),
        "environment": about.environment(mapping_of(header, "environment"), target),
        "harness": about.harness(source),
        **({"observability": target["observability"]} if "observability" in target else {}),
        "procedure": header["procedure"],
        "trust": trust_of(found),
    }


def common_limits(found: CampaignRecords) -> set[str]:
    """Return limits of target, source and trust, as codes."""
    header = found.header
    spot_checks = trust_of(found)["spot_checks"]
    codes = about.limits_of_target(mapping_of(header, "target"), mapping_of(header, "source"))
    return {*codes, *([] if spot_checks else ["no_spot_checks"])}


def trust_of(found: CampaignRecords) -> dict[str, object]:
    """Return what was done so that digests can be believed, summed up over all children."""
    records = [record for record in found.records if record.get("type") == "trust"]
    return {
        "children": len(records),
        **{name: sum(integer_of(one, name) for one in records) for name in _COUNTED},
        "hashed_by": about.one_word([str(one["hashed_by"]) for one in records]),
        "algorithm": about.one_word([str(one["algorithm"]) for one in records]),
    }


def require_children(found: CampaignRecords, where: str, *, hosts: int = 1, least: int = 1) -> None:
    """Hold the trust of children to their numbers: each host counts its own from 1 on, and leaves none out.

    Args:
        found: All records.
        where: What to call the file in an error.
        hosts: How many hosts there were, each with children of its own.
        least: How many children there must have been.

    Raises:
        InvalidDocumentError: One is there twice, or missing among the others.
    """
    records = [record for record in found.records if record.get("type") == "trust"]
    counts = Counter(integer_of(one, "child") for one in records)
    rising = [counts[number] for number in range(1, max(counts, default=0) + 1)]
    if not rising:
        return  # nothing is believed then: the decision says so
    if max(rising) > hosts or rising != sorted(rising, reverse=True) or len(records) < least:
        raise InvalidDocumentError(
            f"found trust of {len(records)} children; expected {least} at least, numbered from 1 on by {hosts} hosts",
            where=where,
        )


def mapping_of(record: Record, name: str) -> Mapping[str, object]:
    """Return a member that is a mapping.

    Raises:
        InvalidDocumentError: It is none.
    """
    value = record.get(name)
    if not isinstance(value, Mapping):
        raise InvalidDocumentError(f"found {name} {value!r}; expected a mapping", where=KIND)
    return value


def integer_of(record: Record, name: str) -> int:
    """Return a member that is an integer.

    Raises:
        InvalidDocumentError: It is none.
    """
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidDocumentError(f"found {name} {value!r}; expected an integer", where=KIND)
    return value


def _run(found: CampaignRecords) -> dict[str, object]:
    header, end = found.header, found.end
    return {
        "run_id": header["run_id"],
        "created": header["created"],
        "finished": end["finished"],
        "elapsed_ns": end["elapsed_ns"],
        "evidence": {"sha256": found.sha256, "bytes": found.bytes, "records": end["records"]},
    }
