"""A valid single-bit campaign in memory, and the same with one thing changed. No engine runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.deriving.campaign import derive_campaign
from harness.deriving.faults import CLEAN_EVERY, LEFT_OUT, Flip, plan_flips
from harness.model.campaign import CampaignRecords
from harness.model.evidence import PartRow, Trust
from harness.model.values import Sha256
from harness.wire import canonical
from harness.wire.campaign_doc import read_campaign
from harness.wire.evidence_doc import part_table
from harness.wire.records import record_to_mapping
from tests.fakes.evidence import header as header_of_run
from tests.fakes.evidence import scenario

BOUNDARY = 8
Line = dict[str, Any]


def digest(text: str) -> Sha256:
    """A digest that stands for some bytes."""
    return Sha256(hashlib.sha256(text.encode()).hexdigest())


def part(name: str, family: str, element_type: str, shape: tuple[int, ...], size: int, layer: int) -> PartRow:
    """One row of the table at the boundary."""
    return PartRow(
        name=name,
        family=family,
        layer=layer,
        element_type=element_type,
        shape=shape,
        stream="rows" if family == "kv" else "fixed",
        bytes=size,
        sha256=digest(name),
    )


ROWS = (
    part("meta", "meta", "u8", (40,), 40, -1),
    part("layer0.k", "kv", "bf16", (BOUNDARY, 2, 4), 128, 0),
    part("layer1.state", "recurrent", "f32", (4, 4), 64, 1),
)
SEEN: Mapping[str, str] = {name: digest(name) for name in ("prefilled", "end", "logits", "logits_end", "tokens")}


@dataclass(frozen=True, kw_only=True)
class Flown:
    """The records of a campaign without its end record."""

    lines: Sequence[Line]

    def data(self) -> bytes:
        """Bytes of the closed file."""
        before = b"".join(map(canonical.line, self.lines))
        end = {
            "type": "end",
            "records": len(self.lines),
            "sha256": hashlib.sha256(before).hexdigest(),
            "finished": str(self.lines[0]["created"]).replace("T08", "T09"),
            "elapsed_ns": 3_600_000_000_000,
        }
        return before + canonical.line(end)

    def records(self) -> CampaignRecords:
        """What a reader makes of the file."""
        return read_campaign(self.data(), "campaign")

    def body(self) -> dict[str, Any]:
        """What follows."""
        return derive_campaign(self.records())

    def with_line(self, kind: str, number: int = 0, **changes: Any) -> Flown:
        """Change members of one record of a type; None removes a member."""
        places = [index for index, line in enumerate(self.lines) if line["type"] == kind]
        lines = list(self.lines)
        changed = {**lines[places[number]], **changes}
        lines[places[number]] = {name: value for name, value in changed.items() if value is not None}
        return replace(self, lines=lines)

    def with_header(self, **changes: Any) -> Flown:
        """Change members of the header; a mapping is merged into what is there."""
        old = self.lines[0]
        new: Line = {
            name: {**old[name], **value} if isinstance(value, Mapping) and name in old else value
            for name, value in changes.items()
        }
        return self.with_line("header", **new)

    def without(self, drop: Callable[[Line], bool]) -> Flown:
        """Leave records out."""
        return replace(self, lines=[line for line in self.lines if not drop(line)])


def flown(
    flips: int = 4,
    kinds: Sequence[str] = ("bf16", "f32"),
    *,
    run: int = 1,
    day: int = 1,
    environment: Mapping[str, Any] | None = None,
) -> Flown:
    """A campaign that located every flip."""
    table = part_table(ROWS)
    lines: list[Line] = [_header(flips, kinds, run=run, day=day, environment=environment or {})]
    for number, kind in enumerate(kinds):
        about = {"element_type": kind, "restored": table.root, **SEEN}
        lines += [record_to_mapping(table)] if not number else []
        lines += [{"type": "reference", "rep": rep, "options": {"k_type": kind}, **about} for rep in (0, 1)]
        for one in plan_flips(ROWS, count=flips, seed=1, kind=kind):
            lines += [{"type": "clean", **about}] if one.number % CLEAN_EVERY == 0 else []
            lines.append(_flip(one, kind))
        lines.append({"type": "clean", **about})
    lines.append(record_to_mapping(TRUST))
    return Flown(lines=lines)


TRUST = Trust(child=1, hashed_by="host", algorithm="sha256-part-v1", known_answers=13, spot_checks=2, mismatches=0)


def _header(flips: int, kinds: Sequence[str], *, run: int, day: int, environment: Mapping[str, Any]) -> Line:
    procedure = {
        "seed": 1,
        "flips": flips,
        "element_types": list(kinds),
        "left_out": sorted(LEFT_OUT),
        "boundary": BOUNDARY,
        "prompt": {"seed": 2, "tokens": 12, "digest": digest("prompt")},
        "decode": 3,
    }
    return header_line("faults", procedure, run=run, day=day, environment=environment)


def header_line(
    campaign: str, procedure: Mapping[str, Any], *, run: int, day: int, environment: Mapping[str, Any] | None = None
) -> Line:
    """The first line of a campaign's file."""
    like = record_to_mapping(header_of_run(scenario(), run=1000 + run, day=day))
    machine = like["environment"]
    assert isinstance(machine, Mapping)
    return {
        "type": "header",
        "schema": "statecert/campaign/v1",
        "campaign": campaign,
        "procedure": dict(procedure),
        **{name: like[name] for name in ("run_id", "created", "target", "source")},
        "environment": {**machine, **(environment or {})},
    }


def _flip(flip: Flip, kind: str) -> Line:
    """What a harness that sees everything writes of one flip; later looks see every second one."""
    new = digest(f"{kind}{flip.number}")
    rows = [replace(row, sha256=new) if row.name == flip.part else row for row in ROWS]
    width = {"bf16": 2, "f32": 4}[flip.element_type]
    later = {name: digest(f"{name}{flip.number}") if flip.number % 2 else was for name, was in SEEN.items()}
    return {
        "type": "flip",
        "element_type": kind,
        **{name: getattr(flip, name) for name in ("number", "where", "part", "byte", "mask")},
        "position": BOUNDARY,
        "changed": {flip.part: new},
        "restored": part_table(rows).root,
        **later,
        "tokens": SEEN["tokens"],
        "located": {
            **{name: getattr(flip, name) for name in ("part", "layer", "byte", "row", "element")},
            "reference": "00" * width,
            "candidate": (1 << flip.bit).to_bytes(width, "little").hex(),
            "differing_elements": 1,
            "shape": "single_bit",
        },
    }
