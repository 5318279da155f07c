"""Certificate files: ``body`` and ``status``, in the one rendering that their value has.

The body is what is hashed and signed and never changes. The status is generated from the ledger and may be written
again; a reader compares it, it does not believe it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.errors import InvalidDocumentError
from harness.model.certificate import Certificate, Status
from harness.model.values import CertificateState, Sha256
from harness.wire import canonical, schemas, strict

SCHEMA: Final = "certificate.v1"
MAX_BYTES: Final = 8 * 1024 * 1024
_LIMITS: Final = strict.Limits(max_bytes=MAX_BYTES, max_nodes=150_000)


def parse_certificate(data: bytes, where: str) -> Certificate:
    """Return the certificate of a file.

    Raises:
        InvalidDocumentError: It is not strict JSON, not the one rendering of its value, or does not fit its schema.
    """
    value = strict.loads(data, where=where, limits=_LIMITS, form="rendered")
    schemas.validate(value, SCHEMA, where)
    fields = _mapping(value, where)
    body: Mapping[str, object] = fields["body"]
    return Certificate(id=Sha256(canonical.digest(body)), body=body, status=status_from_mapping(fields["status"]))


def format_certificate(certificate: Certificate) -> bytes:
    """Return the bytes of a certificate file, after reading them back.

    Raises:
        InvalidDocumentError: The certificate does not fit its schema, or its id is not that of its body.
    """
    value = {"body": certificate.body, "status": status_to_mapping(certificate.status)}
    data = canonical.render(value)
    again = parse_certificate(data, "certificate to be written")
    if again.id != certificate.id:
        raise InvalidDocumentError("the id is not the digest of the body", where="certificate to be written")
    return data


def require_body(body: Mapping[str, object], where: str) -> None:
    """Do nothing if a body fits its schema.

    Raises:
        InvalidDocumentError: It does not.
    """
    schemas.validate({"body": body, "status": {"state": "current", "events": []}}, SCHEMA, where)


def status_to_mapping(status: Status) -> dict[str, object]:
    """Return a status as it stands in its file; empty fields are left out."""
    found: dict[str, object] = {"state": str(status.state), "events": list(status.events)}
    for name in ("since", "superseded_by", "reason_code"):
        value = getattr(status, name)
        if value:
            found[name] = value
    return found


def status_from_mapping(value: Mapping[str, Any]) -> Status:
    """Return the status of a mapping that fits the schema."""
    return Status(
        state=CertificateState(value["state"]),
        since=value.get("since", ""),
        superseded_by=value.get("superseded_by", ""),
        reason_code=value.get("reason_code", ""),
        events=tuple(value["events"]),
    )


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidDocumentError("found no object; allowed is one", where=where)
    return value
