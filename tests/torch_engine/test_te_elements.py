"""Element types against rules written down a second time, in plain numbers; then sessions that hold them."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from harness.codec import blocks
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.errors import KVModeError, LayoutError, OptionError
from harness.torch_engine.kv.elements import ELEMENT_TYPES, KV_TYPES, RECURRENT_TYPES, element
from harness.torch_engine.kv.rows import Rows
from harness.torch_engine.kv.types import STORED, elements_of, type_of_bytes
from harness.torch_engine.session import TorchSession
from harness.torch_engine.state import RowStream, StateLayout, bytes_view
from tests.torch_engine.support import options, tokens

RAMP = torch.tensor([[(-1) ** i * (i + 1) / 4 for i in range(32)]])


def engine(**changes: object) -> TorchEngine:
    return TorchEngine(options(**changes))


def values(seed: int, *shape: int) -> Tensor:
    """Numbers of very different size, with zero rows and halves among them."""
    rng = np.random.default_rng(seed)
    made = rng.standard_normal(shape) * np.exp(rng.standard_normal(shape[:-1]) * 2)[..., None]
    made[0] = 0
    made[1] = np.round(made[1]) + 0.5
    return torch.from_numpy(made.astype(np.float32))


def stored(kind: str, given: Tensor) -> list[bytes]:
    return [bytes_view(t.contiguous()).numpy().tobytes() for t in ELEMENT_TYPES[kind].encode(given)]


@pytest.mark.parametrize("kind", ["q8_0", "q4_0"])
@pytest.mark.parametrize("seed", range(4))
def test_blocks_are_those_of_the_codec_bit_for_bit(kind: str, seed: int) -> None:
    given = values(seed, 50, 2, 64)

    assert stored(kind, given)[0] == blocks.quantise(kind, given.numpy().reshape(50, -1)).tobytes()
    read = ELEMENT_TYPES[kind].decode(ELEMENT_TYPES[kind].encode(given))
    again = blocks.dequantise(kind, blocks.quantise(kind, given.numpy().reshape(50, -1)))
    assert torch.equal(read.view(50, -1), torch.from_numpy(again))


@pytest.mark.parametrize(
    ("kind", "published"),
    [
        ("q8_0", "082c04f80cf014e81ce024d82cd034c83cc043b94bb153a95ba163996b9173897b81"),
        ("q4_0", "003cc848d937d937ea26ea26fb15fb15fc04"),
    ],
)
def test_the_published_block_comes_out(kind: str, published: str) -> None:
    assert stored(kind, RAMP)[0].hex() == published


def test_the_first_of_equal_magnitudes_gives_q4_0_its_sign() -> None:
    given = torch.zeros(1, 32)
    given[0, 3], given[0, 7] = 2, -2

    assert stored("q4_0", given)[0].hex() == "00b4888888808888888f8888888888888888"


def e4m3(code: int) -> Fraction:
    """The number of a finite code of OCP's e4m3, by its definition: bias 7, three bits behind the point."""
    sign, exponent, mantissa = -1 if code & 0x80 else 1, code >> 3 & 15, code & 7
    if exponent == 0:
        return sign * Fraction(mantissa, 8) / 64
    return sign * (1 + Fraction(mantissa, 8)) * Fraction(2) ** (exponent - 7)


def test_f8_rounds_to_the_nearest_code_and_halves_to_even() -> None:
    positive = [(e4m3(code), code) for code in range(0x7F)]  # 0x7F is NaN
    halves = [(low + high) / 2 for (low, _), (high, _) in itertools.pairwise(positive)]
    given = [*(number for number, _ in positive), *halves, *(h * Fraction(33, 32) for h in halves)]
    expected = [min(positive, key=lambda known: (abs(known[0] - number), known[1] & 1))[1] for number in given]

    assert list(stored("f8_e4m3", torch.tensor([[float(n) for n in given]]))[0]) == expected
    assert list(stored("f8_e4m3", torch.tensor([[-float(n) for n in given]]))[0]) == [c | 0x80 for c in expected]


def test_f8_saturates_instead_of_overflowing() -> None:
    assert list(stored("f8_e4m3", torch.tensor([[449.0, 1e4, -1e30]]))[0]) == [0x7E, 0x7E, 0xFE]


@pytest.mark.parametrize(("kind", "reach"), [("i8", 127), ("i4", 7)])
def test_codes_and_scales_are_streams_of_their_own_per_row_and_head(kind: str, reach: int) -> None:
    given = values(9, 6, 2, 32)
    codes, scale = ELEMENT_TYPES[kind].encode(given)
    read = ELEMENT_TYPES[kind].decode((codes, scale))

    assert scale.shape == (6, 2, 1)
    for row in range(6):
        for head in range(2):
            largest = float(given[row, head].abs().max())
            assert float(scale[row, head]) == np.float32(largest) / np.float32(reach)
            assert float((read[row, head] - given[row, head]).abs().max()) <= float(scale[row, head]) / 2 * 1.0001


def test_i8_rounds_halves_away_from_zero() -> None:
    codes, _ = ELEMENT_TYPES["i8"].encode(torch.tensor([[127.0, 0.5, 1.5, -2.5, 2.5, 0.0]]))

    assert codes.tolist() == [[127, 1, 2, -3, 3, 0]]


