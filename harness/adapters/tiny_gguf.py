"""Tiny GGUF models with weights from an integer hash: no download, the same bytes on every machine.

One model for each kind of state that llama.cpp has: ``llama`` (attention), ``qwen35`` (gated delta net and attention),
``lfm2`` (short convolutions and attention), ``mamba2`` (recurrent only), ``gemma3`` (sliding window and attention). The
vocabulary has 512 tokens, so every prompt of the harness is in it.

    python -m harness.adapters.tiny_gguf qwen35 qwen35.gguf --seed 1
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

VOCAB: Final = 512
WIDTH: Final = 64
HIDDEN: Final = 128
LAYERS: Final = 4
HEADS: Final = 2
HEAD: Final = 32
WINDOW: Final = 64
CONTEXT: Final = 65536
STATE: Final = 16
"""Rows and columns of a recurrent head."""
GROUPS: Final = 2
VALUE_HEADS: Final = 4
INNER: Final = 64
KERNEL: Final = 4
_SPREAD: Final = 1.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Tensor:
    """A tensor to be drawn: name in the file, shape as the graph has it (fast axis first), and how."""

    name: str
    shape: Sequence[int]
    draw: Callable[[Floats], Floats]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """One architecture."""

    values: Mapping[str, int | float | Sequence[int]]
    """Metadata below the name of the architecture."""
    tensors: Callable[[], Iterator[Tensor]]


def write(arch: str, path: Path, seed: int = 0, *, spelled: bool = False) -> None:
    """Write a model.

    Args:
        arch: One of :data:`ARCHITECTURES`.
        path: File to write; what is there is replaced.
        seed: Of the weights.
        spelled: Give it a vocabulary that any ASCII text can be made of: a chat is text.

    Raises:
        KeyError: There is no such architecture.
    """
    from gguf import GGUFWriter

    recipe = RECIPES[arch]
    writer = GGUFWriter(str(path), arch)
    _head(writer, arch, recipe, spelled=spelled)
    for index, tensor in enumerate(recipe.tensors()):
        count = math.prod(tensor.shape)
        drawn = tensor.draw(_uniform(count, (seed << 16) + index)).reshape(tuple(reversed(tensor.shape)))
        writer.add_tensor(tensor.name, np.ascontiguousarray(drawn, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _head(writer: object, arch: str, recipe: Recipe, *, spelled: bool) -> None:
    """Write metadata and a vocabulary of numbered words: a token that is no whole character is held back in streams."""
    from gguf import GGUFWriter

    if not isinstance(writer, GGUFWriter):
        raise TypeError("expected a writer of gguf")
    writer.add_name(f"tiny-{arch}")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_vocab_size(VOCAB)
    writer.add_layer_norm_rms_eps(1e-5)
    for name, value in recipe.values.items():
        key = f"{arch}.{name}"
        if isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            writer.add_array(key, list(value))
    letters = ["\u2581", "\n", *(chr(code) for code in range(33, 127))] if spelled else []
    mark = " " if spelled else "\u2581"
    words = [f"{mark}w{number}" for number in range(VOCAB - 3 - len(letters))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", *letters, *words])
    writer.add_token_scores([0.0] * VOCAB)
    # user-defined words are found whole in a text, without merges
    writer.add_token_types([2, 3, 3, *[1] * len(letters), *[4 if spelled else 1] * len(words)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_bool("tokenizer.ggml.add_bos_token", val=False)


def _uniform(count: int, stream: int) -> Floats:
    """Return numbers in [-1, 1) from splitmix64 over (stream, index): exact in every float32."""
    with np.errstate(over="ignore"):
        x = np.arange(count, dtype=np.uint64) + (np.uint64(stream) << np.uint64(32)) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return ((x >> np.uint64(40)).astype(np.int64) - (1 << 23)).astype(np.float32) / np.float32(1 << 23)


def _matrix(name: str, fan_in: int, fan_out: int) -> Tensor:
    scale = np.float32(2.0 ** round(math.log2(_SPREAD / math.sqrt(fan_in))))
    return Tensor(name=name, shape=(fan_in, fan_out), draw=lambda drawn: drawn * scale)


def _norm(name: str, *shape: int) -> Tensor:
    return Tensor(name=name, shape=shape, draw=lambda drawn: np.float32(1.0) + drawn * np.float32(0.125))


def _small(name: str, *shape: int) -> Tensor:
    return Tensor(name=name, shape=shape, draw=lambda drawn: drawn * np.float32(0.5))


def _decay(name: str, *shape: int) -> Tensor:
    """Negative: how quickly a recurrent head forgets."""
    return Tensor(name=name, shape=shape, draw=lambda drawn: np.float32(-1 / 512) + drawn * np.float32(1 / 1024))


def _frame(block: Callable[[int], Iterator[Tensor]], norm: str = "output_norm.weight") -> Iterator[Tensor]:
    yield _matrix("token_embd.weight", WIDTH, VOCAB)
    yield _matrix("output.weight", WIDTH, VOCAB)
    yield _norm(norm, WIDTH)
    for layer in range(LAYERS):
        for tensor in block(layer):
            yield Tensor(name=f"blk.{layer}.{tensor.name}", shape=tensor.shape, draw=tensor.draw)


def _feed_forward() -> Iterator[Tensor]:
    yield _matrix("ffn_gate.weight", WIDTH, HIDDEN)
    yield _matrix("ffn_up.weight", WIDTH, HIDDEN)
    yield _matrix("ffn_down.weight", HIDDEN, WIDTH)


def _attention(*, gated: bool = False, normed: bool = False) -> Iterator[Tensor]:
    inner = HEADS * HEAD
    yield _matrix("attn_q.weight", WIDTH, inner * (2 if gated else 1))
    yield _matrix("attn_k.weight", WIDTH, inner)
    yield _matrix("attn_v.weight", WIDTH, inner)
    yield _matrix("attn_output.weight", inner, WIDTH)
    if normed:
        yield _norm("attn_q_norm.weight", HEAD)
        yield _norm("attn_k_norm.weight", HEAD)


def _llama(_: int) -> Iterator[Tensor]:
    yield _norm("attn_norm.weight", WIDTH)
    yield from _attention()
    yield _norm("ffn_norm.weight", WIDTH)
    yield from _feed_forward()


def _gemma3(_: int) -> Iterator[Tensor]:
    yield _norm("attn_norm.weight", WIDTH)
    yield from _attention(normed=True)
    yield _norm("post_attention_norm.weight", WIDTH)
    yield _norm("ffn_norm.weight", WIDTH)
    yield from _feed_forward()
    yield _norm("post_ffw_norm.weight", WIDTH)


def _qwen35(layer: int) -> Iterator[Tensor]:
    yield _norm("attn_norm.weight", WIDTH)
    yield _norm("post_attention_norm.weight", WIDTH)
    if layer == LAYERS - 1:
        yield from _attention(gated=True, normed=True)
    else:
        keys, values = GROUPS * STATE, VALUE_HEADS * STATE
        yield _matrix("attn_qkv.weight", WIDTH, 2 * keys + values)
        yield _matrix("attn_gate.weight", WIDTH, values)
        yield _small("ssm_conv1d.weight", KERNEL, 2 * keys + values)
        yield _small("ssm_dt.bias", VALUE_HEADS)
        yield _decay("ssm_a", VALUE_HEADS)
        yield _matrix("ssm_beta.weight", WIDTH, VALUE_HEADS)
        yield _matrix("ssm_alpha.weight", WIDTH, VALUE_HEADS)
        yield _norm("ssm_norm.weight", STATE)
        yield _matrix("ssm_out.weight", values, WIDTH)
    yield from _feed_forward()


def _lfm2(layer: int) -> Iterator[Tensor]:
    yield _norm("attn_norm.weight", WIDTH)
    yield _norm("ffn_norm.weight", WIDTH)
    yield from _feed_forward()
    if layer % 2:
        yield from _attention(normed=True)
    else:
        yield _small("shortconv.conv.weight", KERNEL - 1, WIDTH)
        yield _matrix("shortconv.in_proj.weight", WIDTH, 3 * WIDTH)
        yield _matrix("shortconv.out_proj.weight", WIDTH, WIDTH)


def _mamba2(_: int) -> Iterator[Tensor]:
    conv = INNER + 2 * GROUPS * STATE
    yield _norm("attn_norm.weight", WIDTH)
    yield _matrix("ssm_in.weight", WIDTH, INNER + conv + VALUE_HEADS)
    yield _small("ssm_conv1d.weight", KERNEL, conv)
    yield _small("ssm_conv1d.bias", conv)
    yield _small("ssm_dt.bias", VALUE_HEADS)
    yield _decay("ssm_a", 1, VALUE_HEADS)
    yield _norm("ssm_d", 1, VALUE_HEADS)
    yield _norm("ssm_norm.weight", INNER // GROUPS, GROUPS)
    yield _matrix("ssm_out.weight", INNER, WIDTH)


_HEADS_KV: Final[Mapping[str, int | float | Sequence[int]]] = {
    "attention.head_count": HEADS,
    "attention.head_count_kv": HEADS,
    "attention.key_length": HEAD,
    "attention.value_length": HEAD,
    "rope.dimension_count": HEAD,
    "rope.freq_base": 10000.0,
}
_SSM: Final[Mapping[str, int]] = {
    "ssm.conv_kernel": KERNEL,
    "ssm.state_size": STATE,
    "ssm.time_step_rank": VALUE_HEADS,
    "ssm.group_count": GROUPS,
    "ssm.inner_size": INNER,
}
RECIPES: Final[Mapping[str, Recipe]] = {
    "llama": Recipe(values=_HEADS_KV, tensors=lambda: _frame(_llama)),
    "qwen35": Recipe(
        values={**_HEADS_KV, **_SSM, "full_attention_interval": LAYERS, "rope.dimension_sections": (4, 4, 4, 4)},
        tensors=lambda: _frame(_qwen35),
    ),
    "lfm2": Recipe(
        values={
            **_HEADS_KV,
            "attention.head_count_kv": tuple(HEADS if layer % 2 else 0 for layer in range(LAYERS)),
            "shortconv.l_cache": KERNEL - 1,
        },
        tensors=lambda: _frame(_lfm2, "token_embd_norm.weight"),
    ),
    "mamba2": Recipe(values=_SSM, tensors=lambda: _frame(_mamba2)),
    "gemma3": Recipe(
        values={**_HEADS_KV, "attention.sliding_window": WINDOW, "attention.sliding_window_pattern": 2},
        tensors=lambda: _frame(_gemma3),
    ),
}
ARCHITECTURES: Final = tuple(RECIPES)


def main(arguments: Sequence[str]) -> int:
    """Write one model; what ``python -m`` calls."""
    parser = argparse.ArgumentParser(prog="python -m harness.adapters.tiny_gguf", description=__doc__)
    parser.add_argument("arch", choices=ARCHITECTURES)
    parser.add_argument("path", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    write(chosen.arch, chosen.path, chosen.seed)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
