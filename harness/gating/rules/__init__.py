"""The rules, one file each, by id: that is the order in which they run and are listed.

A rule that only an option asks for is read when it is asked for: a gate of one record takes hardly longer than to start
Python, and each file would be a part of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from harness.gating.rule import Rule
from harness.gating.rules import (
    cg001,
    cg003,
    cg101,
    cg102,
    cg103,
    cg104,
    cg201,
    cg203,
    cg204,
    cg205,
    cg301,
    cg302,
    cg303,
    cg304,
    cg305,
    cg306,
    cg307,
    cg308,
    cg309,
    cg310,
    cg311,
    cg312,
    cg313,
    cg314,
    cg401,
    cg402,
    cg403,
    cg404,
    cg405,
    cg406,
    cg407,
    cg501,
    cg502,
    cg503,
    cg504,
    cg602,
    cg603,
    cg604,
    cg701,
    cg902,
    cg903,
)

if TYPE_CHECKING:
    RULES: Sequence[Rule]
    """All rules, by id. Ids are never used again for another rule."""

_ALWAYS: Final[Sequence[Rule]] = (
    cg001.RULE,
    cg003.RULE,
    cg101.RULE,
    cg102.RULE,
    cg103.RULE,
    cg104.RULE,
    cg201.RULE,
    cg203.RULE,
    cg204.RULE,
    cg205.RULE,
    cg301.RULE,
    cg302.RULE,
    cg303.RULE,
    cg304.RULE,
    cg305.RULE,
    cg306.RULE,
    cg307.RULE,
    cg308.RULE,
    cg309.RULE,
    cg310.RULE,
    cg311.RULE,
    cg312.RULE,
    cg313.RULE,
    cg314.RULE,
    cg401.RULE,
    cg402.RULE,
    cg403.RULE,
    cg404.RULE,
    cg405.RULE,
    cg406.RULE,
    cg407.RULE,
    cg501.RULE,
    cg502.RULE,
    cg503.RULE,
    cg504.RULE,
    cg602.RULE,
    cg603.RULE,
    cg604.RULE,
    cg701.RULE,
    cg902.RULE,
    cg903.RULE,
)
_ON_REQUEST: Final = {
    "cg002": "--since",
    "cg010": "--require-pass",
    "cg011": "--policy",
    "cg012": "--policy",
    "cg013": "--policy",
    "cg014": "--policy",
    "cg202": "--since",
    "cg505": "--policy",
    "cg601": "--fresh",
    "cg605": "--policy",
    "cg702": "--policy",
    "cg801": "--claims",
    "cg802": "--claims",
    "cg803": "--claims",
    "cg804": "--claims",
    "cg805": "--claims",
    "cg901": "--signers",
}
"""File to the option that asks for its rule."""


def asked_for(options: Collection[str]) -> Sequence[Rule]:
    """Return the rules that run with these options, by id."""
    wanted = [_read(name) for name, option in _ON_REQUEST.items() if option in options]
    return sorted([*_ALWAYS, *wanted], key=lambda rule: rule.id)


def _read(name: str) -> Rule:
    module = __import__(f"harness.gating.rules.{name}", fromlist=["RULE"])
    rule: Rule = module.RULE
    return rule


def __getattr__(name: str) -> Any:
    if name != "RULES":
        raise AttributeError(name)
    found = tuple(asked_for(set(_ON_REQUEST.values())))
    globals()["RULES"] = found
    return found
