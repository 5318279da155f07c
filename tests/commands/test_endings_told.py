"""What a run says can be typed as it stands, names what was left undone, and whose scenarios it takes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from harness.commands.common import reason_text, reason_words, typed
from harness.commands.run import broken_off, next_steps
from harness.pipeline import Finished, own_scenarios
from harness.wire.resources import resource_names, resource_text
from tests.commands.command_support import TOY_SCENARIO, statecert, toy_run

PASSED = {"decision": {"overall": "pass"}, "cells": []}


def test_an_interrupted_run_names_the_scenarios_that_did_not_begin() -> None:
    told = broken_off(["A02", "A03"])

    assert told.endswith("; did not begin, so nothing is written of them: A02, A03\n")
    assert "did not begin, so nothing" not in broken_off([])


def test_a_command_off_the_path_is_told_by_the_path_that_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [".venv/bin/statecert", "run"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert typed() == ".venv/bin/statecert"

    found = tmp_path / "statecert"
    found.write_text("#!/bin/sh\n")
    found.chmod(0o755)
    assert typed() == "statecert"


def test_a_command_that_was_started_as_a_module_is_told_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "harness" / "__main__.py"), "run"])
    monkeypatch.setenv("PATH", str(tmp_path))

    assert typed() == "statecert"


def test_a_folder_that_holds_what_came_with_the_package_has_no_scenarios_of_its_own(tmp_path: Path) -> None:
    name = next(one for one in resource_names("scenarios") if one.endswith(".yaml"))
    (tmp_path / "same.yaml").write_bytes(resource_text("scenarios", name))
    (tmp_path / "notes.yaml").write_text("just: notes\n")
    assert own_scenarios(tmp_path) == 0
    assert own_scenarios(tmp_path / "absent") == 0

    (tmp_path / "A90-toy.yaml").write_text(TOY_SCENARIO)
    assert own_scenarios(tmp_path) == 1


def test_a_plan_beside_scenarios_of_your_own_says_that_it_is_not_about_them(tmp_path: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "A90-toy.yaml").write_text(TOY_SCENARIO)

    silent = statecert("plan", "--scenarios", "scenarios", cwd=tmp_path)
    told = statecert("plan", cwd=tmp_path)

    assert silent.returncode == told.returncode == 0
    assert "of your own" not in silent.stderr
    assert "not the 1 of your own in scenarios/: for those say --scenarios scenarios" in told.stderr


def test_a_hint_quotes_a_folder_that_a_shell_would_take_apart(
    tmp_path: Path,
) -> None:
    found = cast(
        "Finished", SimpleNamespace(evidence=tmp_path / "my runs" / "one.jsonl", draft="dirty_tree", body=PASSED)
    )

    (step,) = next_steps([found], tmp_path / "c", gated=False, kept=False)

    assert step.endswith(f"judge '{found.evidence}'")


def test_what_comes_next_is_what_was_not_done_yet_and_a_stop_is_told_first() -> None:
    def ran(verdict: str, code: str = "") -> Finished:
        checks = [{"outcome": "fail", "code": code}] if code else []
        body = {"decision": {"overall": verdict}, "cells": [{"id": "A90[scale=1]", "checks": checks}]}
        return cast("Finished", SimpleNamespace(evidence=Path(f"{code or verdict}.jsonl"), draft="", body=body))

    def words(*found: Finished, gated: bool = True, kept: bool = False) -> list[str]:
        return [step.split(" ", 1)[1] for step in next_steps(found, Path("c"), gated=gated, kept=kept)]

    assert words(ran("pass"), gated=False) == ["report c", "gate c --require-pass"]
    assert words(ran("pass")) == ["report c"]
    assert words(ran("pass"), kept=True) == ["report c", "add c"]
    assert words(ran("pass"), ran("stop", "EXACT.PREFILL")) == ["explain EXACT.PREFILL.jsonl", "report c"]
    assert words(ran("error", "RUN.FINISHED"), ran("stop", "REUSE.CACHED")) == [
        "explain REUSE.CACHED.jsonl",
        "report c",
    ]
    assert words(ran("error", "RUN.FINISHED")) == ["explain RUN.FINISHED.jsonl", "report c"]
    assert next_steps([], Path("c"), gated=True, kept=True) == []


def test_a_cell_that_is_asked_for_and_left_out_is_the_only_row_and_says_where_it_is_asked(tmp_path: Path) -> None:
    left_out = "A01[scale=16,arch=attention,route=mtp]"

    done = statecert("run", left_out, "--json", cwd=tmp_path)

    assert done.returncode == 5
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["cell"], row["outcome"]) == (left_out, "excluded")
    assert "asks this cell in suite full" in row["why"]
    plan = statecert("plan", left_out, "--json", cwd=tmp_path)
    assert "excluded: the scenario asks this cell in suite full" in plan.stdout
    (evidence,) = tmp_path.glob("runs/*/evidence/*.jsonl")
    judged = statecert("judge", evidence, "--json", cwd=tmp_path)
    assert [one["why"] for one in json.loads(judged.stdout)["rows"] if one["cell"] == left_out] == [row["why"]]


def test_an_image_of_the_right_length_is_not_said_to_miss_it() -> None:
    image = {
        "id": "image",
        "observed": 7946,
        "limit": 7946,
        "unit": "bytes",
        "reason": "other_image",
        "code": "IMG.SAME",
    }

    assert reason_text(image) == "image: 7946 bytes, as demanded, and yet another content (other_image)"
    assert reason_text({**image, "limit": 8000}) == "image: 7946 bytes, demanded 8000 (other_image)"


def test_why_a_cell_did_not_run_is_one_line_whatever_the_code() -> None:
    assert reason_words("session_option") == "the target does not know a session option that the scenario uses"
    assert reason_words("engine_options").endswith("so it was not asked")


def test_the_gate_of_a_run_speaks_before_what_comes_next(tmp_path: Path) -> None:
    lines = toy_run(tmp_path, "--gate").stdout.splitlines()

    assert lines[-1].startswith("next ")
    assert " report runs/" in lines[-1]
    assert lines[-2].startswith("gate   exit 0")


def test_a_run_in_which_no_cell_ran_is_followed_by_what_this_machine_has() -> None:
    empty = cast("Finished", SimpleNamespace(evidence=Path("empty.jsonl"), draft="nothing_ran", body=PASSED))
    ran = cast("Finished", SimpleNamespace(evidence=Path("ran.jsonl"), draft="partial", body=PASSED))
    cells = [{"outcome": "excluded"}, {"outcome": "not_supported"}]
    declined = cast(
        "Finished", SimpleNamespace(evidence=Path("no.jsonl"), draft="nothing_ran", body={**PASSED, "cells": cells})
    )

    (without,) = next_steps([empty], Path("c"), gated=False, kept=False)
    (beside,) = next_steps([empty, ran], Path("c"), gated=False, kept=False)

    assert without.endswith(" doctor")
    assert next_steps([declined], Path("c"), gated=False, kept=False) == []
    assert beside.endswith(" judge ran.jsonl")
