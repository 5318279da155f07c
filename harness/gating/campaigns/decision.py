"""A decision against the words that its counts give."""

from __future__ import annotations

from collections.abc import Mapping

from harness.gating.rule import Body, Problem, Problems


def hold(body: Body, *, nothing: Mapping[str, bool], wrong: Mapping[str, bool]) -> Problems:
    """Find what a decision says otherwise.

    Args:
        body: Whose decision it is.
        nothing: Reasons why nothing was shown, and whether each holds; one is enough for an error.
        wrong: Reasons for a stop, likewise.
    """
    decision = body["decision"]
    for overall, reasons in (("error", nothing), ("stop", wrong), ("pass", {})):
        held = [word for word, holds in reasons.items() if holds]
        if held or overall == "pass":
            if decision["overall"] != overall:
                yield Problem("/body/decision/overall", f"says {decision['overall']}; its counts give {overall}")
            if decision["reasons"] != held:
                said = ", ".join(decision["reasons"]) or "none"
                yield Problem("/body/decision/reasons", f"are {said}; its counts give {', '.join(held) or 'none'}")
            return


def hold_counts(at: str, row: Mapping[str, object], counted: Mapping[str, object]) -> Problems:
    """Find counts that the records do not show."""
    for name, count in counted.items():
        if row[name] != count:
            yield Problem(f"{at}/{name}", f"says {row[name]}; the records show {count}")


def untrusted(body: Body) -> bool:
    """Tell whether nothing says that digests can be believed."""
    return bool(body["trust"]["mismatches"]) or not body["trust"]["children"]
