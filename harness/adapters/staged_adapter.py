"""What the adapters of staged engines share: whether a target goes back is the library's word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from harness.adapters.staged import ABILITIES, StagedEngine, StagedOptions
from harness.adapters.torch_adapter import TorchAdapter
from harness.adapters.torch_words import refusals
from harness.engines.interface import Options
from harness.model.values import Capability


class StagedAdapter(TorchAdapter):
    """What the adapters of such engines share: they declare a rollback only where the library says that it has one."""

    engine_class: type[StagedEngine]
    options_class: type[StagedOptions]
    variants: Mapping[str, str] = {"weights_seed": "seed", "max_seq_len": "max_seq_len"}

    def __init__(self) -> None:
        self._goes_back = True

    def aim(self, options: Options) -> None:
        """Load the target's model, and ask whether the library takes tokens back from its cache.

        A preset with a model for each kind of state can do what one of them can; the others refuse to record, by name.

        Raises:
            RefusedError: As :meth:`open`.
        """
        device = next((name for name, reason in self.devices() if not reason), "")
        if device:
            known = {field.name for field in fields(self.options_class)}
            wanted: Options = {name: value for name, value in options.items() if name in known}
            with refusals():
                chosen = self.options_class(**{"device": device, **wanted})  # type: ignore[arg-type] # validated by the engine
                loaded = self.engine_class(chosen).model.foreign
                self._goes_back = loaded.goes_back or chosen.several

    def capabilities(self) -> frozenset[Capability]:
        """What the torch engine's store gives, and the library's own rollback where a model's cache has one."""
        return ABILITIES if self._goes_back else ABILITIES - {Capability.ROLLBACK}
