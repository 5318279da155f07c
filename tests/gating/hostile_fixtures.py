"""Records that somebody made to break the reader, and the list of all such, by the name of the attempt.

Registered beside those of :mod:`tests.gating.fixtures`, by the same rules. Each folder of :data:`HOSTILE` holds nothing
but one of them; each must end in its finding and exit code 2, within a second and 64 MiB.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from harness.certifying.sign import sign_folder
from harness.wire import canonical
from tests.fakes.evidence import recorded, scenario
from tests.gating.fixtures import (
    SCENARIO,
    Body,
    add_event,
    file_run,
    fixture,
    good_body,
    ids,
    only,
    rewrite,
    the_evidence,
    valid,
    valid_ledger,
    valid_stop,
)
from tests.gating.ledger_fixtures import signed, signer

MARKUP = (
    "</script><script>alert(1)</script>",
    "--><!-- qual:end -->",
    "::error::owned",
    "\r::stop-commands::x",
    "\x1b[2J\x1b]8;;https://example.org\x07",
    "\u202egnp.exe\u2066\u200b\ufeff",
    "=cmd|' /C calc'!A0",
    "]]><!ENTITY x SYSTEM 'file:///dev/null'>",
)
_UNREAD = ("CG204", "CG502")


def instead(text: bytes) -> Callable[[Path], None]:
    """A folder whose only certificate is some bytes."""

    def build(folder: Path) -> None:
        valid(folder)
        only(folder).write_bytes(text)

    return build


def named(name: str, build: Callable[[Path], None]) -> Callable[[Path], None]:
    build.__name__ = name
    return build


fixture("CG103", *_UNREAD)(named("huge_string", instead(b'{"body": "' + b"a" * 100_000_000 + b'"}')))
fixture("CG101", *_UNREAD)(named("long_string", instead(b'{"body": "' + b"a" * 8_000_000 + b'"}')))
fixture("CG101", *_UNREAD)(named("many_nodes", instead(b"[" + b"[]," * 2_700_000 + b"[]]")))
fixture("CG101", *_UNREAD)(named("many_numbers", instead(b"[" + b"1," * 4_000_000 + b"1]")))
fixture("CG101", *_UNREAD)(named("many_keys", instead(b"{" + b",".join(b'"k%d":1' % n for n in range(450_000)) + b"}")))
fixture("CG101", *_UNREAD)(named("deep_objects", instead(b'{"a":' * 100_000)))
fixture("CG101", *_UNREAD)(named("overlong_utf_8", instead(b'{"body": "\xc0\xaf"}')))
fixture("CG101", *_UNREAD)(named("zero_bytes", instead(b"\0" * 4096)))
fixture("CG101", *_UNREAD)(named("nothing_at_all", instead(b"")))
fixture("CG102", *_UNREAD)(named("a_list", instead(canonical.render([1, 2, 3]))))


@fixture("CG101", *_UNREAD)
def smuggled_key(folder: Path) -> None:
    """The first key is for people, the second for machines; the escape hides that they are one."""
    valid(folder)
    rewrite(only(folder), b'"overall": "pass"', b'"overall": "stop",\n      "\\u006fverall": "pass"')


@fixture("CG101", "CG204")
def many_lines(folder: Path) -> None:
    """Evidence of a million empty lines."""
    valid(folder)
    the_evidence(folder).write_bytes(b"\n" * 1_000_000)


@fixture("CG103")
def huge_evidence(folder: Path) -> None:
    valid(folder)
    with the_evidence(folder).open("r+b") as file:
        file.truncate(1 << 40)


@fixture("CG103", "CG204", "CG502", "CG001")
def submodule(folder: Path) -> None:
    """A folder under the name of a certificate, as a checkout shows a submodule."""
    valid(folder)
    path = only(folder)
    path.unlink()
    path.mkdir()
    (path / ".git").write_text("gitdir: elsewhere\n")


@fixture("CG103", "CG001", *_UNREAD)
def device_name(folder: Path) -> None:
    valid(folder)
    path = only(folder)
    path.rename(path.with_name("CON.json"))


@fixture("CG501")
def ledger_fork(folder: Path) -> None:
    """Two certificates of other machines both replace one."""
    valid_ledger(folder)
    old, new, other = ids(folder)
    add_event(folder, kind="supersede", target=new, by=other, created="2026-01-09T00:00:00Z")
    add_event(folder, kind="supersede", target=old, by=other, created="2026-01-09T01:00:00Z")


@fixture("CG501")
def successor_with_fewer_cells(folder: Path) -> None:
    """The stop's successor left the cell out that failed."""
    valid_stop(folder)
    text = SCENARIO.replace(b"{at: [1, 2]}", b"{at: [2, 3]}").replace(b"{when: {at: 2}", b"{when: {at: 3}")
    file_run(folder, recorded(scenario(text), run=2, day=2))
    old, new = ids(folder)
    add_event(folder, kind="supersede", target=old, by=new)


