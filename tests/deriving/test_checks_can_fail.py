"""A check that cannot fail asks nothing: each one of a committed cell fails when what it looks at is changed."""

from __future__ import annotations

import pytest

from harness.certifying.store import read_evidence as bytes_of_evidence
from harness.wire.evidence_doc import read_evidence
from tests.deriving.failable import blind
from tests.deriving.test_course import CERTIFICATES, committed


@pytest.mark.parametrize("scenario", sorted(committed()))
def test_every_check_of_a_committed_cell_can_fail(scenario: str) -> None:
    """Controls end in an error when they see what their reference saw; all others fail on some change of one line."""
    digest, cell = committed()[scenario]

    assert blind(read_evidence(bytes_of_evidence(CERTIFICATES, digest), scenario), cell) == []
