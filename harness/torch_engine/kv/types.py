"""Element types of what is stored, by name: ``f32`` and friends, and the blocks of quantised rows.

A label follows from bytes and elements, and both ways are checked: a name outside the table is refused, never guessed;
a type read as "unset" would silently become another one. There is no number whose zero means a type.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from harness.torch_engine.errors import OptionError

DTYPES: dict[str, torch.dtype] = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}


@dataclass(frozen=True, slots=True)
class Stored:
    """How elements of a type lie in memory."""

    dtype: torch.dtype
    """Of the buffer that holds them."""
    size: int
    """Bytes of one block."""
    block: int
    """Elements of one block."""


STORED: dict[str, Stored] = {
    **{name: Stored(dtype, dtype.itemsize, 1) for name, dtype in DTYPES.items()},
    "f8_e4m3": Stored(torch.uint8, 1, 1),
    "i4": Stored(torch.uint8, 1, 2),
    "q8_0": Stored(torch.uint8, 34, 32),
    "q4_0": Stored(torch.uint8, 18, 32),
}
"""Element type to its storage; what torch has no arithmetic for lies as bytes."""

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def element_type(dtype: torch.dtype) -> str:
    """The name of a dtype.

    Raises:
        OptionError: the dtype has no name here.
    """
    if dtype not in _NAMES:
        raise OptionError(f"element type: expected one of {sorted(DTYPES)}, found {dtype}")
    return _NAMES[dtype]


def dtype_of(name: str, allowed: tuple[str, ...] = tuple(DTYPES), *, what: str = "element type") -> torch.dtype:
    """The dtype of a name.

    Raises:
        OptionError: the name is not in ``allowed``.
    """
    if name not in allowed:
        raise OptionError(f"{what}: expected one of {allowed}, found {name!r}")
    return DTYPES[name]


def elements_of(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Dimensions in elements of a buffer of a type; only the last one differs from the buffer's own.

    Raises:
        OptionError: an unknown type, or a last dimension that is not whole blocks.
    """
    if name not in STORED:
        raise OptionError(f"element type: expected one of {sorted(STORED)}, found {name!r}")
    kind = STORED[name]
    units = kind.size // kind.dtype.itemsize
    if kind.block == 1:
        return shape
    if not shape or shape[-1] % units:
        raise OptionError(f"{name}: expected a last dimension in blocks of {units} bytes, found {shape}")
    return (*shape[:-1], shape[-1] // units * kind.block)


def type_of_bytes(nbytes: int, elements: int) -> tuple[str, ...]:
    """Every number type that ``elements`` in ``nbytes`` can be of; what the bytes alone say of a label.

    An empty part says nothing, and fits all of them.
    """
    return tuple(name for name, kind in STORED.items() if nbytes * kind.block == elements * kind.size)
