"""A campaign of single-bit faults: one bit flipped at a time, brought back by a restore, and located before it spreads.

For each element type of K and V: two cold runs of one prompt, a stored snapshot at its first chunk boundary, then flip
after flip: restore, flip, look, locate, forward the suffix, decode. What final logits and greedy tokens alone would
have seen stands beside what the part digests saw. The file holds digests; every count is derived from it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from harness.campaigning.campaign import Campaign, Tell, Write, conduct, require_able
from harness.deriving.faults import CLEAN_EVERY, FAULTS, LEFT_OUT, Flip, plan_flips
from harness.deriving.prompts import prompt_digest, prompt_ids
from harness.errors import ProtocolError, RefusedError, UsageError
from harness.model.evidence import PartRow
from harness.model.scenario import PromptSegment, PromptSpec
from harness.model.values import Capability, Family, RefusalCode
from harness.pipeline import Bench
from harness.wire.evidence_doc import observation_to_mapping, part_table

if TYPE_CHECKING:
    from harness.engines.client import Look, RemoteEngine, RemoteSession
    from harness.engines.host import EngineHost

NATIVE: Final = "native"
"""Element type that stands for whatever the engine has without being asked."""
TYPES: Final = ("f32", "f16", "bf16")
BOUNDARY: Final = 512
"""Chunk, and where the snapshot is."""
SUFFIX: Final = 300
DECODE: Final = 64
CAPACITY: Final = 896
PROMPT_SEED: Final = 4242
NEEDED: Final = (
    Capability.PARTS,
    Capability.LOGITS,
    Capability.BOUNDARIES,
    Capability.PREFIX_CACHE,
    Capability.STORE,
    Capability.CORRUPT,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a caller chose."""

    flips: int
    seed: int
    element_types: Sequence[str]


def run_faults(bench: Bench, asked: Asked, tell: Tell | None = None) -> Campaign:
    """Run a campaign on a target that is up, and write its two files into the run folder.

    Raises:
        UsageError: No flips were asked for, or the engine does not know an element type.
        NothingToDoError: The device is absent, or the engine cannot do what a campaign needs.
        EngineError: The engine did not go on.
    """
    if asked.flips < 1 or not asked.element_types:
        raise UsageError(f"found {asked.flips} flips of {len(asked.element_types)} types; at least one of each is due")
    require_able(bench, NEEDED)

    def work(write: Write) -> Sequence[EngineHost]:
        for kind in asked.element_types:
            _run_kind(bench, asked, kind, write, tell or _silent)
        return [bench.host]

    return conduct(bench, FAULTS, _procedure(asked), work)


def _procedure(asked: Asked) -> Mapping[str, object]:
    prompt = _prompt()
    return {
        "seed": asked.seed,
        "flips": asked.flips,
        "element_types": list(asked.element_types),
        "left_out": sorted(LEFT_OUT),
        "boundary": BOUNDARY,
        "prompt": {"seed": PROMPT_SEED, "tokens": len(prompt), "digest": prompt_digest(prompt)},
        "decode": DECODE,
    }


def _prompt() -> Sequence[int]:
    return prompt_ids({"A": PromptSpec(segments=[PromptSegment(tokens=BOUNDARY + SUFFIX, seed=PROMPT_SEED)])}, "A")


def _run_kind(bench: Bench, asked: Asked, kind: str, write: Write, tell: Tell) -> None:
    options = {} if kind == NATIVE else {"k_type": kind, "v_type": kind}
    spool = bench.folder / "spool"
    bench.host.open_spool(spool)
    try:
        with _Walk(bench, kind, options, write) as walk:
            flips = plan_flips(walk.references(), count=asked.flips, seed=asked.seed, kind=kind)
            for flip in flips:
                if flip.number % CLEAN_EVERY == 0:
                    walk.clean()
                walk.flip(flip)
                tell(kind, flip.number + 1)
            walk.clean()
    finally:
        bench.host.close_spool()


