"""A closed file of observations, whatever kind of run wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.model.evidence import Evidence
from harness.wire.evidence_doc import read_evidence

if TYPE_CHECKING:
    from harness.model.campaign import CampaignRecords

_CAMPAIGN: Final = b'{"campaign":'
"""How the canonical header of a campaign begins; no other first line of a file of observations does."""


def is_campaign(data: bytes) -> bool:
    """Tell whether a file of observations is one of a campaign: its first line says so before anything else."""
    return data.startswith(_CAMPAIGN)


def read_observed(data: bytes, where: str) -> Evidence | CampaignRecords:
    """Return what a file of a run or of a campaign holds.

    Raises:
        InvalidDocumentError: It was changed, is no such file, or (of a campaign) was cut off.
    """
    if not is_campaign(data):
        return read_evidence(data, where)
    from harness.wire.campaign_doc import read_campaign

    return read_campaign(data, where)
