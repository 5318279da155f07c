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

pytestmark = pytest.mark.usefixtures("forked")
ENGINE = "stdio"
EXAMPLES = Path(__file__).parents[2] / "examples" / "stdio"
CC = shutil.which("cc")
RUSTC = shutil.which("rustc") or shutil.which("rustc", path=str(Path.home() / ".cargo" / "bin"))
LINES = 210
"""Most lines with something in them, of a driver alone: what the author of an engine reads and changes."""
NO_CC = pytest.mark.skipif(CC is None, reason="no C compiler here")
SCENARIO = Path(__file__).parents[2] / "scenarios" / "A" / "A61-image-goes-on.yaml"


def built_c(folder: Path, *flags: str, sources: Path = EXAMPLES / "c") -> Path:
    made = folder / "driver"
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"] if sources == EXAMPLES / "c" else []
    files = [str(path) for path in sorted(sources.glob("*.c"))]
    done = subprocess.run(
        [str(CC), "-std=c11", "-O1", *warnings, *flags, "-o", str(made), *files],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode and flags:
        pytest.skip(f"no sanitizer here: {done.stderr.splitlines()[-1:]}")
    assert not done.returncode, done.stderr
    return made


def built_rust(folder: Path, *flags: str, sources: Path = EXAMPLES / "rust") -> Path:
    if RUSTC is None:
        pytest.skip("no Rust compiler here")
    made = folder / "driver"
    arguments = ["--edition", "2021", *flags, "-D", "warnings", "-o", str(made), str(sources / "driver.rs")]
    done = subprocess.run([RUSTC, *arguments], check=False, capture_output=True, text=True, cwd=folder)
    assert not done.returncode, done.stderr
    return made


def changed(language: str, file: str, was: str, becomes: str, folder: Path) -> Path:
    """The sources of a driver with one place changed."""
    made = folder / "sources"
    shutil.copytree(EXAMPLES / language, made)
    text = (made / file).read_text()
    assert was in text
    (made / file).write_text(text.replace(was, becomes))
    return made


def not_passed(command: Path, folder: Path, only: str = "") -> list[tuple[str, str]]:
    wanted = [one for one in OBLIGATIONS if only in ("", one.id)]
    target = Target(name="driver", adapter="stdio", options={"command": str(command), "patience_s": 60})
    with EngineHost(target, folder, HostOptions(limits=Limits(call_s=90))) as host:
        found = conform(host, wanted)
    assert len(found) == len(wanted) > 0
    return [(one.obligation, one.reason) for one in found if one.outcome is not Outcome.PASS]


@NO_CC
def test_the_driver_in_c_meets_every_obligation_under_the_sanitizers(tmp_path: Path) -> None:
    """Without them it is built and asked as docs/engines/stdio.md says: tests/howto/test_engine_pages.py."""
    made = built_c(tmp_path, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

    assert not_passed(made, tmp_path) == []


def test_the_driver_in_rust_meets_every_obligation_with_overflow_checked(tmp_path: Path) -> None:
    assert not_passed(built_rust(tmp_path), tmp_path) == []


@pytest.mark.parametrize("driver", ["c/driver.c", "rust/driver.rs"])
def test_a_driver_is_short_enough_to_be_read(driver: str) -> None:
    text = (EXAMPLES / driver).read_text()

    assert len([line for line in text.splitlines() if line.strip()]) < LINES


@NO_CC
@pytest.mark.parametrize(
    ("file", "was", "becomes", "obligation"),
    [
        ("toy.c", "memcpy(k, from->k, toy_row_bytes(from));", "(void)k;", "complete"),
        ("toy.c", "memcpy(s->recurrent, image + HEAD, 16);", "", "complete"),
        ("toy.c", '"TOYIMG01", 8)) return "format";', '"TOYIMG01", 8)) return NULL;', "refusals"),
        ("cachegen.c", "centre = bins / 2 - 1;", "centre = bins / 2;", "archive"),
        ("cachegen.c", "value = half((float)(symbol", "value = ((float)(symbol", "archive"),
        ("toy.c", "memcpy(s->v, page + rows, rows);", "", "archive"),
        ("cachegen.c", 'if (at != bytes) return "format";', "", "archive"),
        ("toy.c", "s->pending = 1;", "s->pending = 1; s->k[0] += 1;", "rows"),
        ("protocol.c", 'if (!middle_word) middle_word = "";', 'middle_word = "";', "capabilities"),
        (
            "driver.c",
            'if (is_busy(s)) return "state";',
            'if (is_busy(s)) { s->state.recurrent[0] ^= 1; return "state"; }',
            "capabilities",
        ),
        (
            "driver.c",
            "u64 copied = toy_copy(&s->state, saved());",
            "u64 copied = 0; toy_copy(&s->state, saved());",
            "counters",
        ),
    ],
)
def test_a_driver_with_one_line_wrong_is_seen(
    file: str, was: str, becomes: str, obligation: str, tmp_path: Path
) -> None:
    made = built_c(tmp_path, sources=changed("c", file, was, becomes, tmp_path))

    assert [name for name, _ in not_passed(made, tmp_path, obligation)] == [obligation]


@pytest.mark.parametrize(
    ("file", "was", "becomes", "obligation"),
    [
        ("toy.rs", "self.v.as_flattened_mut().copy_from_slice(&page[rows..]);", "", "archive"),
        (
            "toy.rs",
            "let state = entry.1.clone();",
            "let state = State { recurrent: [0; 4], ..entry.1.clone() };",
            "complete",
        ),
        ("driver.rs", "_ if session.middle.busy", '_ if session.middle.busy && op != "decode"', "capabilities"),
    ],
)
def test_a_driver_in_rust_with_one_line_wrong_is_seen(
    file: str, was: str, becomes: str, obligation: str, tmp_path: Path
) -> None:
    unoptimised = ("-C", "opt-level=0", "-C", "debug-assertions=off")  # what is wrong is wrong, in a fifth of the time
    made = built_rust(tmp_path, *unoptimised, sources=changed("rust", file, was, becomes, tmp_path))

    assert [name for name, _ in not_passed(made, tmp_path, obligation)] == [obligation]


@NO_CC
def test_a_scenario_runs_on_the_driver_in_c(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = built_c(tmp_path)

    words = ["run", str(SCENARIO), "--target", "stdio", "--option", f"command={made}", "--quiet"]
    code = cli.main([*words, "--out", str(tmp_path / "runs")])

    assert code == 0, capsys.readouterr()
    written = [path.read_text() for path in (tmp_path / "runs").rglob("*.json*")]
    assert written
    assert not any(re.search(r"/driver\b", text) for text in written)
