"""CG701: every cell of the declared product has exactly one outcome."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from harness.gating.rule import Body, Problem, Problems, Rule, Subject
from harness.model.evidence import Header


def check(subject: Subject) -> Problems:
    """Multiply the axes of the recorded procedure again and hold the listed cells against the product."""
    if subject.evidence is None:
        return
    header, body = subject.evidence.header, subject.body
    axes = _axes(header)
    if [(axis["name"], list(axis["values"])) for axis in body["axes"]] != axes:
        yield Problem("/body/axes", "are not those of the procedure")
    declared = {_cell_id(header.scenario_id, coords): coords for coords in _product(axes)}
    listed = [cell["id"] for cell in body["cells"]]
    for name in declared:
        if listed.count(name) != 1:
            yield Problem("/body/cells", f"list {name} {listed.count(name)} times; allowed is once")
    for index, cell in enumerate(body["cells"]):
        coords = declared.get(cell["id"])
        fault = "is not in the declared product" if coords is None else _fault(header, cell, coords)
        if fault:
            yield Problem(f"/body/cells/{index}", f"{cell['id']} {fault}")


def _fault(header: Header, cell: Body, coords: Mapping[str, object]) -> str:
    if {name: _label(value) for name, value in cell["coords"].items()} != {k: _label(v) for k, v in coords.items()}:
        return "has other coordinates than its id"
    if cell["id"] not in header.selected:
        asked = cell["outcome"] in ("not_run", "excluded")
        return "" if asked else f"says {cell['outcome']}; it was not asked for"
    excluded = _excluded(header.procedure, coords)
    if bool(excluded) != (cell["outcome"] == "excluded"):
        return f"says {cell['outcome']}; the scenario {'excludes it' if excluded else 'does not exclude it'}"
    if excluded and cell.get("reason") != excluded:
        return f"is excluded as {cell.get('reason')}; the scenario says {excluded}"
    return ""


def _axes(header: Header) -> list[tuple[str, list[object]]]:
    declared = header.procedure.get("axes", {})
    named = sorted(declared.items()) if isinstance(declared, Mapping) else []
    scales: list[object] = [*sorted(set(header.scales))]
    return [("scale", scales), *((name, _labels(values)) for name, values in named)]


def _labels(values: object) -> list[object]:
    if isinstance(values, Mapping):
        return sorted(values)
    return list(values) if isinstance(values, Sequence) else []


def _product(axes: Sequence[tuple[str, Sequence[object]]]) -> Iterator[Mapping[str, object]]:
    names = [name for name, _ in axes]
    for labels in product(*(values for _, values in axes)):
        yield dict(zip(names, labels, strict=True))


def _cell_id(scenario: str, coords: Mapping[str, object]) -> str:
    return f"{scenario}[{','.join(f'{name}={_label(value)}' for name, value in coords.items())}]"


def _excluded(procedure: Mapping[str, object], coords: Mapping[str, object]) -> str:
    rules = procedure.get("exclude", ())
    for rule in rules if isinstance(rules, Sequence) else ():
        if all(_label(coords[axis]) in _wanted(value) for axis, value in rule["when"].items()):
            return str(rule["reason"])
    return ""


def _wanted(value: object) -> list[str]:
    return [_label(one) for one in value] if isinstance(value, (list, tuple)) else [_label(value)]


def _label(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


RULE = Rule(
    id="CG701",
    text="Every cell that the scenario declares is listed exactly once; axes and exclusions are the scenario's.",
    pain="The row that failed is left out, and the matrix is called complete.",
    hint="restore the certificate as it was issued; a partial run is a draft and no certificate",
    failing=(
        "cell_dropped",
        "cell_twice",
        "axis_shortened",
        "cell_excluded_by_hand",
    ),
    certificate=check,
)
