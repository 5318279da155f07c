"""A fork's change against a repository whose base is good: thirty attacks, each refused with the id of its rule.

The gate is the command line, run as a workflow runs it: policy and keys of the base, certificates of the checkout.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.certifying.events import make_event, write_event
from harness.certifying.issue import issue
from harness.certifying.ledger import regenerate_all
from harness.certifying.packing import pack_folder
from harness.certifying.sign import sign_folder
from harness.cli import main
from harness.model.values import Phase, ReasonCode
from harness.wire import canonical, packs, sshsig
from tests.gating.change_fixtures import committed, git
from tests.gating.fixtures import (
    KEY,
    a_failing_run,
    a_run,
    a_run_elsewhere,
    file_run,
    good_body,
    ids,
    part_name,
    rewrite,
)
from tests.gating.ledger_fixtures import signer

POLICY = f"""
schema: statecert/policy/v1
why: What the base of the story asks for.
claims: [{{claim: {KEY}}}]
signatures: {{required: true}}
max_age_days: 36500
waivers: {{rules: [CG601], max_days: 90}}
"""
Attack = Callable[[Path], None]
ATTACKS: dict[str, tuple[str, int, Attack]] = {}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed stop, the signed pass that superseded it, and a policy."""
    root = tmp_path_factory.mktemp("base")
    folder = root / "certificates"
    folder.mkdir()
    issue(a_failing_run().data(), folder)
    issue(a_run(2, 2).data(), folder)
    sign_folder(folder, signer())
    (root / "trust").mkdir()
    (root / "trust" / "policy.yaml").write_text(POLICY)
    (root / "trust" / "allowed_signers").write_text(
        f'lab-a namespaces="statecert/*" {sshsig.key_text(signer().public_key)}\n'
    )
    git(root, "init", "-q", "-b", "base")
    committed(root, "base")
    return root


