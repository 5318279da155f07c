"""Views of live buffers, made once: most looks at a session find its buffers where the look before found them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import torch

from harness.adapters.torch_words import host_bytes, state_part
from harness.engines.interface import StatePart
from harness.torch_engine.state import Part, RowStream

_Label = tuple[str, str, int, str, bool]
_EXTENT: Final = attrgetter("shape")


@dataclass(slots=True)
class _Seen:
    tensor: torch.Tensor
    place: int
    extent: torch.Size
    rows: int
    part: StatePart
    whole: memoryview
    """All bytes of the buffer, valid or not."""
    row_bytes: int


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at all parts of a session."""

    parts: Sequence[Part]
    """What was looked at; such a part is never changed, only its buffer is."""
    places: Sequence[int]
    extents: Sequence[torch.Size]
    listed: Sequence[StatePart]


_NONE: Final = _Look((), (), (), ())


class LiveViews:
    """Parts as the seam lists them.

    A part is listed as before while label, tensor, address and extent are what they were; what its bytes are is for the
    view to show. Where only rows were added, its view is another cut of the same one. Buffers that lie on a device are
    copied each time.
    """

    def __init__(self) -> None:
        self._seen: dict[_Label, _Seen] = {}
        self._last = _NONE
        self._passing = False
        """Whether a part of this look was copied, or is not to be listed again for another reason."""

    def parts(self, parts: Sequence[Part]) -> Sequence[StatePart]:
        """Return all parts of a session as they are now.

        A forward leaves nothing of this in the processor's caches, so a look asks torch as little as it can: where all
        buffers lie and how large they are, in one turn. Parts that are the very ones of the last look, in buffers that
        are where they were, are listed as they were then.
        """
        tensors = [part.tensor for part in parts]
        places, extents = list(map(torch.Tensor.data_ptr, tensors)), list(map(_EXTENT, tensors))
        last, self._passing = self._last, False
        if places == last.places and extents == last.extents:
            known = zip(parts, last.parts, last.listed, strict=True)
            listed = [old if part is before else self.part(part) for part, before, old in known]
        else:
            listed = [self.part(part) for part in parts]
        self._last = _NONE if self._passing else _Look(parts, places, extents, listed)
        return listed

    def part(self, part: Part) -> StatePart:
        """Return a part as it is now."""
        grows, tensor = isinstance(part, RowStream), part.tensor
        rows = part.rows if isinstance(part, RowStream) else -1
        label = (part.name, part.family, part.layer, part.element_type, grows)
        seen = self._seen.get(label)
        same = seen is not None and seen.tensor is tensor
        if seen is None or not same or seen.place != tensor.data_ptr() or seen.extent != tensor.shape:
            return self._first(label, part, rows)
        if seen.rows != rows:
            seen.rows, seen.part = rows, _cut(seen, rows)
        return seen.part

    def forget(self) -> None:
        """Let go of all buffers."""
        self._seen.clear()
        self._last = _NONE

    def _first(self, label: _Label, part: Part, rows: int) -> StatePart:
        """List a buffer that was not seen before, or lies elsewhere now."""
        tensor = part.tensor
        if tensor.device.type != "cpu" or not tensor.numel() or not tensor.is_contiguous():
            self._seen.pop(label, None)
            self._passing = True
            return state_part(part)
        whole = memoryview(host_bytes(tensor)).cast("B")
        row_bytes = whole.nbytes // max(1, len(tensor)) if rows >= 0 else 0
        found = StatePart(
            name=part.name,
            family=part.family,
            layer=part.layer,
            element_type=part.element_type,
            shape=part.shape,
            stream="rows" if rows >= 0 else "fixed",
            data=whole[: rows * row_bytes] if rows >= 0 else whole,
        )
        self._seen[label] = _Seen(tensor, tensor.data_ptr(), tensor.shape, rows, found, whole, row_bytes)
        return found


def _cut(seen: _Seen, rows: int) -> StatePart:
    """List as many rows of a known buffer as are valid now."""
    part = seen.part
    return StatePart(
        name=part.name,
        family=part.family,
        layer=part.layer,
        element_type=part.element_type,
        shape=(rows, *part.shape[1:]),
        stream="rows",
        data=seen.whole[: rows * seen.row_bytes],
    )
