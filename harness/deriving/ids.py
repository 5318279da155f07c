"""Ids that are derived: of certificates and events, claim keys, file names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from harness.errors import InvalidDocumentError
from harness.model.values import ClaimKey, Sha256
from harness.wire import canonical

ID12: Final = 12
"""Digits of an id that file names show; links and the ledger use all 64."""

_DIGITS: Final = frozenset("0123456789")
_SMALL: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_WORD: Final = _SMALL | {"_", "."}
_CAMPAIGN: Final = r"[a-z][a-z0-9_]{1,31}\Z"
_TAKEN: Final = frozenset({"evidence", "ledger"})
_OUTSIDE: Final = r"[^a-z0-9_.]+"


def certificate_id(body: Mapping[str, object]) -> Sha256:
    """Return the id of a certificate: SHA-256 of the canonical bytes of its body, which are also what is signed."""
    return Sha256(canonical.digest(body))


def id12(identity: str) -> str:
    """Return the digits of an id that file names show."""
    return identity[:ID12]


def claim_key(scenario: str, engine: str, model: str, hw_class: str) -> ClaimKey:
    """Return ``<scenario>/<engine>-<model>/<hw_class>``, which is also a folder.

    Raises:
        InvalidDocumentError: A piece is no slug; it is refused, not repaired, since two names must not become one.
    """
    if not ("A" <= scenario[:1] <= "Z" and len(scenario) in (3, 4) and _DIGITS.issuperset(scenario[1:])):
        raise InvalidDocumentError(f"found scenario {scenario!r}; allowed is a letter and two or three digits")
    return _key(scenario, engine, model, hw_class)


def campaign_key(campaign: str, engine: str, model: str, hw_class: str) -> ClaimKey:
    """Return ``<campaign>/<engine>-<model>/<hw_class>``.

    Raises:
        InvalidDocumentError: A piece is no slug, or the campaign has the name of another folder.
    """
    if re.match(_CAMPAIGN, campaign) is None or campaign in _TAKEN:
        raise InvalidDocumentError(f"found campaign {campaign[:64]!r}; allowed is one lower-case word")
    return _key(campaign, engine, model, hw_class)


def _key(first: str, engine: str, model: str, hw_class: str) -> ClaimKey:
    # without a dash: the first one ends the engine's name, so no two pairs of engine and model make one key
    if not _is_slug(engine) or "-" in engine:
        allowed = slug(engine).replace("-", "_")
        raise InvalidDocumentError(f"found engine {engine[:96]!r}; allowed is a slug without dashes, like {allowed!r}")
    for name, value in (("model", model), ("hw_class", hw_class)):
        if not _is_slug(value):
            raise InvalidDocumentError(f"found {name} {value!r}; allowed is a slug like {slug(value)!r}")
    return ClaimKey(f"{first}/{engine}-{model}/{hw_class}")


def _is_slug(text: str) -> bool:
    """Words of letters, digits, ``_`` and ``.`` with single dashes between; by loops: a pattern is slow to compile."""
    words = text.split("-")
    return len(text) <= 96 and text[:1] in _SMALL and all(word and _WORD.issuperset(word) for word in words)


def slug(text: str) -> str:
    """Return a text as a slug: lower case, everything else than letters, digits, ``_`` and ``.`` a single dash."""
    return re.sub(_OUTSIDE, "-", text.lower()).strip("-.") or "unnamed"


def certificate_name(created: str, identity: str) -> str:
    """Return the file name of a certificate: the day of its run and the first digits of its id."""
    return f"{created[:10]}-{id12(identity)}.json"
