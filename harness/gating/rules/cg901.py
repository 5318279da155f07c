"""CG901: signatures count."""

from __future__ import annotations

from harness.gating.rule import FolderFacts, Problem, Problems, Rule


def check(facts: FolderFacts) -> Problems:
    """Each signature that is there counts; where signatures are required, each document has one."""
    from pathlib import Path

    from harness.wire.signed_documents import signature_problems

    keyring, required = facts.asked.keyring, facts.asked.signatures
    if keyring is None:
        return
    for one in signature_problems(Path(facts.folder.root), keyring, required=required):
        yield Problem(one.path, f"signature {one.message}")


RULE = Rule(
    id="CG901",
    text="Each signature was made by a key that counts: fitting bytes, right kind, right time, not revoked.",
    pain="Anybody can write a record that follows from evidence of their own making; a key says who vouches for it.",
    hint="have a key of the allowed signers sign it again (`statecert sign --again`); `statecert verify` shows all",
    failing=(
        "signature_of_changed_bytes",
        "signature_of_unknown_key",
        "signature_revoked",
        "signature_expired",
        "signature_missing",
        "signature_of_a_demonstration",
        "signature_of_another_kind",
    ),
    passing="valid_signed",
    option="--signers",
    folder=check,
)
