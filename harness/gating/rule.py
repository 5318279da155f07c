"""What a rule is, and what it is given.

A rule finds; it never decides the exit code of a run, never writes, never raises on purpose: whatever it raises is a
bug of the rule and is reported as one.

These nouns are named tuples: a gate of one certificate takes hardly longer than to start Python, and a data class costs
five times as much to make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.errors import ExitCode
from harness.gating.folder import Entry, Folder
from harness.gating.known import Known
from harness.gating.sight import Sight
from harness.model.certificate import Event
from harness.model.evidence import Evidence

if TYPE_CHECKING:
    from harness.deriving.prose import Prose
    from harness.gating.freshness import Freshness
    from harness.gating.since import Since
    from harness.model.campaign import CampaignRecords
    from harness.model.policy import Policy
    from harness.wire.sha256 import Digested
    from harness.wire.signed_documents import Keyring

Body = Mapping[str, Any]
"""A body or a status that fits its schema; rules may rely on the fields that are required there."""


class Problem(NamedTuple):
    """One thing that a rule found: where inside the document (a JSON pointer, or empty), and what."""

    at: str
    message: str
    severity: str = ""
    """Empty: that of the rule."""
    hint: str = ""
    """What to do about this one; empty: what the rule says."""


Problems = Iterable[Problem]


class Fault(NamedTuple):
    """Why a document could not be read, filed under the rule whose question it fails."""

    rule: str
    """``CG101`` strict parse, ``CG102`` schema, ``CG104`` spelling, ``CG204`` closed by its own end record."""
    at: str
    message: str


class Document(NamedTuple):
    """One file of a known kind, read and parsed as far as that went."""

    entry: Entry
    sha256: str
    """Of the bytes of an evidence file as they lie there; empty where they could not be read."""
    value: Body
    """Empty where it could not be read."""
    faults: Sequence[Fault] = ()


class Ledger(NamedTuple):
    """All events of a folder that could be read."""

    events: Sequence[Event] = ()
    """Oldest first."""
    paths: Mapping[str, str] = {}
    """Id of each event to its path."""
    by_target: Mapping[str, Sequence[Event]] = {}
    """Id of a certificate to the events that speak of it, oldest first."""


class Subject(NamedTuple):
    """One certificate that parses and fits its schema, with its evidence. In memory only while its rules run."""

    document: Document
    id: str
    """SHA-256 of the canonical bytes of the body, computed here."""
    body: Body
    status: Body
    evidence: Evidence | None
    """Of a run; None where the blob is absent or could not be read (other rules say so), or nothing follows from it."""
    sight: Sight | None
    """The same evidence, indexed; there whenever ``evidence`` is."""
    campaign: CampaignRecords | None
    """Records of a campaign; None under the same conditions, and where the evidence is of a run."""
    derived: Body | None
    """What ``derive_body`` makes of the evidence; None where it could not be made. Evidence is shown to rules only with
    it: then its procedure is known to make sense, and hostile shapes end in CG301 and not in a broken rule."""
    derive_error: Exception | None
    """Why ``derived`` is None although there is evidence."""
    ledger: Ledger
    state: str
    """What the ledger says of it, whatever its status member says."""
    asked: Asked
    text: Digested
    """The canonical bytes of the body, whose SHA-256 the id is."""
    axes: frozenset[str] = frozenset()
    """Axes that checks of its cells speak of."""


class Asked(NamedTuple):
    """What the caller of a gate asked for, beyond what always holds."""

    day: str
    """Like ``2026-12-31``: on which waivers must hold."""
    passes: bool = False
    keyring: Keyring | None = None
    """Whose signatures count."""
    signatures: bool = False
    """Whether a document without a signature is a finding."""
    fresh: Freshness | None = None
    """Files as they are now."""
    policy: Policy | None = None
    since: Since | None = None
    """The change that is judged."""
    prose: Sequence[Prose] = ()
    """Texts that speak of certificates."""

    @property
    def options(self) -> frozenset[str]:
        """Options of the command line that say the same."""
        found = {
            "--require-pass": self.passes,
            "--signers": self.keyring is not None,
            "--fresh": self.fresh is not None,
            "--policy": self.policy is not None,
            "--since": self.since is not None,
            "--claims": bool(self.prose),
        }
        return frozenset(option for option, given in found.items() if given)


class FolderFacts:
    """What folder-wide rules look at: digests and small facts, no bodies."""

    def __init__(self, folder: Folder, ledger: Ledger, load: Callable[[FolderFacts, str], Body], asked: Asked) -> None:
        self.folder = folder
        self.ledger = ledger
        self.asked = asked
        self.certificates = Known()
        self.unread = 0
        """Certificates that were there and could not be read."""
        self.looked_at: set[str] = set()
        """Paths of the evidence files that were read."""
        self._load = load

    def body(self, certificate: str) -> Body:
        """Read the body of one certificate again, by its id; empty where there is none."""
        return self._load(self, certificate)


class Rule(NamedTuple):
    """One rule: what it demands, whom it protects, how it ends, how to mend what it finds."""

    id: str
    text: str
    pain: str
    """What goes wrong without it."""
    hint: str
    """What to do when it fires."""
    exit_code: ExitCode = ExitCode.INVALID
    severity: str = "error"
    option: str = ""
    """Option of the command line without which it does not run; empty: it always runs."""
    failing: Sequence[str] = ()
    """Names of fixtures (``tests/gating/*_fixtures.py``) on which it fires."""
    passing: str = "valid"
    """Name of a fixture on which it has nothing to say."""
    entry: Callable[[Entry], Problems] | None = None
    document: Callable[[Document], Problems] | None = None
    certificate: Callable[[Subject], Problems] | None = None
    prose: Callable[[FolderFacts, Prose], Problems] | None = None
    folder: Callable[[FolderFacts], Problems] | None = None
    """A problem of a folder rule has the path (and pointer) in ``at``."""

    @property
    def only_on_request(self) -> bool:
        """Whether it runs only where an option asks for it."""
        return bool(self.option)
