"""Weights are a function of integers, so their digest can be committed.

A deliberate change of a preset or of the hash changes the table below; print the new values with
``python -c "from tests.torch_engine.test_te_weights import current; print(current())"``.
"""

from __future__ import annotations

import numpy as np
import pytest

from harness.torch_engine import TorchEngine
from harness.torch_engine.errors import OptionError
from harness.torch_engine.models.config import model_config, model_digest
from harness.torch_engine.models.decoder import weight_specs
from harness.torch_engine.weights import (
    WeightSpec,
    make_tensor,
    make_weights,
    mix64,
    mix64_array,
    weights_digest,
)
from tests.torch_engine.support import options

GOLDEN: dict[tuple[str, str], str] = {
    ("tiny", "hybrid"): "3d198f897a04acb2bb81c58449cbdfb69d5ee6be85a8c7a0058888c06eefe233",
    ("tiny", "attention"): "115cf9478005f31132f4caca5cf82d285f29778f04656e03b313556f151a0ce1",
    ("tiny", "recurrent"): "e665ff8ace0be446d41f234b34df4510cdac9206ee13203f93825d83b6b338a1",
    ("tiny", "sliding"): "3464d463420e0986ad1ead071363b1ece18a3f94da455e079d17f64de8031929",
    ("tiny", "ple"): "30fd7fcc031c98788aeb38d58933e59a46f8f1d42d94ef4d6562affd621c6e0e",
    ("small", "hybrid"): "1055763f0f4df3402385fde4c9e934829c26314bcd286af8e3d69d94bd9aa9ef",
    ("small", "attention"): "6ffe9fffa884588255da196d429f0be1a4cac8b1f939dd7f00ad284e080a8acb",
    ("small", "recurrent"): "48c93d699c1869d196c88c44ea5d8e4167980c6599a56ac704792a49a2913e70",
    ("small", "sliding"): "84ca581c2ba2389416e8d5b44313db0da42519f0d068690f5c4ef06b5864dafc",
    ("small", "ple"): "331f66c65404b55ae0eb799682c2d1ebd5a4417a591eabd0f117ea93ae22e71b",
    ("deep", "hybrid"): "a1e625f908823bcdada28dd9cc27ac360dee46716ba81aa54ddd8253e4b912ab",
    ("deep", "attention"): "259d1cb9c15d59abf4caf30b3275bdc49f1ab2f8617eaabf1d88ce41ebcdaf22",
    ("deep", "recurrent"): "0c998307b2ec8089c0f530ce270c81607c70189e7d3249b9db3e3d1fe106f415",
    ("deep", "sliding"): "d9e5b01c867b75deef2fd1a34a26f71fba2e8457f9ab39534300b7c861b53598",
    ("deep", "ple"): "10fd3386deb54aa2568e173fc162571df6ff7ab32ff3ca89bd3a32b56401f920",
}


def current() -> dict[tuple[str, str], str]:
    """The digests of this tree."""
    found = {}
    for preset in ("tiny", "small", "deep"):
        for arch in ("hybrid", "attention", "recurrent", "sliding", "ple"):
            config = model_config(preset, arch)
            found[preset, arch] = weights_digest(make_weights(config.seed, weight_specs(config)))
    return found


def test_the_weights_of_every_preset_have_the_committed_digest() -> None:
    found = current()

    assert found == GOLDEN


def test_the_finaliser_gives_the_published_splitmix64_stream() -> None:
    gamma, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1

    first_three = [mix64((1234567 + gamma * i) & mask) for i in (1, 2, 3)]

    assert first_three == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_the_array_form_equals_the_integer_form() -> None:
    words = np.arange(100, dtype=np.uint64) * np.uint64(0x123456789ABCDEF1)

    mixed = mix64_array(words)

    assert mixed.tolist() == [mix64(int(word)) for word in words.tolist()]


def test_elements_are_exact_multiples_of_the_smallest_step() -> None:
    spec = WeightSpec(shape=(64, 8), log2_scale=-2)

    values = make_tensor(0, "w", spec)

    steps = values.astype(np.float64) * 2.0**25
    assert values.dtype == np.float32
    assert np.array_equal(steps, np.round(steps))
    assert np.abs(values).max() <= 0.25
    assert values.std() > 0.1


def test_names_and_seeds_give_streams_of_their_own() -> None:
    spec = WeightSpec(shape=(32,), log2_scale=0)

    base = make_tensor(0, "a", spec)

    assert not np.array_equal(base, make_tensor(0, "b", spec))
    assert not np.array_equal(base, make_tensor(1, "a", spec))
    assert np.array_equal(base, make_tensor(0, "a", spec))


def test_the_model_digest_covers_configuration_and_weights() -> None:
    config = model_config("tiny", "hybrid")

    base = model_digest(config, "00" * 32)

    assert base != model_digest(config, "01" * 32)
    assert base != model_digest(model_config("tiny", "hybrid", seed=1), "00" * 32)


def test_opening_an_engine_again_makes_no_weights() -> None:
    first = TorchEngine(options())

    second = TorchEngine(options(cache_bytes=0))

    assert second.model is first.model


@pytest.mark.parametrize(("preset", "arch"), [("huge", "hybrid"), ("tiny", "transformer")])
def test_an_unknown_preset_or_architecture_is_refused_by_name(preset: str, arch: str) -> None:
    with pytest.raises(OptionError, match=r"huge|transformer"):
        model_config(preset, arch)


def test_mixed_architectures_have_both_kinds_of_layers() -> None:
    hybrid, sliding = model_config("tiny", "hybrid"), model_config("deep", "sliding")

    assert hybrid.layers == ("delta", "attention", "delta", "attention")
    assert sliding.layers.count("attention") == 3
    assert len(sliding.layers) == 12
