"""``lab.yaml``: targets by name, checked by ``schemas/lab.v1.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.errors import InvalidScenarioError
from harness.model.scenario import Scalar
from harness.model.target import Target
from harness.wire import schemas

SCHEMA: Final = "lab.v1"
HEAD: Final = "schema: statecert/lab/v1\n"


def parse_lab(text: bytes, where: str) -> Mapping[str, Target]:
    """Return the targets of a lab file by name.

    Raises:
        InvalidScenarioError: With the file, the path inside, what was found and what is allowed.
    """
    from harness.wire.yaml_text import load_yaml

    value: Any = load_yaml(text, where, error=InvalidScenarioError)
    schemas.validate(value, SCHEMA, where, error=InvalidScenarioError)
    return {
        name: Target(
            name=name,
            adapter=fields["adapter"],
            device=fields.get("device", "best"),
            options={"preset": "tiny", **fields.get("options", {})},
        )
        for name, fields in value["targets"].items()
    }


def lab_text(targets: Sequence[Target], notes: Mapping[str, str]) -> str:
    """Return a lab file.

    Args:
        targets: In the order in which they are written.
        notes: What a reader should know of a target, by its name.
    """
    lines = [HEAD, "targets:\n"]
    for target in targets:
        options = ", ".join(f"{name}: {_plain(value)}" for name, value in sorted(target.options.items()))
        lines.append(f"  {target.name}:\n    adapter: {target.adapter}\n    device: {_plain(target.device)}\n")
        lines += [f"    options: {{{options}}}\n"] if options else []
        lines += [f"    note: {_plain(notes[target.name])}\n"] if target.name in notes else []
    return "".join(lines)


def _plain(value: Scalar) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).lower()
