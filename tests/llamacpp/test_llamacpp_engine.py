"""llama.cpp in process, where its package is installed: every obligation, the smallest scenario, its own refusals."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness import cli
from harness.adapters.llama_library import DEFAULTS, LAYOUTS, fitting_layout, packaged
from harness.adapters.llama_options import ARCHITECTURES, variant
from harness.engines.conformance import conform
from harness.engines.host import EngineHost, HostOptions
from harness.engines.interface import Options
from harness.engines.obligations import OBLIGATIONS
from harness.engines.process import Limits
from harness.errors import EngineCrashedError, RefusedError
from harness.model.target import Target
from harness.model.values import Capability, Outcome

pytestmark = pytest.mark.usefixtures("plain_aborts", "forked")
ENGINE = "llamacpp"
MISSING = [name for name in ("xllamacpp", "gguf", "cffi") if find_spec(name) is None]
INSTALLED = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (extra llamacpp)")
SCENARIO = Path(__file__).parents[2] / "scenarios" / "A" / "A61-image-goes-on.yaml"
IDS = list(range(8, 108))


def target(**options: str | int | bool) -> Target:
    return Target(name="llamacpp", adapter="llamacpp", device="cpu", options={"preset": "tiny", **options})


def host(folder: Path, **options: str | int | bool) -> EngineHost:
    return EngineHost(target(**options), folder, HostOptions(limits=Limits(call_s=120)))


def defaults(layout: str, **changed: float) -> bytes:
    raw = bytearray(512)
    for name, value in {**DEFAULTS, **changed}.items():
        offset, kind = LAYOUTS[layout][name]
        struct.pack_into(f"<{kind}", raw, offset, value)
    return bytes(raw)


NO_ARCHIVE = [("archive", "not declared: archive")]
"""The one obligation that does not concern this engine."""


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_a_layout_is_known_by_its_defaults(name: str) -> None:
    assert fitting_layout(defaults(name)) == name


@pytest.mark.parametrize("changed", [{"n_ctx": 513}, {"offload_kqv": False}, {"type_v": 0}, {"cb_eval": 1}])
def test_a_layout_with_any_other_default_is_refused(changed: dict[str, float]) -> None:
    with pytest.raises(RefusedError, match="no layout"):
        fitting_layout(defaults("b11549", **changed))


@INSTALLED
@pytest.mark.parametrize(
    "arch",
    [
        "recurrent",
        *(pytest.param(arch, marks=pytest.mark.lengthy) for arch in ("attention", "hybrid", "sliding", "lfm2")),
    ],
)
def test_every_obligation_is_met(arch: str, tmp_path: Path) -> None:
    with host(tmp_path, arch=arch) as opened:
        found = conform(opened, OBLIGATIONS)

    assert [(one.obligation, one.reason) for one in found if one.outcome is not Outcome.PASS] == NO_ARCHIVE
    assert len(found) == len(OBLIGATIONS)


@INSTALLED
@pytest.mark.parametrize(
    ("arch", "snapshots", "declared"),
    [
        ("llama", 0, True),
        ("gemma3", 0, True),
        ("qwen35", 0, False),
        ("mamba2", 0, False),
        ("lfm2", 0, False),
        ("qwen35", 8, True),
        ("mamba2", 8, False),  # asked for; the library gives a purely recurrent memory none
    ],
)
def test_a_rollback_is_declared_where_the_model_that_was_loaded_keeps_its_past(
    arch: str, snapshots: int, declared: bool, tmp_path: Path
) -> None:
    from harness.adapters import tiny_gguf

    tiny_gguf.write(arch, tmp_path / "some.gguf", seed=0)
    kind = next(name for name, made in ARCHITECTURES.items() if made == arch)
    with host(tmp_path, model=str(tmp_path / "some.gguf"), arch=kind, n_rs_seq=snapshots) as opened:
        opened.ensure()

    assert (Capability.ROLLBACK in opened.capabilities) is declared


@INSTALLED
@pytest.mark.lengthy
def test_a_rollback_that_is_declared_and_wrong_is_found(tmp_path: Path) -> None:
    """A defect of the library, found by R01 too (FOUND): it returns true, and the recurrent state is another one."""
    with host(tmp_path, arch="hybrid", n_rs_seq=8) as opened:
        found = conform(opened, OBLIGATIONS)

    reason = next(one.reason for one in found if one.obligation == "capabilities")
    assert "after rollback(3) part" in reason


@INSTALLED
@pytest.mark.parametrize("options", [{}, {"arch": "hybrid"}])
def test_a_scenario_that_takes_back_what_is_overwritten_is_not_supported(
    options: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether the target names the hybrid model or the cell does."""
    more = [word for name, value in options.items() for word in ("--option", f"{name}={value}")]
    cell = "R02[scale=16,arch=hybrid]"
    cli.main(["run", cell, "--target", "llamacpp", *more, "--out", str(tmp_path)])

    told = next(line for line in capsys.readouterr().out.splitlines() if line.lstrip().startswith(cell))
    assert told.split()[1:4] == ["not_supported", "0/0", "rollback:"]  # and who says so


