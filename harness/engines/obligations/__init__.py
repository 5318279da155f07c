"""The obligations of an adapter, one probe each. A probe returns, or raises with a reason that says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.engines.conformance import Obligation
from harness.engines.obligations.abilities import capabilities
from harness.engines.obligations.archiving import archives
from harness.engines.obligations.counting import counters
from harness.engines.obligations.ending import reset_and_close
from harness.engines.obligations.identifying import cold_repeats, identity
from harness.engines.obligations.keeping import complete, undisturbed
from harness.engines.obligations.refusing import refusals
from harness.engines.obligations.showing import fixed_stay, inventory, metadata, rows_stay
from harness.engines.obligations.watching import unwatched
from harness.model.values import Capability

_PARTS: Final = (Capability.PARTS,)


_SAVES: Final = (Capability.SNAPSHOT, Capability.PREFIX_CACHE, Capability.IMAGE)


OBLIGATIONS: Final[Sequence[Obligation]] = (
    Obligation(id="identity", text="says who it is, completely, and the same each time", probe=identity),
    Obligation(
        id="metadata",
        text="part 0 is the metadata; names, families and sizes are right",
        probe=metadata,
        needs=_PARTS,
    ),
    Obligation(id="repeatable", text="two cold runs are equal", probe=cold_repeats, after=("metadata",)),
    Obligation(
        id="inventory",
        text="the same parts are listed for life",
        probe=inventory,
        needs=_PARTS,
        after=("metadata",),
    ),
    Obligation(
        id="rows",
        text="rows below a boundary never change",
        probe=rows_stay,
        needs=_PARTS,
        after=("metadata", "inventory"),
    ),
    Obligation(
        id="fixed",
        text="fixed parts keep their size",
        probe=fixed_stay,
        needs=_PARTS,
        after=("metadata", "inventory"),
    ),
    Obligation(
        id="undisturbed",
        text="snapshots and captures change nothing",
        probe=undisturbed,
        any_of=_SAVES,
        after=("repeatable",),
    ),
    Obligation(
        id="complete",
        text="all state comes back, also into a dirty session",
        probe=complete,
        any_of=_SAVES,
        after=("repeatable", "inventory", "rows"),
    ),
    Obligation(
        id="unwatched",
        text="does the same where nobody looks",
        probe=unwatched,
        after=("repeatable", "inventory", "complete"),
    ),
    Obligation(id="counters", text="tokens, bytes and positions add up", probe=counters, after=("metadata",)),
    Obligation(id="refusals", text="says no by name, and changes nothing", probe=refusals, after=("metadata",)),
    Obligation(id="capabilities", text="what is declared works", probe=capabilities, after=("metadata",)),
    Obligation(
        id="archive",
        text="decodes an archive into its rows, bit for bit",
        probe=archives,
        needs=(Capability.PARTS, Capability.ARCHIVE),
        after=("metadata", "inventory"),
    ),
    Obligation(
        id="reset",
        text="reset gives the opened state back, close frees",
        probe=reset_and_close,
        after=("repeatable", "inventory"),
    ),
)
"""In the order in which they are probed."""
