"""Element types by name: ``f32`` and friends to torch dtypes and back.

Rows are kept as plain elements. A name outside the table is refused, never guessed: a type read as
"unset" would silently become another one.
"""

from __future__ import annotations

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
KV_TYPES = ("f32", "f16", "bf16")
"""Element types that K and V rows may have, each on its own."""
RECURRENT_TYPES = ("f32", "bf16")
"""Element types of the recurrent state; arithmetic on it is f32 in both cases."""

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
