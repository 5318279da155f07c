"""Ids that are derived: of certificates and events, claim keys, file names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.errors import InvalidDocumentError
from harness.model.typed import Final
from harness.model.values import ClaimKey, Sha256
from harness.wire import canonical

ID12: Final = 12
"""Digits of an id that file names show; links and the ledger use all 64."""

_SCENARIO: Final = r"[A-Z][0-9]{2,3}\Z"
_CAMPAIGN: Final = r"[a-z][a-z0-9_]{1,31}\Z"
_TAKEN: Final = frozenset({"evidence", "ledger"})
_SLUG: Final = r"[a-z0-9][a-z0-9_.]*(-[a-z0-9_.]+)*\Z"
_ENGINE: Final = r"[a-z0-9][a-z0-9_.]*\Z"
"""Without a dash: the first one ends the engine's name, so no two pairs of engine and model make one key."""
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
    if re.match(_SCENARIO, scenario) is None:
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
    if re.match(_ENGINE, engine) is None or len(engine) > 96:
        allowed = slug(engine).replace("-", "_")
        raise InvalidDocumentError(f"found engine {engine[:96]!r}; allowed is a slug without dashes, like {allowed!r}")
    for name, value in (("model", model), ("hw_class", hw_class)):
        if re.match(_SLUG, value) is None or len(value) > 96:
            raise InvalidDocumentError(f"found {name} {value!r}; allowed is a slug like {slug(value)!r}")
    return ClaimKey(f"{first}/{engine}-{model}/{hw_class}")


def slug(text: str) -> str:
    """Return a text as a slug: lower case, everything else than letters, digits, ``_`` and ``.`` a single dash."""
    return re.sub(_OUTSIDE, "-", text.lower()).strip("-.") or "unnamed"


def certificate_name(created: str, identity: str) -> str:
    """Return the file name of a certificate: the day of its run and the first digits of its id."""
    return f"{created[:10]}-{id12(identity)}.json"
