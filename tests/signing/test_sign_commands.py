"""Sign a folder, verify it, and see every way in which a signature stops counting, by its name and exit code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.certifying.ledger import annotate
from harness.cli import main
from harness.gating.gate import gate
from harness.model.values import ReasonCode
from harness.wire import sshsig
from harness.wire.allowed_signers import Reason, parse_signers
from harness.wire.signed_documents import (
    EVENT_NAMESPACE,
    Keyring,
    certificate_namespace,
    check_folder,
    document_paths,
    signed_bytes,
)
from tests.ledger.support import KEY, by_run, file, good
from tests.signing.support import make_key, oracle_accepts, oracle_sign, public

AT = "2026-12-01T00:00:00Z"


class Signed:
    """A signed folder, its keys and its allowed signers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "certificates"
        self.signers = root / "trust" / "allowed_signers"
        self.revoked = root / "trust" / "revoked_keys"
        self.key = root / "key"

    @classmethod
    def made(cls, root: Path) -> Signed:
        found = cls(root)
        found.folder.mkdir()
        file(found.folder, good(1), good(2))
        make_key(root)
        assert found.trust("add", "lab-a", "--key", f"{found.key}.pub", "--valid-before", "2027-01-01") == 0
        assert found.sign() == 0
        return found

    def trust(self, *words: str) -> int:
        return main(["trust", "--signers", str(self.signers), "--revoked", str(self.revoked), *words])

    def sign(self, *words: str, key: Path | None = None) -> int:
        return main(["sign", "--key", str(key or self.key), "--folder", str(self.folder), *words])

    def verify(self, *words: str, at: str = AT) -> int:
        usual = ["--signers", str(self.signers), "--at", at]
        usual += ["--revoked", str(self.revoked)] if self.revoked.is_file() else []
        return main(["verify", str(self.folder), *usual, *words])

    def documents(self) -> list[Path]:
        return document_paths(self.folder)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Signed.made(tmp_path_factory.mktemp("signed")).root


