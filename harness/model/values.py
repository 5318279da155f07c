"""Small values with one meaning each. All closed choices are string enums: no zero means anything."""

from __future__ import annotations

from enum import StrEnum
from typing import NewType

Sha256 = NewType("Sha256", str)
"""64 lower-case hex digits. The algorithm is SHA-256 wherever this type stands."""

CellId = NewType("CellId", str)
"""Like ``A16[scale=16,at=end+1]``: scenario id, ``scale``, then every axis in the order of its name."""

ClaimKey = NewType("ClaimKey", str)
"""``<scenario>/<engine>-<model>/<hw_class>``, a slug path that is also the certificate's folder."""

NO_LAYER = -1
"""Layer number of a part that belongs to no layer (metadata, logits, sampler)."""


class Outcome(StrEnum):
    """What a check or a cell comes to."""

    PASS = "pass"
    """Every check of the cell answered yes, and every control was seen."""
    FAIL = "fail"
    """A check answered no: the engine is wrong, or a limit is not met."""
    INCONCLUSIVE = "inconclusive"
    """Not repeatable, too few or too noisy samples, or the baseline failed alike."""
    ERROR = "error"
    """The harness or the engine broke; says nothing about exactness."""
    NOT_RUN = "not_run"
    """Hardware or a prerequisite is absent."""
    NOT_SUPPORTED = "not_supported"
    """The target does not declare a capability that the scenario needs."""
    EXCLUDED = "excluded"
    """A rule of the scenario or target takes this combination out, with a reason."""


class Verdict(StrEnum):
    """A decision, per axis and overall."""

    PASS = "pass"
    STOP = "stop"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"
    NOT_EVALUATED = "not_evaluated"
    """Nothing on this axis was judged. Never stands as overall."""


class DecisionAxis(StrEnum):
    """What a check speaks about."""

    EXACTNESS = "exactness"
    QUALITY = "quality"
    LATENCY = "latency"
    FOOTPRINT = "footprint"
    ROBUSTNESS = "robustness"
    TOLERANCE = "tolerance"
    """Nearness within stated limits; no part of exactness. Stands in a decision only where something asked about it."""


class Observability(StrEnum):
    """How much of the state the harness saw; a certificate never claims more than its grade."""

    PARTS = "parts"
    IMAGE = "image"
    LOGITS = "logits"
    TOKENS = "tokens"


class Guarantee(StrEnum):
    """What equality a comparison demands."""

    SAME_SCHEDULE = "same_schedule"
    """Bit-exact: same chunk boundaries, threads, kernels."""
    SESSION_EXACT = "session_exact"
    """Bit-exact continuation of the live session, not of a cold run."""
    TOLERANCE = "tolerance"
    """Another numeric path with its own limit; exact inequality is recorded, not judged."""
    TOKENS_ONLY = "tokens_only"
    """Only the token ids are compared."""


class Witness(StrEnum):
    """How a comparison shows that a restore really happened."""

    COPIED = "copied"
    """State was copied back: restored tokens and restored bytes are above zero."""
    RESIDENT = "resident"
    """Rows stayed where they were; fixed parts were copied back."""
    LIVE = "live"
    """Nothing was copied: the live session went on."""
    DISK = "disk"
    """State was copied back, and its bytes came from the disk tier, in a process that did not write them."""
    REUSED = "reused"
    """Tokens were reused, whether state was copied back or stayed where it was."""
    REFUSED = "refused"
    """The engine said no, by name, and nothing changed."""
    NONE = "none"
    """No restore is claimed (a cold or cache-off run)."""


class Phase(StrEnum):
    """When, inside a step, the state was looked at."""

    OPENED = "opened"
    """A new session before any token: its layout is the target's inventory."""
    BOUNDARY = "boundary"
    """A pause in a cold prefill, at a chunk boundary."""
    RESTORED = "restored"
    """Right after a restore, before anything else runs."""
    PREFILLED = "prefilled"
    """After the last prompt token; pending logits are valid."""
    END = "end"
    """After the last decoded token of the step."""
    SEEN = "seen"
    """At an ``observe`` step."""


class ArmRole(StrEnum):
    """What an arm is for."""

    REFERENCE = "reference"
    """Cold; runs twice, so that an unrepeatable device is not blamed on a restore."""
    CANDIDATE = "candidate"
    CONTROL = "control"
    """Carries a corruption that must be seen."""


