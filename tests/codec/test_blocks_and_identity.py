"""Block formats against the published figures; identities that must not pass."""

from __future__ import annotations

import numpy as np
import pytest

from harness.codec import blocks
from harness.codec.errors import CodecIdentityError, GeometryError, ValueRefusedError
from harness.codec.identity import CodecIdentity, read_identity

RAMP = np.array([[(-1) ** i * (i + 1) / 4 for i in range(32)]], np.float32)
"""x[i] = (-1)^i (i+1)/4, the published example."""
ZERO = np.zeros((1, 32), np.float32)


@pytest.mark.parametrize(
    ("kind", "published"),
    [
        ("q8_0", "082c04f80cf014e81ce024d82cd034c83cc043b94bb153a95ba163996b9173897b81"),
        ("q4_0", "003cc848d937d937ea26ea26fb15fb15fc04"),
    ],
)
def test_the_published_block_comes_out(kind: str, published: str) -> None:
    assert blocks.quantise(kind, RAMP).tobytes().hex() == published


def test_a_zero_block_of_q4_0_has_a_negative_zero_scale() -> None:
    assert blocks.quantise("q4_0", ZERO).tobytes().hex() == "0080" + "88" * 16
    assert blocks.quantise("q8_0", ZERO).tobytes().hex() == "00" * 34


def test_q8_0_rounds_halves_away_from_zero() -> None:
    values = ZERO.copy()
    values[0, :5] = [127, 0.5, 1.5, -2.5, 2.5]
    assert blocks.quantise("q8_0", values)[0, 2:8].view(np.int8).tolist() == [127, 1, 2, -3, 3, 0]


def test_the_first_of_equal_magnitudes_gives_q4_0_its_sign() -> None:
    values = ZERO.copy()
    values[0, 3], values[0, 7] = 2, -2
    assert blocks.quantise("q4_0", values).tobytes().hex() == "00b4888888808888888f8888888888888888"


@pytest.mark.parametrize("kind", sorted(blocks.BLOCK_BYTES))
def test_quantising_what_was_read_gives_the_same_blocks(kind: str) -> None:
    values = np.random.default_rng(4).standard_normal((50, 256)).astype(np.float16).astype(np.float32)
    once = blocks.quantise(kind, values)
    assert blocks.quantise(kind, blocks.dequantise(kind, once)).tobytes() == once.tobytes()


@pytest.mark.parametrize("kind", sorted(blocks.BLOCK_BYTES))
@pytest.mark.parametrize("channels", [0, 1, 31, 33])
def test_a_row_of_broken_blocks_is_refused(kind: str, channels: int) -> None:
    with pytest.raises(GeometryError, match="multiple of 32"):
        blocks.quantise(kind, np.zeros((2, channels), np.float32))


@pytest.mark.parametrize("kind", sorted(blocks.BLOCK_BYTES))
def test_a_scale_that_is_not_finite_is_refused(kind: str) -> None:
    data = blocks.quantise(kind, RAMP).copy()
    data[0, :2] = [0x00, 0x7C]
    with pytest.raises(ValueRefusedError, match="finite scale"):
        blocks.dequantise(kind, data)


VALID = CodecIdentity(
    name="lmcache-cachegen", version=2, kind="lossy", decoded_length=445, calibration="0" * 64
).record()


def test_a_stored_identity_is_read_back() -> None:
    assert read_identity(VALID, wanted="lossy", length=445).record() == VALID


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "zstd"}, "codec name"),
        ({"name": ""}, "codec name"),
        ({"version": 3}, "newer than this build"),
        ({"version": 0}, "expected a version"),
        ({"version": True}, "expected a version"),
        ({"class": "exact"}, "expected class lossy"),
        ({"decoded_length": 446}, "decoded length"),
        ({"decoded_length": "445"}, "decoded length"),
        ({"calibration": "0" * 63}, "calibration"),
        ({"extra": 1}, "unknown"),
    ],
)
def test_an_identity_with_one_wrong_field_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(CodecIdentityError, match=message):
        read_identity({**VALID, **change}, length=445)


@pytest.mark.parametrize("field", sorted(VALID))
def test_a_stripped_identity_is_refused(field: str) -> None:
    with pytest.raises(CodecIdentityError, match="missing"):
        read_identity({key: value for key, value in VALID.items() if key != field})


def test_a_lossy_entry_never_answers_an_exact_lookup() -> None:
    with pytest.raises(CodecIdentityError, match="lossy entry was found for an exact lookup"):
        read_identity(VALID, wanted="exact")
