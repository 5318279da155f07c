"""Scenario files: YAML to the noun, checked by ``schemas/scenario.v1.json``.

What the schema cannot say (references, lengths, controls) is said where the product is made, by
:mod:`harness.deriving.product`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from harness.errors import InvalidScenarioError
from harness.model.scenario import Scenario
from harness.model.values import Sha256
from harness.wire import canonical, schemas

SCHEMA: Final = "scenario.v1"

_FILES: Final = 512
_MOST_FITTING: Final = 256
_FITTING: Final[set[tuple[str, Sha256]]] = set()
"""Scenarios by id and digest whose hashed part fits the schema: it is read anew for each look at the same evidence."""


@lru_cache(maxsize=_FILES)
def parse_scenario(text: bytes, where: str) -> Scenario:
    """Return the scenario of a YAML file; the same bytes of the same file are read once by a process.

    Raises:
        InvalidScenarioError: With the file, the path inside, what was found and what is allowed.
    """
    from harness.wire.yaml_text import load_yaml

    return scenario_from_mapping(load_yaml(text, where, error=InvalidScenarioError), where)


def scenario_from_mapping(value: object, where: str) -> Scenario:
    """Return the scenario of a value that was read from a file.

    Raises:
        InvalidScenarioError: It does not fit the schema.
    """
    schemas.validate(value, SCHEMA, where, error=InvalidScenarioError)
    fields = _mapping(value)
    return _scenario(fields, procedure_digest(fields["procedure"]), where)


def _scenario(fields: Mapping[str, Any], digest: Sha256, where: str) -> Scenario:
    procedure: Mapping[str, object] = fields["procedure"]
    suites: Mapping[str, Sequence[int]] = fields["suites"]
    return Scenario(
        id=fields["id"],
        title=fields["title"],
        why=fields["why"],
        faults=tuple(fields.get("faults", ())),
        suites={name: tuple(scales) for name, scales in suites.items()},
        procedure=procedure,
        procedure_digest=digest,
        where=where,
    )


def scenario_of_procedure(scenario_id: str, procedure: Mapping[str, object], where: str) -> Scenario:
    """Return a scenario from its hashed part alone, as the header of evidence holds it.

    Raises:
        InvalidScenarioError: The procedure does not fit the schema.
    """
    whole = {
        "schema": "statecert/scenario/v1",
        "id": scenario_id,
        "title": scenario_id,
        "why": scenario_id,
        "suites": {"adhoc": [1]},
        "procedure": procedure,
    }
    try:
        key = (scenario_id, procedure_digest(procedure))
    except (TypeError, ValueError):  # the schema words what it holds
        return scenario_from_mapping(whole, where)
    if key not in _FITTING:
        schemas.validate(whole, SCHEMA, where, error=InvalidScenarioError)
        if len(_FITTING) >= _MOST_FITTING:
            _FITTING.clear()
        _FITTING.add(key)
    return _scenario(whole, key[1], where)


def procedure_digest(procedure: Mapping[str, object]) -> Sha256:
    """Return the digest of the canonical bytes of a procedure."""
    return Sha256(canonical.digest(procedure))


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
