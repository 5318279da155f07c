"""What differs between two certificates of one claim key, and why the later one replaces the earlier.

Measured values are no difference (that is why one measures again), nor is anything that every run has of its own:
run id, times, the load of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from harness.deriving.fields import mappings_at, text_at, value_at
from harness.model.values import Outcome, ReasonCode, Verdict

Body = Mapping[str, object]

_PLAIN: Final = (
    ("scenario", "procedure_digest"),
    ("procedure",),
    ("run", "suite"),
    ("run", "scales"),
    ("subject", "engine", "name"),
    ("subject", "engine", "version"),
    ("subject", "engine", "adapter"),
    ("subject", "engine", "group"),
    ("subject", "model", "name"),
    ("subject", "model", "digest"),
    ("subject", "capabilities"),
    ("subject", "commit"),
    ("subject", "tree"),
    ("environment", "machine"),
    ("environment", "hw_class"),
    ("harness", "version"),
    ("observability",),
)
_FACTS: Final = (("subject", "identity"), ("environment", "device"), ("environment", "facts"))
_PATH_SETS: Final = (("subject", "path_sets"), ("harness", "path_sets"))
_OF_EVERY_RUN: Final = ("load", "memory_free", "mem_free", "temperature", "power")
"""Facts that begin like this change with every run."""
_NOT_RUN: Final = frozenset({str(Outcome.NOT_RUN), str(Outcome.NOT_SUPPORTED), str(Outcome.EXCLUDED)})
_FAILED: Final = frozenset({str(Outcome.FAIL), str(Outcome.ERROR)})
_STOPS: Final = frozenset({str(Verdict.STOP), str(Verdict.ERROR)})

_REASONS: Final = (
    (("scenario.", "procedure", "run.suite", "run.scales"), ReasonCode.SCENARIO_CHANGED),
    (("subject.model.",), ReasonCode.MODEL_CHANGED),
    (
        ("subject.engine.", "subject.path_sets.", "subject.capabilities", "harness.", "observability"),
        ReasonCode.SOURCE_CHANGED,
    ),
    (("environment.machine", "environment.hw_class", "environment.device."), ReasonCode.HARDWARE_CHANGED),
    (("environment.", "subject.identity."), ReasonCode.ENVIRONMENT_CHANGED),
)
"""First match decides: what a change of the scenario explains is not blamed on the machine."""


def differs(old: Body, new: Body) -> tuple[str, ...]:
    """Return the dotted names of everything that the second record rests on otherwise, sorted."""
    found = {".".join(path) for path in _PLAIN if value_at(old, *path) != value_at(new, *path)}
    for path in _FACTS:
        found.update(_facts(old, new, path))
    for path in _PATH_SETS:
        found.update(_sets(old, new, path))
    return tuple(sorted(found))


def dropped_cells(old: Body, new: Body) -> tuple[str, ...]:
    """Return the cells that the earlier record has and the later one does not, in the order of the earlier."""
    if is_foreign(old):
        there = {row.get("name") for row in mappings_at(new, "results")}
        return tuple(str(row.get("name")) for row in mappings_at(old, "results") if row.get("name") not in there)
    kept = {cell.get("id") for cell in mappings_at(new, "cells")}
    return tuple(str(cell.get("id")) for cell in mappings_at(old, "cells") if cell.get("id") not in kept)


def is_foreign(body: Body) -> bool:
    """Tell whether a record was published by others: nobody here can run its cells again, so they are only listed."""
    return body.get("kind") == "foreign"


def cells_run(body: Body) -> int:
    """Return how many cells of a record ran to an outcome of their own; of a campaign, how often it did its thing."""
    if "results" in body:
        return sum(_made(row) for row in mappings_at(body, "results"))
    return sum(cell.get("outcome") not in _NOT_RUN for cell in mappings_at(body, "cells"))


def is_stop(body: Body) -> bool:
    """Tell whether a record says that something is wrong: as a whole, or in any cell."""
    failed = any(cell.get("outcome") in _FAILED for cell in mappings_at(body, "cells"))
    return failed or text_at(body, "decision", "overall") in _STOPS


def not_run_again(old: Body, new: Body) -> tuple[str, ...]:
    """Return the cells of a stop that a later record would have to run and did not, in the order of the stop.

    They are those that failed or errored; all that ran, where the stop is about the run as a whole.
    """
    if not is_stop(old):
        return ()
    if is_foreign(old):
        return ()
    if "results" in old:
        return _not_done_again(old, new)
    cells = mappings_at(old, "cells")
    failed = [cell for cell in cells if cell.get("outcome") in _FAILED]
    wanted = failed or [cell for cell in cells if cell.get("outcome") not in _NOT_RUN]
    ran = {cell.get("id") for cell in mappings_at(new, "cells") if cell.get("outcome") not in _NOT_RUN}
    return tuple(str(cell.get("id")) for cell in wanted if cell.get("id") not in ran)


def covers(stop: Body, new: Body) -> bool:
    """Tell whether a record of the same place can take the place of a stop: later, with all that failed."""
    later = text_at(new, "run", "created") >= text_at(stop, "run", "created")
    fewer = is_stop(stop) and not is_foreign(stop) and cells_run(new) < cells_run(stop)
    return later and not fewer and not not_run_again(stop, new)


def reason_code(changed: Sequence[str]) -> ReasonCode:
    """Return why the later record replaces the earlier, from what differs."""
    for beginnings, reason in _REASONS:
        if any(name.startswith(beginnings) for name in changed):
            return reason
    return ReasonCode.RERUN_SAME_INPUTS


def same_place(old: Body, new: Body) -> bool:
    """Tell whether two records speak of one claim key on one machine."""
    machines = (text_at(old, "environment", "machine"), text_at(new, "environment", "machine"))
    return old.get("claim_key") == new.get("claim_key") and machines[0] == machines[1]


def _facts(old: Body, new: Body, path: tuple[str, ...]) -> Iterator[str]:
    before, after = value_at(old, *path), value_at(new, *path)
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return
    for name in {*before, *after}:
        if before.get(name) != after.get(name) and not str(name).startswith(_OF_EVERY_RUN):
            yield ".".join((*path, str(name)))


def _sets(old: Body, new: Body, path: tuple[str, ...]) -> Iterator[str]:
    before, after = ({one.get("name"): one.get("digest") for one in mappings_at(body, *path)} for body in (old, new))
    for name in {*before, *after}:
        if before.get(name) != after.get(name):
            yield ".".join((*path, str(name)))


def _made(row: Body) -> int:
    """Return how often one row of a campaign says that its thing was done: flips, turns, kills."""
    count = row.get("flips", row.get("count"))
    return count if isinstance(count, int) else 0


def _name(row: Body) -> str:
    """Return what one row of a campaign is about."""
    return str(row.get("element_type", row.get("name")))


def _not_done_again(old: Body, new: Body) -> tuple[str, ...]:
    """Return the rows of a campaign in which something was missed, and of which the later one did less."""
    rows = list(mappings_at(old, "results"))
    missed = {_name(one) for one in mappings_at(old, "missed")}
    wanted = [row for row in rows if _name(row) in missed] or rows
    made = {_name(row): _made(row) for row in mappings_at(new, "results")}
    names = [_name(row) for row in wanted if made.get(_name(row), 0) < _made(row)]
    return tuple(f"{text_at(old, 'campaign')} {name}" for name in names)
