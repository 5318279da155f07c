"""MLX behind the seam: models and prompt caches of mlx-lm, on the torch engine's store.

The library is imported when an engine is opened, never before; without it the device is absent, with the reason.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Final

import torch
from torch import Tensor

from harness.adapters import mlx_cache, mlx_models
from harness.adapters.mlx_cache import CacheShape
from harness.adapters.mlx_image import PromptCacheImager
from harness.adapters.mlx_models import Found
from harness.adapters.staged import ForeignModel, PartSpec, StagedEngine, StagedOptions
from harness.adapters.staged_adapter import StagedAdapter
from harness.engines.interface import Options
from harness.torch_engine.buffers import Lengths
from harness.torch_engine.errors import OptionError
from harness.torch_engine.kv.types import dtype_of
from harness.torch_engine.options import EngineOptions
from harness.torch_engine.session_image import Imager

LIBRARY: Final = "mlx"
EXTRA: Final = "the packages mlx and mlx-lm are not installed: pip install 'statecert[mlx]'"
METAL: Final = "metal"
LOADS: Final = ("eager", "lazy")
IMAGES: Final = ("prompt_cache", "bundle")
ALL_FAMILIES: Final = "conv,kv,recurrent,window"


@dataclass(frozen=True, kw_only=True, slots=True)
class MlxOptions(StagedOptions):
    """Choices of this engine."""

    load: str = "eager"
    """Whether an image is read when it is imported, or ``lazy``, when it is first used."""
    image: str = "prompt_cache"
    """Format of images: the library's ``prompt_cache`` file, or the torch engine's ``bundle`` with its digests."""
    kv_bits: int = 0
    """Bits of a quantised K/V cache, 4 or 8; 0: it is not quantised."""

    def validate(self) -> None:
        """Check every field; see :meth:`StagedOptions.validate`."""
        StagedOptions.validate(self)
        dtype_of(self.dtype, ("f32", "bf16", "f16"), what="dtype")
        for name, known in (("load", LOADS), ("image", IMAGES), ("kv_bits", (0, 4, 8))):
            if getattr(self, name) not in known:
                raise OptionError(f"{name}: expected one of {known}, found {getattr(self, name)!r}")


class MlxModel:
    """A model of mlx-lm and its caches.

    Args:
        found: The model in memory.
        options: Chunk and cache.
    """

    def __init__(self, found: Found, options: MlxOptions) -> None:
        self._module = found.module
        self._bits = options.kv_bits
        self.vocab, self.digest, self.weights_sha256 = found.vocab, found.digest, found.weights_sha256
        probe = self.new_cache()
        self.forward(probe, torch.tensor([8, 9], dtype=torch.int64))
        self._shape = CacheShape(probe, options.chunk)
        self.goes_back = self._shape.trims
        self.parts: Sequence[PartSpec] = self._shape.parts
        self.families: Sequence[str] = sorted({part.family for part in self.parts})
        self.facts: Mapping[str, str | int] = {
            "model_type": found.type,
            "families": ",".join(self.families),
            "layers": ",".join(type(layer).__name__ for layer in probe),
            "default_device": _default_device(),
            **({"seed": options.seed} if found.seeded else {}),
            **library_files(found.type),
        }

    def new_cache(self) -> Sequence[Any]:
        """A cache before any token."""
        from mlx_lm.models.cache import KVCache, QuantizedKVCache, make_prompt_cache

        made = make_prompt_cache(self._module)
        if not self._bits:
            return list(made)
        return [
            QuantizedKVCache(group_size=mlx_models.GROUP, bits=self._bits) if type(one) is KVCache else one
            for one in made
        ]

    def forward(self, cache: Sequence[Any], tokens: Tensor) -> Tensor:
        """Forward tokens; the logits after the last one. Everything is computed before it returns."""
        import mlx.core as mx

        out = self._module(mx.array(tokens.numpy())[None], cache=list(cache))
        last = out[0, -1].astype(mx.float32)
        mx.eval(last, [one.state for one in cache])
        return torch.from_numpy(mlx_models.host(last))

    def lengths(self, cache: Sequence[Any]) -> Lengths:
        """Lengths of every layer."""
        return self._shape.lengths(cache)

    def stage(self, cache: Sequence[Any], stage: Mapping[str, Tensor]) -> None:
        """Copy a cache onto the stage."""
        self._shape.stage(cache, stage)

    def install(self, stage: Mapping[str, Tensor], lengths: Lengths) -> Sequence[Any]:
        """Make a cache of the stage."""
        return self._shape.install(self.new_cache(), stage, lengths)

    def fits(self, lengths: Lengths, position: int) -> str:
        """What is wrong with lengths."""
        return self._shape.fits(lengths, position)

    def record(self, cache: Sequence[Any]) -> None:
        """Say whether a trim is possible at all."""
        mlx_cache.record(cache)

    def rollback(self, cache: Sequence[Any], count: int) -> None:
        """Trim."""
        mlx_cache.trim(cache, count)


class MlxEngine(StagedEngine):
    """A model of mlx-lm on the torch engine's store."""

    library: ClassVar[str] = LIBRARY
    options: MlxOptions

    def __init__(self, options: EngineOptions | None = None, **named: Any) -> None:
        super().__init__(options or MlxOptions(), **named)
        if self.options.image == "prompt_cache":
            self.imager: Imager = PromptCacheImager(lazy=self.options.load == "lazy")

    def place(self) -> torch.device:
        """Choose the library's device; the stage lies on the host."""
        import mlx.core as mx

        mx.set_default_device(mx.gpu if self.options.device == METAL else mx.cpu)
        return torch.device("cpu")

    def foreign(self) -> ForeignModel:
        """Load the model of the options."""
        options = self.options
        key = (options.preset, options.arch, options.seed, options.dtype, options.path, options.chunk, options.kv_bits)
        return _model((*key, options.device), options)

    def versions(self) -> dict[str, str]:
        """Of mlx, mlx-lm and torch."""
        return {LIBRARY: version(LIBRARY), "mlx_lm": version("mlx-lm"), "torch": str(torch.__version__)}

    def identity(self) -> dict[str, str | int]:
        """As every such engine; preset ``tiny`` is a model for each kind of state, and has the families of all."""
        about = super().identity()
        if self.options.device == METAL:
            about["device.type"] = "mps"
        return about | ({"families": ALL_FAMILIES} if self.options.preset == "tiny" else {})

    def choices(self) -> dict[str, str | int]:
        """Load, image format and K/V bits."""
        return {"load": self.options.load, "image": self.options.image, "kv_bits": self.options.kv_bits}

    def model_name(self) -> str:
        """Preset, and what is not usual."""
        options = self.options
        unusual = [
            value
            for name, usual in (("dtype", "f32"), ("load", "eager"), ("image", "prompt_cache"))
            if (value := getattr(options, name)) != usual
        ]
        return "-".join([options.preset, *unusual, *([f"kv{options.kv_bits}"] if options.kv_bits else [])])


