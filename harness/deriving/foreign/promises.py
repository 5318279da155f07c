"""Rows of documents that say what was or is to be certified, and hold no result: policies, rosters, drafts.

Whether they are consistent can be told; that anything ran cannot. So none of them is more than `inconclusive`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from harness.deriving.foreign.comparisons import held
from harness.deriving.foreign.nouns import Check, Finding, Row
from harness.deriving.foreign.reading import Members
from harness.errors import InvalidDocumentError

REQUIRED: Final = ("single-step", "chain", "state-handoff")
"""What a family must pass to be certified in full."""
MOBILITY: Final = ("accepted", "untested", "rejected_too_large")
"""What a draft may say of moving the exact state."""
_DIGEST: Final = r"[0-9a-f]{64}\Z"
_COMMIT: Final = r"[0-9a-f]{40,64}\Z"
_ORACLES: Final = ("local-monolithic", "independent-trace", "none")
_STATUS: Final = ("certified", "provisional")


def policy_row(found: Members) -> Row:
    """Return what a policy of certified families says: its profiles, and which of its models can be held to them.

    Raises:
        InvalidDocumentError: It has no profiles or no models.
    """
    profiles = _profiles(found.inner("policy"))
    models = found.list("models")
    if not models or not profiles:
        raise InvalidDocumentError("found no models or no profiles", where=found.at)
    named = [one.text("profile") for one in models]
    full = {"full", *(name for name in profiles if profiles[name].text("oracle") == "independent-trace")}
    lanes = all({*REQUIRED} <= {*profiles[name].texts("required_lanes")} for name in full if name in profiles)
    words = all(
        one.text("status") in _STATUS
        and one.text("oracle") in _ORACLES
        and (one.text("status") != "certified" or one.text("oracle") != "none")
        for one in profiles.values()
    )
    evidence = [one for one in models if one.text("profile") == "workload-oracle"]
    files = [_pinned(one.inner("artifact")) for one in models]
    loose = [
        name for name in named if name in profiles and profiles[name].text("status") == "provisional"
    ]  # fmt: skip
    return Row(
        name="family_policy",
        count=len(models),
        recorded="not_said",
        checks=(
            held("lanes", holds=lanes and "full" in profiles, observed=f"{len(full & profiles.keys())} profiles"),
            held("profiles", holds={*named} <= profiles.keys(), observed=f"{len({*named} & profiles.keys())} used"),
            held("oracle", holds=words, observed=f"{len(profiles)} profiles"),
            held("evidence_named", holds=all(one.has("evidence") for one in evidence), observed=f"{len(evidence)}"),
            held("pinned", holds=all(files), observed=f"{files.count(True)} of {len(files)} artifacts"),
            _nothing_inside(),
        ),
        findings=[
            Finding(code="provisional_families", where="family_policy", detail={"models": len(loose)})
        ] if loose else (),
    )  # fmt: skip


def roster_row(found: Members) -> Row:
    """Return what a roster of certified architectures says: what of the engine's build it is bound to.

    Raises:
        InvalidDocumentError: It has no architectures.
    """
    recipe, names = found.inner("native_recipe"), found.texts("architectures")
    if not names:
        raise InvalidDocumentError("found no architectures", where=f"{found.at}.architectures")
    bound = (
        re.match(_COMMIT, recipe.text("llama_upstream_sha")) is not None
        and re.match(_DIGEST, recipe.text("patch_queue_sha256")) is not None
        and bool(recipe.text("skippy_abi"))
    )
    return Row(
        name="split_roster",
        count=len(names),
        recorded="not_said",
        checks=(
            held("bound", holds=bound, observed=recipe.text("skippy_abi")[:80]),
            held("once_each", holds=len({*names}) == len(names), observed=f"{len({*names})} of {len(names)}"),
            _nothing_inside(),
        ),
    )


def capability_row(found: Members) -> Row:
    """Return what a draft of a family's capabilities says of its exact state.

    Raises:
        InvalidDocumentError: It says another word than those that are known.
    """
    word = found.text("exact_state_mobility")
    if word not in MOBILITY:
        raise InvalidDocumentError(
            f"found {word[:40]!r}; known are {', '.join(MOBILITY)}", where=f"{found.at}.exact_state_mobility"
        )
    reasons: Mapping[str, str] = {
        "accepted": "no_evidence_inside",
        "untested": "untested_or_mismatched",
        "rejected_too_large": "too_large_to_try",
    }
    check = Check(id="exact_state", axis="exactness", outcome="inconclusive", reason=reasons[word], observed=word)
    hidden = [Finding(code="mismatch_filed_as_untested", where="capability")] if word == "untested" else []
    return Row(name="capability", count=1, recorded="not_said", checks=(check,), findings=hidden)


def _nothing_inside() -> Check:
    return Check(id="results", axis="exactness", outcome="inconclusive", reason="no_evidence_inside")


def _profiles(policy: Members) -> Mapping[str, Members]:
    inner = policy.inner("profiles")
    return {name: inner.inner(name) for name in inner.value}


def _pinned(artifact: Members) -> bool:
    """Tell whether a revision and the bytes of every listed file are named by a digest."""
    files: Sequence[Members] = _integrity(artifact)
    return re.match(_COMMIT, artifact.text("revision")) is not None and all(
        re.match(_DIGEST, one.text("blob_id")) is not None and (one.whole("size_bytes") or 0) > 0 for one in files
    )


def _integrity(artifact: Members) -> Sequence[Members]:
    """``file_integrity``: of one file, of files by their names, or a list."""
    value = artifact.value.get("file_integrity")
    if isinstance(value, list):
        return artifact.list("file_integrity")
    inner = artifact.inner("file_integrity")
    if not inner.value or inner.has("blob_id"):
        return [inner]
    return [inner.inner(name) for name in inner.value]