@fixture("CG901", options=signed)
def signature_of_another_kind(folder: Path) -> None:
    """Made for an event, put beside a certificate."""
    from harness.wire.signed_documents import EVENT_NAMESPACE

    valid(folder)
    sign_folder(folder, signer())
    body = canonical.canonical(json.loads(only(folder).read_bytes())["body"])
    only(folder).with_name(only(folder).name + ".sig").write_bytes(signer().sign(body, EVENT_NAMESPACE))


def _poisoned(body: Body, text: str) -> Body:
    body["subject"]["model"]["name"] = text
    body["run"]["suite"] = text
    body["environment"]["facts"]["os"] = text
    return body


def _markup(number: int) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        valid(folder)
        value = json.loads(only(folder).read_bytes())
        only(folder).write_bytes(canonical.render({**value, "body": _poisoned(good_body(), MARKUP[number])}))

    return named(f"markup_{number + 1}", build)


for _number in range(len(MARKUP)):
    fixture("CG102", *_UNREAD)(_markup(_number))


HOSTILE = {
    "the decision twice": "duplicate_key",
    "a key twice, once escaped": "smuggled_key",
    "NaN": "not_a_number",
    "1e999": "overflow",
    "null": "a_null",
    "100,000 brackets": "deep_nesting",
    "100,000 objects in one another": "deep_objects",
    "an integer of 5,001 digits": "huge_integer",
    "a string of 100 MB": "huge_string",
    "a string of 8 MB": "long_string",
    "2,700,000 empty lists": "many_nodes",
    "4,000,000 numbers": "many_numbers",
    "450,000 keys": "many_keys",
    "a million empty lines of evidence": "many_lines",
    "evidence of a terabyte": "huge_evidence",
    "600,000 files in 170 kB of packs": "packs_that_grow",
    "9 MB in 1 kB": "pack_too_large",
    "byte order mark": "byte_order_mark",
    "UTF-16": "utf_16",
    "overlong UTF-8": "overlong_utf_8",
    "lone surrogate": "lone_surrogate",
    "zero bytes": "zero_bytes",
    "an empty file": "nothing_at_all",
    "a list": "a_list",
    "overlong name": "overlong_name",
    "a folder in a folder, twelve deep": "deep_folder",
    "a symbolic link": "symlink",
    "a submodule": "submodule",
    "a device name": "device_name",
    "a pipe": "unreadable_pipe",
    "CRLF": "crlf",
    "bytes after the end": "trailing_garbage",
    "the same run twice": "same_run_twice",
    "the same observations twice": "same_observations_twice",
    "a circle in the ledger": "ledger_circle",
    "a fork in the ledger": "ledger_fork",
    "a successor with fewer cells": "successor_with_fewer_cells",
    "an event that poses as a certificate": "event_as_certificate",
    "a name with escapes": "stray_name_with_escapes",
    "a signature of another kind": "signature_of_another_kind",
    "a key that had expired": "signature_expired",
    "a certificate under another name": "renamed",
    "an executable certificate": "executable",
    "a page edited by hand": "readme_edited",
    **{f"markup {number + 1}": f"markup_{number + 1}" for number in range(len(MARKUP))},
}
"""What somebody tried, to the fixture. Policy swaps, edits of what was there and renames since are among the changes."""
