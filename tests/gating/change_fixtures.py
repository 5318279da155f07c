"""Changes in a scratch git repository: one that only adds, and ones that do exactly one thing to what was there.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules. The repository lies around the folder; its
branch ``base`` is where the change goes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from harness.certifying.issue import issue
from harness.certifying.packing import pack_folder
from harness.certifying.sign import sign_folder
from harness.gating.since import Since
from harness.wire.gitobjects import Repository
from tests.gating.fixtures import ASKED, VALID, Change, a_run, a_run_elsewhere, certificates, fixture
from tests.gating.ledger_fixtures import signer
from tests.gating.run_fixtures import valid_former

POLICY = "schema: statecert/policy/v1\nwhy: A test.\n"


def git(root: Path, *words: str) -> str:
    """Run git as nobody, with nobody's settings."""
    names = {
        f"GIT_{who}_{what}": "t@statecert.invalid" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    day = {"GIT_AUTHOR_DATE": "2026-01-05T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-05T00:00:00Z"}
    safe = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **names, **day}
    done = subprocess.run(["git", *words], cwd=root, env=safe, check=True, capture_output=True, text=True)
    return done.stdout


def committed(root: Path, what: str) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", what)


@cache
def _base() -> Path:
    """A repository whose branch ``base`` has three certificates, an event, and their signatures."""
    import atexit
    import tempfile

    root = Path(tempfile.mkdtemp(prefix="statecert-base-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    folder = root / "certificates"
    folder.mkdir()
    issue(a_run(1, 1).data(), folder)
    issue(a_run(2, 2).data(), folder)
    sign_folder(folder, signer())
    issue(a_run_elsewhere(3, 3).data(), folder)
    (root / "trust").mkdir()
    (root / "trust" / "policy.yaml").write_text(POLICY)
    (root / "trust" / "allowed_signers").write_text("# nobody\n")
    git(root, "init", "-q", "-b", "base")
    committed(root, "base")
    return root


def based(folder: Path) -> Path:
    """Put the repository around a folder, on a branch of a change; return its root."""
    shutil.copytree(_base(), folder.parent, dirs_exist_ok=True)
    git(folder.parent, "checkout", "-q", "-b", "change")
    return folder.parent


def judged(folder: Path, *settings: str, descends: bool = False) -> dict[str, Any]:
    """What the gate is asked of a change that goes into ``base``."""
    since = Since(Repository(folder), "base", descends=descends)
    for name in settings:
        since.file(folder.parent / name)
    return {"since": since, "roots": [str(folder.parent)]}


def changing(folder: Path, change: Callable[[Path], None]) -> None:
    root = based(folder)
    change(root)
    committed(root, "change")


def first(folder: Path) -> Path:
    return certificates(folder)[0]


def valid_since(folder: Path) -> None:
    """Only adds: a run that supersedes, with its event."""
    changing(folder, lambda _: _issue_more(folder))


def _issue_more(folder: Path) -> None:
    issue(a_run(4, 4).data(), folder)


VALID.update(valid_since=valid_since)
ASKED.update(valid_since=judged)


def since_fixture(rule: str, *besides: str, **asked: Any) -> Callable[[Change], Change]:
    return fixture(rule, *besides, about=lambda folder: judged(folder, **asked))


def valid_packed_since(folder: Path) -> None:
    """Only puts the evidence of the base in packs: each file of it is found again, byte for byte."""
    changing(folder, lambda _: _pack(folder))


def _pack(folder: Path) -> None:
    pack_folder(folder)


VALID.update(valid_packed_since=valid_packed_since)
ASKED.update(valid_packed_since=judged)


@fixture("CG002", about=lambda folder: judged(folder, "trust/policy.yaml"))
def policy_in_the_same_change(folder: Path) -> None:
    valid_since(folder)
    (folder.parent / "trust" / "policy.yaml").write_text(POLICY.replace("test", "nicer test"))
    committed(folder.parent, "a kinder policy")


@fixture("CG002", about=lambda folder: judged(folder, "trust/policy.yaml", "trust/allowed_signers"))
def key_in_the_same_change(folder: Path) -> None:
    valid_since(folder)
    (folder.parent / "trust" / "allowed_signers").write_text("# somebody\n")
    committed(folder.parent, "a key")


@since_fixture("CG603")
def former_procedure_in_a_change(folder: Path) -> None:
    """The same with a day of last month: no clock tells, but the base has no such record."""
    changing(folder, lambda _: valid_former(folder))


@since_fixture("CG202", "CG102", "CG201", "CG204", "CG301", "CG501", "CG502", "CG103", "CG503")
def body_edited_since(folder: Path) -> None:
    def change(_: Path) -> None:
        path = first(folder)
        path.write_bytes(path.read_bytes().replace(b'"version": "1.0"', b'"version": "1.1"'))

    changing(folder, change)


@since_fixture("CG202", "CG103", "CG204", "CG501", "CG502", "CG503")
def certificate_deleted_since(folder: Path) -> None:
    changing(folder, lambda _: first(folder).unlink())


@since_fixture("CG202", "CG103", "CG201", "CG204", "CG501", "CG502", "CG503")
def certificate_renamed_since(folder: Path) -> None:
    def change(_: Path) -> None:
        first(folder).rename(first(folder).with_name("2026-01-01-0123456789ab.json"))

    changing(folder, change)


@since_fixture("CG202", "CG502", "CG503", "CG103")
def event_deleted_since(folder: Path) -> None:
    changing(folder, lambda _: next(folder.glob("ledger/*/*.json")).unlink())


@since_fixture("CG202", "CG204")
def evidence_deleted_since(folder: Path) -> None:
    changing(folder, lambda _: next(folder.glob("evidence/*.jsonl")).unlink())


@since_fixture("CG202")
def signature_deleted_since(folder: Path) -> None:
    changing(folder, lambda _: next(folder.glob("T*/*/*/*.sig")).unlink())


@since_fixture("CG202", "CG103", "CG204", "CG501", "CG502", "CG503")
def became_a_link_since(folder: Path) -> None:
    def change(root: Path) -> None:
        path = first(folder)
        (root / "elsewhere.json").write_bytes(path.read_bytes())
        path.unlink()
        path.symlink_to(root / "elsewhere.json")

    changing(folder, change)


@since_fixture("CG202", "CG103")
def became_executable_since(folder: Path) -> None:
    changing(folder, lambda _: first(folder).chmod(0o755))


@since_fixture("CG202")
def added_and_taken_away(folder: Path) -> None:
    """A run of another machine comes with one commit and goes with the next; a squash would show neither."""
    root = based(folder)
    issue(a_run_elsewhere(5, 5).data(), folder)
    committed(root, "another machine")
    git(root, "rm", "-q", "-r", "certificates")
    git(root, "checkout", "-q", "base", "--", "certificates")
    committed(root, "never mind")


@since_fixture("CG202", descends=True)
def history_rewritten(folder: Path) -> None:
    root = based(folder)
    git(root, "checkout", "-q", "base")
    (root / "later").write_text("x")
    committed(root, "later")
    git(root, "checkout", "-q", "change")
    committed(root, "instead")


@since_fixture("CG202")
def history_of_its_own(folder: Path) -> None:
    root = based(folder)
    git(root, "checkout", "-q", "--orphan", "fresh")
    committed(root, "as if nothing had been")
