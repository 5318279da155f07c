"""CG601: the files are still those that were measured."""

from __future__ import annotations

from harness.errors import ExitCode
from harness.gating.rule import Problem, Problems, Rule, Subject


def check(subject: Subject) -> Problems:
    """Each path set of a current certificate, digested again in the trees at hand."""
    fresh = subject.asked.fresh
    if fresh is None or subject.state != "current":
        return
    for index, path_set in enumerate(subject.body["harness"]["path_sets"]):
        fault = fresh.fault(path_set, subject.body["subject"]["commit"])
        if fault:
            yield Problem(f"/body/harness/path_sets/{index}", f"is stale: {fault}")


RULE = Rule(
    id="CG601",
    text="The files of engine and harness are byte for byte those that a current certificate was measured on.",
    pain="The engine changes, its certificate stays, and a result of other code is shown as one of this code.",
    hint="run again on the changed files, which supersedes the certificate; or accept it with `statecert waive`",
    failing=(
        "stale_files",
        "stale_nobody_can_tell",
        "stale_package_gone",
        "stale_pattern_leaves",
    ),
    passing="valid_fresh",
    exit_code=ExitCode.FINDINGS,
    option="--fresh",
    certificate=check,
)