@INSTALLED
@pytest.mark.lengthy
@pytest.mark.parametrize(("kv", "flash"), [("split", False), ("unified", True)])
def test_sessions_that_share_a_context_meet_them_too(kv: str, flash: bool, tmp_path: Path) -> None:
    with host(tmp_path, kv=kv, flash_attn=flash, k_type="q8_0" if flash else "f16") as opened:
        found = conform(opened, OBLIGATIONS)

    assert [(one.obligation, one.reason) for one in found if one.outcome is not Outcome.PASS] == NO_ARCHIVE


@INSTALLED
def test_the_smallest_scenario_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["run", str(SCENARIO), "--target", "llamacpp", "--quiet", "--out", str(tmp_path)])

    assert code == 0, capsys.readouterr()


@INSTALLED
def test_a_state_that_llama_refuses_is_a_refusal_with_the_reason_of_its_log(tmp_path: Path) -> None:
    with host(tmp_path) as opened:
        wide = opened.open_engine({"k_type": "f32"})
        one = wide.open_session({})
        one.begin(IDS, cache=False)
        one.prefill(len(IDS))
        image = one.export_image().value
        narrow = opened.open_engine({"k_type": "f16"})
        with pytest.raises(RefusedError) as caught:
            narrow.open_session({}).import_image(image)

    assert caught.value.code == "kv_mode"
    assert "mismatched key type" in caught.value.message


@INSTALLED
def test_a_cut_sequence_file_ends_the_process_and_the_harness_says_how(tmp_path: Path) -> None:
    with host(tmp_path, image="file") as opened:
        session = opened.open_engine({}).open_session({})
        session.begin(IDS, cache=False)
        session.prefill(len(IDS))
        image = session.export_image().value
        with pytest.raises(EngineCrashedError) as caught:
            session.import_image(image[: len(image) * 9 // 10])

    assert caught.value.status == -6


@pytest.fixture(scope="module")
def refusing(forked: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineHost]:
    """A host whose engines are all refused."""
    with host(tmp_path_factory.mktemp("refusing")) as opened:
        opened.ensure()
        yield opened


@INSTALLED
@pytest.mark.parametrize(
    "options",
    [{"nothing": 1}, {"arch": "moe"}, {"k_type": "f8"}, {"kv": "some"}, {"v_type": "q8_0"}, {"model": "none"}],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, str | int], refusing: EngineHost) -> None:
    with pytest.raises(RefusedError) as caught:
        refusing.open_engine(options)

    assert caught.value.code == "unsupported"
    assert refusing.children == 1


@INSTALLED
def test_the_tiny_models_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    from harness.adapters import tiny_gguf

    for arch in tiny_gguf.ARCHITECTURES:
        for name in ("one", "two"):
            tiny_gguf.write(arch, tmp_path / name, seed=3)
        tiny_gguf.write(arch, tmp_path / "other", seed=4)
        one, two, other = ((tmp_path / name).read_bytes() for name in ("one", "two", "other"))
        assert one == two
        assert one != other


def test_options_that_change_what_is_claimed_are_in_the_name_of_the_model() -> None:
    plain: Options = {"flash_attn": False, "k_type": "f16"}

    assert variant("tiny", {"flash_attn": False, "k_type": "f16", "threads": 2}, plain) == "tiny"
    assert variant("tiny", {"flash_attn": True, "k_type": "q8_0"}, plain) == "tiny.flash_attn_true.k_type_q8_0"


@INSTALLED
def test_a_target_has_builds_only_where_it_names_another_library(tmp_path: Path) -> None:
    with host(tmp_path / "one") as one, host(tmp_path / "two", other_library=str(packaged())) as two:
        told = [opened.start().capabilities for opened in (one, two)]

    assert [Capability.BUILDS in found for found in told] == [False, True]


@INSTALLED
def test_another_build_that_nobody_named_is_refused(tmp_path: Path) -> None:
    with host(tmp_path) as opened:
        opened.start()
        with pytest.raises(RefusedError, match="other_library") as refused:
            opened.open_engine({"build": "other"})

    assert refused.value.code == "unsupported"


@INSTALLED
@pytest.mark.lengthy
def test_the_same_library_twice_is_no_other_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "R11", "--suite", "engines", "--target", "llamacpp", "--quiet", "--out", str(tmp_path)]

    code = cli.main([*words, "--option", f"other_library={packaged()}"])

    assert code != 0
    assert "across" in capsys.readouterr().out
