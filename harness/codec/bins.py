"""How many quantisation bins a coded layer has: LMCache's generic schedule, as skippy uses it."""

from __future__ import annotations

from typing import Final, Literal

from harness.codec.errors import BoundsError

Side = Literal["k", "v"]
FEW_LAYERS: Final = 10
"""Models with fewer layers take 32 bins everywhere."""
FINE: Final = 32
COARSE: Final = 16
FINE_LAYERS: Final[dict[str, int]] = {"k": 10, "v": 2}
"""In deeper models: this many first layers of a side are fine, the rest coarse."""
BITS: Final[dict[int, int]] = {COARSE: 4, FINE: 5}
"""Bits of a packed symbol."""


def bins_of(*, layer: int, layers: int, side: Side) -> int:
    """Bins of one layer, 16 or 32.

    Args:
        layer: index in its component, from 0.
        layers: layers of that component.
        side: ``"k"`` or ``"v"``.

    Raises:
        BoundsError: the layer is not one of the component's.
    """
    if not 0 <= layer < layers:
        raise BoundsError(f"layer: expected 0 to {layers - 1}, found {layer}")
    return FINE if layers < FEW_LAYERS or layer < FINE_LAYERS[side] else COARSE


def centre_of(bins: int) -> int:
    """The symbol of zero, which is also the largest magnitude: 15 for 32 bins, 7 for 16.

    Raises:
        BoundsError: bins is neither 16 nor 32.
    """
    if bins not in BITS:
        raise BoundsError(f"bins: expected 16 or 32, found {bins}")
    return bins // 2 - 1
