"""Text from a record, made harmless for each place where it may be shown.

A certificate from a stranger may hold anything in its strings. Rules kept here:

- :func:`plain` comes first for every medium: control, bidirectional and invisible characters become
  visible escapes, and text that a CI log would take for a command loses that shape.
- :func:`markdown` then escapes every character that is active anywhere in a line, so that one
  function serves table cells, list items, headings and link texts alike.
- :func:`json_bytes` writes ASCII only, so that a JSON print is as harmless as the other two.
- HTML is escaped by the template engine, which is told to escape always; it gets plain text.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Final

_LONGEST: Final = 4000
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK_LOOKALIKES: Final = frozenset("\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5\u00ad")
_COMMAND_MARKS: Final = (("::", ": :"), ("##[", "# #["))
_MARKDOWN: Final = re.compile(
    r"[\\`*\[\]<>|~$]"  # active anywhere
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"  # emphasis; harmless between two letters
    r"|!(?=\[)|&(?=[#\w])|:(?=//)|\bwww\.|@(?=\S)|#(?=\d)"  # images, entities, links, mentions, references
    r"|^\s+|^[#=+-]|(?<=^\d)[.)](?=\s|$)|(?<=^\d\d)[.)](?=\s|$)"  # what opens a block
)
_INSTEAD: Final = {
    "<": "&lt;",
    ">": "&gt;",
    "|": "&#124;",
    "&": "&amp;",
    ":": "&#58;",
    "www.": "www&#46;",
    "@": "@ ",  # an entity would come back as a mention after rendering
}
_SAFE_CODE: Final = re.compile(
    r"[A-Za-z0-9._/=,:;()%@\[\]+-](?:[A-Za-z0-9._/=,:;()%@\[\]+ -]*[A-Za-z0-9._/=,:;()%@\[\]+-])?"
)


def plain(text: object) -> str:
    """Return one line of visible characters that no terminal and no CI log acts upon."""
    raw = str(text)
    shown = raw if raw.isascii() and raw.isprintable() else "".join(map(_visible, raw))
    for mark, harmless in _COMMAND_MARKS:
        while mark in shown:
            shown = shown.replace(mark, harmless)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]} … ({len(shown)} characters)"


def lines(text: object) -> str:
    """Return a message of one or more lines, each as :func:`plain` has it: it may name files of a stranger."""
    return "\n".join(map(plain, str(text).split("\n")))


def markdown(text: object) -> str:
    """Return ``text`` for any place inside a line of Markdown: shown as it is, active nowhere."""
    shown = plain(text)
    if shown.isspace():
        return (
            "&#32;"  # nothing between the marks of strong text makes a line of marks, which is a rule across the page
        )
    return _MARKDOWN.sub(_inactive, shown)


def code(text: object) -> str:
    """Return an inline code span for an id or digest.

    A span has no escapes of its own, and a table cuts at a pipe even inside one; text that is not
    made of safe characters is therefore escaped instead of spanned.
    """
    shown = plain(text)
    return f"`{shown}`" if _SAFE_CODE.fullmatch(shown) else markdown(shown)


def json_bytes(value: object) -> bytes:
    """Return ``value`` as indented ASCII JSON with a line feed; keys stay in their order."""
    text = json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False)
    return text.replace("##[", "#\\u0023[").replace("\x7f", "\\u007f").encode("ascii") + b"\n"


def _visible(character: str) -> str:
    hidden = unicodedata.category(character) in _HIDDEN_CATEGORIES or character in _BLANK_LOOKALIKES
    combining = unicodedata.combining(character) != 0 or "\ufe00" <= character <= "\ufe0f"
    return f"\\u{{{ord(character):x}}}" if hidden or combining else character


def _inactive(match: re.Match[str]) -> str:
    found = match[0]
    if found.isspace():
        return ""
    if found == "#" and match.start() > 0:
        return "# "  # no reference to an issue
    return _INSTEAD.get(found, f"\\{found}")
