"""What a child tells of its engine: read, and held to what it was asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.engines.channel import Message
from harness.engines.interface import Options
from harness.errors import ProtocolError
from harness.model.target import PathSet, Target, TargetFacts
from harness.model.values import Capability, Observability, Sha256

BEST: Final = "best"
"""Device name that stands for the first one that is there."""
IGNORED: Final = "option_ignored"
"""First word of the error where an engine has another option than it was opened with."""
_UNKNOWN: Final = "unknown"
_NO_DIGEST: Final = Sha256("0" * 64)


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What a child says of the engine with the target's own options; every child of a target must say the same."""

    identity: Mapping[str, object]
    path_sets: Sequence[Sequence[object]]
    capabilities: frozenset[Capability]
    device: str


def identity_of(answer: Message) -> Mapping[str, object]:
    """Return the identity in an answer.

    Raises:
        ProtocolError: A field is missing, or the observability is no word of the seam.
    """
    identity = answer.body.get("identity")
    names = ("engine", "version", "model", "model_digest", "hw_class", "observability", "facts", "device", "path_sets")
    if not isinstance(identity, dict) or any(name not in identity for name in names):
        raise ProtocolError(f"found the identity {identity!r}; expected {', '.join(names)}")
    if identity["observability"] not in frozenset(Observability):
        raise ProtocolError(f"found the observability {identity['observability']!r}")
    return identity


def ignored(asked: Options, facts: Mapping[str, str | int | bool]) -> str:
    """Say which option an engine was given and has not; empty: none that it tells of."""
    for name, value in asked.items():
        fact = facts.get(name, value)
        if fact != value and str(fact) != str(value):
            return f"{IGNORED}: {name} is {fact!r} after {value!r} was asked for"
    return ""


def plain(facts: object) -> Mapping[str, str | int | bool]:
    """Return facts by name, sorted.

    Raises:
        ProtocolError: They are no mapping to text, integers, true or false.
    """
    if not isinstance(facts, dict) or not all(isinstance(fact, str | int) for fact in facts.values()):
        raise ProtocolError("found facts that are not text, integers, true or false")
    return {str(name): fact for name, fact in sorted(facts.items())}


def patterns(declared: object) -> Mapping[str, Sequence[str]]:
    """Return path sets, as patterns by name.

    Raises:
        ProtocolError: They are something else.
    """
    if not isinstance(declared, dict) or not all(isinstance(found, list) for found in declared.values()):
        raise ProtocolError("found path sets that are not lists of patterns by name")
    return {str(name): [str(pattern) for pattern in found] for name, found in declared.items()}


def facts_of(
    identity: Mapping[str, object], told: Sequence[Sequence[object]], capabilities: Collection[Capability]
) -> TargetFacts:
    """Return what an identity and the digests of its path sets say, as evidence holds it.

    Args:
        identity: Of :func:`identity_of`.
        told: Name, digest and number of files of each path set.
        capabilities: What the adapter declares.
    """
    path_sets = [
        PathSet(name=str(name), digest=Sha256(str(digest)), files=int(str(files))) for name, digest, files in told
    ]
    return TargetFacts(
        engine=str(identity["engine"]),
        engine_version=str(identity["version"]),
        model=str(identity["model"]),
        model_digest=Sha256(str(identity["model_digest"])),
        hw_class=str(identity["hw_class"]),
        observability=Observability(str(identity["observability"])),
        capabilities=sorted(capabilities),
        identity=plain(identity["facts"]),
        device=plain(identity["device"]),
        path_sets=path_sets,
    )


def absent_facts(target: Target, capabilities: Collection[Capability], reason: str) -> TargetFacts:
    """Return what can be told of a target whose device is not here.

    Args:
        target: It.
        capabilities: What its adapter declares.
        reason: Why the device is absent.
    """
    asked = "device" if target.device == BEST else target.device
    return TargetFacts(
        engine=target.adapter,
        engine_version=_UNKNOWN,
        model=str(target.options.get("preset", _UNKNOWN)),
        model_digest=_NO_DIGEST,
        hw_class=f"{asked.replace(':', '-')}-absent",
        observability=Observability.PARTS if Capability.PARTS in capabilities else Observability.TOKENS,
        capabilities=sorted(capabilities),
        identity={},
        device={"absent": reason},
        path_sets=[],
    )
