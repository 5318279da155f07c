"""Between the words of the torch engine and those of the seam: refusals, parts, samplers, names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Final

import torch

from harness.engines.interface import StatePart
from harness.errors import RefusedError
from harness.model.values import RefusalCode
from harness.torch_engine.errors import TorchEngineError
from harness.torch_engine.sampling import Sampling
from harness.torch_engine.snapshot import METADATA_PART
from harness.torch_engine.state import Part, RowStream, bytes_view

if TYPE_CHECKING:
    from typing_extensions import Buffer

META: Final = "meta"
CODES: Final = {
    "option": RefusalCode.UNSUPPORTED,
    "metadata": RefusalCode.FORMAT,
    "image": RefusalCode.FORMAT,
    "corrupt": RefusalCode.FORMAT,
    "chain": RefusalCode.LAYOUT,
    "locked": RefusalCode.STATE,
    **{str(code): code for code in RefusalCode},
}
"""Code of the engine's error tree to the seam's word; a code that is not here is an engine error."""
LOGITS_TYPE: Final = "f32"
_PLAIN: Final = frozenset({torch.float32, torch.int32, torch.int64, torch.uint8})
"""Types whose tensors numpy shows as they are."""


def host_bytes(tensor: torch.Tensor) -> Buffer:
    """Return the bytes of a contiguous tensor: a view where it lies on the host, one copy where it does not."""
    if tensor.dtype in _PLAIN and tensor.device.type == "cpu":
        return tensor.numpy().data
    flat = bytes_view(tensor)
    if flat.device.type != "cpu":
        flat = flat.cpu()
    return flat.numpy().data


def state_part(part: Part) -> StatePart:
    """One part as the seam lists it."""
    return StatePart(
        name=part.name,
        family=part.family,
        layer=part.layer,
        element_type=part.element_type,
        shape=part.shape,
        stream="rows" if isinstance(part, RowStream) else "fixed",
        data=host_bytes(part.valid()),
    )


def sampling(sampler: Mapping[str, int]) -> Sampling | None:
    """The sampler that a mapping names; None: greedy."""
    if not sampler:
        return None
    known = {field.name for field in fields(Sampling)}
    unknown = sorted(set(sampler) - known)
    if unknown:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"unknown sampler fields {unknown}; known are {sorted(known)}")
    return Sampling(**sampler)


def stored_name(part: str) -> str:
    """How the engine calls a part inside a snapshot."""
    return METADATA_PART if part == META else part


def fact(value: object) -> str | int | bool:
    """A value as a fact."""
    return value if isinstance(value, str | int) else str(value)


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Turn the engine's named errors into refusals with the seam's words; everything else goes on as it is."""
    try:
        yield
    except TorchEngineError as error:
        code = CODES.get(error.code)
        if code is None:
            raise
        raise RefusedError(code, str(error)) from error
