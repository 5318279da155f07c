"""What the bodies of all campaigns have in common, and how their records are read. Pure."""

from __future__ import annotations

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