@pytest.fixture
def lab(template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Signed:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    capsys.readouterr()
    return Signed(tmp_path)


def test_a_signed_folder_verifies_and_says_what_that_proves(lab: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.verify() == 0

    text = capsys.readouterr().out
    assert "3 of 3 documents have a signature that counts" in text
    assert "does not prove that the hardware existed" in text
    assert gate([lab.folder]).findings == ()


def test_ssh_keygen_verifies_every_file_over_the_exported_bytes(lab: Signed, tmp_path: Path) -> None:
    signers = lab.signers.read_text()
    certificate = by_run(lab.folder, 1)
    out = tmp_path / "body"
    assert main(["export", "--bytes", certificate.id[:8], "--out", str(out), "--folder", str(lab.folder)]) == 0
    (path,) = (one for one in lab.documents() if certificate.id[:12] in one.name)
    signature = path.with_name(path.name + ".sig").read_bytes()

    for namespace, good_one in ((certificate_namespace("qualification"), True), (EVENT_NAMESPACE, False)):
        found = oracle_accepts(tmp_path, signers, signature, out.read_bytes(), namespace=namespace, at=1_780_315_200)
        assert found is good_one


def test_jq_gives_the_signed_bytes_of_an_event(lab: Signed, tmp_path: Path) -> None:
    if shutil.which("jq") is None:
        pytest.skip("no jq here")
    event = lab.documents()[-1]
    message = subprocess.run(["jq", "-cjS", ".", str(event)], check=True, capture_output=True).stdout
    signature = event.with_name(event.name + ".sig").read_bytes()

    assert oracle_accepts(
        tmp_path, lab.signers.read_text(), signature, message, namespace=EVENT_NAMESPACE, at=1_780_315_200
    )


def edit_signature(lab: Signed, change: Callable[[bytes], bytes]) -> None:
    path = lab.documents()[0]
    beside = path.with_name(path.name + ".sig")
    beside.write_bytes(change(beside.read_bytes()))


def unsigned(lab: Signed) -> None:
    lab.documents()[0].with_name(lab.documents()[0].name + ".sig").unlink()


def changed_body(lab: Signed) -> None:
    event = lab.documents()[-1]
    event.write_bytes(event.read_bytes().replace(b"rerun_same_inputs", b"measurement_invalid"))


def swapped(lab: Signed) -> None:
    first, second = (path.with_name(path.name + ".sig") for path in lab.documents()[:2])
    first.write_bytes(second.read_bytes())


def torn(lab: Signed) -> None:
    edit_signature(lab, lambda data: data[:-30])


def as_an_event(lab: Signed) -> None:
    certificate = by_run(lab.folder, 1)
    path = next(one for one in lab.documents() if certificate.id[:12] in one.name)
    from harness.wire import canonical

    beside = path.with_name(path.name + ".sig")
    beside.write_bytes(oracle_sign(lab.key, canonical.canonical(certificate.body), EVENT_NAMESPACE))


def revoked(lab: Signed) -> None:
    assert lab.trust("revoke", "--key", f"{lab.key}.pub") == 0


def removed(lab: Signed) -> None:
    assert lab.trust("remove", "lab-a") == 0


def other_key(lab: Signed) -> None:
    assert lab.sign("--again", key=make_key(lab.root, "stranger")) == 0


def not_for_certificates(lab: Signed) -> None:
    removed(lab)
    assert lab.trust("add", "lab-a", "--key", f"{lab.key}.pub", "--namespaces", "statecert/event/*") == 0


def stray(lab: Signed) -> None:
    (lab.folder / KEY / "2026-01-09-0123456789ab.json.sig").write_text("x")


def linked(lab: Signed) -> None:
    path = lab.documents()[0]
    beside = path.with_name(path.name + ".sig")
    beside.rename(lab.root / "elsewhere")
    beside.symlink_to(lab.root / "elsewhere")


def hostile(lab: Signed) -> None:
    lab.documents()[0].write_bytes(b"[" * 100_000)


def a_pipe(lab: Signed) -> None:
    path = lab.documents()[0]
    path.with_name(path.name + ".sig").unlink()
    os.mkfifo(path.with_name(path.name + ".sig"))


@pytest.mark.parametrize(
    ("damage", "reason", "code"),
    [
        (unsigned, Reason.UNSIGNED, 1),
        (changed_body, Reason.CHANGED, 2),
        (swapped, Reason.CHANGED, 2),
        (torn, Reason.MALFORMED, 2),
        (as_an_event, Reason.WRONG_NAMESPACE, 2),
        (revoked, Reason.REVOKED, 2),
        (removed, Reason.UNKNOWN_KEY, 2),
        (other_key, Reason.UNKNOWN_KEY, 2),
        (not_for_certificates, Reason.NAMESPACE_NOT_ALLOWED, 2),
        (stray, Reason.SIGNS_NOTHING, 2),
        (linked, Reason.UNREADABLE, 2),
        (hostile, Reason.UNREADABLE, 2),
        (a_pipe, Reason.UNREADABLE, 2),
    ],
)
def test_every_way_in_which_a_signature_stops_counting(
    lab: Signed, damage: Callable[[Signed], None], reason: Reason, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(lab)
    capsys.readouterr()

    assert lab.verify() == code
    assert f"{reason}:" in capsys.readouterr().out
    assert lab.verify("--json") == code
    found = json.loads(capsys.readouterr().out)
    assert {one["reason"] for one in found["documents"]} - {""} == {str(reason)}
    assert found["exit_code"] == code


def test_the_time_of_the_check_decides_about_expiry(lab: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.verify(at="2026-12-31T23:59:59Z") == 0
    assert lab.verify(at="2027-01-01T00:00:00Z") == 0
    capsys.readouterr()
    assert lab.verify(at="2027-01-01T00:00:01Z") == 2
    assert "expired:" in capsys.readouterr().out
    assert lab.verify(at="yesterday") == 4


def test_an_unknown_principal_is_named(lab: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.verify("--principal", "lab-a") == 0
    assert lab.verify("--principal", "lab-b") == 2
    assert "unknown_principal:" in capsys.readouterr().out


def test_a_folder_tells_of_each_document_why_its_signature_does_not_count(lab: Signed) -> None:
    signers = parse_signers(lab.signers.read_bytes(), "signers")
    unsigned(lab)

    reasons = [one.reason for one in check_folder(lab.folder, Keyring(signers=signers, at=1_780_315_200))]
    assert reasons.count(Reason.UNSIGNED) == 1
    assert set(reasons) == {Reason.UNSIGNED, None}
    key = signers.lines[0].key
    revoked = Keyring(signers=signers, at=1_780_315_200, revoked=frozenset({key}))
    assert {one.reason for one in check_folder(lab.folder, revoked)} == {Reason.UNSIGNED, Reason.REVOKED}


def test_signing_again_changes_nothing_and_new_events_are_signed(lab: Signed) -> None:
    before = {path: path.read_bytes() for path in lab.folder.rglob("*.sig")}
    assert lab.sign() == 0
    assert lab.sign("--again") == 0
    assert {path: path.read_bytes() for path in lab.folder.rglob("*.sig")} == before

    annotate(lab.folder, by_run(lab.folder, 2).id, ReasonCode.HARNESS_BUG, "2026-03-01T00:00:00Z")
    assert lab.verify() == 1
    assert lab.sign(by_run(lab.folder, 2).id[:6]) == 0
    assert lab.verify() == 0
    assert gate([lab.folder]).findings == ()


def test_a_key_with_a_passphrase_needs_ssh_keygen(lab: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    locked = make_key(lab.root, "locked", passphrase="a passphrase")

    assert lab.sign(key=locked) == 4
    assert "--with-ssh-keygen" in capsys.readouterr().err


def test_ssh_keygen_signs_the_same_bytes(lab: Signed) -> None:
    before = {path: path.read_bytes() for path in lab.folder.rglob("*.sig")}

    assert lab.sign("--again", "--with-ssh-keygen") == 0

    assert {path: path.read_bytes() for path in lab.folder.rglob("*.sig")} == before


def test_an_agent_signs_the_same_bytes(lab: Signed) -> None:
    """With the public half alone at hand."""
    before = {path: path.read_bytes() for path in lab.folder.rglob("*.sig")}
    said = subprocess.run(["ssh-agent", "-s"], check=True, capture_output=True, text=True).stdout
    told = dict(word.split("=", 1) for line in said.splitlines() for word in [line.partition(";")[0]] if "=" in word)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in told.items():
            patch.setenv(name, value)
        try:
            subprocess.run(["ssh-add", "-q", str(lab.key)], check=True, capture_output=True)
            lab.key.unlink()
            assert lab.sign("--again", "--with-ssh-keygen", key=Path(f"{lab.key}.pub")) == 0
        finally:
            subprocess.run(["ssh-agent", "-k"], check=True, capture_output=True)

    assert {path: path.read_bytes() for path in lab.folder.rglob("*.sig")} == before


def by_the_other_hash(lab: Signed) -> None:
    """Every signature as ``ssh-keygen`` makes it unasked, which is how all were made before."""
    for path in lab.documents():
        message, namespace = signed_bytes(path.relative_to(lab.folder).as_posix(), path.read_bytes())
        path.with_name(path.name + ".sig").write_bytes(oracle_sign(lab.key, message, namespace))


def hashes_in(folder: Path) -> set[str]:
    return {sshsig.parse(path.read_bytes(), path.name).algorithm for path in folder.rglob("*.sig")}


def test_signatures_over_sha512_count_and_are_replaced_only_when_asked(lab: Signed) -> None:
    before = {path: path.read_bytes() for path in lab.folder.rglob("*.sig")}
    by_the_other_hash(lab)
    keyring = Keyring(signers=parse_signers(lab.signers.read_bytes(), "signers"), at=1_780_315_200)
    assert hashes_in(lab.folder) == {"sha512"}

    assert lab.verify() == 0
    assert gate([lab.folder], keyring=keyring, require_signatures=True).findings == ()
    assert lab.sign() == 0
    assert hashes_in(lab.folder) == {"sha512"}
    assert lab.sign("--again") == 0

    assert {path: path.read_bytes() for path in lab.folder.rglob("*.sig")} == before
    assert hashes_in(lab.folder) == {"sha256"}


def test_a_new_throwaway_key_leaves_no_signature_over_sha512(lab: Signed) -> None:
    by_the_other_hash(lab)

    signers = ["--signers", str(lab.signers)]
    assert main(["sign", str(lab.folder), "--throwaway", "demonstration", "--again", *signers]) == 0

    assert hashes_in(lab.folder) == {"sha256"}
    assert main(["gate", str(lab.folder), "--require-signatures", *signers]) == 0


@pytest.mark.parametrize("spoil", ["absent", "open", "text", "public", "ecdsa"])
def test_keys_that_cannot_sign_are_refused(lab: Signed, spoil: str) -> None:
    key = lab.root / "bad"
    if spoil == "open":
        shutil.copy(lab.key, key)
        key.chmod(0o644)
    elif spoil in ("text", "public"):
        key.write_text("nothing" if spoil == "text" else public(lab.key))
        key.chmod(0o600)
    elif spoil == "ecdsa":
        make_key(lab.root, "bad", kind="ecdsa")

    assert lab.sign(key=key) == 4


def test_trust_lists_what_is_there_and_ends_in_named_codes(lab: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.trust("list") == 0
    assert "valid (no bound) to 2027-01-01T00:00:00Z" in capsys.readouterr().out
    assert lab.trust("revoke", "--key", f"{lab.key}.pub") == 0
    assert lab.trust("list") == 0
    assert "REVOKED" in capsys.readouterr().out
    assert lab.trust("add", "lab-a", "--key", f"{lab.key}.pub") == 4
    assert lab.trust("add", "lab-a", "--key", str(lab.root / "none.pub")) == 4
    assert lab.trust("remove", "lab-b") == 5
    lab.signers.write_text("lab-a nonsense\n")
    assert lab.trust("list") == 2
    assert lab.verify() == 2


def test_trust_lists_keys_as_json_too(lab: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.trust("list", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["principals"], row["namespaces"], row["revoked"]) == ("lab-a", "statecert/*", "no")
    assert row["valid_before"] == "2027-01-01T00:00:00Z"
    assert "valid_after" not in row
    assert lab.trust("revoke", "--key", f"{lab.key}.pub") == 0
    capsys.readouterr()

    assert lab.trust("list", "--json") == 0
    (revoked,) = json.loads(capsys.readouterr().out)["rows"]
    assert revoked == {**row, "revoked": "yes"}
    assert lab.trust("remove", "lab-a") == 0
    capsys.readouterr()

    assert lab.trust("list", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [{"key": row["key"], "revoked": "yes"}]


def test_verify_without_folder_signers_or_documents(lab: Signed, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["verify", str(tmp_path / "none")]) == 4
    assert main(["verify", str(lab.folder), "--signers", str(tmp_path / "none")]) == 4
    assert main(["verify", str(empty), "--signers", str(lab.signers)]) == 5


def test_a_throwaway_key_signs_all_and_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, signers = tmp_path / "certificates", tmp_path / "trust" / "allowed_signers"
    folder.mkdir()
    file(folder, good(1), good(2))
    words = ["sign", str(folder), "--throwaway", "demonstration", "--signers", str(signers)]

    assert main(words) == 0
    assert "vouches for nobody" in capsys.readouterr().out
    assert "vouches for nobody" in signers.read_text()
    assert main(["verify", str(folder), "--signers", str(signers)]) == 0
    assert "demonstration key" in capsys.readouterr().out
    assert main(["gate", str(folder), "--signers", str(signers), "--require-signatures"]) == 0
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]

    first = signers.read_bytes()
    assert main([*words, "--again"]) == 0
    assert signers.read_bytes() != first
    assert signers.read_text().count("demonstration namespaces") == 1
    assert signers.read_text().count("vouches for nobody") == 1
    assert main(["verify", str(folder), "--signers", str(signers)]) == 0


def test_a_policy_that_refuses_demonstration_keys_is_not_met_by_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, signers, policy = tmp_path / "certificates", tmp_path / "signers", tmp_path / "policy.yaml"
    folder.mkdir()
    file(folder, good(1))
    head = "schema: statecert/policy/v1\nwhy: A test.\n"
    words = ["gate", str(folder), "--signers", str(signers), "--policy", str(policy)]
    main(["sign", str(folder), "--throwaway", "demonstration", "--signers", str(signers)])

    policy.write_text(head + "signatures: {required: true}\n")
    assert main(words) == 2
    assert "demonstration_key" in capsys.readouterr().out
    policy.write_text(head + "signatures: {required: true, demonstration_keys: accepted}\n")
    assert main(words) == 0
    assert main(["gate", str(folder), "--policy", str(policy)]) == 4


def test_a_throwaway_key_of_a_lab_is_refused(tmp_path: Path) -> None:
    (tmp_path / "certificates").mkdir()
    file(tmp_path / "certificates", good(1))

    words = ["sign", str(tmp_path / "certificates"), "--throwaway", "lab-a", "--signers", str(tmp_path / "signers")]
    assert main(words) == 4
    assert not (tmp_path / "signers").exists()
