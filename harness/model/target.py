"""Target: engine build, model and device, with digests; and the state of the machine around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.model.noun import dataclass, field, replace
from harness.model.values import Capability, Observability, Sha256, TreeState


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What a user names on the command line, before anything is probed."""

    name: str
    """Label of this target, like ``torch-cpu``."""
    adapter: str
    """Entry-point name in group ``harness.engines`` (or ``harness.mutants``)."""
    device: str = "best"
    """``best``, ``cpu``, ``cuda``, ``cuda:1``, ``mps`` …; the adapter says which it knows."""
    options: Mapping[str, str | int | bool] = field(default_factory=dict)
    """Engine options, like ``preset``; the scenario's own options win where it sets them."""
    group: str = "harness.engines"
    """Entry-point group; a target of ``harness.mutants`` can never be certified."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PathSet:
    """Contents of a declared set of files, as imported."""

    name: str
    digest: Sha256
    """``tree-sha256-v1``."""
    files: int
    patterns: Sequence[str] = ()
    """As declared, like ``harness.torch_engine:**/*.py``, so that anybody can digest the files again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetFacts:
    """What the child process reported of the engine that it really loaded."""

    engine: str
    """Slug, like ``torch``."""
    engine_version: str
    model: str
    """Slug, like ``tiny``."""
    model_digest: Sha256
    hw_class: str
    """Like ``cpu-x86_64-avx512``, ``cuda-sm_90``, ``rocm-gfx1151-unified``, ``metal-m1-ultra``."""
    observability: Observability
    capabilities: Sequence[Capability]
    identity: Mapping[str, str | int | bool]
    """Everything else: library digests, element types, effective settings read back."""
    device: Mapping[str, str | int | bool]
    path_sets: Sequence[PathSet]


FORKED: Final = "forked"
"""Fact ``children`` of an environment: those after the first were forked of one process. No certificate rests on it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """The machine, as far as it may be told: nothing here names a host, a user or a path."""

    machine: Sha256
    """Salted hash of the machine's id: tells two machines apart, names neither."""
    facts: Mapping[str, str | int]
    """os, kernel release, libc, python, packages, cpu name, cores, memory bytes, load before the run, jobs,
    ``children``, where they are not started."""

    def alone(self) -> Environment:
        """Return what it is for a part of the run in which one job works and the others have not begun."""
        return replace(self, facts={**self.facts, "jobs": 1})


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where the harness and the engine's own files came from."""

    tree: TreeState
    commit: str
    """40 hex, or empty outside a repository. Information; freshness rests on path sets."""
    harness_version: str
    path_sets: Sequence[PathSet]
