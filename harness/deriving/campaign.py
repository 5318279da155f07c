"""Campaigns: long runs whose result is one certificate. Name to the function that derives its part of the body. Pure.

Another campaign is another name here, with a derive function of its own. Beside it stand its records and its body in
a schema of its own that ``schemas/campaign.v1.json`` refers to, its questions in :mod:`harness.gating.campaigns`, its
page in :mod:`harness.reporting.campaigns`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from harness.deriving.campaign_body import KIND, SCHEMA, common, common_limits
from harness.deriving.faults import FAULTS, derive_faults
from harness.deriving.foreign import FOREIGN, derive_foreign
from harness.deriving.kill import KILL, derive_kill
from harness.deriving.kv import KV, derive_kv
from harness.deriving.matrix import MATRIX, derive_matrix
from harness.deriving.selfcheck import FUZZ, SELFTEST, derive_fuzz, derive_selftest
from harness.deriving.soak import SOAK, derive_soak
from harness.errors import InvalidDocumentError
from harness.model.campaign import CampaignRecords

__all__ = ["CAMPAIGNS", "KIND", "SCHEMA", "derive_campaign"]

Derive = Callable[[CampaignRecords, str], dict[str, object]]
"""Takes all records and a name for errors; returns at least ``results``, ``limits`` and ``decision``."""

CAMPAIGNS: Final[Mapping[str, Derive]] = {
    FAULTS: derive_faults,
    FOREIGN: derive_foreign,
    FUZZ: derive_fuzz,
    KILL: derive_kill,
    KV: derive_kv,
    MATRIX: derive_matrix,
    SELFTEST: derive_selftest,
    SOAK: derive_soak,
}


def derive_campaign(found: CampaignRecords, where: str = "campaign") -> dict[str, object]:
    """Return the body that follows from a campaign's file.

    Args:
        found: All records, header first, end record last.
        where: What to call the file in an error.

    Raises:
        InvalidDocumentError: The records are cut off, out of order, contradict each other or their plan, or are of a
            campaign that is not known here.
    """
    records = found.records
    if not records or records[0].get("type") != "header" or records[-1].get("type") != "end":
        raise InvalidDocumentError("found no header or no end record; a campaign that was cut off is none", where=where)
    derive = CAMPAIGNS.get(found.name)
    if derive is None:
        raise InvalidDocumentError(f"found campaign {found.name!r}; known are {', '.join(CAMPAIGNS)}", where=where)
    own = derive(found, where)
    listed = own["limits"]
    limits = {*common_limits(found), *(map(str, listed) if isinstance(listed, list) else ())}
    return {**common(found), **own, "limits": sorted(limits)}
