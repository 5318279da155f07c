"""Who an engine says that it is, and whether it is the same engine twice."""

from __future__ import annotations

import re
from typing import Final

from harness.deriving.ids import claim_key
from harness.engines.conformance import (
    Kit,
    UnmetError,
)
from harness.engines.obligations.common import require, same_life
from harness.errors import InvalidDocumentError
from harness.model.values import Capability, Observability
from harness.wire import privacy

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def identity(kit: Kit) -> None:
    """Names are slugs, digests are digests, facts are there and private to nobody, the grade fits the capabilities."""
    facts = kit.facts
    try:
        claim_key("A01", facts.engine, facts.model, facts.hw_class)
    except InvalidDocumentError as error:
        raise UnmetError(str(error)) from None
    require(facts.engine_version, "version is empty; read it from the library that was loaded")
    digest = str(facts.model_digest)
    require(_SHA256.fullmatch(digest) and set(digest) != {"0"}, "model_digest is no SHA-256 of 64 hex digits")
    require(facts.identity, "facts are empty; read effective settings and element types back from the engine")
    require(facts.device, "device is empty; give its name or kind, 'unknown' where it cannot be told")
    require(facts.path_sets, "path_sets are empty; declare the engine's own files as '<package>:<glob>'")
    private = privacy.findings({"facts": facts.identity, "device": facts.device})
    require(not private, f"private: {'; '.join(private[:3])}; leave it out or hash it")
    sees = Capability.PARTS in kit.host.capabilities
    require(
        sees == (facts.observability is Observability.PARTS),
        f"observability is {facts.observability}, capability parts is {'' if sees else 'not '}declared; make them fit",
    )
    again = kit.host.start()
    require(again == facts, "a second engine says that it is another one; identity() must depend on what is loaded")


def cold_repeats(kit: Kit) -> None:
    """Two engines with the same prompt agree in every part, the logits and the tokens, at every look."""
    with kit.session() as session:
        first = kit.live(session)
    with kit.session() as session:
        second = kit.live(session)
    same_life(first, second, "not_repeatable: of two cold runs {} differs {}; pin threads, kernels and seeds")