class Capability(StrEnum):
    """What a session or an engine can do. What is not declared gives ``not_supported`` cells."""

    PARTS = "parts"
    """List every state part with its bytes."""
    LOGITS = "logits"
    """Give the last logits as bytes."""
    BOUNDARIES = "boundaries"
    """Pause a prefill at chunk boundaries."""
    PREFIX_CACHE = "prefix_cache"
    """Keep snapshots of prompt prefixes and reuse them in later prompts."""
    SNAPSHOT = "snapshot"
    """Explicit whole-session snapshots: take, restore into any session of the engine."""
    EXTEND = "extend"
    """Prefill more tokens on top of the present state (another turn)."""
    SAMPLING = "sampling"
    """Seeded sampling; its generator is part of the state."""
    STORE = "store"
    """List the snapshots held, with parents and bytes."""
    EVICT = "evict"
    """Evict, clear and resize the snapshot store on request."""
    CORRUPT = "corrupt"
    """Flip bits in a live part or a stored snapshot, for controls."""
    SESSION_OPTIONS = "session_options"
    """Sessions of one engine may differ in chunk, namespace, route or flags, and share its store."""
    IMAGE = "image"
    """Export the session as bytes and import it."""
    CANCEL = "cancel"
    """Cancel a turn between two calls."""
    DISK = "disk"
    """Keep snapshots in a folder that outlives the process."""
    ROLLBACK = "rollback"
    """Take the last tokens of a session back in place: crop, trim, removal from a cache."""
    MEANWHILE = "meanwhile"
    """Ask a session for something while a call of it is in progress."""
    BUILDS = "builds"
    """Be opened as another build of itself (option ``build``: ``other``), told apart by what was really loaded."""
    RESTORED_CACHE = "restored_cache"
    """A session that was restored or imported is a cache itself: a later prompt that begins like it reuses it."""
    ARCHIVE = "archive"
    """Decode an archive of coded K/V rows straight into a session's rows."""


class Family(StrEnum):
    """Kinds of state part."""

    META = "meta"
    """Part 0: position, counters, per-layer lengths."""
    KV = "kv"
    INDEX = "index"
    RECURRENT = "recurrent"
    CONV = "conv"
    WINDOW = "window"
    """Ring of a full sliding window: overwritten in place, hence a fixed part."""
    PLE = "ple"
    """Per-layer embeddings: their convolution window, and the tokens that the next row is looked up with."""
    LOGITS = "logits"
    SAMPLER = "sampler"
    DRAFT = "draft"
    IMAGE = "image"
    """The whole state as one opaque blob."""


class RefusalCode(StrEnum):
    """Why an engine said no. One word each, so that the right no can be told from a wrong one."""

    SHORT_BUFFER = "short_buffer"
    FORMAT = "format"
    IDENTITY = "identity"
    """Other model, weights, tokenizer, device or build."""
    KV_MODE = "kv_mode"
    """Other K or V element type."""
    LAYOUT = "layout"
    """Other parts, row sizes, or rows that do not join up."""
    CAPACITY = "capacity"
    MISSING = "missing"
    """A planned snapshot, or a link of its chain, is no longer there."""
    BUDGET = "budget"
    UNSUPPORTED = "unsupported"
    STATE = "state"
    """Not now: a prefill, verify or decode is in progress, or nothing is; or another process holds the disk folder."""
    TRANSFER = "transfer"
    """Everything was right and the copy itself failed: the one refusal after which the session is a reset one."""


class CrashKind(StrEnum):
    """How a cell ended when it did not end by itself."""

    CRASH = "crash"
    HANG = "hang"
    OUT_OF_MEMORY = "out_of_memory"
    ENGINE_ERROR = "engine_error"
    """The engine raised something that is not a named refusal."""
    PROTOCOL = "protocol"


class TreeState(StrEnum):
    """Whether the path sets of the subject equal what git has at the commit named beside it."""

    CLEAN = "clean"
    DIRTY = "dirty"
    NO_REPOSITORY = "no_repository"
    """Imported from an installed package: there is no commit to compare with."""


class CertificateState(StrEnum):
    """What the ledger says of a certificate."""

    CURRENT = "current"
    SUPERSEDED = "superseded"
    WITHDRAWN = "withdrawn"


class ReasonCode(StrEnum):
    """Why a ledger event was made."""

    RERUN_SAME_INPUTS = "rerun_same_inputs"
    SOURCE_CHANGED = "source_changed"
    SCENARIO_CHANGED = "scenario_changed"
    MODEL_CHANGED = "model_changed"
    ENVIRONMENT_CHANGED = "environment_changed"
    HARDWARE_CHANGED = "hardware_changed"
    HARNESS_BUG = "harness_bug"
    MEASUREMENT_INVALID = "measurement_invalid"
    SCHEMA_MIGRATION = "schema_migration"
    RECORD_ERROR = "record_error"
