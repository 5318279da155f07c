"""CG901: signatures count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.gating.rule import FolderFacts, Problem, Problems, Rule, Subject

if TYPE_CHECKING:
    from harness.wire.signed_documents import Checked


def check_certificate(subject: Subject) -> Problems:
    """The signature beside a certificate, over the very bytes that the other rules judge."""
    from harness.wire.signed_documents import certificate_namespace, check_beside

    keyring, entry = subject.asked.keyring, subject.document.entry
    if keyring is None:
        return
    namespace = certificate_namespace(subject.body["kind"])
    one = check_beside(entry.root, entry.path, subject.text, namespace, keyring)
    if _is_problem(one, required=subject.asked.signatures):
        yield Problem("", f"signature {one.message}")


def check_folder(facts: FolderFacts) -> Problems:
    """The signatures beside events. A signature of nothing is CG103's."""
    from harness.wire import canonical
    from harness.wire.event_doc import event_to_mapping
    from harness.wire.sha256 import Digested
    from harness.wire.signed_documents import EVENT_NAMESPACE, check_beside

    keyring, root = facts.asked.keyring, facts.folder.root
    if keyring is None:
        return
    for event in facts.ledger.events:
        path = facts.ledger.paths[event.id]
        text = Digested(canonical.canonical(event_to_mapping(event)))
        one = check_beside(root, path, text, EVENT_NAMESPACE, keyring)
        if _is_problem(one, required=facts.asked.signatures):
            yield Problem(path, f"signature {one.message}")


def _is_problem(one: Checked, *, required: bool) -> bool:
    """Tell whether a signature is missing where each document has one, or is there and does not count."""
    return one.reason is not None and (required or one.reason != "unsigned")


RULE = Rule(
    id="CG901",
    text="Each signature was made by a key that counts: fitting bytes, right kind, right time, not revoked.",
    pain="Anybody can write a record that follows from evidence of their own making; a key says who vouches for it.",
    hint="have a key of the allowed signers sign it again (`statecert sign --again`); `statecert verify` shows all",
    failing=(
        "signature_of_changed_bytes",
        "signature_of_the_id_in_the_name",
        "signature_of_the_event_in_the_name",
        "signature_over_another_hash",
        "signature_of_unknown_key",
        "signature_revoked",
        "signature_expired",
        "signature_missing",
        "signature_of_a_demonstration",
        "signature_of_another_kind",
    ),
    passing="valid_signed",
    option="--signers",
    certificate=check_certificate,
    folder=check_folder,
)