class _Walk:
    """The runs of one element type, on one engine whose store holds the snapshot at the boundary.

    Args:
        bench: The target.
        kind: Name of the element type in the records.
        options: Engine options that give it.
        write: Where records go.
    """

    def __init__(self, bench: Bench, kind: str, options: Mapping[str, str], write: Write) -> None:
        self._bench = bench
        self._kind = kind
        self._options = options
        self._write_record = write
        self._prompt = _prompt()
        self._rows: Sequence[PartRow] = ()
        self._engine = self._opened()
        self._session = self._engine.open_session({})
        self._key = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bench.host.alive:
            self._engine.close()

    def references(self) -> Sequence[PartRow]:
        """Run the prompt cold, twice, on engines of their own; fill the store; return the table at the boundary."""
        self._cold(self._session, 0)
        again = self._opened()
        self._cold(again.open_session({}), 1)
        again.close()
        for end in self._session.begin(self._prompt, cache=True).value.schedule:
            self._session.prefill(end)
        self._session.commit()
        keys = [str(entry["key"]) for entry in self._engine.store()[0] if entry["boundary"] == BOUNDARY]
        if len(keys) != 1:
            raise ProtocolError(f"found {len(keys)} snapshots at {BOUNDARY} tokens; expected one")
        self._key = keys[0]
        return self._rows

    def clean(self) -> None:
        """Restore and go on without a flip: it must equal the reference, also after hundreds of flips."""
        look = self._restored()
        self._write("clean", look, {})

    def flip(self, flip: Flip) -> None:
        """Flip one bit, look, locate, go on, and put it right again."""
        what = {"number": flip.number, "where": flip.where, "part": flip.part, "byte": flip.byte, "mask": flip.mask}
        if flip.where == "store":
            self._in_store(flip)
        try:
            look = self._restored(flip if flip.where == "live" else None)
        except RefusedError as refusal:
            if flip.where == "live":
                raise
            self._write_record({"type": "flip", "element_type": self._kind, **what, "refused": refusal.code})
        else:
            self._write("flip", look, {**what, "position": look.position, **self._differences(look)})
        if flip.where == "store":
            self._in_store(flip)

    def _opened(self) -> RemoteEngine:
        try:
            return self._bench.host.open_engine({**self._options, "chunk": BOUNDARY, "max_seq_len": CAPACITY})
        except RefusedError as refusal:
            if refusal.code == RefusalCode.UNSUPPORTED and self._options:
                raise UsageError(f"the engine refuses {dict(self._options)} ({refusal}); try --type {NATIVE}") from None
            raise

    def _cold(self, session: RemoteSession, rep: int) -> None:
        schedule = session.begin(self._prompt, cache=False).value.schedule
        if BOUNDARY not in schedule or schedule[-1] != len(self._prompt):
            raise ProtocolError(f"found the schedule {list(schedule)}; expected {BOUNDARY} and {len(self._prompt)}")
        session.prefill(BOUNDARY)
        look = session.look(spool=rep == 0)
        table = part_table(look.rows)
        if rep == 0:
            self._rows = look.rows
            self._write_record(observation_to_mapping(table))
        seen = self._seen(session, look)
        about = {"element_type": self._kind, "rep": rep, "options": dict(self._options)}
        self._write_record({"type": "reference", **about, **seen})

    def _in_store(self, flip: Flip) -> None:
        self._engine.corrupt_store(self._key, flip.part, flip.byte, flip.mask)

    def _restored(self, live: Flip | None = None) -> Look:
        """Restore the snapshot, flip a live bit if asked to, and look before anything else runs."""
        begun = self._session.begin(self._prompt, cache=True).value
        if begun.cached != BOUNDARY:
            raise ProtocolError(f"{begun.cached} tokens were restored; expected {BOUNDARY}")
        if live is not None:
            self._session.corrupt(live.part, live.byte, live.mask)
        return self._bench.host.look(self._session)

    def _differences(self, look: Look) -> Mapping[str, object]:
        """Return the digests of all parts that changed, and where the first of them differs."""
        if [row.name for row in look.rows] != [row.name for row in self._rows]:
            raise ProtocolError("other parts are listed after a restore than in the cold run")
        pairs = [(one, other) for one, other in zip(self._rows, look.rows, strict=True) if one.sha256 != other.sha256]
        found: dict[str, object] = {"changed": {other.name: other.sha256 for _, other in pairs}}
        if pairs and pairs[0][0].family != Family.META:
            reference = pairs[0][0]
            place = self._session.locate(reference.name, reference.sha256)
            found["located"] = {
                "part": reference.name,
                "layer": reference.layer,
                "byte": place.byte,
                "row": place.row,
                "element": place.element,
                "reference": place.reference,
                "candidate": place.candidate,
                "differing_elements": place.differing_elements,
                "shape": place.shape,
            }
        return found

    def _write(self, kind: str, look: Look, about: Mapping[str, object]) -> None:
        seen = self._seen(self._session, look)
        self._session.abandon()
        self._write_record({"type": kind, "element_type": self._kind, **about, **seen})

    def _seen(self, session: RemoteSession, restored: Look) -> Mapping[str, object]:
        """Go on from the boundary to the last token; return the digest of everything on the way."""
        session.prefill(len(self._prompt))
        prefilled = session.look(spool=False)
        tokens = session.decode(DECODE, {}).value.tokens
        end = session.look(spool=False)
        return {
            "restored": part_table(restored.rows).root,
            "prefilled": part_table(prefilled.rows).root,
            "end": part_table(end.rows).root,
            "logits": prefilled.logits,
            "logits_end": end.logits,
            "tokens": prompt_digest(tokens),
        }


def _silent(kind: str, done: int) -> None:
    """Tell nobody."""
