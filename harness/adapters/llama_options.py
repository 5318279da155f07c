"""Options of the llama.cpp engine: what there is, what goes without saying, and what no build takes."""

from __future__ import annotations

from typing import Final

from harness.adapters import common, tiny_gguf
from harness.adapters.llama_blob import NUMBERS
from harness.engines.interface import Options
from harness.errors import RefusedError
from harness.model.values import RefusalCode

NAME: Final = "llamacpp"
ARCHITECTURES: Final = {
    "attention": "llama",
    "hybrid": "qwen35",
    "recurrent": "mamba2",
    "sliding": "gemma3",
    **{name: name for name in tiny_gguf.ARCHITECTURES},
}
"""What scenarios call an architecture, and what llama.cpp does."""
SMOL: Final = "smollm2"
DEFAULTS: Final[Options] = {
    "device": "cpu",
    "preset": "tiny",
    "arch": "attention",
    "seed": 0,
    "model": "",
    "library": "",
    "build": "own",
    "other_library": "",
    "chunk": 512,
    "max_seq_len": 4096,
    "threads": 1,
    "k_type": "f16",
    "v_type": "f16",
    "flash_attn": False,
    "kv": "own",
    "n_seq_max": 4,
    "n_ubatch": 0,
    "n_rs_seq": 0,
    "swa_full": False,
    "image": "bundle",
    "guard": False,
    "cache_entries": 1000,
}
BUILDS: Final = ("own", "other")
"""The library of ``library`` (empty: the installed package's), or that of ``other_library``."""
KV: Final = ("own", "split", "unified")
"""A context for each session; one with a part for each; one in which all share the cells."""
IMAGES: Final = ("bundle", "file")
VARIANTS: Final[Options] = {
    name: DEFAULTS[name]
    for name in ("arch", "flash_attn", "k_type", "v_type", "kv", "n_ubatch", "n_rs_seq", "swa_full", "image", "guard")
}
"""Options that make another claim of what they are set to, with what goes without saying."""


def variant(model: str, options: Options, plain: Options) -> str:
    """Return the name of a model under options: what differs from ``plain`` is added, so claims stay apart."""
    more = [f"{name}_{options[name]}".lower() for name in plain if options[name] != plain[name]]
    return ".".join([model, *more])


def completed(options: Options) -> Options:
    """Return all options: those given, the others as they go without saying.

    Raises:
        RefusedError: ``unsupported``: an unknown option, or a value that no build takes.
    """
    chosen = common.completed(options, DEFAULTS)
    _checked(chosen)
    return chosen


def library_path(options: Options) -> str:
    """Return the library of the build that is asked for; empty: the installed package's.

    Raises:
        RefusedError: ``unsupported``: the other build, and none is named.
    """
    if options["build"] == "own":
        return str(options["library"])
    if not options["other_library"]:
        raise RefusedError(RefusalCode.UNSUPPORTED, "build is 'other'; other_library must name its library")
    return str(options["other_library"])


def _checked(options: Options) -> None:
    """Refuse values that no build takes."""
    types = tuple(NUMBERS)
    for name, allowed in (("build", BUILDS), ("kv", KV), ("image", IMAGES), ("k_type", types), ("v_type", types)):
        if options[name] not in allowed:
            raise RefusedError(
                RefusalCode.UNSUPPORTED, f"{name} is {options[name]!r}; allowed are {', '.join(allowed)}"
            )
    if options["device"] != "cpu" or options["preset"] not in ("tiny", SMOL):
        raise RefusedError(
            RefusalCode.UNSUPPORTED, f"preset is {options['preset']!r}; allowed are tiny and {SMOL}, on cpu"
        )
    if options["arch"] not in ARCHITECTURES:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"arch is {options['arch']!r}; allowed are {sorted(ARCHITECTURES)}")
