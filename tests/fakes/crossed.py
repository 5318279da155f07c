"""A valid matrix in memory, and the same with one thing changed. No engine runs."""

from __future__ import annotations

from harness.wire.records import record_to_mapping
from tests.fakes.campaign import TRUST, Flown, Line, digest, header_line

MUTANTS = (("K01.one", "A01", "exact", "kv"), ("K02.two", "A02", "cached", ""))


def crossed(*, run: int = 3, day: int = 1) -> Flown:
    """Two mutants, each stopped by its own scenario; the first met another one that lists it, and survived."""
    lines: list[Line] = [header_line("matrix", {"reach": "claims", "mutants": 2}, run=run, day=day)]
    lines += [_mutant(*one) for one in MUTANTS]
    for scenario, faults in (("A01", ["K01.one"]), ("A02", ["K02.two", "K01.one"]), ("A03", [])):
        lines.append({"type": "scenario", "id": scenario, "procedure_digest": digest(scenario), "faults": faults})
    lines.append(pair("K01.one", "A01", check("exact", part="layer0.k", family="kv", reason="parts_differ")))
    lines.append(pair("K01.one", "A02"))
    lines.append(pair("K02.two", "A02", check("cached", reason="other_count")))
    for scenario in ("A01", "A02"):
        lines.append({"type": "sound", "scenario": scenario, "cell": f"{scenario}[scale=16]", "outcome": "pass"})
    lines.append(record_to_mapping(TRUST))
    return Flown(lines=lines)


def check(
    name: str, *, part: str = "", family: str = "", phase: str = "", reason: str, code: str = "EXACT.STATE@1"
) -> Line:
    """A check that failed."""
    where = {"part": part, "family": family, "phase": phase}
    return {"id": name, "code": code, "outcome": "fail", "reason": reason, **where}


def pair(mutant: str, scenario: str, *failed: Line, crash: str = "") -> Line:
    """A mutant in the one cell of a scenario."""
    cell = {"cell": f"{scenario}[scale=16]", "outcome": "fail" if failed else "pass", "crash": crash}
    return {"type": "pair", "mutant": mutant, "scenario": scenario, "cells": [{**cell, "checks": list(failed)}]}


def _mutant(name: str, scenario: str, named: str, part: str) -> Line:
    told = {"fault": "Something is wrong.", "scenario": scenario, "cell": f"{scenario}[scale=16]", "check": named}
    return {"type": "mutant", "id": name, **told, "part": part, "phase": "", "reason": ""}


def with_files(of: Flown, number: int, files: Line) -> Flown:
    """The same where one mutant says what it is written in."""
    return of.with_line("mutant", number, files=files)
