"""The export for in-toto readers, read and verified by an implementation that is not ours."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]

from harness.certifying.attestation import PAYLOAD_TYPE, pre_authentication
from harness.certifying.sign import load_private_key
from harness.cli import main
from harness.wire.sshsig import fingerprint
from tests.ledger.support import by_run, file, good
from tests.signing.support import make_key


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], bytes, str]:
    """An envelope, the public key, and the id of the certificate."""
    root = tmp_path_factory.mktemp("export")
    (root / "certificates").mkdir()
    file(root / "certificates", good(1))
    identity = by_run(root / "certificates", 1).id
    key, out = make_key(root), root / "out.json"
    words = ["export", "--in-toto", identity[:8], "--key", str(key), "--out", str(out)]
    assert main([*words, "--folder", str(root / "certificates")]) == 0
    return json.loads(out.read_bytes()), load_private_key(key).public_key().public_bytes_raw(), identity


def reader_key(public: bytes) -> SSlibKey:
    return SSlibKey(fingerprint(public), "ed25519", "ed25519", {"public": public.hex()})


def test_an_independent_reader_verifies_the_envelope(exported: tuple[dict[str, Any], bytes, str]) -> None:
    value, public, identity = exported

    envelope = Envelope.from_dict(json.loads(json.dumps(value)))
    accepted = envelope.verify([reader_key(public)], 1)

    assert list(accepted) == [fingerprint(public)]
    assert envelope.pae() == pre_authentication(PAYLOAD_TYPE, envelope.payload)
    statement = json.loads(envelope.payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicate"]["id"] == identity
    assert statement["predicate"]["body"]["claim_key"].startswith("T01/")


def test_a_changed_payload_or_another_key_is_refused(exported: tuple[dict[str, Any], bytes, str]) -> None:
    value, public, _ = exported
    changed = json.loads(json.dumps(value))
    payload = base64.b64decode(changed["payload"]).replace(b'"pass"', b'"stop"', 1)
    changed["payload"] = base64.b64encode(payload).decode()

    with pytest.raises(VerificationError):
        Envelope.from_dict(changed).verify([reader_key(public)], 1)
    with pytest.raises(VerificationError):
        Envelope.from_dict(json.loads(json.dumps(value))).verify([reader_key(bytes(31) + b"\x01")], 1)


def test_subjects_are_named_once_each_and_by_digest(exported: tuple[dict[str, Any], bytes, str]) -> None:
    value, _, identity = exported
    statement = json.loads(base64.b64decode(value["payload"]))

    subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    assert len(subjects) == len(statement["subject"])
    assert subjects["engine/fake/engine"] == "a1" * 32
    assert subjects["model/digests"] == "b2" * 32
    assert subjects["harness/harness"] == "e5" * 32
    assert subjects[f"certificate/{identity}"] == identity
    assert any(name.startswith("evidence/") for name in subjects)


def test_without_a_key_or_over_a_file_nothing_is_written(tmp_path: Path) -> None:
    folder, out = tmp_path / "certificates", tmp_path / "out"
    folder.mkdir()
    file(folder, good(1))
    identity = by_run(folder, 1).id[:8]

    assert main(["export", "--in-toto", identity, "--out", str(out), "--folder", str(folder)]) == 4
    assert not out.exists()
    assert main(["export", "--bytes", identity, "--out", str(out), "--folder", str(folder)]) == 0
    before = out.read_bytes()
    assert main(["export", "--bytes", identity, "--out", str(out), "--folder", str(folder)]) == 4
    assert out.read_bytes() == before
