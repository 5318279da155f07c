"""Pages of a session: exact ones come back as they were, archives straight into the resident rows."""

from __future__ import annotations

import pytest

from harness.codec.errors import CodecError, GeometryError
from harness.torch_engine.engine import TorchEngine
from harness.torch_engine.errors import MetadataError, OptionError, TransferError
from harness.torch_engine.pages import Pager
from harness.torch_engine.session import TorchSession
from harness.torch_engine.state import bytes_view
from tests.torch_engine.support import options, tokens


def filled(count: int = 200, **changes: object) -> TorchSession:
    session = TorchEngine(options(**changes)).open_session()
    session.begin(tokens(3, count), use_cache=False)
    for cut in (*session.boundaries(), count):
        session.prefill(cut)
    return session


def used(session: TorchSession) -> TorchSession:
    """Another session of the engine, in which something else has been."""
    other = session.engine.open_session()
    other.begin(tokens(4, 120), use_cache=False)
    other.prefill(120)
    other.decode(3)
    return other


def state(session: TorchSession) -> dict[str, bytes]:
    return {part.name: bytes_view(part.valid()).numpy().tobytes() for part in session.layout("session").parts()}


@pytest.mark.parametrize("arch", ["attention", "sliding", "hybrid", "ple"])
@pytest.mark.parametrize("count", [10, 200])
def test_an_exact_page_and_its_tail_are_the_session(arch: str, count: int) -> None:
    session = filled(count, arch=arch, k_type="i8", v_type="q4_0")
    pager, target = Pager(), used(session)
    pager.bring(target, pager.page(session), pager.tail(session))

    assert state(target) == state(session)
    assert target.decode(5) == session.decode(5)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32"])
def test_a_transposed_page_holds_the_same_values_channel_by_channel(kind: str) -> None:
    session = filled(arch="attention", k_type=kind, v_type=kind)
    pager, target = Pager(), used(session)
    page = pager.page(session, transposed=True)
    pager.bring(target, page, pager.tail(session), transposed=True)

    assert page != pager.page(session)
    assert sorted(page) == sorted(pager.page(session))
    assert state(target) == state(session)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("path", ["numpy", "torch"])
def test_an_archive_leaves_everything_but_keys_and_values_as_it_was(version: int, path: str) -> None:
    session = filled(arch="hybrid", k_type="f16", v_type="q8_0")
    pager, target = Pager(), used(session)
    pager.bring_archive(target, pager.archive(session, version, "numpy"), pager.tail(session), path)
    found, expected = state(target), state(session)

    assert {name for name in found if found[name] != expected[name]} == {"layer1.k", "layer1.v", "layer3.k", "layer3.v"}
    assert target.position == session.position


@pytest.mark.parametrize("kind", ["bf16", "f8_e4m3", "i8", "i4"])
def test_a_type_that_has_no_record_is_refused_and_not_converted(kind: str) -> None:
    with pytest.raises(GeometryError, match=kind):
        Pager().archive(filled(arch="attention", v_type=kind), 2, "numpy")


def test_blocks_across_a_transposition_are_refused() -> None:
    with pytest.raises(OptionError, match="transposed"):
        Pager().check("f16", "q8_0", transposed=True)


def test_a_harmed_archive_leaves_the_session_as_it_was() -> None:
    session = filled(arch="attention", k_type="f16", v_type="f16")
    pager, target = Pager(), used(session)
    archive, tail, before = pager.archive(session, 2, "numpy"), pager.tail(session), state(target)
    for harmed in (archive[:-1], archive + b"\0", b"X" + archive[1:], archive[:16]):
        with pytest.raises(CodecError):
            pager.bring_archive(target, harmed, tail, "torch")
    with pytest.raises(GeometryError, match="page: expected"):
        pager.bring(target, pager.page(session)[:-1], tail)
    for bad in (tail[:-1], b"{}\n", b"", tail.replace(b'"parts"', b'"parst"')):
        with pytest.raises(MetadataError):
            pager.bring_archive(target, archive, bad, "torch")

    assert state(target) == before


def test_an_import_that_is_broken_off_leaves_the_session_reset() -> None:
    session = filled(arch="attention", k_type="f16", v_type="f16")
    pager, target = Pager(), used(session)
    pager.cancel_after = 3

    with pytest.raises(TransferError, match="cancelled after 3"):
        pager.bring_archive(target, pager.archive(session, 2, "numpy"), pager.tail(session), "torch")
    assert target.position == 0
    assert state(target) == state(session.engine.open_session())
