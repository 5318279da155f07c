"""The rules, one file each; this table is the order in which they run and are listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.gating.rule import Rule
from harness.gating.rules import (
    cg001,
    cg003,
    cg010,
    cg101,
    cg102,
    cg103,
    cg104,
    cg201,
    cg203,
    cg204,
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
    cg501,
    cg502,
    cg503,
    cg603,
    cg604,
    cg701,
    cg901,
    cg902,
    cg903,
)

RULES: Final[Sequence[Rule]] = (
    cg001.RULE,
    cg003.RULE,
    cg010.RULE,
    cg101.RULE,
    cg102.RULE,
    cg103.RULE,
    cg104.RULE,
    cg201.RULE,
    cg203.RULE,
    cg204.RULE,
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
    cg501.RULE,
    cg502.RULE,
    cg503.RULE,
    cg603.RULE,
    cg604.RULE,
    cg701.RULE,
    cg901.RULE,
    cg902.RULE,
    cg903.RULE,
)
"""All rules, by id. Ids are never used again for another rule."""
