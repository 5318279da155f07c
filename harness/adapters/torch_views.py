"""Views of live buffers, made once: most looks at a session find its buffers where the look before found them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from harness.adapters.torch_words import host_bytes, state_part
from harness.engines.interface import StatePart
from harness.torch_engine.state import Part, RowStream

_Label = tuple[str, str, int, str, bool]


@dataclass(frozen=True, slots=True)
class _Seen:
    tensor: torch.Tensor
    place: int
    extent: torch.Size
    rows: int
    part: StatePart
    whole: memoryview
    """All bytes of the buffer, valid or not."""
    row_bytes: int


class LiveViews:
    """Parts as the seam lists them.

    A part is listed as before while label, tensor, address and extent are what they were; what its bytes are is for the
    view to show. Where only rows were added, its view is another cut of the same one. Buffers that lie on a device are
    copied each time.
    """

    def __init__(self) -> None:
        self._seen: dict[_Label, _Seen] = {}

    def part(self, part: Part) -> StatePart:
        """Return a part as it is now."""
        grows, tensor = isinstance(part, RowStream), part.tensor
        rows = part.rows if isinstance(part, RowStream) else -1
        label = (part.name, part.family, part.layer, part.element_type, grows)
        seen = self._seen.get(label)
        same = seen is not None and seen.tensor is tensor
        if seen is None or not same or seen.place != tensor.data_ptr() or seen.extent != tensor.shape:
            return self._first(label, part, rows)
        if seen.rows == rows:
            return seen.part
        data = seen.whole[: rows * seen.row_bytes]
        return self._note(label, tensor, rows, _listed(part, data), seen.whole, seen.row_bytes)

    def forget(self) -> None:
        """Let go of all buffers."""
        self._seen.clear()

    def _first(self, label: _Label, part: Part, rows: int) -> StatePart:
        """List a buffer that was not seen before, or lies elsewhere now."""
        tensor, found = part.tensor, state_part(part)
        if tensor.device.type != "cpu" or not tensor.numel() or not tensor.is_contiguous():
            self._seen.pop(label, None)
            return found
        whole = memoryview(host_bytes(tensor)).cast("B")
        return self._note(label, tensor, rows, found, whole, whole.nbytes // max(1, len(tensor)) if rows >= 0 else 0)

    def _note(
        self, label: _Label, tensor: torch.Tensor, rows: int, part: StatePart, whole: memoryview, row_bytes: int
    ) -> StatePart:
        self._seen[label] = _Seen(tensor, tensor.data_ptr(), tensor.shape, rows, part, whole, row_bytes)
        return part


def _listed(part: Part, data: memoryview) -> StatePart:
    return StatePart(
        name=part.name,
        family=part.family,
        layer=part.layer,
        element_type=part.element_type,
        shape=part.shape,
        stream="rows",
        data=data,
    )
