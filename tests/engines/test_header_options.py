"""The first record of a run tells the options that its target was started with, so that the run can be made again."""

from __future__ import annotations

from pathlib import Path

from harness.model.target import Target
from harness.pipeline import available_scenarios, bench, make_plans
from harness.wire.privacy import WITHHELD


def test_a_header_tells_the_options_and_withholds_a_path(tmp_path: Path) -> None:
    (plan,) = make_plans([(available_scenarios()["A01"], ())], "default", None)
    target = Target(name="torch", adapter="torch", device="cpu", options={"preset": "tiny", "threads": 1})

    with bench(target, tmp_path) as up:
        plainly = up.header(plan).target["options"]
        up.target = Target(name="torch", adapter="torch", device="cpu", options={"model": str(tmp_path / "m.gguf")})
        withheld = up.header(plan).target["options"]

    assert plainly == {"preset": "tiny", "threads": 1}
    assert withheld == {"model": WITHHELD}
