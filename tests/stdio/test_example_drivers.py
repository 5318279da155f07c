"""The example drivers meet every obligation; the one in C also under the sanitizers."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import cli
from harness.engines.conformance import conform
from harness.engines.host import EngineHost, HostOptions
from harness.engines.obligations import OBLIGATIONS
from harness.engines.process import Limits
from harness.model.target import Target
from harness.model.values import Outcome

EXAMPLES = Path(__file__).parents[2] / "examples" / "stdio"
CC = shutil.which("cc")
RUSTC = shutil.which("rustc") or shutil.which("rustc", path=str(Path.home() / ".cargo" / "bin"))
LEFT = ("not declared: archive",)
"""What the driver in Rust leaves out."""
NO_CC = pytest.mark.skipif(CC is None, reason="no C compiler here")
SCENARIO = Path(__file__).parents[2] / "scenarios" / "A" / "A61-image-goes-on.yaml"


def built_c(folder: Path, *flags: str) -> Path:
    made = folder / "driver"
    done = subprocess.run(
        [
            str(CC),
            "-std=c11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            *flags,
            "-o",
            str(made),
            str(EXAMPLES / "driver.c"),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode and flags:
        pytest.skip(f"no sanitizer here: {done.stderr.splitlines()[-1:]}")
    assert not done.returncode, done.stderr
    return made


def built_rust(folder: Path) -> Path:
    if RUSTC is None:
        pytest.skip("no Rust compiler here")
    made = folder / "driver"
    arguments = ["--edition", "2021", "-O", "-o", str(made), str(EXAMPLES / "driver.rs")]
    done = subprocess.run([RUSTC, *arguments], check=False, capture_output=True, text=True, cwd=folder)
    assert not done.returncode, done.stderr
    return made


def not_passed(command: Path, folder: Path) -> list[tuple[str, str]]:
    target = Target(name="driver", adapter="stdio", options={"command": str(command), "patience_s": 60})
    with EngineHost(target, folder, HostOptions(limits=Limits(call_s=90))) as host:
        found = conform(host, OBLIGATIONS)
    assert len(found) == len(OBLIGATIONS)
    return [(one.obligation, one.reason) for one in found if one.outcome is not Outcome.PASS and one.reason not in LEFT]


@NO_CC
@pytest.mark.parametrize("flags", [(), ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")])
def test_the_driver_in_c_meets_every_obligation(flags: tuple[str, ...], tmp_path: Path) -> None:
    assert not_passed(built_c(tmp_path, *flags), tmp_path) == []


def test_the_driver_in_rust_meets_every_obligation(tmp_path: Path) -> None:
    assert not_passed(built_rust(tmp_path), tmp_path) == []


@NO_CC
@pytest.mark.parametrize(
    ("was", "becomes", "obligation"),
    [
        ("memcpy(k, from->k, from->position * 8);", "(void)k;", "complete"),
        ("memcpy(s->state.recurrent, image + HEAD, 16);", "", "complete"),
        ('refusal = "format";\n    else {', ";\n    else {", "refusals"),
        ("centre = bins / 2 - 1;", "centre = bins / 2;", "archive"),
        ("most = half((float)(symbol", "most = ((float)(symbol", "archive"),
        ("memcpy(s->state.v, rows + page / 2, page / 2);", "", "archive"),
        ("if (!refusal && at != bytes) refusal", "if (0) refusal", "archive"),
        ("s->pending = 1;", "s->pending = 1; s->k[0] += 1;", "rows"),
        ('s->answered = refusal ? refusal : "";', 's->answered = "";', "capabilities"),
        ("    s->busy = 0;\n", "    s->busy = 0; s->state.recurrent[0] ^= 1;\n", "capabilities"),
    ],
)
def test_a_driver_with_one_line_wrong_is_seen(was: str, becomes: str, obligation: str, tmp_path: Path) -> None:
    text = (EXAMPLES / "driver.c").read_text()
    assert was in text
    changed = tmp_path / "driver.c"
    changed.write_text(text.replace(was, becomes))
    made = tmp_path / "driver"
    subprocess.run([str(CC), "-std=c11", "-O1", "-o", str(made), str(changed)], check=True, capture_output=True)

    assert obligation in [name for name, _ in not_passed(made, tmp_path)]


@NO_CC
def test_a_scenario_runs_on_the_driver_in_c(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = built_c(tmp_path)

    words = ["run", str(SCENARIO), "--target", "stdio", "--option", f"command={made}", "--quiet"]
    code = cli.main([*words, "--out", str(tmp_path / "runs")])

    assert code == 0, capsys.readouterr()
    written = [path.read_text() for path in (tmp_path / "runs").rglob("*.json*")]
    assert written
    assert not any(re.search(r"/driver\b", text) for text in written)
