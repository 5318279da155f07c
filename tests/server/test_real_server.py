"""llama-server, where its package is installed: a process of its own, bound to the adapter, and what it gets wrong."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness import cli
from harness.adapters.server_adapter import ServerAdapter
from harness.adapters.server_http import Client
from harness.adapters.server_session import ServerSession
from harness.engines.conformance import conform
from harness.engines.host import EngineHost
from harness.engines.obligations import OBLIGATIONS
from harness.errors import EngineCrashedError, EngineError
from harness.model.target import Target
from harness.model.values import Outcome

MISSING = [name for name in ("xllamacpp", "gguf") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (extra llamacpp)")
SCENARIOS = Path(__file__).parents[2] / "scenarios"
IDS = list(range(8, 108))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"arch": "hybrid"},
        {"dialect": "llama_openai"},
        {"stream": True},
        {"dialect": "llama_openai", "endpoint": "chat"},
    ],
)
def test_every_obligation_is_met(options: dict[str, str | bool], tmp_path: Path) -> None:
    with EngineHost(Target(name="s", adapter="server", options={"preset": "tiny", **options}), tmp_path) as host:
        found = conform(host, OBLIGATIONS)

    assert [(one.obligation, one.reason) for one in found if one.outcome is Outcome.FAIL] == []
    assert sum(one.outcome is Outcome.PASS for one in found) == 8


def test_the_smallest_scenario_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = str(SCENARIOS / "A" / "A62-moved-and-extended.yaml")
    code = cli.main(["run", scenario, "--target", "server", "--quiet", "--json", "--out", str(tmp_path)])

    assert code == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["outcome"] == "pass"


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