def test_i4_holds_the_earlier_value_in_the_low_half_of_a_byte() -> None:
    codes, scale = ELEMENT_TYPES["i4"].encode(torch.tensor([[7.0, -7.0, 1.0, 2.5]]))

    assert codes.tolist() == [[15 | 1 << 4, 9 | 11 << 4]]
    assert scale.tolist() == [[1.0]]


@pytest.mark.parametrize("kind", KV_TYPES)
def test_a_row_is_stored_alike_whatever_rows_lie_beside_it(kind: str) -> None:
    given = values(3, 8, 2, 32)
    whole = ELEMENT_TYPES[kind].encode(given)
    alone = [ELEMENT_TYPES[kind].encode(given[i : i + 1]) for i in range(8)]

    for number, stream in enumerate(whole):
        assert torch.equal(stream, torch.cat([one[number] for one in alone]))


@pytest.mark.parametrize("kind", KV_TYPES)
def test_rows_read_in_blocks_are_those_read_in_order(kind: str) -> None:
    rows = Rows.empty(ELEMENT_TYPES[kind], (10, 2, 32), torch.device("cpu"))
    rows[0:10] = values(4, 10, 2, 32)
    straight = rows.float()

    assert rows.shape == (10, 2, 32)
    assert torch.equal(rows.blocks(torch.tensor([1, 0]), 4), torch.cat((straight[4:8], straight[0:4])))
    assert torch.equal(rows[3:5].float(), straight[3:5])


@pytest.mark.parametrize("name", ["", "F32", "0", "f64", "q8", "fp8"])
def test_a_name_outside_the_table_is_no_type(name: str) -> None:
    with pytest.raises(OptionError, match="element type"):
        element(name)


@pytest.mark.parametrize("kind", KV_TYPES)
def test_the_label_of_a_stream_is_among_what_its_bytes_say(kind: str) -> None:
    layout = held(kind, "f32")

    for stream in layout.rows:
        elements = int(np.prod(stream.shape))
        assert stream.element_type in type_of_bytes(stream.nbytes, elements)
        assert STORED[stream.element_type].dtype == stream.tensor.dtype
    labels = {s.name: s.element_type for s in layout.rows if s.name.startswith("layer1.")}
    assert labels["layer1.k"] == kind
    assert labels["layer1.v"] == "f32"


def test_a_label_that_the_buffer_contradicts_is_no_layout() -> None:
    stream = RowStream(name="k", family="kv", layer=0, element_type="q8_0", tensor=torch.zeros(4, 33).byte(), rows=1)

    with pytest.raises(LayoutError, match="whole blocks of 34 bytes"):
        StateLayout(fixed=(), rows=(stream,)).validate()
    with pytest.raises(OptionError, match="blocks of 34"):
        elements_of("q8_0", (4, 33))


def held(k_type: str, v_type: str) -> StateLayout:
    """The layout of a session of some rows."""
    session = engine(k_type=k_type, v_type=v_type).open_session()
    session.begin(tokens(1, 100), False)
    session.prefill(100)
    return session.layout("session")


def state(session: TorchSession) -> dict[str, bytes]:
    return {part.name: bytes_view(part.valid()).numpy().tobytes() for part in session.layout("session").parts()}


@pytest.mark.parametrize(
    ("arch", "types"),
    [
        *(
            ("attention", {"k_type": k, "v_type": v})
            for k, v in zip(KV_TYPES, (*KV_TYPES[3:], *KV_TYPES[:3]), strict=True)
        ),
        *(("hybrid", {"recurrent_type": kind, "conv_type": "bf16"}) for kind in RECURRENT_TYPES),
        ("sliding", {"k_type": "i4", "v_type": "q4_0"}),
        ("hybrid", {"index_type": "f8_e4m3", "conv_type": "f16"}),
        ("ple", {"conv_type": "bf16"}),
    ],
)
def test_a_cached_prefix_an_image_and_a_snapshot_continue_as_a_cold_run_does(arch: str, types: dict[str, str]) -> None:
    made = engine(arch=arch, chunk=64, **types)
    prompt = tokens(1, 200)
    cold = made.open_session()
    cold.begin(prompt, False)
    cold.prefill(200)
    first = made.open_session()
    first.begin(prompt, True)
    first.prefill(200)
    first.commit()
    before = state(cold)
    handle = first.snapshot()
    image = bytes(made.imager.export(first, made.imager.size(first)))
    expected = cold.decode(6)

    warm, copied, brought = (made.open_session() for _ in range(3))
    assert warm.begin(prompt, True) == 192
    warm.prefill(200)
    copied.restore(handle)
    made.imager.bring(brought, image)
    for session in (warm, copied, brought):
        assert state(session) == before
        assert session.decode(6) == expected
        assert state(session) == state(cold)


@pytest.mark.parametrize("change", [{"k_type": "bf16"}, {"v_type": "bf16"}])
def test_a_snapshot_of_rows_of_the_same_width_and_another_type_is_refused(change: dict[str, str]) -> None:
    types = {"k_type": "f16", "v_type": "f16"}
    made, other = engine(arch="attention", **types), engine(arch="attention", **(types | change))
    session, target = made.open_session(), other.open_session()
    session.begin(tokens(1, 70), False)
    session.prefill(70)

    with pytest.raises(KVModeError, match=next(iter(change))):
        target.restore(session.snapshot())


def test_blocks_that_do_not_fit_the_rows_of_a_model_are_refused_at_open() -> None:
    with pytest.raises(OptionError, match="index_type: expected rows in blocks of 32 for q8_0, found 16 values"):
        engine(arch="hybrid", index_type="q8_0")