class MlxAdapter(StagedAdapter):
    """Entry point ``mlx``."""

    name = LIBRARY
    engine_class: type[StagedEngine] = MlxEngine
    options_class: type[StagedOptions] = MlxOptions
    path_sets: Mapping[str, Sequence[str]] = {
        "engine": (
            "harness.torch_engine:**/*.py",
            "harness.adapters:torch_*.py",
            "harness.adapters:staged*.py",
            "harness.adapters:mlx_*.py",
        )
    }

    def devices(self) -> Sequence[tuple[str, str]]:
        """Metal where there is one, else the CPU."""
        if any(importlib.util.find_spec(name) is None for name in ("mlx", "mlx_lm")):
            return [("cpu", EXTRA)]
        import mlx.core as mx

        metal = "" if mx.metal.is_available() else "no Metal device is there"
        return [(METAL, metal), ("cpu", "")]

    def libraries(self, kind: str) -> Mapping[str, str]:  # noqa: ARG002 - there is one
        """The library that runs the kernels."""
        import mlx.core as mx

        core = Path(mx.__file__)
        files = [core, *sorted((core.parent / "lib").glob("libmlx.*"))]
        return {f"library.{path.name.partition('.')[0]}": _digest(path) for path in files if path.is_file()}

    def imports(self) -> Sequence[str]:
        """The library, and the files of the tiny models."""
        return ("mlx.core", *sorted({f"mlx_lm.models.{one.module}" for one in mlx_models.TINY.values()}))

    def plan(self, options: Options, *, memory: int, context: int) -> Mapping[str, int]:  # noqa: ARG002
        """Nothing: the plan of the embedded engine is about weights and buffers that this library does not have."""
        return {}

    def targets(self) -> Sequence[tuple[str, Options, str]]:
        """What a lab may name."""
        made = [(f"mlx-{name}", {"preset": name}, "") for name in ("tiny", *mlx_models.TINY)]
        return [
            *made,
            ("mlx-kv8", {"preset": "llama", "kv_bits": 8}, "quantised K/V"),
            (
                "mlx-bundle",
                {"preset": "tiny", "image": "bundle"},
                "images with digests, in place of prompt-cache files",
            ),
            ("mlx-lazy", {"preset": "tiny", "load": "lazy"}, "images that are read at their first use: must fail"),
        ]


@lru_cache(maxsize=24)
def _model(key: tuple[str | int, ...], options: MlxOptions) -> MlxModel:  # noqa: ARG001
    if options.path:
        return MlxModel(mlx_models.local(options.path, options.dtype), options)
    name = mlx_models.preset_of(options.preset, options.arch)
    return MlxModel(mlx_models.tiny(name, options.seed, options.dtype), options)


def _default_device() -> str:
    import mlx.core as mx

    return str(mx.default_device())


@cache
def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def library_files(model_type: str) -> Mapping[str, str]:
    """Return one digest over the files of mlx-lm that a model of a type runs through, as a fact."""
    spec = importlib.util.find_spec("mlx_lm.models")
    folder = Path(next(iter(spec.submodule_search_locations or ()))) if spec is not None else Path()
    digest = hashlib.sha256()
    for name in ("base.py", "cache.py", "rope_utils.py", "gated_delta.py", "ssm.py", f"{model_type}.py"):
        if (folder / name).is_file():
            digest.update(name.encode() + b"\0" + (folder / name).read_bytes() + b"\0")
    return {"library.mlx_lm": digest.hexdigest()}
