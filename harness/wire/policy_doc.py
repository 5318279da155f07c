"""Policy files of the gate: YAML to the noun, checked by ``schemas/policy.v1.json``."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from harness.errors import InvalidScenarioError
from harness.model.policy import Level, Policy, Promotion, RequiredClaim, Runtimes
from harness.wire import schemas

SCHEMA: Final = "policy.v1"


def parse_policy(text: bytes, source: str) -> Policy:
    """Return the policy of a YAML file.

    Args:
        text: Bytes of the file.
        source: Where they are from, for errors and for the record of a gate run.

    Raises:
        InvalidScenarioError: It does not fit its schema.
    """
    from harness.wire.yaml_text import load_yaml

    value = load_yaml(text, source, error=InvalidScenarioError)
    schemas.validate(value, SCHEMA, source, error=InvalidScenarioError)
    fields: dict[str, Any] = value if isinstance(value, dict) else {}
    waivers: dict[str, Any] = fields.get("waivers", {})
    signatures: dict[str, Any] = fields.get("signatures", {})
    return Policy(
        sha256=hashlib.sha256(text).hexdigest(),
        source=source,
        claims=tuple(
            RequiredClaim(**{**one, "cells": tuple(one.get("cells", ()))}) for one in fields.get("claims", ())
        ),
        observability=fields.get("observability", ""),
        signatures=signatures.get("required", False),
        demonstration_keys=signatures.get("demonstration_keys", "refused") == "accepted",
        max_age_days=fields.get("max_age_days", 0),
        runtimes=tuple(
            Runtimes(device=one["device"], facts={name: tuple(known) for name, known in one["facts"].items()})
            for one in fields.get("runtimes", ())
        ),
        max_folder_bytes=fields.get("max_folder_bytes", 0),
        waivers=tuple(waivers["rules"]) if "rules" in waivers else None,
        waiver_days=waivers.get("max_days", 0),
        foreign=fields.get("foreign", "refused") == "accepted",
        levels={
            name: Level(
                certificates=tuple(one.get("certificates", ())),
                axes=tuple(one.get("axes", ())),
                reuse=one.get("reuse", ""),
            )
            for name, one in fields.get("levels", {}).items()
        },
        promotions=tuple(Promotion(**one) for one in fields.get("promotions", ())),
    )
