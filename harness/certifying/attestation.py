"""A certificate for readers who know in-toto: a Statement v1 in a DSSE envelope, signed with the same key.

The subject names what the certificate speaks of, by digests; the predicate is its body, whole. The envelope is another
format over other bytes than the signature beside the certificate: both begin with a mark of their own, so neither can
be taken for the other.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from harness.deriving.fields import mappings_at, text_at
from harness.model.certificate import Certificate
from harness.wire import canonical, sshsig

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://statecert.invalid/predicate/certificate/v1"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"


def statement(certificate: Certificate) -> dict[str, object]:
    """Return the in-toto Statement of a certificate."""
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in _subjects(certificate)],
        "predicateType": PREDICATE_TYPE,
        "predicate": {"id": certificate.id, "body": certificate.body},
    }


def envelope(value: Mapping[str, object], private: Ed25519PrivateKey) -> dict[str, object]:
    """Return the DSSE envelope of a statement, with one signature."""
    payload = canonical.canonical(value)
    signature = private.sign(pre_authentication(PAYLOAD_TYPE, payload))
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [
            {
                "keyid": sshsig.fingerprint(private.public_key().public_bytes_raw()),
                "sig": base64.b64encode(signature).decode(),
            }
        ],
    }


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """Return what DSSE signs: type and payload with their lengths, so that neither runs into the other."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def _subjects(certificate: Certificate) -> Iterator[tuple[str, str]]:
    """Name everything with a digest that the certificate speaks of; names are unique, as in-toto wants them."""
    body = certificate.body
    engine = text_at(body, "subject", "engine", "name")
    for one in mappings_at(body, "subject", "path_sets"):
        yield f"engine/{engine}/{one.get('name')}", str(one.get("digest"))
    yield f"model/{text_at(body, 'subject', 'model', 'name')}", text_at(body, "subject", "model", "digest")
    for one in mappings_at(body, "harness", "path_sets"):
        yield f"harness/{one.get('name')}", str(one.get("digest"))
    yield _procedure(body)
    evidence = text_at(body, "run", "evidence", "sha256")
    yield f"evidence/{evidence}.jsonl", evidence
    yield f"certificate/{certificate.id}", certificate.id


def _procedure(body: Mapping[str, object]) -> tuple[str, str]:
    """Name what was done: a scenario by the digest that it carries, a campaign by that of its own words."""
    if "campaign" in body:
        return f"procedure/{text_at(body, 'campaign')}", canonical.digest(body.get("procedure"))
    return f"procedure/{text_at(body, 'scenario', 'id')}", text_at(body, "scenario", "procedure_digest")
