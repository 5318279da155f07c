"""Turns of several runs side by side: an aggregate for reading, from which nothing is decided.

Runs are compared turn by turn (same cell, arm and label); repeats of a turn give their median, and the
number of repeats stands beside it. With so few samples no percentile and no "faster" can be claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.errors import NothingToDoError
from harness.model.evidence import Evidence, Turn
from harness.reporting.tables import Column, Table
from harness.reporting.units import duration

_TURN: Final = ["cell", "turn"]


def compare_turns(runs: Mapping[str, Evidence]) -> Table:
    """Return one row per turn: median time to the first token in each run, and its share of the first run's.

    Args:
        runs: Name to evidence; the first one is what the others are set against.

    Raises:
        NothingToDoError: No run decoded a first token.
    """
    import pandas as pd

    samples = pd.DataFrame(
        [
            {"run": name, "cell": turn.cell, "turn": f"{turn.arm}.{turn.label}", "ns": turn.first_token_ns}
            for name, evidence in runs.items()
            for turn in evidence.observations
            if isinstance(turn, Turn) and turn.first_token_ns > 0
        ]
    )
    if samples.empty:
        raise NothingToDoError("no first token in any of these runs; there is nothing to compare")
    groups = samples.groupby([*_TURN, "run"], sort=True)["ns"]
    medians = groups.median().astype("int64").unstack("run")
    repeats = groups.count().unstack("run")
    names = [name for name in runs if name in medians.columns]
    rows: list[dict[str, str | int]] = []
    for key in medians.index:
        row: dict[str, str | int] = dict(zip(_TURN, key, strict=True))
        first = medians.loc[key, names[0]]
        for name in names:
            found = medians.loc[key, name]
            if pd.isna(found):
                continue
            row[name] = f"{duration(int(found))} (n={int(repeats.loc[key, name])})"
            if name != names[0] and not pd.isna(first):
                row[f"share:{name}"] = f"{int(found) * 100 // int(first)} %"
        rows.append(row)
    return Table(title="Time to the first token, median by turn", columns=_columns(names), rows=rows)


def _columns(names: list[str]) -> list[Column]:
    columns = [Column(key="cell", header="Cell"), Column(key="turn", header="Turn")]
    for index, name in enumerate(names):
        columns.append(Column(key=name, header=name, justify="right"))
        if index:
            columns.append(Column(key=f"share:{name}", header=f"of {names[0]}", justify="right"))
    return columns
