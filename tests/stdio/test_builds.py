"""Two builds of one driver: told apart by what they are, and what goes from one to the other is never called equal."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.adapters.stdio_adapter import StdioAdapter
from harness.deriving.judge import judge
from harness.deriving.product import expand
from harness.errors import RefusedError
from harness.model.decision import CheckResult
from harness.model.target import Target
from harness.model.values import Capability, DecisionAxis, Outcome
from harness.pipeline import available_scenarios, bench, read_bytes, run_one
from harness.wire.evidence_doc import read_evidence

SOURCES = Path(__file__).parents[2] / "examples" / "stdio" / "c"
COMPILER = shutil.which("cc")
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="no C compiler"),
    pytest.mark.usefixtures("forked"),
]
ENGINE = "stdio"
LATER_FORMAT = ("TOYIMG01", "TOYIMG02")
ROWS_ELSEWHERE = (
    "memcpy(s->k, image + HEAD + FIXED, toy_row_bytes(s));",
    "memcpy(s->k, image + HEAD + FIXED + toy_row_bytes(s), toy_row_bytes(s));",
)


def built(folder: Path, name: str, change: tuple[str, str] = ("", ""), *flags: str) -> str:
    """Compile the example, with one change; return its command."""
    sources, program = folder / f"{name}-sources", folder / name
    shutil.copytree(SOURCES, sources)
    engine = sources / "toy.c"
    text = engine.read_text(encoding="utf-8")
    assert change[0] in text
    engine.write_text(text.replace(*change) if change[0] else text, encoding="utf-8")
    files = [str(path) for path in sorted(sources.glob("*.c"))]
    subprocess.run([str(COMPILER), "-std=c11", "-O1", *flags, "-o", str(program), *files], check=True)
    return str(program)


def across(folder: Path, own: str, other: str) -> dict[str, CheckResult]:
    """Run R11 between two builds; return what its checks found."""
    plan = expand(available_scenarios()["R11"], [16], suite="engines", where="R11")
    options: dict[str, str | int | bool] = {"command": own, "other_command": other}
    with bench(Target(name="t", adapter="stdio", device="cpu", options=options), folder) as up:
        path, _ = run_one(up, plan)
    cells = judge(read_evidence(read_bytes(path), path.name)).decision.cells
    return {one.id: one for one in cells[0].checks}


def test_an_image_that_another_build_takes_is_near_and_counts_on_that_axis_alone(tmp_path: Path) -> None:
    found = across(tmp_path, built(tmp_path, "first"), built(tmp_path, "second", ("", ""), "-O2"))["across"]

    assert (found.outcome, found.axis) == (Outcome.PASS, DecisionAxis.TOLERANCE)
    assert found.detail["answer"] == "taken"
    assert found.detail["build"] != found.detail["build_before"]


def test_a_refusal_by_name_is_an_answer(tmp_path: Path) -> None:
    found = across(tmp_path, built(tmp_path, "first"), built(tmp_path, "later", LATER_FORMAT))

    assert (found["across"].outcome, found["across"].observed) == (Outcome.PASS, "format")
    assert found["others-go-on"].outcome is Outcome.PASS


def test_an_image_that_is_read_otherwise_lies_too_far_away(tmp_path: Path) -> None:
    found = across(tmp_path, built(tmp_path, "first"), built(tmp_path, "wrong", ROWS_ELSEWHERE))["across"]

    assert (found.outcome, found.reason) == (Outcome.FAIL, "beyond_tolerance")


def test_one_build_twice_shows_nothing(tmp_path: Path) -> None:
    own = built(tmp_path, "first")
    found = across(tmp_path, own, str(shutil.copy(own, tmp_path / "copy")))["across"]

    assert (found.outcome, found.reason) == (Outcome.INCONCLUSIVE, "same_build")


def test_a_target_with_one_build_declares_no_other(tmp_path: Path) -> None:
    own = built(tmp_path, "first")
    one, two = StdioAdapter(), StdioAdapter()
    one.aim({"command": own})
    two.aim({"command": own, "other_command": own})

    assert two.capabilities() - one.capabilities() == {Capability.BUILDS}


def test_another_word_for_a_build_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="allowed are own and other"):
        StdioAdapter().open({"command": built(tmp_path, "first"), "build": "third"})
