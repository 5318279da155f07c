"""CG301: the body is what follows from the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.errors import StatecertError
from harness.gating.rule import Problem, Problems, Rule, Subject
from harness.wire import canonical

_MOST = 5


def check(subject: Subject) -> Problems:
    """Derive the body again and name the first paths that differ."""
    error = subject.derive_error
    if isinstance(error, StatecertError):
        yield Problem("", f"nothing follows from its evidence: {error}")
        return
    if error is not None:
        raise error
    if subject.derived is None or canonical.digest(subject.derived) == subject.id:
        return
    for number, (path, message) in enumerate(_differences("/body", subject.body, subject.derived)):
        if number == _MOST:
            break
        yield Problem(path, message)


def _differences(path: str, held: object, derived: object) -> Iterator[tuple[str, str]]:
    """Paths that differ, in document order, each with both values."""
    if isinstance(held, Mapping) and isinstance(derived, Mapping):
        yield from _in_mappings(path, held, derived)
    elif _is_list(held) and _is_list(derived):
        yield from _in_lists(path, held, derived)
    elif held != derived or _is_flag(held) != _is_flag(derived):
        yield path, f"holds {_shown(held)}; the evidence gives {_shown(derived)}"


def _in_mappings(path: str, held: Mapping[str, object], derived: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key in sorted({*held, *derived}):
        step = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if key not in derived:
            yield step, "is there; the evidence gives nothing"
        elif key not in held:
            yield step, f"is missing; the evidence gives {_shown(derived[key])}"
        else:
            yield from _differences(step, held[key], derived[key])


def _in_lists(path: str, held: object, derived: object) -> Iterator[tuple[str, str]]:
    ours = held if isinstance(held, Sequence) else ()
    theirs = derived if isinstance(derived, Sequence) else ()
    for index, (one, two) in enumerate(zip(ours, theirs, strict=False)):
        yield from _differences(f"{path}/{index}", one, two)
    if len(ours) != len(theirs):
        yield path, f"has {len(ours)} entries; the evidence gives {len(theirs)}"


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _is_flag(value: object) -> bool:
    """True equals 1 in Python, and not in a record."""
    return isinstance(value, bool)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if _is_list(value) else repr(str(value) if isinstance(value, str) else value)[:200]


RULE = Rule(
    id="CG301",
    text="The body is exactly what follows from the evidence: derived again, every field is equal.",
    pain="A verdict, a count or a digest is edited and every other digest is put right: only the evidence tells.",
    hint="restore the certificate as it was issued; `statecert judge` shows what its evidence gives",
    failing=(
        "edited_with_digests",
        "truth_for_one",
        "evidence_makes_no_sense",
        "hostile_procedure",
        "campaign_seed_edited",
        "campaign_on_evidence_of_a_run",
        "campaign_that_contradicts_itself",
        "campaign_asks_for_too_much",
    ),
    certificate=check,
)
