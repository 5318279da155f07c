"""CG304: a time that is put together from others is no measurement of its own."""

from __future__ import annotations

from harness.gating.rule import Body, Problem, Problems, Rule, Subject


def check(subject: Subject) -> Problems:
    """``first_token_ns`` is composed: it lies between its parts, and no decision on latency rests on it.

    A decision on latency rests on pairs of measured times (CG401) or on nothing.
    """
    for index, cell in enumerate(subject.body["cells"]):
        for number, turn in enumerate(cell["turns"]):
            fault = _fault(turn)
            if fault:
                yield Problem(f"/body/cells/{index}/turns/{number}/first_token_ns", fault)
    verdict = subject.body["decision"]["by_axis"]["latency"]
    if verdict != "not_evaluated" and not ("latency" in subject.axes or _asked(subject)):
        yield Problem("/body/decision/by_axis/latency", f"says {verdict}; there are composed times only")


def _asked(subject: Subject) -> bool:
    """Whether the scenario asks about a time, in cells that came to no check."""
    plans = subject.sight.plans.values() if subject.sight is not None else ()
    return any(check.kind == "quicker" for plan in plans for check in plan.checks)


def _fault(turn: Body) -> str:
    first, before = turn["first_token_ns"], turn["begin_ns"] + turn["prefill_ns"] + turn["commit_ns"]
    if not turn["decoded"]:
        return f"says {first}; nothing was decoded" if first else ""
    if first and not before <= first <= before + turn["decode_ns"]:
        return f"says {first}; its parts allow {before} to {before + turn['decode_ns']}"
    return ""


RULE = Rule(
    id="CG304",
    text="The composed time to the first token agrees with its parts, and no verdict on latency rests on it.",
    pain="A sum of medians is published as a measured latency: warm-up and order are inside, nobody sees them.",
    hint="measure the first token in paired samples before a verdict on latency",
    failing=(
        "composed_time_impossible",
        "latency_verdict",
    ),
    certificate=check,
)
