"""Members that every certificate's body has, whatever its kind: what was tested, where, and what limits that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.model.values import Observability, TreeState

Record = Mapping[str, object]


def subject(target: Record, source: Record) -> dict[str, object]:
    """Return engine, model and files."""
    return {
        "engine": {
            "name": target["engine"],
            "version": target["engine_version"],
            "adapter": target["adapter"],
            "group": target["group"],
        },
        "model": {"name": target["model"], "digest": target["model_digest"]},
        "capabilities": target["capabilities"],
        "identity": target["identity"],
        **({"options": target["options"]} if "options" in target else {}),
        "path_sets": target["path_sets"],
        "tree": source["tree"],
        "commit": source["commit"],
    }


def environment(machine: Record, target: Record) -> dict[str, object]:
    """Return machine and device."""
    return {
        "machine": machine["machine"],
        "hw_class": target["hw_class"],
        "device": target["device"],
        "facts": machine["facts"],
    }


def harness(source: Record) -> dict[str, object]:
    """Return version and files of the harness."""
    return {"version": source["harness_version"], "path_sets": source["path_sets"]}


def limits_of_target(target: Record, source: Record) -> Iterator[str]:
    """Return what target and source keep a record from showing, as codes."""
    identity = target.get("identity")
    # weights that come from a seed stand in for a trained model: bits are judged, answers are not
    if isinstance(identity, Mapping) and {"seed", "weights_sha256"} <= set(identity):
        yield "seeded_weights"
    grade = target.get("observability", Observability.PARTS)  # the harness by itself has none
    if grade != Observability.PARTS:
        yield f"observability_{grade}"
    if source.get("tree") == TreeState.NO_REPOSITORY:
        yield "no_repository"
    if target.get("group") == "harness.mutants":
        yield "mutant"


def one_word(words: list[str]) -> str:
    """Return the word that all children share; ``mixed`` or ``none`` where they share none."""
    different = sorted(set(words))
    return different[0] if len(different) == 1 else ("mixed" if different else "none")
