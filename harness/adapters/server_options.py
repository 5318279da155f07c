"""Options of a target that is a server: their defaults, and which values they may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.adapters.common import completed
from harness.adapters.server_dialects import DIALECTS
from harness.engines.interface import Options
from harness.errors import RefusedError
from harness.model.values import RefusalCode

OWN: Final = "own"
OTHER: Final = "other"
"""Value of the option ``build``: the server of ``other_command`` or ``other_package``, in place of the target's own."""
CHAT: Final = "chat"
DEFAULTS: Final[Options] = {
    "device": "best",
    "preset": "tiny",
    "arch": "attention",
    "seed": 0,
    "model": "",
    "url": "",
    "command": "",
    "build": "own",
    "other_command": "",
    "package": "",
    "other_package": "",
    "dialect": "llama",
    "endpoint": "completions",
    "chunk": 512,
    "max_seq_len": 4096,
    "threads": 1,
    "slots": 4,
    "unified": False,
    "neighbours": 0,
    "logprobs": 0,
    "stream": False,
    "pin": False,
    "cache_ram_mib": 0,
    "k_type": "f16",
    "v_type": "f16",
    "patience_s": 120,
}
TYPES: Final = {"f32": 0, "f16": 1, "q8_0": 8}


_ALLOWED: Final[Mapping[str, Sequence[str]]] = {
    "dialect": sorted(DIALECTS),
    "endpoint": ("completions", CHAT),
    "build": (OWN, OTHER),
    "k_type": sorted(TYPES),
    "v_type": sorted(TYPES),
}
_LEAST: Final = {"slots": 1, "logprobs": 0, "patience_s": 1}
_HANDED: Final = ("{port}", "{alias}")


def checked(options: Options) -> Options:
    """Return all options, those that were not given with their defaults.

    Raises:
        RefusedError: One is none, or has a value that it cannot have (``unsupported``).
    """
    chosen = completed(options, DEFAULTS)
    for name, allowed in _ALLOWED.items():
        if chosen[name] not in allowed:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"{name} is {chosen[name]!r}; allowed are {', '.join(allowed)}")
    for name, least in _LEAST.items():
        value = chosen[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"{name} is {value!r}; allowed are whole numbers from {least}")
    fault = _contradiction(chosen)
    if fault:
        raise RefusedError(RefusalCode.UNSUPPORTED, fault)
    return chosen


def _contradiction(chosen: Options) -> str:
    """Say which options do not go together; empty: they do."""
    if chosen["endpoint"] == CHAT and DIALECTS[str(chosen["dialect"])].native:
        return f"dialect {chosen['dialect']} has no chat endpoint; llama_openai is the same server with one"
    for command, package in (("command", "package"), ("other_command", "other_package")):
        given = [name for name in (command, package) if chosen[name]]
        if given and chosen["url"]:
            return f"{given[0]} and url exclude each other: a running server is not started"
        if len(given) > 1:
            return f"{command} and {package} exclude each other: the server of a package is started without a command"
        missing = [one for one in _HANDED if chosen[command] and one not in str(chosen[command])]
        if missing:
            return f"{command} lacks {missing[0]}: a server that is started is told its port and a name to be known by"
    if chosen["build"] == OTHER and not (chosen["other_command"] or chosen["other_package"]):
        return "build is other; say which server that is: option other_command or other_package"
    return ""
