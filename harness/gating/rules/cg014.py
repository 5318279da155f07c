"""CG014: records are light enough to travel with the code."""

from __future__ import annotations

import os

from harness.errors import ExitCode
from harness.gating.folder import Form
from harness.gating.rule import FolderFacts, Problem, Problems, Rule


def check(facts: FolderFacts) -> Problems:
    """All files of the folder together are no larger than the policy allows."""
    policy = facts.asked.policy
    if policy is None or not policy.max_folder_bytes:
        return
    size = sum(_bytes(f"{facts.folder.root}/{entry.path}") for entry in facts.folder.entries if _lies_there(entry.form))
    if size > policy.max_folder_bytes:
        yield Problem("", f"holds {size} bytes; the policy allows {policy.max_folder_bytes}")


def _lies_there(form: Form) -> bool:
    return form not in (Form.PACKED, Form.FOLDER)


def _bytes(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0  # gone since the listing; other rules ask for it


RULE = Rule(
    id="CG014",
    text="The files of the folder are together no larger than the policy allows.",
    pain="Each run adds its records, until every clone of the code carries them and somebody deletes the oldest.",
    hint="`statecert pack` puts evidence together in packs: the same bytes, a ninth of the size, and no record is lost",
    failing=("folder_too_large",),
    passing="valid_policy",
    exit_code=ExitCode.FINDINGS,
    option="--policy",
    folder=check,
)
