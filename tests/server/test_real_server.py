"""llama-server, where its package is installed: a process of its own, bound to the adapter, and what it gets wrong."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness import cli
from harness.adapters.server_adapter import ServerAdapter
from harness.adapters.server_http import Client
from harness.adapters.server_session import ServerSession
from harness.deriving.judge import judge
from harness.deriving.product import expand
from harness.engines.conformance import conform
from harness.engines.host import EngineHost
from harness.engines.obligations import OBLIGATIONS
from harness.errors import EngineCrashedError, EngineError
from harness.model.target import Target
from harness.model.values import Outcome
from harness.pipeline import available_scenarios, bench, read_bytes, run_one
from harness.wire.evidence_doc import read_evidence

MISSING = [name for name in ("xllamacpp", "gguf") if find_spec(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (extra llamacpp)"),
    pytest.mark.usefixtures("plain_aborts", "forked"),
]
ENGINE = "server"
SCENARIOS = Path(__file__).parents[2] / "scenarios"
IDS = list(range(8, 108))


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"arch": "hybrid"}, marks=pytest.mark.lengthy),
        pytest.param({"dialect": "llama_openai"}, marks=pytest.mark.lengthy),
        pytest.param({"stream": True}, marks=pytest.mark.lengthy),
        pytest.param({"dialect": "llama_openai", "endpoint": "chat"}, marks=pytest.mark.lengthy),
    ],
)
def test_every_obligation_is_met(options: dict[str, str | bool], tmp_path: Path) -> None:
    with EngineHost(Target(name="s", adapter="server", options={"preset": "tiny", **options}), tmp_path) as host:
        found = conform(host, OBLIGATIONS)

    assert [(one.obligation, one.reason) for one in found if one.outcome is Outcome.FAIL] == []
    assert sum(one.outcome is Outcome.PASS for one in found) == 9


def test_the_smallest_scenario_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = str(SCENARIOS / "A" / "A62-moved-and-extended.yaml")
    code = cli.main(["run", scenario, "--target", "server", "--quiet", "--json", "--out", str(tmp_path)])

    assert code == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["outcome"] == "pass"


def test_a_package_beside_is_named_by_its_version_and_its_own_library() -> None:
    import xllamacpp

    folder = Path(str(xllamacpp.__file__)).parents[1]
    engine = ServerAdapter().open({"package": str(folder)})
    told = engine.identity()
    engine.close()
    plain = ServerAdapter().open({})
    installed = plain.identity()
    plain.close()

    assert told.model == f"tiny.package_{installed.version}"
    assert told.facts["build_sha256"] == installed.facts["build_sha256"] != ""


def run_r13(mutant: str, folder: Path) -> dict[str, str]:
    plan = expand(available_scenarios()["R13"], [16], suite="engines", where="R13")
    group = {"group": "harness.mutants"} if mutant else {}
    target = Target(name="s", adapter=mutant or "server", options={"preset": "tiny"}, **group)
    with bench(target, folder) as up:
        path, _ = run_one(up, plan)
    found = judge(read_evidence(read_bytes(path), path.name)).decision.cells
    return {check.id: check.reason for cell in found for check in cell.checks if check.outcome is not Outcome.PASS}


@pytest.mark.lengthy
def test_a_restored_slot_is_reused_by_whoever_asks_again(tmp_path: Path) -> None:
    assert run_r13("", tmp_path) == {}


@pytest.mark.lengthy
def test_a_restored_slot_that_is_computed_again_fails_by_its_counts(tmp_path: Path) -> None:
    found = run_r13("K04.server-restore-unused", tmp_path)

    assert found == {"restored-reused": "nothing_spared", "restored-answers": "restore_not_witnessed"}


def test_the_server_is_bound_to_its_nonce_and_ends_with_its_engine() -> None:
    engine = ServerAdapter().open({})
    assert engine.own is not None
    process = engine.own._process
    stranger = Client(f"http://{engine.client._host}:{engine.client._port}", key="x", ended=lambda: None)
    with pytest.raises(EngineError, match="NotTheServer"):
        stranger.post("/completion", {"prompt": IDS, "n_predict": 1})
    with pytest.raises(EngineError, match="another one"):
        engine.own._require_own("own-of-somebody-else")
    engine.close()

    assert process.poll() is not None
    assert not engine.own.folder.exists()


SCRIPT = """
import argparse, signal, xllamacpp
parser = argparse.ArgumentParser()
for name in ("model", "alias", "key", "slots"):
    parser.add_argument(f"--{name}")
for name in ("port", "parallel", "ctx"):
    parser.add_argument(f"--{name}", type=int)
told = parser.parse_args()
params = xllamacpp.CommonParams()
params.model.path, params.api_keys, params.slot_save_path = told.model, [told.key], told.slots
params.model_alias = {told.alias} if isinstance(params.model_alias, set) else told.alias
params.n_ctx, params.n_parallel, params.cpuparams.n_threads = told.ctx, told.parallel, 1
params.hostnames, params.port, params.warmup, params.cache_ram_mib = ["127.0.0.1"], told.port, False, 0
params.endpoint_slots = params.endpoint_metrics = params.endpoint_props = True
server = xllamacpp.Server(params)
signal.pause()
"""
WORDS = "--model {model} --alias {alias} --key {key} --slots {slots} --port {port} --parallel {parallel} --ctx {n_ctx}"


def command(folder: Path) -> str:
    """A program of its own that serves llama.cpp; as far as its digest goes, another build."""
    script = folder / "other.py"
    script.write_text(SCRIPT, encoding="utf-8")
    return f"{sys.executable} {script} {WORDS}"


def test_a_server_of_a_command_serves_and_is_another_build(tmp_path: Path) -> None:
    own, other = ServerAdapter().open({}), ServerAdapter().open({"command": command(tmp_path)})
    session = other.open_session({})
    session.begin(IDS, cache=False)
    session.prefill(len(IDS))
    tokens = session.decode(3, {})
    told = [one.identity() for one in (own, other)]
    own.close()
    other.close()

    assert len(tokens) == 3
    assert told[0].model_digest == told[1].model_digest
    assert told[0].facts["build_sha256"] != told[1].facts["build_sha256"]
    assert told[1].facts["forwarded_by"] == "counters"


@pytest.mark.lengthy
def test_what_a_server_holds_of_another_build_is_not_comparable(tmp_path: Path) -> None:
    plan = expand(available_scenarios()["R11"], [16], suite="engines", where="R11")
    options: dict[str, str | int | bool] = {"other_command": command(tmp_path)}
    with bench(Target(name="t", adapter="server", device="cpu", options=options), tmp_path) as up:
        path, _ = run_one(up, plan)
    cells = judge(read_evidence(read_bytes(path), path.name)).decision.cells
    found = {one.id: one for one in cells[0].checks}

    assert (found["across"].outcome, found["across"].reason) == (Outcome.INCONCLUSIVE, "not_comparable")
    assert found["others-go-on"].outcome is Outcome.PASS


def test_a_cut_slot_file_ends_the_server_and_the_harness_says_how() -> None:
    engine = ServerAdapter().open({})
    session = engine.open_session({})
    assert isinstance(session, ServerSession)
    session.begin(IDS, cache=False)
    session.prefill(len(IDS))
    image = bytes(session.export_image(1 << 30))
    with pytest.raises(EngineCrashedError) as caught:
        session.import_image(image[: len(image) // 2])
    engine.close()

    assert caught.value.status == -6
