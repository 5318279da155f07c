"""Sessions of the real engines, in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.adapters.torch_adapter import TorchAdapter, TorchAdapterEngine
from harness.adapters.torch_session import TorchAdapterSession
from harness.engines.host import EngineHost
from harness.model.target import Target
from tests.fakes.forked import Forking

PROMPT = [8 + (index * 37) % 400 for index in range(150)]
MORE = [8 + (index * 53) % 400 for index in range(20)]


def opened(adapter: TorchAdapter, **options: Any) -> TorchAdapterEngine:
    return adapter.open({"device": "cpu", "chunk": 64, "max_seq_len": 512, **options})


def forwarded(session: TorchAdapterSession, prompt: Sequence[int] = PROMPT, *, cache: bool = False) -> None:
    for end in session.begin(prompt, cache=cache).schedule:
        session.prefill(end)
    if cache:
        session.commit()


def extended(session: TorchAdapterSession, tokens: Sequence[int] = MORE) -> None:
    for end in session.extend(tokens).schedule:
        session.prefill(end)


def state(session: TorchAdapterSession) -> Mapping[str, bytes]:
    return {part.name: bytes(part.data) for part in session.parts()}


def differing(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> list[str]:
    return [name for name in one if one[name] != other[name]]


def cell_outcome(folder: Path, adapter: str, cell: str, **options: str) -> str:
    """Run one cell as a user does, judge it, and return its outcome."""
    from harness.deriving.body import derive_body
    from harness.deriving.product import expand
    from harness.pipeline import available_scenarios, bench, read_bytes, run_one
    from harness.wire.evidence_doc import read_evidence

    scenario = available_scenarios()[cell.partition("[")[0]]
    plan = expand(scenario, [16], suite="default", selected=[cell], where=scenario.id)
    with bench(Target(name="t", adapter=adapter, device="cpu", options={"preset": "tiny", **options}), folder) as up:
        path, _ = run_one(up, plan)
    body: Any = derive_body(read_evidence(read_bytes(path), path.name))
    return next(str(one["outcome"]) for one in body["cells"] if one["id"] == cell)


def threads_of_imports(forked: Forking | None, adapter: str, folder: Path) -> int:
    """Return how many threads the process has that children of an engine are forked of."""
    if forked is None:
        pytest.skip("children are forked on Linux only")
    with EngineHost(Target(name="t", adapter=adapter, device="cpu"), folder) as host:
        host.ensure()
        return forked.threads()
