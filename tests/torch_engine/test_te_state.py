"""A layout says what of a state counts, and refuses labels that do not fit the buffers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from harness.torch_engine.errors import LayoutError, MissingError, OptionError
from harness.torch_engine.kv.types import dtype_of, element_type
from harness.torch_engine.state import StateLayout, flip_bits
from tests.torch_engine.support import ARCHS, ToyState, shared_engine


def toy() -> StateLayout:
    """A layout that is right."""
    state = ToyState()
    state.run([1, 2, 3], 3)
    return state.layout()


def test_a_right_layout_is_accepted() -> None:
    layout = toy()

    layout.validate()

    assert layout.signature() == (("toy.fixed", "fixed", 256, "u8"), ("toy.rows", "rows", 16, "u8"))


def test_valid_bytes_are_live_views() -> None:
    layout = toy()

    layout.part("toy.rows").valid()[0, 0] = 99

    assert layout.rows[0].tensor[0, 0] == 99
    assert layout.rows[0].shape == (3, 16)
    assert layout.rows[0].nbytes == 48


def test_a_repeated_name_is_refused() -> None:
    layout = toy()
    twice = replace(layout, fixed=layout.fixed * 2)

    with pytest.raises(LayoutError, match="twice"):
        twice.validate()


def test_a_wrong_element_type_is_refused() -> None:
    layout = toy()
    wrong = replace(layout, fixed=(replace(layout.fixed[0], element_type="f32"),))

    with pytest.raises(LayoutError, match="element type"):
        wrong.validate()


def test_an_unknown_family_is_refused() -> None:
    layout = toy()
    wrong = replace(layout, fixed=(replace(layout.fixed[0], family="cache"),))

    with pytest.raises(LayoutError, match="family"):
        wrong.validate()


def test_a_buffer_with_gaps_is_refused() -> None:
    layout = toy()
    gaps = torch.zeros((4, 8), dtype=torch.uint8).T
    wrong = replace(layout, fixed=(replace(layout.fixed[0], tensor=gaps),))

    with pytest.raises(LayoutError, match="contiguous"):
        wrong.validate()


@pytest.mark.parametrize("rows", [-1, 1025])
def test_more_rows_than_the_buffer_holds_are_refused(rows: int) -> None:
    layout = toy()
    wrong = replace(layout, rows=(replace(layout.rows[0], rows=rows),))

    with pytest.raises(LayoutError, match="rows"):
        wrong.validate()


def test_an_unknown_part_is_refused_with_the_known_ones() -> None:
    layout = toy()

    with pytest.raises(MissingError, match=r"toy\.fixed"):
        layout.part("toy.other")


def test_flipping_the_same_bits_twice_restores_the_byte() -> None:
    tensor = torch.arange(8, dtype=torch.int32)

    flip_bits(tensor, 5, 0x81, where="here")
    changed = tensor.clone()
    flip_bits(tensor, 5, 0x81, where="here")

    assert changed[1] == 1 + (0x81 << 8)
    assert tensor.tolist() == list(range(8))


@pytest.mark.parametrize(("offset", "mask"), [(-1, 1), (32, 1), (0, 0), (0, 256)])
def test_a_flip_outside_the_bytes_is_refused(offset: int, mask: int) -> None:
    tensor = torch.arange(8, dtype=torch.int32)

    with pytest.raises(LayoutError, match="here"):
        flip_bits(tensor, offset, mask, where="here")


def test_element_type_names_go_both_ways() -> None:
    for name in ("f32", "f16", "bf16", "u8", "i32", "i64"):
        assert element_type(dtype_of(name)) == name


def test_an_unknown_element_type_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match="q8_0"):
        dtype_of("q8_0")


@pytest.mark.parametrize("arch", ARCHS)
def test_every_architecture_labels_a_valid_layout(arch: str) -> None:
    session = shared_engine(arch).open_session()
    session.begin([1, 2, 3] * 50, use_cache=False)
    session.prefill(150)

    layout = session.layout("session")

    layout.validate()
    families = {part.family for part in layout.parts()}
    expected = {
        "hybrid": {"kv", "index", "recurrent", "conv"},
        "attention": {"kv", "index"},
        "recurrent": {"recurrent", "conv"},
        "sliding": {"kv", "index", "window"},
        "ple": {"kv", "index", "recurrent", "conv", "ple"},
    }
    assert families == expected[arch] | {"logits", "sampler"}


def test_the_prefix_scope_leaves_out_logits_and_sampler() -> None:
    session = shared_engine().open_session()

    prefix, whole = session.layout("prefix"), session.layout("session")

    missing = {p.name for p in whole.parts()} - {p.name for p in prefix.parts()}
    assert missing == {"logits", "sampler.rng", "sampler.history"}
