"""The body of a certificate from a closed file of observations, whatever its kind. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.deriving.body import derive_body
from harness.model.evidence import Evidence

if TYPE_CHECKING:
    from harness.model.campaign import CampaignRecords


def body_of(found: Evidence | CampaignRecords, where: str = "evidence") -> dict[str, object]:
    """Return the body that follows.

    Raises:
        InvalidDocumentError: The observations were cut off or contradict themselves.
    """
    if isinstance(found, Evidence):
        return derive_body(found, where)
    from harness.deriving.campaign import derive_campaign

    return derive_campaign(found, where)
