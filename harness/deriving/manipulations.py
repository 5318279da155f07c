"""What a step does to states, images, stored snapshots and files: from resolved values to its target and budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.deriving.lengths import Scaling, length
from harness.deriving.node import Node
from harness.model.scenario import Scalar, StepKind

_FLIP_KEYS: Final = ("part", "byte", "mask")
_ALTERATIONS: Final[Mapping[str, Mapping[str, int]]] = {
    "truncate": {"count": 1},
    "extend": {"count": 1},
    "fragment": {"count": 7},
    "flip": {"at": 0, "mask": 1},
    "splice": {"at": 0},
    "forge": {},
}
"""How an image is altered, to the numbers that this needs with their defaults."""
_SPOILINGS: Final[Mapping[str, Mapping[str, int]]] = {
    "header": {"byte": 0, "mask": 1},
    "payload": {"byte": 0, "mask": 1},
    "truncate": {"count": 1},
    "extend": {"count": 1},
    "missing": {},
    "symlink": {},
    "rename": {},
    "short_key": {},
}
"""What is done to a file of the disk tier, to the numbers that this needs with their defaults."""


def target_of(fields: Node, kind: StepKind, scaling: Scaling) -> Mapping[str, Scalar]:
    """Return what a step works on and how; empty for a step that needs no such thing.

    Raises:
        InvalidScenarioError: Fields are missing, or do not belong together.
    """
    match kind:
        case StepKind.CORRUPT:
            return _corruption(fields, scaling)
        case StepKind.EXPORT:
            return {key: fields.child(key).integer() for key in ("capacity", "short_by") if key in fields}
        case StepKind.ALTER:
            return _alteration(fields)
        case StepKind.RESTART:
            return {"how": fields.optional_text("how", "stop")}
        case StepKind.SPOIL:
            return _spoiling(fields, scaling)
        case StepKind.MEANWHILE:
            return _asked(fields)
        case StepKind.ENCODE | StepKind.BRING:
            return {"codec": fields.child("codec").text(), "version": fields.child("version").integer()}
        case _:
            return {}


def budget_of(fields: Node) -> Mapping[str, int | str]:
    """Return bytes and entries, as they are or as a multiple of what an earlier step saw.

    Raises:
        InvalidScenarioError: Fields do not belong together.
    """
    budget: dict[str, int | str] = {}
    for key in ("bytes", "entries", "times", "plus"):
        if key in fields:
            budget[key] = fields.child(key).integer()
    if "of" in fields:
        budget["of"] = fields.child("of").text()
    if ("times" in budget) != ("of" in budget):
        fields.fail("found only one of 'times' and 'of'; they belong together")
    if not budget or ("bytes" in budget and "times" in budget):
        fields.fail("allowed are 'bytes' and 'entries', or 'times' and 'of' with 'plus' and 'entries'")
    return budget


def stop_of(fields: Node) -> Mapping[str, int | str]:
    """Return what ends a decode early; empty: nothing does."""
    if "stop_token" not in fields:
        return {}
    node = fields.child("stop_token")
    if isinstance(node.value, Mapping):
        return {"of": node.child("of").text(), "index": node.child("index").integer()}
    return {"token": node.integer()}


def _corruption(fields: Node, scaling: Scaling) -> Mapping[str, Scalar]:
    keys = ("damage",) if "damage" in fields else _FLIP_KEYS
    target = {key: fields.child(key).scalar() for key in ("where", *keys)}
    if "damage" in target and target["where"] != "store":
        fields.fail("found a damage to something else than the store; allowed are part, byte and mask there")
    if target["where"] == "store":
        target["boundary"] = length(fields.child("boundary"), scaling)
    if target["where"] == "handle" and "handle" not in fields:
        fields.fail("found no handle; a corruption of a handle names it")
    return target


def _asked(fields: Node) -> Mapping[str, Scalar]:
    ask = fields.child("ask").text()
    if (ask == "restore") != ("handle" in fields):
        fields.fail("found only one of ask: restore and handle; they belong together")
    return {"ask": ask}


def _alteration(fields: Node) -> Mapping[str, Scalar]:
    how = fields.child("how").text()
    target: dict[str, Scalar] = {"how": how, "to": fields.optional_text("to", fields.child("image").text())}
    target |= _numbers(fields, _ALTERATIONS, how)
    for wanted, key in (("splice", "of"), ("forge", "what")):
        if how == wanted:
            target[key] = fields.child(key).text()
        elif key in fields:
            fields.fail(f"found {key!r} beside {how}; it belongs to {wanted}")
    return target


def _spoiling(fields: Node, scaling: Scaling) -> Mapping[str, Scalar]:
    what = fields.child("what").text()
    target: dict[str, Scalar] = {"what": what, "boundary": length(fields.child("boundary"), scaling)}
    if "index" in fields:
        target["index"] = fields.child("index").integer()
    target |= _numbers(fields, _SPOILINGS, what)
    return target


def _numbers(fields: Node, known: Mapping[str, Mapping[str, int]], how: str) -> dict[str, Scalar]:
    if how not in known:
        fields.fail(f"found {how!r}; allowed are {', '.join(known)}")
    others = {key for keys in known.values() for key in keys} - set(known[how])
    strange = sorted(key for key in others if key in fields)
    if strange:
        fields.fail(f"found {strange[0]!r} beside {how}; it needs {', '.join(known[how]) or 'nothing'}")
    return {key: fields.optional_integer(key, default) for key, default in known[how].items()}
