"""llama.cpp in process behind the seam: its exported C API, its own sequence state.

Each session is a sequence, in a context of its own or in one that all sessions share (option ``kv``). What is looked at
is what llama.cpp itself saves of the sequence, taken apart; the prefix cache and the handles of this adapter hold the
same bytes. So what is qualified is llama.cpp's state API as a serving layer would use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from harness.adapters.llama_engine import LlamaCppEngine, takes_back
from harness.adapters.llama_library import PACKAGE
from harness.adapters.llama_options import NAME, completed
from harness.engines.interface import Options
from harness.model.values import Capability

ABILITIES: Final = frozenset(
    {
        Capability.PARTS,
        Capability.LOGITS,
        Capability.BOUNDARIES,
        Capability.PREFIX_CACHE,
        Capability.SNAPSHOT,
        Capability.EXTEND,
        Capability.EVICT,
        Capability.CORRUPT,
        Capability.IMAGE,
        Capability.ROLLBACK,
    }
)
"""What is implemented; whether a state can be taken back (``rollback``) is for its model to say."""


class LlamaCppAdapter:
    """Entry point ``llamacpp``."""

    name = NAME

    def __init__(self) -> None:
        self._takes_back = True
        self._builds = False

    def aim(self, options: Options) -> None:
        """Load the target's model, and ask whether its state can be taken back.

        Raises:
            RefusedError: As :meth:`open`.
        """
        self._builds = bool(options.get("other_library"))
        if not _missing():
            self._takes_back = takes_back(completed(options))

    def capabilities(self) -> frozenset[Capability]:
        """What is implemented, less what the target's model has not; without a target, what some model has.

        A target that names the library of another build (``other_library``) has ``builds``.
        """
        able = ABILITIES if self._takes_back else ABILITIES - {Capability.ROLLBACK}
        return able | {Capability.BUILDS} if self._builds else able

    def devices(self) -> Sequence[tuple[str, str]]:
        """The CPU, where the packages are there; other backends are a matter of the library."""
        missing = _missing()
        return [("cpu", f"not installed: {', '.join(missing)}; pip install 'statecert[{NAME}]'" if missing else "")]

    def open(self, options: Options) -> LlamaCppEngine:
        """Load a model and a context.

        Raises:
            RefusedError: ``unsupported``: an unknown option, or one that this build or model does not take.
        """
        return LlamaCppEngine(completed(options))


def _missing() -> Sequence[str]:
    return [name for name in ("cffi", "gguf", PACKAGE) if find_spec(name) is None]
