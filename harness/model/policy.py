"""What a gate demands beyond validity. Limits belong to scenarios; nothing here judges a measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.model.noun import dataclass, field

LEVELS = ("experimental", "opt-in", "default")
"""Of a promotion, each with all that the ones before it need."""
SHOWN = "shown"


@dataclass(frozen=True, kw_only=True, slots=True)
class RequiredClaim:
    """A claim key, or a pattern of them, that must be current and have passed."""

    claim: str
    """Like ``A01/torch-tiny/cpu-*``; a star stays within its step."""
    cells: Sequence[str] = ()
    """Ids of cells that must have passed; empty: whatever the certificate has."""
    observability: str = ""
    """Least grade; empty: any."""
    least: Mapping[str, int] = field(default_factory=dict)
    """Members of a campaign's procedure, like ``flips``, and the least that each may be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """What a level of promotion needs."""

    certificates: Sequence[str] = ()
    """Scenario ids and campaign names, each with a current certificate that passed."""
    axes: Sequence[str] = ()
    """Axes that one of these certificates passed and none decided otherwise."""
    reuse: str = ""
    """``shown``: something planted came back through a restore in one of these certificates; ``told``: the engine's
    counters will do. Empty: ``shown`` for level ``default``, ``told`` for the others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotion:
    """One row of the promotion table: what is offered on what, and how boldly."""

    engine: str
    device: str
    """Pattern of a hardware class."""
    k: str
    v: str
    """Element types of K and V."""
    level: str

    @property
    def name(self) -> str:
        """How findings name the row."""
        return f"{self.engine} on {self.device} with {self.k}/{self.v} as {self.level}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtimes:
    """What a result of one class of devices may have been made with; anything else has expired."""

    device: str
    """Pattern of a hardware class."""
    facts: Mapping[str, Sequence[str]]
    """Fact of the device, like ``driver``, to patterns of what it may be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """A policy file."""

    sha256: str
    """Of the bytes of the file."""
    source: str
    """Where it was read: a path, or ``<commit>:<path>``."""
    claims: Sequence[RequiredClaim] = ()
    observability: str = ""
    """Least grade of every current certificate; empty: any."""
    signatures: bool = False
    """Whether every document must be signed."""
    demonstration_keys: bool = False
    """Whether signatures by principals named ``demonstration`` count."""
    max_age_days: int = 0
    """Age of a run from which its certificate has expired; 0: none."""
    runtimes: Sequence[Runtimes] = ()
    max_folder_bytes: int = 0
    """Bytes of all files of the folder; 0: no bound."""
    waivers: Sequence[str] | None = None
    """Rules that may be waived; None: any that can be."""
    waiver_days: int = 0
    """Longest waiver; 0: no bound."""
    foreign: bool = False
    """Whether records that others published may satisfy a claim or a level."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    promotions: Sequence[Promotion] = ()

    def needs(self, level: str) -> Level:
        """Return what a level needs, with what the levels before it need."""
        upto = [self.levels.get(name, Level()) for name in LEVELS[: LEVELS.index(level) + 1]]
        asked = [one.reuse or (SHOWN if name == LEVELS[-1] else "") for name, one in zip(LEVELS, upto, strict=False)]
        return Level(
            reuse=next((one for one in reversed(asked) if one), ""),
            certificates=tuple(dict.fromkeys(name for one in upto for name in one.certificates)),
            axes=tuple(dict.fromkeys(name for one in upto for name in one.axes)),
        )
