"""Mutants that must count as not stopped, each for another reason."""

from __future__ import annotations

import os
from collections.abc import Sequence

from harness.adapters.mutants.base import Mutant, Stop
from harness.adapters.mutants.k01 import RecurrentKept
from harness.torch_engine.errors import SessionStateError
from harness.torch_engine.session import TorchSession

SHORT = Stop(scenario="C08", cell={"edit": "short"}, check="exact")


class NothingPlanted(Mutant):
    """Nothing is wrong with this one."""

    mutant_id = "Z00.nothing-planted"
    stopped_by = SHORT


class _Ends(TorchSession):
    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:
        if use_cache:
            os._exit(3)
        return super().begin(prompt, use_cache)


class Crashes(Mutant):
    """Ends its process where a cache is used."""

    mutant_id = "Z01.crashes"
    stopped_by = SHORT
    session = _Ends


class _Raises(TorchSession):
    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:
        if use_cache:
            raise KeyError("prefix")
        return super().begin(prompt, use_cache)


class Raises(Mutant):
    """Raises what is no refusal."""

    mutant_id = "Z02.raises"
    stopped_by = SHORT
    session = _Raises


class _Refuses(TorchSession):
    def begin(self, prompt: Sequence[int], use_cache: bool) -> int:
        if use_cache:
            raise SessionStateError("refused without need")
        return super().begin(prompt, use_cache)


class Refuses(Mutant):
    """Refuses what it should do."""

    mutant_id = "Z03.refuses"
    stopped_by = SHORT
    session = _Refuses


class Elsewhere(RecurrentKept):
    """Has a fault, and expects it in another part."""

    mutant_id = "Z04.elsewhere"
    stopped_by = Stop(scenario="C08", cell={"edit": "shorter"}, check="exact", part="kv", phase="restored")
