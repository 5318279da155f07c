"""Dividing memory: the workspace first, snapshots get the rest, and from which context on none fits."""

from __future__ import annotations

import pytest
import torch

from harness.adapters.torch_adapter import TorchAdapter
from harness.engines.interface import Planning, Suggesting
from harness.torch_engine import EngineOptions, FixedPart, RowStream, StateLayout, TorchEngine
from harness.torch_engine.errors import OptionError
from harness.torch_engine.planning import engine_workspace, main, measured_workspace, plan_engine, plan_memory
from tests.torch_engine.support import tokens

GIB = 1 << 30
F32, F16 = torch.float32, torch.float16
MIB = 1 << 20


def fixed(name: str, family: str, *shape: int) -> FixedPart:
    tensor = torch.empty(shape, dtype=F32, device="meta")
    return FixedPart(name=name, family=family, layer=-1, element_type="f32", tensor=tensor)


def rows(name: str, family: str, count: int, width: int, dtype: torch.dtype = F32) -> RowStream:
    tensor = torch.empty((count, width), dtype=dtype, device="meta")
    kind = {F32: "f32", F16: "f16"}[dtype]
    return RowStream(name=name, family=family, layer=-1, element_type=kind, tensor=tensor, rows=count)


def hybrid(count: int) -> StateLayout:
    """A published geometry: 12 attention layers with an index, 36 gated-delta ones, one embedding conv."""
    recurrent = [fixed(f"{i}.ssm", "recurrent", 128, 128, 48) for i in range(36)]
    conv = [fixed(f"{i}.conv", "conv", 3, 10240) for i in range(36)]
    kv = [rows(f"{i}.{part}", "kv", count, 512, F16) for i in range(12) for part in "kv"]
    raw = [rows(f"{i}.raw", "index", count, 128) for i in range(12)]
    pooled = [rows(f"{i}.pooled", "index", count // 4, 128) for i in range(12)]
    return StateLayout(fixed=(*recurrent, *conv, fixed("ple", "conv", 9, 10240)), rows=(*kv, *raw, *pooled))


@pytest.mark.parametrize(("context", "size"), [(65_536, 2_231_967_744), (131_072, 4_345_896_960)])
def test_a_prefix_of_a_known_geometry_has_its_known_size(context: int, size: int) -> None:
    assert plan_memory(total=1 << 40, context=context, layout_at=hybrid).prefix == size


def test_the_workspace_is_reserved_first_and_snapshots_get_the_rest() -> None:
    plan = plan_memory(total=20_000_000_000, context=65_536, layout_at=hybrid, weights=10 << 30, workspace=1 << 30)

    assert plan.snapshots == 20_000_000_000 - plan.weights - plan.workspace - plan.state
    assert (plan.prefixes, plan.fits) == (2, True)


def test_a_plan_says_from_which_context_on_prefixes_no_longer_fit() -> None:
    def planned(context: int) -> bool:
        return plan_memory(total=16 << 30, context=context, layout_at=hybrid, weights=8 << 30, workspace=1 << 30).fits

    most = plan_memory(total=16 << 30, context=1024, layout_at=hybrid, weights=8 << 30, workspace=1 << 30).fits_up_to

    assert planned(most)
    assert not planned(most + 1)


def test_where_not_even_the_state_fits_nothing_is_left() -> None:
    plan = plan_memory(total=1 << 30, context=65_536, layout_at=hybrid, workspace=1 << 30)

    assert (plan.snapshots, plan.fits, plan.fits_up_to) == (0, False, 0)


def test_a_plan_of_less_than_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="bytes from 0 on"):
        plan_memory(total=-1, context=1, layout_at=hybrid)


def test_a_workspace_is_what_tensors_hold_at_once() -> None:
    def work() -> None:
        first = torch.zeros(MIB, dtype=torch.uint8)
        del first
        second = torch.zeros(2 * MIB, dtype=torch.uint8)
        third = second[: MIB // 2].clone()
        assert third.numel() == MIB // 2

    assert measured_workspace(work) == 2 * MIB + MIB // 2


def test_a_prefill_of_more_rows_takes_more_and_leaves_the_engine_as_it_was() -> None:
    engine = TorchEngine(EngineOptions(max_seq_len=4096))
    sizes = [engine_workspace(engine, count) for count in (256, 1024, 4096)]

    assert sizes[0] < sizes[1] < sizes[2]
    assert engine.cache.counters()["allocated_bytes"] == 0


def test_an_engine_with_the_planned_budget_keeps_a_prefix_just_where_the_plan_says() -> None:
    probe = TorchEngine(EngineOptions(max_seq_len=1024))
    needed = plan_engine(probe, 0)
    total = needed.weights + needed.workspace + needed.state + needed.prefix + 4096  # metadata and alignment
    for context, fits in ((1024, True), (1536, False)):
        engine = TorchEngine(EngineOptions(max_seq_len=context, chunk=context - 64, snapshots="whole"))
        plan = plan_engine(engine, total)
        engine.cache.resize(byte_budget=plan.snapshots, entry_budget=8)
        session = engine.open_session()
        session.begin(tokens(1, context), use_cache=True)
        session.prefill(context)

        assert session.commit() == int(fits)
        assert plan.fits is fits
        assert (plan.fits_up_to >= context) is fits


def test_the_command_prints_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--memory", "100000000", "--context", "8192", "--rows", "256"])
    printed = capsys.readouterr().out

    assert "left for snapshots" in printed
    assert "prefixes fit up to" in printed


def test_the_adapter_plans_each_model_that_it_suggests() -> None:
    """What `statecert doctor` shows of it."""
    adapter = TorchAdapter()
    assert isinstance(adapter, Planning)
    assert isinstance(adapter, Suggesting)
    (_, tiny, _), (_, small, _) = adapter.targets()
    roomy = adapter.plan(tiny, memory=GIB, context=8192)
    tight = adapter.plan(tiny, memory=24_000_000, context=8192)

    parts = ("weights", "workspace", "state", "snapshots")
    assert sum(roomy[name] for name in parts) == roomy["total"] == GIB
    assert (tight["prefixes"], tight["snapshots"]) == (0, 0)
    assert 0 < tight["fits_up_to"] < 8192 < roomy["fits_up_to"]
    assert roomy["weights"] < adapter.plan(small, memory=GIB, context=64)["weights"]
