"""Sessions as images, in the engine itself: every architecture and route, every refusal, broken copies, cancels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.torch_engine import Sampling, TorchEngine, TorchSession
from harness.torch_engine.errors import SessionStateError, TorchEngineError, TransferError
from harness.torch_engine.image import ImageFormatError, ShortBufferError, inspect
from harness.torch_engine.image_header import build_header
from tests.torch_engine.support import ARCHS, CHUNK, open_session, options, parts, tokens

PROMPT = tokens(40, 3 * CHUNK + 17)
OTHER = tokens(41, CHUNK + 5)
SEEDED = Sampling(temperature_ppm=900_000, top_k=20, seed=5, repetition_ppm=1_200_000, repetition_window=32)


def prefilled(session: TorchSession, prompt: list[int] = PROMPT) -> TorchSession:
    session.begin(prompt, use_cache=False)
    session.prefill(len(prompt))
    return session


def exported(session: TorchSession) -> bytes:
    imager = session.engine.imager
    return bytes(imager.export(session, imager.size(session)))


def bring(session: TorchSession, image: bytes | bytearray) -> int:
    return session.engine.imager.bring(session, image)


def refused(session: TorchSession, image: bytes | bytearray) -> str:
    """The code of a refusal that left the session as it was."""
    before = parts(session)
    with pytest.raises(TorchEngineError) as caught:
        bring(session, image)
    assert parts(session) == before
    return caught.value.code


@pytest.mark.parametrize("arch", ARCHS)
def test_a_session_goes_on_elsewhere_and_exports_the_same_bytes(arch: str) -> None:
    engine = TorchEngine(options(arch=arch))
    source = prefilled(engine.open_session())
    source.decode(5, SEEDED)
    image = exported(source)
    other = prefilled(engine.open_session(), OTHER)
    copied = bring(other, image)

    assert parts(other) == parts(source)
    assert copied == sum(part.nbytes for part in source.layout("session").parts())
    assert exported(other) == image
    assert other.decode(9, SEEDED) == source.decode(9, SEEDED)


@pytest.mark.parametrize("owed", [False, True])
def test_route_mtp_travels_with_its_drafts_and_what_it_owes(owed: bool) -> None:
    engine = TorchEngine(options())
    source = prefilled(engine.open_session(route="mtp", owed=owed))
    source.decode(7)
    other = engine.open_session(route="mtp", owed=owed)
    bring(other, exported(source))

    assert parts(other) == parts(source)
    assert other.owed is owed
    assert other.decode(12) == source.decode(12)
    assert parts(other) == parts(source)


@pytest.mark.parametrize("until", [CHUNK, 2 * CHUNK])
def test_an_open_turn_travels_with_the_rest_of_its_prompt(until: int) -> None:
    engine = TorchEngine(options())
    source, other = engine.open_session(), engine.open_session()
    source.begin(PROMPT, use_cache=False)
    source.prefill(until)
    bring(other, exported(source))
    for session in (source, other):
        session.prefill(len(PROMPT))

    assert parts(other) == parts(source) == parts(prefilled(engine.open_session()))


def test_an_empty_image_empties_a_used_session() -> None:
    engine = TorchEngine(options(poison="noise"))
    fresh, used = engine.open_session(), prefilled(engine.open_session())
    used.decode(3, SEEDED)
    image = exported(fresh)
    bring(used, image)

    assert parts(used) == parts(fresh)
    assert used.logits() is None
    with pytest.raises(SessionStateError):
        used.decode(1)
    used.reset()
    assert exported(used) == image


def test_an_export_needs_all_its_room() -> None:
    session = prefilled(open_session())
    before = parts(session)
    imager = session.engine.imager
    with pytest.raises(ShortBufferError):
        imager.export(session, imager.size(session) - 1)
    assert parts(session) == before


def test_what_was_changed_on_the_way_is_refused_everywhere() -> None:
    session = prefilled(open_session())
    image = bytearray(exported(session))
    step = len(image) // 40
    for at in range(0, len(image), step):
        harmed = bytearray(image)
        harmed[at] ^= 0x10
        assert refused(session, harmed) in ("format", "unsupported", "short_buffer"), at
    assert refused(session, image[:-1]) == "short_buffer"
    assert refused(session, image + b"\0") == "format"
    assert refused(session, b"") == "short_buffer"


def test_what_contradicts_part_zero_is_refused() -> None:
    session = prefilled(open_session())
    image = exported(session)
    info = inspect(image)
    about = info.description
    history = about.history or ()
    for changed in (
        replace(about, history=(*history[:-1], 100_000)),
        replace(about, history=(*history[:-1], (history[-1] + 1) % 512)),
        replace(about, logits_valid=False),
        replace(about, sampler_present=not about.sampler_present),
        replace(about, meta=bytes(len(about.meta))),
    ):
        header = build_header(changed, info.parts, info.total_bytes)
        with pytest.raises(ImageFormatError):
            session.engine.imager.check(session, header + image[len(header) :])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"seed": 2}, "identity"),
        ({"threads": 2}, "identity"),
        ({"chunk": 2 * CHUNK}, "identity"),
        ({"k_type": "bf16"}, "kv_mode"),
        ({"recurrent_type": "bf16"}, "kv_mode"),
        ({"max_seq_len": 2 * CHUNK}, "capacity"),
    ],
)
def test_an_image_of_another_configuration_is_refused(changes: dict[str, object], code: str) -> None:
    image = exported(prefilled(open_session()))
    other = open_session(**changes)
    other.begin(tokens(3, CHUNK), use_cache=False)
    other.prefill(CHUNK)

    assert refused(other, image) == code


def test_a_longer_session_takes_the_image_of_a_shorter_one() -> None:
    source, longer = prefilled(open_session()), open_session(max_seq_len=2048)
    bring(longer, exported(source))

    assert longer.decode(6) == source.decode(6)


def test_a_copy_that_breaks_off_leaves_a_reset_session(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TorchEngine(options())
    image, session = exported(prefilled(engine.open_session())), prefilled(engine.open_session(), OTHER)
    handle = session.snapshot()
    empty = parts(engine.open_session())

    def broken(*_: object) -> None:
        session.buffers.logits.fill_(7)
        raise OSError("gone")

    monkeypatch.setattr(session, "load_parts", broken)
    monkeypatch.setattr(session, "restore_parts", broken)
    with pytest.raises(TransferError):
        bring(session, image)
    assert parts(session) == empty
    prefilled(session, OTHER)
    with pytest.raises(TransferError):
        session.restore(handle)
    assert parts(session) == empty


def test_a_cancelled_turn_publishes_its_cuts_and_goes_on_with_nothing() -> None:
    engine = TorchEngine(options())
    session = engine.open_session()
    session.begin(PROMPT, use_cache=True)
    session.prefill(2 * CHUNK)

    assert session.cancel() == 2
    for call in (session.snapshot, lambda: exported(session), lambda: session.decode(1), lambda: session.extend([9])):
        with pytest.raises(SessionStateError, match="cancelled"):
            call()
    with pytest.raises(SessionStateError):
        session.prefill(len(PROMPT))
    assert session.begin(PROMPT, use_cache=True) == 2 * CHUNK
    session.prefill(len(PROMPT))
    assert parts(session) == parts(prefilled(engine.open_session()))
