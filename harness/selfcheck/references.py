"""The harness's own arithmetic held against that of others: canonical form, digests, signatures, validation, envelopes.

Each question is asked of a reference that is nobody of ours. A reference that is not installed is ``not_run``, by name.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from harness.digest.parts import KNOWN_ANSWERS, known_buffer, part_digest
from harness.errors import InvalidDocumentError
from harness.selfcheck import mutations
from harness.wire import canonical, schemas, sshsig, strict
from harness.wire.sha256 import Digested

NAMESPACE: Final = "statecert/selftest/v1@statecert.invalid"
_CASES: Final = 300
_PATIENCE_S: Final = 30


class Asked(NamedTuple):
    """One question and its answer."""

    group: str
    name: str
    outcome: str
    count: int = 0  # type: ignore[assignment] # shadows tuple.count, which nobody asks a record for
    reason: str = ""


def ask(group: str, name: str, question: Callable[[], int]) -> Asked:
    """Return the answer of a question, which counts what it compared and raises where something is otherwise."""
    try:
        count = question()
    except NotHereError as problem:
        return Asked(group, name, "not_run", 0, str(problem))
    except AssertionError as problem:
        return Asked(group, name, "fail", 0, _word(str(problem) or "differs"))
    except Exception as problem:  # noqa: BLE001 - a question that breaks is answered, and not as it should be
        return Asked(group, name, "fail", 0, _word(f"raised_{type(problem).__name__}"))
    return Asked(group, name, "pass" if count else "fail", count, "" if count else "nothing_compared")


class NotHereError(Exception):
    """A reference is not installed; the message is one word."""


def require(holds: object, word: str) -> None:
    """Raise unless something holds."""
    if not holds:
        raise AssertionError(word)


def _word(text: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in text.lower())[:64].strip("_") or "failed"


def references(documents: Sequence[bytes]) -> Iterator[Asked]:
    """Ask every reference. ``documents`` are valid certificates."""
    values = list(_values(documents))
    yield ask("references", "canonical form by json", lambda: _by_json(values))
    yield ask("references", "canonical form by rfc8785", lambda: _by_rfc8785(values))
    yield ask("references", "part digests by hashlib", _by_hashlib)
    yield ask("references", "part digests by sha256sum", _by_sha256sum)
    yield ask("references", "signatures by ssh-keygen", _by_ssh_keygen)
    yield ask("references", "schemas by jsonschema", lambda: _by_jsonschema(values))
    yield ask("references", "envelopes by securesystemslib", lambda: _by_securesystemslib(documents[0]))


def _values(documents: Sequence[bytes]) -> Iterator[object]:
    """Valid values and changed ones, of what documents can hold."""
    for number in range(_CASES):
        rng = Random(f"references:{number}")  # noqa: S311 - cases are to be the same everywhere
        value: object = json.loads(rng.choice(documents))
        value = mutations.of_value(rng, value) if number % 3 else value
        try:
            strict.loads(canonical.render(value), where="")
        except (TypeError, ValueError, InvalidDocumentError):
            continue
        yield value


def _by_json(values: Sequence[object]) -> int:
    for value in values:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        require(canonical.canonical(value) == text.encode(), "differs_from_json")
        require(strict.loads(canonical.render(value), where="") == value, "not_read_back")
    return len(values)


def _by_rfc8785(values: Sequence[object]) -> int:
    _installed("rfc8785")
    import rfc8785

    for value in values:
        require(canonical.canonical(value) == rfc8785.dumps(value), "differs_from_rfc8785")  # type: ignore[arg-type]
    return len(values)


def _by_hashlib() -> int:
    for answer in KNOWN_ANSWERS:
        data = bytes(known_buffer(answer.seed, answer.size))
        require(part_digest(data) == hashlib.sha256(data).hexdigest() == answer.sha256, "differs_from_hashlib")
    return len(KNOWN_ANSWERS)


def _by_sha256sum() -> int:
    program = _program("sha256sum")
    for answer in KNOWN_ANSWERS[:4]:
        data = bytes(known_buffer(answer.seed, answer.size))
        said = _run([program], data).stdout.split()[0].decode()
        require(said == part_digest(data), "differs_from_sha256sum")
    return 4


def _by_ssh_keygen() -> int:
    """Ours are accepted there, theirs here by either hash, byte for byte the same; a changed byte by neither."""
    program = _program("ssh-keygen")
    from harness.certifying.sign import load_private_key

    with tempfile.TemporaryDirectory(prefix="statecert-key-") as scratch:
        key = Path(scratch) / "key"
        _run([program, "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)], b"")
        private = load_private_key(key)
        public = private.public_key().public_bytes_raw()
        (Path(scratch) / "signers").write_text(f"lab {sshsig.key_text(public)}\n")
        message, changed = b'{"a":1}', b'{"a":1} '
        ours = sshsig.sign(message, NAMESPACE, private)
        sign = [program, "-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, "-O"]
        theirs = {name: _run([*sign, f"hashalg={name}"], message).stdout for name in sshsig.HASHES}
        require(ours == theirs[sshsig.HASH], "signatures_differ")
        (Path(scratch) / "sig").write_bytes(ours)
        verify = [program, "-Y", "verify", "-f", str(Path(scratch) / "signers"), "-I", "lab", "-n", NAMESPACE]
        verify += ["-s", str(Path(scratch) / "sig")]
        require(_run(verify, message).returncode == 0, "ours_not_accepted")
        require(_run(verify, changed).returncode != 0, "changed_accepted_there")
        for name, signature in theirs.items():
            found = sshsig.parse(signature, "signature")
            require(found.algorithm == name, "another_hash_told")
            require(sshsig.is_valid(found, Digested(message)), "theirs_not_accepted")
            require(not sshsig.is_valid(found, Digested(changed)), "changed_accepted_here")
    return 3 + 3 * len(theirs)


def _by_jsonschema(values: Sequence[object]) -> int:
    """What the validator that decides accepts, the one that explains accepts too. It may refuse more (a line feed)."""
    product = schemas.product_schemas()
    accepted = [value for value in values if product.is_valid(value, "certificate.v1")]
    for value in accepted:
        require(not product.errors(value, "certificate.v1"), "accepted_by_one_alone")
    require(len(accepted) < len(values), "nothing_refused")
    return len(values)


def _by_securesystemslib(document: bytes) -> int:
    _installed("securesystemslib")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]

    from harness.certifying.attestation import envelope, statement
    from harness.wire.certificate_doc import parse_certificate

    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    made = envelope(statement(parse_certificate(document, "a.json")), private)
    reader = SSlibKey(sshsig.fingerprint(public), "ed25519", "ed25519", {"public": public.hex()})
    require(list(Envelope.from_dict(json.loads(json.dumps(made))).verify([reader], 1)), "envelope_refused")
    payload = bytearray(base64.b64decode(str(made["payload"])))
    payload[10] ^= 1
    changed: Mapping[str, object] = {**made, "payload": base64.b64encode(bytes(payload)).decode()}
    try:
        Envelope.from_dict(json.loads(json.dumps(changed))).verify([reader], 1)
    except Exception:  # noqa: BLE001 - whichever error of theirs: it was not accepted
        return 2
    raise AssertionError("changed_envelope_accepted")


def _installed(package: str) -> None:
    if find_spec(package) is None:
        raise NotHereError("not_installed")


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NotHereError("not_installed")
    return found


def _run(command: Sequence[str], data: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(list(command), input=data, capture_output=True, timeout=_PATIENCE_S, check=False)
