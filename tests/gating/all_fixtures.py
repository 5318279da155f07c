"""Every certificates folder of the gate's tests: importing this registers them all."""

from __future__ import annotations

from tests.gating import (  # noqa: F401 - each registers its own
    across_fixtures,
    body_fixtures,
    campaign_fixtures,
    change_fixtures,
    claim_fixtures,
    count_fixtures,
    derived_fixtures,
    events_fixtures,
    files_fixtures,
    foreign_fixtures,
    form_fixtures,
    fresh_fixtures,
    hostile_fixtures,
    kv_fixtures,
    ledger_fixtures,
    names_fixtures,
    nothing_fixtures,
    pack_fixtures,
    policy_fixtures,
    run_fixtures,
    selfcheck_fixtures,
    sight_fixtures,
    timed_fixtures,
)
from tests.gating.fixtures import ASKED, FIXTURES, VALID, Fixture

__all__ = ["ASKED", "FIXTURES", "VALID", "Fixture"]
