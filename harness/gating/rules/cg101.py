"""CG101: strict parse."""

from __future__ import annotations

from harness.gating.rule import Document, Problem, Problems, Rule


def check(document: Document) -> Problems:
    """Whatever the strict reader refused: encoding, duplicate keys, floats, nulls, size, depth, trailing bytes."""
    for fault in document.faults:
        if fault.rule == RULE.id:
            yield Problem(fault.at, fault.message)


RULE = Rule(
    id="CG101",
    text="Every document is strict JSON: UTF-8 without a mark, no key twice, no float, no null, within the limits.",
    pain="Two readers see two records in one file: with a key twice, `stop` then `pass` reads `pass`.",
    hint="restore the file as it was issued; documents are written by commands, not by hand",
    failing=(
        "duplicate_key",
        "not_a_number",
        "overflow",
        "a_null",
        "deep_nesting",
        "huge_integer",
        "byte_order_mark",
        "utf_16",
        "lone_surrogate",
        "trailing_garbage",
        "null_in_event",
        "float_in_evidence",
        "long_string",
        "many_nodes",
        "many_numbers",
        "many_keys",
        "deep_objects",
        "overlong_utf_8",
        "zero_bytes",
        "nothing_at_all",
        "smuggled_key",
        "many_lines",
    ),
    document=check,
)
