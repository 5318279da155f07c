"""Export, inspect, validate, and the two goldens."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from harness.torch_engine.errors import CapacityError, SessionStateError, TorchEngineError, UnsupportedError
from harness.torch_engine.image import (
    ImageCapacityError,
    ImageStateError,
    ImageUnsupportedError,
    PartKind,
    PartSpec,
    ShortBufferError,
    export_into,
    image_size,
    inspect,
    parts_of,
    validate,
)
from tests.torch_engine_image.image_samples import (
    IDENTITY,
    PARTS,
    description,
    expectation,
    image,
    payload,
)

GOLDEN = Path(__file__).parent / "golden"


def test_an_image_comes_back_as_it_was_described() -> None:
    about = description()

    made = image(about)

    info = validate(made, expectation())
    assert info.description == about
    assert info.version == 2
    assert [bytes(view) for view in parts_of(info, made).values()] == payload(about)


def test_the_same_session_gives_the_same_bytes() -> None:
    assert image() == image()


def test_views_are_read_only_and_no_copies() -> None:
    made = image()
    info = validate(made, expectation())

    view = parts_of(info, made)["layer1.k"]

    assert view.readonly
    made[info.parts[3].offset] ^= 1
    assert view[0] == made[info.parts[3].offset]


def test_the_size_is_exact_and_bytes_behind_it_are_left_alone() -> None:
    about = description()
    size = image_size(about)
    buffer = bytearray(b"\xa5" * (size + 9))

    info = export_into(buffer, about, payload(about))

    assert info.total_bytes == size
    assert buffer[size:] == b"\xa5" * 9
    assert buffer[:size] == image(about)


def test_a_buffer_one_byte_short_is_refused_and_not_written() -> None:
    about = description()
    buffer = bytearray(b"\xa5" * (image_size(about) - 1))

    with pytest.raises(ShortBufferError) as refused:
        export_into(buffer, about, payload(about))

    assert refused.value.code == "short_buffer"
    assert set(buffer) == {0xA5}


def test_a_read_only_buffer_is_refused() -> None:
    about = description()

    with pytest.raises(ImageStateError, match="read-only"):
        export_into(bytes(image_size(about)), about, payload(about))


@pytest.mark.parametrize("change", [-1, 1])
def test_a_part_of_another_size_is_refused_before_anything_is_written(change: int) -> None:
    about = description()
    parts = payload(about)
    parts[2] = (parts[2] + b"x")[: len(parts[2]) + change]
    buffer = bytearray(image_size(about))

    with pytest.raises(ImageStateError):
        export_into(buffer, about, parts)

    assert not any(buffer)


def test_a_missing_part_is_refused() -> None:
    about = description()

    with pytest.raises(ImageStateError):
        export_into(bytearray(image_size(about)), about, payload(about)[:-1])


def test_an_export_that_breaks_off_leaves_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    about = description()
    buffer = image(about)

    def fail(*arguments: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr("harness.torch_engine.image.build_header", fail)
    with pytest.raises(MemoryError):
        export_into(buffer, about, payload(about))

    with pytest.raises(TorchEngineError):
        inspect(buffer)


def test_a_model_without_state_is_unsupported() -> None:
    with pytest.raises(ImageUnsupportedError) as refused:
        image_size(description(parts=()))

    assert refused.value.code == "unsupported"
    assert isinstance(refused.value, UnsupportedError)


WITHOUT_LOGITS = tuple(part for part in PARTS if part.family != "logits")
CONTRADICTIONS = {
    "fewer tokens known than forwarded": {"position": 7},
    "owed tokens without the flag": {"owed_forward": False},
    "the flag without owed tokens": {"history": (11, 12, 13, 14, 15)},
    "no history": {"history": None},
    "negative position": {"position": -1},
    "valid logits before the first token": {"position": 0},
    "valid logits without a logits part": {"parts": WITHOUT_LOGITS},
    "a sampler without a sampler part": {"parts": tuple(p for p in PARTS if p.family != "sampler")},
    "a name twice": {"parts": (*PARTS, PARTS[0])},
    "a token of 33 bits": {"history": (11, 12, 13, 14, 15, 1 << 32)},
    "a negative token": {"history": (11, 12, 13, 14, 15, -1)},
    "an identity value that is a list": {"identity": IDENTITY | {"x": [1]}},
    "an identity that is too long": {"identity": IDENTITY | {"x": "y" * 70_000}},
    "metadata that is too long": {"meta": bytes(2 << 20)},
}


@pytest.mark.parametrize("change", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_session_that_contradicts_itself_is_not_exported(change: dict[str, object]) -> None:
    with pytest.raises(ImageStateError) as refused:
        image_size(description(**change))

    assert refused.value.code == "state"
    assert isinstance(refused.value, SessionStateError)


@pytest.mark.parametrize(
    "part",
    [
        PartSpec(name="", family="kv", layer=0, element_type="f32", kind=PartKind.ROWS, shape=(1,)),
        PartSpec(name="k", family="kv", layer=-2, element_type="f32", kind=PartKind.ROWS, shape=(1,)),
        PartSpec(name="k", family="kv", layer=0, element_type="f32", kind=PartKind.ROWS, shape=()),
        PartSpec(name="k", family="kv", layer=0, element_type="f32", kind=PartKind.ROWS, shape=(1,) * 9),
        PartSpec(name="k", family="kv", layer=0, element_type="f32", kind=PartKind.ROWS, shape=(-1,)),
        PartSpec(name="k", family="kv", layer=0, element_type="q8_0", kind=PartKind.ROWS, shape=(1, 33)),
        PartSpec(name="k", family="kv", layer=0, element_type="f64", kind=PartKind.FIXED, shape=(1 << 61, 1 << 61)),
    ],
)
def test_a_part_that_the_format_cannot_hold_is_refused(part: PartSpec) -> None:
    with pytest.raises(ImageStateError):
        image_size(description(parts=(*PARTS, part)))


def test_block_types_count_in_blocks() -> None:
    part = PartSpec(name="k", family="kv", layer=0, element_type="q8_0", kind=PartKind.ROWS, shape=(3, 64))

    assert part.nbytes == 3 * 2 * 34


def test_an_empty_session_has_an_image() -> None:
    rows = (
        *(p for p in PARTS if p.kind is PartKind.FIXED),
        PartSpec(name="layer1.k", family="kv", layer=1, element_type="bf16", kind=PartKind.ROWS, shape=(0, 2, 4)),
        PartSpec(name="layer1.pooled", family="index", layer=1, element_type="f32", kind=PartKind.ROWS, shape=(0, 4)),
    )
    about = description(
        position=0, history=(), logits_valid=False, owed_forward=False, sampler_present=False, parts=rows
    )

    info = validate(image(about), expectation())

    assert info.description == about


def test_an_image_at_exactly_the_capacity_is_accepted() -> None:
    about = description(owed_forward=False, history=(11, 12, 13, 14, 15))

    assert validate(image(about), expectation(capacity=5)).description.position == 5
    with pytest.raises(ImageCapacityError) as refused:
        validate(image(about), expectation(capacity=4))
    assert isinstance(refused.value, CapacityError)


# -- goldens -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_every_version_that_was_ever_written_is_read(version: int) -> None:
    raw = (GOLDEN / f"image-v{version}.bin").read_bytes()

    info = inspect(raw)

    parts = parts_of(info, raw)
    about = info.description
    assert info.version == version
    assert about.identity == {"engine": "golden", "k_type": "bf16", "turns": False}
    assert (about.position, about.meta, about.logits_valid, about.sampler_present) == (3, bytes(range(16)), True, True)
    assert about.history == (None if version == 1 else (7, 8, 9, 511))
    assert about.owed_forward == (version == 2)
    assert [(name, len(view)) for name, view in parts.items()] == [
        ("layer0.recurrent", 32),
        ("logits", 32),
        ("sampler.rng", 24),
        ("layer1.k", 12),
    ]


def test_what_is_written_today_is_the_golden_of_the_current_version() -> None:
    raw = (GOLDEN / "image-v2.bin").read_bytes()
    info = inspect(raw)
    buffer = bytearray(len(raw))

    export_into(buffer, info.description, list(parts_of(info, raw).values()))

    assert buffer == raw


def test_the_goldens_are_what_their_generator_makes() -> None:
    module = runpy.run_path(str(GOLDEN / "generate.py"))

    for version in (1, 2):
        assert module["golden"](version) == (GOLDEN / f"image-v{version}.bin").read_bytes()


def test_the_image_works_without_torch() -> None:
    code = "import sys, harness.torch_engine.image; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
