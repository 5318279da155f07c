"""MLX behind the seam: prompt caches, their files, and what trim leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.engines.conformance import conform
from harness.engines.host import EngineHost, HostOptions
from harness.engines.obligations import OBLIGATIONS
from harness.engines.process import Limits
from harness.errors import RefusedError
from harness.model.target import Target
from harness.model.values import Capability, Outcome, RefusalCode
from tests.fakes.forked import Forking, threads_of_numpy
from tests.real_engines.support import (
    MORE,
    PROMPT,
    cell_outcome,
    differing,
    extended,
    forwarded,
    opened,
    state,
    threads_of_imports,
)

pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("forked")]

ENGINE = "mlx"
MODELS = ("llama", "qwen3", "qwen3_next", "qwen3_5", "lfm2", "mamba2", "gemma3")
OTHER = [8 + (index * 11) % 400 for index in range(150)]


@pytest.fixture
def adapter():  # type: ignore[no-untyped-def] # imported only where the library is there
    from harness.adapters.mlx_adapter import MlxAdapter

    return MlxAdapter()


@pytest.mark.parametrize("preset", MODELS)
def test_a_restored_session_is_as_it_was_and_goes_on_alike(adapter, preset: str) -> None:  # type: ignore[no-untyped-def]
    engine = opened(adapter, preset=preset)
    session, other = engine.open_session({}), engine.open_session({})
    forwarded(session)
    session.decode(2, {})
    handle, before = session.snapshot(), state(session)
    forwarded(other, MORE)

    other.restore(handle)

    assert differing(before, state(other)) == []
    assert session.decode(4, {}) == other.decode(4, {})
    assert differing(state(session), state(other)) == []


@pytest.mark.parametrize("options", [{"kv_bits": 8}, {"kv_bits": 4}, {"dtype": "bf16"}])
def test_other_caches_come_back_too(adapter, options: dict[str, object]) -> None:  # type: ignore[no-untyped-def]
    engine = opened(adapter, preset="llama", **options)
    session, other = engine.open_session({}), engine.open_session({})
    forwarded(session, cache=True)
    session.decode(3, {})

    forwarded(other, cache=True)
    other.decode(3, {})

    assert differing(state(session), state(other)) == []


@pytest.mark.parametrize("image", ["prompt_cache", "bundle"])
@pytest.mark.parametrize("preset", ["llama", "qwen3_next", "gemma3"])
def test_an_image_goes_into_another_engine(adapter, preset: str, image: str) -> None:  # type: ignore[no-untyped-def]
    session = opened(adapter, preset=preset, image=image).open_session({})
    other = opened(adapter, preset=preset, image=image).open_session({})
    forwarded(session)
    session.decode(3, {})
    forwarded(other, MORE)

    found = other.import_image(session.export_image(1 << 30))

    assert found.cached == len(PROMPT) + 3
    assert differing(state(session), state(other)) == []


@pytest.mark.parametrize("preset", MODELS)
def test_an_empty_session_has_an_image_that_empties_a_used_one(adapter, preset: str) -> None:  # type: ignore[no-untyped-def]
    engine = opened(adapter, preset=preset)
    empty, used, other = (engine.open_session({}) for _ in range(3))
    image, fresh = empty.export_image(1 << 30), state(empty)
    forwarded(used)
    used.decode(3, {})

    found = used.import_image(image)

    assert found.cached == 0
    assert differing(fresh, state(used)) == []
    assert bytes(used.export_image(1 << 30)) == bytes(image)
    for one in (used, other):
        forwarded(one)
    assert differing(state(used), state(other)) == []


def test_a_file_without_arrays_that_claims_tokens_is_refused(adapter) -> None:  # type: ignore[no-untyped-def]
    engine = opened(adapter, preset="llama")
    session = engine.open_session({})
    forwarded(session)
    image, before = bytes(session.export_image(1 << 30)), state(session)
    size = int.from_bytes(image[:8], "little")
    told = json.dumps({"__metadata__": json.loads(image[8 : 8 + size])["__metadata__"]}).encode()

    with pytest.raises(RefusedError) as refused:
        session.import_image(len(told).to_bytes(8, "little") + told)

    assert refused.value.code == RefusalCode.FORMAT
    assert differing(before, state(session)) == []


def test_a_lazy_load_is_replaced_by_the_next_one(adapter) -> None:  # type: ignore[no-untyped-def]
    """What R04 finds with the option ``load`` at ``lazy``."""
    changed = {}
    for load in ("eager", "lazy"):
        engine = opened(adapter, preset="llama", load=load)
        one, two, three, four = (engine.open_session({}) for _ in range(4))
        forwarded(one)
        forwarded(two, OTHER)
        first, second = one.export_image(1 << 30), two.export_image(1 << 30)
        three.import_image(first)
        four.import_image(second)
        changed[load] = differing(state(one), state(three))

    assert changed["eager"] == []
    assert "layer0.k" in changed["lazy"]


def test_a_file_after_a_trim_still_has_the_rows(adapter) -> None:  # type: ignore[no-untyped-def]
    """A defect of the library, found by R03; when this fails it has been mended there."""
    engine = opened(adapter, preset="llama")
    session, other = engine.open_session({}), engine.open_session({})
    for one in (session, other):
        forwarded(one)
    session.record()
    session.decode(24, {})
    session.rollback(24)
    for one in (session, other):
        extended(one, MORE[:3])

    assert differing(state(session), state(other)) == []
    assert bytes(session.export_image(1 << 30)) != bytes(other.export_image(1 << 30))


def test_arrays_of_recurrent_state_are_not_trimmed_and_it_says_so(adapter) -> None:  # type: ignore[no-untyped-def]
    session = opened(adapter, preset="qwen3_next").open_session({})
    forwarded(session)

    with pytest.raises(RefusedError) as refused:
        session.record()

    assert refused.value.code == RefusalCode.UNSUPPORTED


def test_another_model_of_the_same_shape_is_refused(adapter) -> None:  # type: ignore[no-untyped-def]
    session = opened(adapter, preset="llama").open_session({})
    other = opened(adapter, preset="llama", seed=5).open_session({})
    forwarded(session)

    with pytest.raises(RefusedError) as refused:
        other.import_image(session.export_image(1 << 30))

    assert refused.value.code == RefusalCode.IDENTITY


@pytest.mark.parametrize("options", [{"preset": "no_such"}, {"load": "sometimes"}, {"path": "no/such"}, {"kv_bits": 3}])
def test_what_cannot_be_had_is_refused_by_name(adapter, options: dict[str, object]) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RefusedError) as refused:
        opened(adapter, **options)

    assert refused.value.code == RefusalCode.UNSUPPORTED


def test_what_a_template_imports_starts_no_thread(forked: Forking | None, tmp_path: Path) -> None:
    assert threads_of_imports(forked, ENGINE, tmp_path) <= threads_of_numpy()


def test_one_small_scenario_runs_and_passes(tmp_path: Path) -> None:
    assert cell_outcome(tmp_path, "mlx", "A03[scale=16,arch=attention]") == "pass"


@pytest.mark.parametrize(
    "arch",
    ["recurrent", *(pytest.param(arch, marks=pytest.mark.lengthy) for arch in ("", "attention", "hybrid", "sliding"))],
)
def test_every_obligation_is_met(arch: str, tmp_path: Path) -> None:
    options = {"preset": "tiny", **({"arch": arch} if arch else {})}
    target = Target(name="mlx", adapter="mlx", device="cpu", options=options)
    with EngineHost(target, tmp_path, HostOptions(limits=Limits(call_s=120))) as opened:
        found = conform(opened, OBLIGATIONS)

    assert [one.reason for one in found if one.outcome is not Outcome.PASS] == ["not declared: archive"]
    assert (Capability.ROLLBACK in opened.capabilities) is (arch in ("", "attention", "sliding"))


def test_the_memory_plan_of_the_embedded_engine_is_not_told_of_this_one(adapter) -> None:  # type: ignore[no-untyped-def]
    assert adapter.plan({"preset": "tiny"}, memory=1 << 30, context=1024) == {}
    assert adapter.plan({"preset": "llama"}, memory=1 << 30, context=1024) == {}
