"""Steps that several obligations share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from harness.engines.client import Look, RemoteSession
from harness.engines.conformance import (
    LOST,
    Life,
    UnmetError,
    first_difference,
)
from harness.errors import EngineError, RefusedError
from harness.model.values import Family, RefusalCode

COME_AND_GO: Final = frozenset({Family.LOGITS, Family.SAMPLER})
"""Families whose parts may be listed at one time and not at another."""


def require(held: object, reason: str) -> None:
    """Raise with a reason that says what to do, unless something holds."""
    if not held:
        raise UnmetError(reason)


def same_life(one: Life, other: Life, sentence: str, looks: Sequence[str] = ()) -> None:
    """Require two lives to agree at every look, or at the named ones, and in their tokens.

    Args:
        one: A life.
        other: Another one.
        sentence: Says so if they do not; takes the part that differs, and when.
        looks: Names of looks; all that both have if not given.
    """
    for name in looks or one.looks:
        if name in one.looks and name in other.looks:
            found = first_difference(one.looks[name], other.looks[name])
            require(not found, sentence.format(found, name))
    require(list(one.tokens) == list(other.tokens), sentence.format("a token", "decoded"))


def listed(look: Look) -> Sequence[tuple[str, str]]:
    """Return the names and families of the parts that are listed for life."""
    return [(row.name, row.family) for row in look.rows if row.family not in COME_AND_GO]


def same_inventory(*lives: Life) -> None:
    """Require lives to list the same parts at every look."""
    stable([look for life in lives for look in life.looks.values()])


def stable(looks: Sequence[Look]) -> None:
    """Require looks to list the same parts in the same order."""
    first = listed(looks[0])
    for look in looks:
        odd = sorted({name for name, _ in set(first) ^ set(listed(look))})
        require(
            listed(look) == first,
            f"parts come and go over a session's life ({', '.join(odd) or 'their order'}); list every part always, "
            "with no rows if it is empty",
        )


def refused(what: str, wanted: RefusalCode, call: Callable[[], object]) -> None:
    """Require a call to be refused with the right word."""
    try:
        call()
    except RefusedError as refusal:
        require(refusal.code == wanted, f"{what} was refused as {refusal.code!r}; the word for it is {str(wanted)!r}")
    except LOST:
        raise
    except EngineError as error:
        name = str(error).partition(":")[0]
        raise UnmetError(f"{what} raised {name}; raise RefusedError({str(wanted)!r}) instead") from None
    else:
        raise UnmetError(f"{what} was not refused; raise RefusedError({str(wanted)!r})")


def run(session: RemoteSession, prompt: Sequence[int], *, commit: bool) -> None:
    """Run a prompt through with its boundaries captured, and end the turn or leave it open."""
    for end in session.begin(prompt, cache=True).value.schedule:
        session.prefill(end)
    if commit:
        session.commit()
