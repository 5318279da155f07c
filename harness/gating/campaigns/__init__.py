"""What the gate asks of the counts of a campaign, by its name. A campaign that is not in the table is refused.

Nothing here is the code that derives a body: a mistake there must not be its own alibi.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.gating import selfcheckcounts
from harness.gating.campaigns import faults, kill, kv, matrix, soak
from harness.gating.rule import Body, Problems

Records = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Questions:
    """The questions about a campaign."""

    in_body: Callable[[Body], Problems]
    """Whether the counts of a body agree with each other and with its decision."""
    in_records: Callable[[Body, Records], Problems]
    """Whether they are found again in the records."""
    outdated: Callable[[Body], Problems] | None = None
    """Whether a body asks for less than one that is current must; None: no procedure of it ever asked for less."""


QUESTIONS: Final[Mapping[str, Questions]] = {
    "faults": Questions(in_body=faults.in_body, in_records=faults.in_records),
    "matrix": Questions(in_body=matrix.in_body, in_records=matrix.in_records),
    "fuzz": Questions(in_body=selfcheckcounts.fuzz_in_body, in_records=selfcheckcounts.fuzz_in_records),
    "soak": Questions(in_body=soak.in_body, in_records=soak.in_records),
    "kv": Questions(in_body=kv.in_body, in_records=kv.in_records, outdated=kv.outdated),
    "kill": Questions(in_body=kill.in_body, in_records=kill.in_records),
}