def gated(root: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    words = ["gate", "certificates", "--since", "base", "--policy", "trust/policy.yaml"]
    words += ["--signers", "trust/allowed_signers"]
    here = Path.cwd()
    os.chdir(root)
    try:
        code = main(words)
    finally:
        os.chdir(here)
    return code, capsys.readouterr().out


def attack(rule: str, code: int = 2) -> Callable[[Attack], Attack]:
    def register(build: Attack) -> Attack:
        ATTACKS[build.__name__] = (rule, code, build)
        return build

    return register


def folder(root: Path) -> Path:
    return root / "certificates"


def certificates(root: Path) -> list[Path]:
    return sorted(folder(root).glob("T*/*/*/*.json"))


def the_stop(root: Path) -> Path:
    return next(path for path in certificates(root) if b'"overall": "stop"' in path.read_bytes())


def the_pass(root: Path) -> Path:
    return next(path for path in certificates(root) if path != the_stop(root))


def the_event(root: Path) -> Path:
    return next(folder(root).glob("ledger/*/*.json"))


def evidence(root: Path) -> Path:
    return sorted(folder(root).glob("evidence/*.jsonl"))[0]


def signed(root: Path, key: int = 1) -> None:
    sign_folder(folder(root), signer(key))


def test_the_base_and_an_honest_change_are_good(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = started(base, tmp_path)
    assert gated(root, capsys)[0] == 0

    issue(a_run(3, 3).data(), folder(root))
    signed(root)
    committed(root, "run again")

    code, said = gated(root, capsys)
    assert code == 0, said
    assert "since " in said


def started(base: Path, tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    shutil.copytree(base, root)
    git(root, "checkout", "-q", "-b", "change")
    return root


@attack("CG202")
def edits_the_stop(root: Path) -> None:
    rewrite(the_stop(root), b'"overall": "stop"', b'"overall": "pass"')


@attack("CG202")
def deletes_the_stop(root: Path) -> None:
    the_stop(root).with_name(the_stop(root).name + ".sig").unlink()
    the_stop(root).unlink()


@attack("CG202")
def renames_the_stop(root: Path) -> None:
    the_stop(root).rename(the_stop(root).with_name("2026-01-01-0123456789ab.json"))


@attack("CG202")
def deletes_everything_and_starts_anew(root: Path) -> None:
    shutil.rmtree(folder(root))
    folder(root).mkdir()
    issue(a_run(3, 3).data(), folder(root))
    signed(root)


@attack("CG202")
def deletes_the_event(root: Path) -> None:
    the_event(root).with_name(the_event(root).name + ".sig").unlink()
    the_event(root).unlink()
    regenerate_all(folder(root))


@attack("CG202")
def edits_the_reason_of_an_event(root: Path) -> None:
    rewrite(the_event(root), b"rerun_same_inputs", b"measurement_invalid")


@attack("CG202")
def exchanges_evidence(root: Path) -> None:
    evidence(root).write_bytes(a_run(9, 9).data())


@attack("CG202")
def takes_a_signature_away(root: Path) -> None:
    the_pass(root).with_name(the_pass(root).name + ".sig").unlink()


@attack("CG202")
def makes_a_link_of_a_certificate(root: Path) -> None:
    path = the_pass(root)
    (root / "copy.json").write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(root / "copy.json")


@attack("CG202")
def makes_a_certificate_executable(root: Path) -> None:
    the_pass(root).chmod(0o755)


@attack("CG202")
def brings_a_stop_and_takes_it_away(root: Path) -> None:
    issue(a_run_elsewhere(5, 5).data(), folder(root))
    committed(root, "a stop of another machine")
    git(root, "rm", "-q", "-r", "certificates")
    git(root, "checkout", "-q", "base", "--", "certificates")


@attack("CG202")
def brings_a_stop_on_a_side_and_merges_it_away(root: Path) -> None:
    git(root, "checkout", "-q", "-b", "side")
    issue(a_run_elsewhere(5, 5).data(), folder(root))
    committed(root, "a stop of another machine")
    git(root, "checkout", "-q", "change")
    git(root, "-c", "user.name=x", "-c", "user.email=x@x", "merge", "-q", "-s", "ours", "-m", "merged", "side")


@attack("CG202")
def starts_a_history_of_its_own(root: Path) -> None:
    git(root, "checkout", "-q", "--orphan", "fresh")


@attack("CG002", 1)
def brings_a_kinder_policy_with_its_records(root: Path) -> None:
    (root / "trust" / "policy.yaml").write_text("schema: statecert/policy/v1\nwhy: Anything goes.\n")
    issue(a_run(3, 3).data(), folder(root))
    signed(root)


@attack("CG002", 1)
def takes_the_policy_away_with_its_records(root: Path) -> None:
    (root / "trust" / "policy.yaml").unlink()
    issue(a_run(3, 3).data(), folder(root))
    signed(root)


@attack("CG002", 1)
def makes_a_link_of_the_policy(root: Path) -> None:
    (root / "kinder.yaml").write_text("schema: statecert/policy/v1\nwhy: Anything goes.\n")
    (root / "trust" / "policy.yaml").unlink()
    (root / "trust" / "policy.yaml").symlink_to("../kinder.yaml")
    issue(a_run(3, 3).data(), folder(root))
    signed(root)


@attack("CG002", 1)
def makes_a_link_of_the_folder_of_keys(root: Path) -> None:
    (root / "trust").rename(root / "elsewhere")
    (root / "trust").symlink_to("elsewhere")
    (root / "elsewhere" / "policy.yaml").write_text("schema: statecert/policy/v1\nwhy: Anything goes.\n")
    issue(a_run(3, 3).data(), folder(root))
    signed(root)


@attack("CG002", 1)
def extends_its_key_in_the_same_change(root: Path) -> None:
    keys = root / "trust" / "allowed_signers"
    keys.write_text(keys.read_text() + f'lab-a namespaces="statecert/*" {sshsig.key_text(signer(2).public_key)}\n')
    issue(a_run(3, 3).data(), folder(root))
    signed(root)


@attack("CG901")
def brings_its_own_key(root: Path) -> None:
    (root / "trust" / "allowed_signers").write_text(f"lab-z {sshsig.key_text(signer(2).public_key)}\n")
    issue(a_run(3, 3).data(), folder(root))
    signed(root, 2)


@attack("CG901")
def signs_with_a_key_that_nobody_knows(root: Path) -> None:
    issue(a_run(3, 3).data(), folder(root))
    signed(root, 2)


@attack("CG901")
def signs_nothing_of_what_it_brings(root: Path) -> None:
    issue(a_run(3, 3).data(), folder(root))


@attack("CG901")
def moves_a_signature(root: Path) -> None:
    issue(a_run(3, 3).data(), folder(root))
    new = next(path for path in certificates(root) if not path.with_name(path.name + ".sig").exists())
    signed(root)
    new.with_name(new.name + ".sig").write_bytes(the_stop(root).with_name(the_stop(root).name + ".sig").read_bytes())


@attack("CG301")
def claims_what_its_evidence_does_not_say(root: Path) -> None:
    failing = a_failing_run().with_header(run_id=f"{3:032x}", created="2026-01-03T08:00:00Z")
    body = good_body(a_run(3, 3))
    file_run(folder(root), failing, body)
    signed(root)


@attack("CG203")
def replays_an_old_run(root: Path) -> None:
    file_run(folder(root), a_run_elsewhere(2, 3))
    signed(root)


@attack("CG604")
def certifies_a_mutant(root: Path) -> None:
    file_run(folder(root), a_run_elsewhere(3, 3).with_target(group="harness.mutants"))
    signed(root)


@attack("CG604")
def certifies_changed_files(root: Path) -> None:
    run = a_run_elsewhere(3, 3)
    file_run(folder(root), run.with_header(source={**run.header.source, "tree": "dirty"}))
    signed(root)


@attack("CG503")
def puts_a_second_current_record_beside(root: Path) -> None:
    file_run(folder(root), a_run(3, 3))
    signed(root)


@attack("CG502")
def sets_the_status_by_hand(root: Path) -> None:
    rewrite(the_stop(root), b'"state": "superseded"', b'"state": "withdrawn"')


@attack("CG502")
def edits_a_page(root: Path) -> None:
    rewrite(folder(root) / KEY / "README.md", b"superseded", b"passed")


@attack("CG501")
def withdraws_what_answered_the_stop(root: Path) -> None:
    event(root, "withdraw", ids(folder(root))[1])


@attack("CG501")
def supersedes_by_nothing(root: Path) -> None:
    event(root, "supersede", ids(folder(root))[1], by="ab" * 32)


@attack("CG501")
def makes_a_circle(root: Path) -> None:
    old, new = ids(folder(root))
    event(root, "supersede", new, by=old)


@attack("CG013", 1)
def waives_what_nobody_may_waive(root: Path) -> None:
    event(root, "waive", ids(folder(root))[1], rule="CG010", until="2099-01-01")


@attack("CG011", 1)
def lets_a_stop_take_the_place_of_a_pass(root: Path) -> None:
    stop = a_run(4, 4).with_part("warm", "again", Phase.END, part_name("recurrent"))
    issue(stop.data(), folder(root))
    signed(root)


@attack("CG103")
def hides_a_script_among_the_records(root: Path) -> None:
    (folder(root) / KEY / "run.sh").write_text("#!/bin/sh\n")


@attack("CG103")
def lets_git_change_line_ends(root: Path) -> None:
    (folder(root) / ".gitattributes").write_text("* text=auto\n")


@attack("CG101")
def says_the_decision_twice(root: Path) -> None:
    issue(a_run(3, 3).data(), folder(root))
    signed(root)
    new = certificates(root)[-1]
    rewrite(new, b'"overall": "pass"', b'"overall": "stop",\n      "overall": "pass"')


@attack("CG102")
def adds_a_field(root: Path) -> None:
    issue(a_run(3, 3).data(), folder(root))
    signed(root)
    new = certificates(root)[-1]
    value = json.loads(new.read_bytes())
    value["body"]["remark"] = "</script>::error::looks fine"
    new.write_bytes(canonical.render(value))


@attack("CG903")
def brings_a_private_path(root: Path) -> None:
    home = "/" + "home/somebody/engine.so"
    file_run(folder(root), a_run_elsewhere(3, 3).with_target(identity={"library": home}))
    signed(root)


def event(root: Path, kind: str, target: str, **fields: str) -> None:
    made = make_event(kind, target, ReasonCode.RECORD_ERROR, "2026-01-09T00:00:00Z", **fields)
    write_event(folder(root), made)
    regenerate_all(folder(root))
    signed(root)


@attack("CG202")
def packs_evidence_and_loses_a_file_of_it(root: Path) -> None:
    repacked(root, lambda _: None)


@attack("CG202")
def packs_evidence_and_exchanges_a_file_of_it(root: Path) -> None:
    repacked(root, lambda data: data.replace(b'"cached":', b'"hached":', 1))


@attack("CG205")
def packs_another_file_under_the_name_of_one_that_is_there(root: Path) -> None:
    """The plain file stays, so that git sees no change; the pack waits for the day when it is gone."""
    name, data = packs.pack([(f"evidence/{evidence(root).name}", b"another run\n")])
    (folder(root) / packs.FOLDER).mkdir()
    (folder(root) / name).write_bytes(data)


@attack("CG204")
def packs_a_run_that_nobody_names_under_a_name_of_its_own_choice(root: Path) -> None:
    name, data = packs.pack([(f"evidence/{'a' * 64}.jsonl", evidence(root).read_bytes())])
    (folder(root) / packs.FOLDER).mkdir()
    (folder(root) / name).write_bytes(data)


def repacked(root: Path, change: Callable[[bytes], bytes | None]) -> None:
    """Pack, and make the pack anew with one file of it changed, or left out."""
    path = evidence(root)
    pack_folder(folder(root))
    (pack,) = (folder(root) / packs.FOLDER).iterdir()
    held = packs.unpack(pack.read_bytes(), f"packs/{pack.name}")
    files = [(name, change(held.read(name)) if name.endswith(path.name) else held.read(name)) for name in held.members]
    name, data = packs.pack([(name, data) for name, data in files if data is not None])
    pack.unlink()
    (folder(root) / name).write_bytes(data)


def test_there_are_thirty() -> None:
    assert len(ATTACKS) >= 30
    assert len({rule for rule, _, _ in ATTACKS.values()}) >= 15


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_with_its_rule(
    name: str, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule, code, build = ATTACKS[name]
    root = started(base, tmp_path)
    build(root)
    committed(root, name)

    ended, said = gated(root, capsys)

    assert f"{rule} error" in said
    assert ended == code
    assert "Traceback" not in said
    assert all(line.isprintable() for line in said.splitlines())


def test_a_merge_of_a_base_that_went_on_takes_nothing_away(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = started(base, tmp_path)
    (root / "work").write_text("x")
    committed(root, "work")
    git(root, "checkout", "-q", "base")
    issue(a_run(3, 3).data(), folder(root))
    signed(root)
    pack_folder(folder(root))
    committed(root, "base goes on")
    git(root, "checkout", "-q", "change")
    git(root, "-c", "user.name=x", "-c", "user.email=x@x", "merge", "-q", "-m", "merged", "base")

    code, said = gated(root, capsys)

    assert code == 0, said


def test_a_squash_carries_the_records_and_hides_nothing(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = started(base, tmp_path)
    issue(a_run(3, 3).data(), folder(root))
    signed(root)
    committed(root, "one")
    issue(a_run(4, 4).data(), folder(root))
    signed(root)
    committed(root, "two")
    git(root, "checkout", "-q", "base")
    git(root, "merge", "-q", "--squash", "change")
    committed(root, "squashed")
    git(root, "branch", "before", "HEAD~1")
    git(root, "checkout", "-q", "-B", "change")
    git(root, "branch", "-f", "base", "before")

    code, said = gated(root, capsys)

    assert code == 0, said
    assert len(ids(folder(root))) == 4


def test_a_policy_by_itself_may_change_and_the_one_of_the_base_is_used(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = started(base, tmp_path)
    (root / "trust" / "policy.yaml").write_text(POLICY + "observability: image\n")
    committed(root, "a policy")

    assert gated(root, capsys)[0] == 0


def test_a_base_that_git_does_not_know_is_a_usage_error(base: Path, tmp_path: Path) -> None:
    root = started(base, tmp_path)

    assert main(["gate", str(folder(root)), "--since", "no-such-branch"]) == 4
    assert main(["gate", str(tmp_path), "--since", "base"]) == 4
    assert main(["gate", str(folder(root)), "--descends"]) == 4
    assert main(["gate", str(folder(root)), "--since", "base", "--policy", str(root / "nothing.yaml")]) == 4
