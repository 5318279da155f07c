"""transformers behind the seam: what travels, what is lost, and what crop leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cli
from harness.engines.conformance import conform
from harness.engines.host import EngineHost, HostOptions
from harness.engines.obligations import OBLIGATIONS
from harness.engines.process import Limits
from harness.errors import ExitCode, RefusedError
from harness.model.target import Target
from harness.model.values import Capability, Outcome, RefusalCode
from tests.fakes.forked import Forking, threads_of_numpy
from tests.real_engines.support import (
    MORE,
    cell_outcome,
    differing,
    extended,
    forwarded,
    opened,
    state,
    threads_of_imports,
)

pytest.importorskip("transformers")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("forked")]

ENGINE = "transformers"
MODELS = ("llama", "qwen3", "qwen3_next", "qwen3_5", "lfm2", "mamba2", "gemma3")


@pytest.fixture
def adapter():  # type: ignore[no-untyped-def] # imported only where the library is there
    from harness.adapters.transformers_adapter import TransformersAdapter

    return TransformersAdapter()


@pytest.mark.parametrize("preset", MODELS)
def test_a_restored_session_is_as_it_was_and_goes_on_alike(adapter, preset: str) -> None:  # type: ignore[no-untyped-def]
    engine = opened(adapter, preset=preset)
    session, other = engine.open_session({}), engine.open_session({})
    forwarded(session)
    handle, before = session.snapshot(), state(session)
    forwarded(other, MORE)

    other.restore(handle)

    assert differing(before, state(other)) == []
    assert session.decode(4, {}) == other.decode(4, {})
    assert differing(state(session), state(other)) == []


@pytest.mark.parametrize("options", [{"cache": "static"}, {"cache": "fp8"}, {"dtype": "bf16"}])
def test_other_caches_come_back_too(adapter, options: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    engine = opened(adapter, preset="llama", **options)
    session, other = engine.open_session({}), engine.open_session({})
    forwarded(session, cache=True)
    session.decode(3, {})

    forwarded(other, cache=True)
    other.decode(3, {})

    assert differing(state(session), state(other)) == []


@pytest.mark.parametrize("preset", ["llama", "qwen3_next", "gemma3"])
def test_tensors_without_their_flags_are_told_by_the_metadata(adapter, preset: str) -> None:  # type: ignore[no-untyped-def]
    engine = opened(adapter, preset=preset, rebuild="tensors")
    session = engine.open_session({})
    forwarded(session)
    handle, before = session.snapshot(), state(session)

    session.restore(handle)

    assert "meta" in differing(before, state(session))


def test_crop_leaves_the_recurrent_state_in_the_future(adapter) -> None:  # type: ignore[no-untyped-def]
    """A defect of the library, found by R01; when this fails it has been mended there."""
    session = opened(adapter, preset="qwen3_next", crop="forced").open_session({})
    forwarded(session)
    before = state(session)
    session.record()
    session.decode(5, {})

    session.rollback(5)

    left = differing(before, state(session))
    assert {name for name in left if "recurrent" in name} == {f"layer{index}.recurrent" for index in range(3)}
    assert not [name for name in left if name.endswith((".conv", ".k", ".v"))]


@pytest.mark.parametrize("preset", ["llama", "lfm2", "gemma3"])
def test_crop_is_right_without_recurrent_state(adapter, preset: str) -> None:  # type: ignore[no-untyped-def]
    engine = opened(adapter, preset=preset)
    session, other = engine.open_session({}), engine.open_session({})
    forwarded(session)
    forwarded(other)
    session.record()
    session.decode(5, {})

    session.rollback(5)
    extended(session)
    extended(other)

    assert differing(state(session), state(other)) == []


@pytest.mark.parametrize("preset", MODELS)
def test_a_template_of_children_imports_the_files_of_the_tiny_models(adapter, preset: str) -> None:  # type: ignore[no-untyped-def]
    from harness.adapters.transformers_adapter import TransformersOptions, found

    made = found(TransformersOptions(preset=preset)).module

    assert type(made).__module__ in adapter.imports()


@pytest.mark.parametrize("preset", MODELS)
def test_that_a_session_is_recorded_is_not_seen_in_its_state(adapter, preset: str) -> None:  # type: ignore[no-untyped-def]
    engine = opened(adapter, preset=preset, crop="forced")
    session, other = engine.open_session({}), engine.open_session({})
    forwarded(session)
    forwarded(other)
    session.record()
    before = state(session)
    for one in (session, other):
        extended(one)

    assert differing(before, state(session)) != []
    assert differing(state(session), state(other)) == []


@pytest.mark.parametrize("preset", ["llama", "lfm2", "gemma3"])
def test_recording_goes_on_after_a_rollback(adapter, preset: str) -> None:  # type: ignore[no-untyped-def]
    engine = opened(adapter, preset=preset)
    session, other = engine.open_session({}), engine.open_session({})
    forwarded(session)
    forwarded(other)
    session.record()
    session.decode(5, {})
    session.rollback(5)
    extended(session)

    session.rollback(len(MORE))
    for one in (session, other):
        extended(one, MORE[:7])

    assert differing(state(session), state(other)) == []


@pytest.mark.parametrize("taken", [1, 3, 5])
def test_a_rollback_takes_the_generator_back(adapter, taken: int) -> None:  # type: ignore[no-untyped-def]
    drawn = {"temperature_ppm": 1_000_000, "seed": 7}
    engine = opened(adapter, preset="llama")
    session, other = engine.open_session({}), engine.open_session({})
    for one, count in ((session, 5), (other, 5 - taken)):
        forwarded(one)
        one.record()
        if count:
            one.decode(count, drawn)

    session.rollback(taken)
    for one in (session, other):
        extended(one, MORE[:7])
        one.decode(3, drawn)

    assert differing(state(session), state(other)) == []


def test_more_than_a_window_is_recorded_and_taken_back(adapter) -> None:  # type: ignore[no-untyped-def]
    engine = opened(adapter, preset="gemma3")
    session, other = engine.open_session({}), engine.open_session({})
    forwarded(session)
    forwarded(other)
    session.record()
    extended(session, MORE * 8)

    session.rollback(8 * len(MORE))
    extended(session)
    extended(other)

    assert differing(state(session), state(other)) == []


def test_a_window_that_was_not_recorded_is_not_taken_back(adapter) -> None:  # type: ignore[no-untyped-def]
    session = opened(adapter, preset="gemma3").open_session({})
    forwarded(session)
    session.decode(5, {})
    before = state(session)

    with pytest.raises(RefusedError) as refused:
        session.rollback(5)

    assert refused.value.code == RefusalCode.STATE
    assert differing(before, state(session)) == []


@pytest.mark.parametrize(
    "options", [{"preset": "no_such"}, {"preset": "llama", "arch": "hybrid"}, {"k_type": "bf16"}, {"path": "no/such"}]
)
def test_what_cannot_be_had_is_refused_by_name(adapter, options: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RefusedError) as refused:
        opened(adapter, **options)

    assert refused.value.code == RefusalCode.UNSUPPORTED


def test_the_library_is_named_by_a_digest_and_nothing_is_private(tmp_path: Path) -> None:
    with EngineHost(
        Target(name="t", adapter="transformers", device="cpu", options={"preset": "tiny"}), tmp_path
    ) as host:
        facts = host.start()

    assert len(str(facts.identity["library.transformers"])) == 64
    assert facts.identity["families"] == "conv,kv,recurrent,window"
    assert (facts.engine, facts.model) == ("transformers", "tiny")


def test_what_a_template_imports_starts_no_thread(forked: Forking | None, tmp_path: Path) -> None:
    assert threads_of_imports(forked, ENGINE, tmp_path) <= threads_of_numpy()


def test_one_small_scenario_runs_and_passes(tmp_path: Path) -> None:
    assert cell_outcome(tmp_path, "transformers", "A03[scale=16,arch=attention]") == "pass"


def test_the_matrix_of_element_types_is_refused_since_its_cache_has_no_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["kv", "--target", "transformers", "--out", str(tmp_path)]) == ExitCode.NOTHING
    assert "transformers: its cache is an object of a library, not pages" in capsys.readouterr().err


def test_the_memory_plan_of_the_embedded_engine_is_not_told_of_this_one(adapter) -> None:  # type: ignore[no-untyped-def]
    assert adapter.plan({"preset": "tiny"}, memory=1 << 30, context=1024) == {}
    assert adapter.plan({"preset": "llama"}, memory=1 << 30, context=1024) == {}


@pytest.mark.parametrize(
    ("options", "unmet"),
    [
        ({"arch": "attention"}, set()),
        pytest.param({}, set(), marks=pytest.mark.lengthy),
        pytest.param({"arch": "hybrid"}, set(), marks=pytest.mark.lengthy),
        pytest.param({"crop": "forced"}, {"capabilities"}, marks=pytest.mark.lengthy),
    ],
)
def test_every_obligation_is_met_but_by_a_forced_crop(options: dict[str, str], unmet: set[str], tmp_path: Path) -> None:
    target = Target(name="transformers", adapter="transformers", device="cpu", options={"preset": "tiny", **options})
    with EngineHost(target, tmp_path, HostOptions(limits=Limits(call_s=120))) as opened:
        found = conform(opened, OBLIGATIONS)

    assert {one.obligation for one in found if one.outcome is not Outcome.PASS} == {"archive"} | unmet
    assert (Capability.ROLLBACK in opened.capabilities) is (options.get("arch") != "hybrid")


@pytest.mark.parametrize("preset", ["qwen3_next", "mamba2"])
def test_what_the_library_calls_uncroppable_is_not_recorded(adapter, preset: str) -> None:  # type: ignore[no-untyped-def]
    session = opened(adapter, preset=preset).open_session({})
    forwarded(session)
    before = state(session)

    with pytest.raises(RefusedError) as refused:
        session.record()

    assert refused.value.code == RefusalCode.UNSUPPORTED
    assert differing(before, state(session)) == []
