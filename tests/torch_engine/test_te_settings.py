"""Settings are set and read back, facts are strings, and the package is light to import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import harness.torch_engine
from harness.torch_engine import TorchEngine, devices
from harness.torch_engine.devices import best_device, device_facts, memory_available, open_device
from harness.torch_engine.errors import OptionError
from harness.torch_engine.options import EngineOptions, SessionOptions, session_options
from harness.torch_engine.settings import read_settings
from tests.torch_engine.support import open_session, options, shared_engine

PACKAGE = Path(harness.torch_engine.__file__).parent


def test_the_identity_reports_settings_as_they_hold() -> None:
    engine = TorchEngine(options(threads=1))

    identity = engine.identity()

    assert identity["setting.threads"] == torch.get_num_threads() == 1
    assert identity["setting.deterministic_algorithms"] == 1
    assert identity["setting.matmul_tf32"] == identity["setting.cudnn_tf32"] == 0
    assert identity["setting.sdpa_flash"] == identity["setting.sdpa_mem_efficient"] == 0
    assert identity["setting.env.CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_the_identity_holds_integers_and_strings_only() -> None:
    identity = shared_engine().identity()

    kinds = {type(value) for value in identity.values()}

    assert kinds == {int, str}
    assert {"name", "version", "model_digest", "k_type", "v_type", "device.arch"} <= identity.keys()


def test_a_setting_changed_behind_its_back_is_reported_and_threads_are_pinned_again() -> None:
    session = open_session()
    torch.set_num_threads(2)
    changed = read_settings()["threads"]

    session.begin([1, 2, 3], use_cache=False)
    session.prefill(3)

    assert changed == 2
    assert read_settings()["threads"] == 1


def test_facts_of_the_host_are_strings() -> None:
    facts = device_facts(torch.device("cpu"))

    assert facts["type"] == "cpu"
    assert facts["arch"]
    assert all(isinstance(value, str) and value for value in facts.values())


def test_a_fact_that_cannot_be_had_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(device: torch.device) -> str:
        raise OSError(str(device))

    monkeypatch.setattr(devices, "_name", absent)
    monkeypatch.setattr(devices, "_driver", lambda device: "")

    facts = device_facts(torch.device("cpu"))

    assert (facts["name"], facts["driver"]) == ("unknown", "unknown")


def test_facts_of_an_absent_device_do_not_raise() -> None:
    if torch.cuda.is_available():
        pytest.skip("this host has the device")

    facts = device_facts(torch.device("cuda"))

    assert facts["name"] == "unknown"


def test_the_best_device_can_be_opened() -> None:
    device = open_device(best_device())

    devices.synchronize(device)

    assert device.type in {"cpu", "cuda", "mps"}


def test_available_memory_is_a_positive_number_where_the_host_says() -> None:
    if not Path("/proc/meminfo").exists():
        pytest.skip("this host does not say")

    assert memory_available() > 0


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, harness.torch_engine; print('torch' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_the_package_imports_nothing_of_the_rest_of_the_harness_but_the_codec() -> None:
    """The codec stands aside as well and imports nothing of the harness (a contract of import-linter)."""
    foreign = [
        (path.name, line)
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.lstrip().startswith(("from harness", "import harness"))
        and not any(own in line for own in ("harness.torch_engine", "harness.codec"))
    ]

    assert foreign == []


def test_an_unknown_public_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        _ = harness.torch_engine.Nothing


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [("threads", "two", "an integer"), ("threads", True, "an integer"), ("preset", 3, "text")],
)
def test_an_option_of_another_kind_is_refused_by_name(name: str, value: object, kind: str) -> None:
    options = EngineOptions(**{name: value})  # type: ignore[arg-type] # of another kind

    with pytest.raises(OptionError, match=f"{name}: expected {kind}, found {value!r}"):
        options.validate()


def test_a_session_option_of_another_kind_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match="owed: expected true or false, found 1"):
        session_options(SessionOptions(chunk=64), {"owed": 1})
