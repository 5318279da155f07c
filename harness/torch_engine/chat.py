"""Where the messages of a rendered conversation begin, found on token ids alone.

Rules:

1. a message begins at a marker that opens one and follows a finished message; the first one begins nothing new;
2. inside a message that has an end marker, opening markers are content; an end marker that neither an opening
   marker nor the end of the prompt follows is content too;
3. whether there is a cut depends on the tokens before it and on the one token at it, so two prompts that share a
   prefix and the token after it are cut alike in it, on a hit and on a miss.

A family of templates says which markers there are; their ids come from the model's vocabulary. Without ids the
family's markers are numbered through 0 to 7 and then from 504 on, which scenarios leave free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.torch_engine.errors import OptionError

FREE_IDS: Final = (*range(8), *range(504, 512))
"""Ids that markers get where none are given."""
HEAD_ROLES: Final = frozenset({"system", "tools"})
"""Roles that a conversation begins with and all its turns share."""
ASKING_ROLES: Final = frozenset({"user", "tool"})
"""Roles of which a turn is made: what a user says, and what a tool answers."""
VOLATILE_LIMIT: Final = 256
"""Most tokens of a volatile header; more is content."""

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Role:
    """How messages of one role look."""

    name: str
    """``system``, ``tools``, ``user``, ``assistant`` or ``tool``."""
    opens: tuple[str, ...] = ()
    """Names of the markers that open it, in order; none: it begins by itself, see ``after``."""
    closes: tuple[str, ...] = ()
    """Any of these ends it; none: the next opening marker does."""
    after: tuple[str, ...] = ()
    """Roles behind which it begins by itself; an empty name is the start of the prompt."""


@dataclass(frozen=True, slots=True)
class Family:
    """One family of chat templates."""

    markers: tuple[str, ...]
    """Names of its markers, in the order in which they are numbered."""
    roles: tuple[Role, ...]
    separator: str = ""
    """A marker that may stand between an end marker and the next opening one; empty: none may."""


def _headed(start: str, close: str, ends: tuple[str, ...], names: Mapping[str, str]) -> tuple[Role, ...]:
    """Roles that are named behind one opening marker."""
    tail = (close,) if close else ()
    return tuple(Role(role, (start, marker, *tail), ends) for role, marker in names.items())


_NAMED = {name: name for name in ("system", "user", "assistant", "tool")}

FAMILIES: Final[Mapping[str, Family]] = {
    "chatml": Family(
        ("start", "end", "newline", *_NAMED),
        _headed("start", "", ("end",), _NAMED),
        separator="newline",
    ),
    "llama3": Family(
        ("start", "close", "end", "more", *_NAMED),
        _headed("start", "close", ("end", "more"), _NAMED),
    ),
    "gemma": Family(
        ("start", "end", "newline", "user", "model", "tool"),
        _headed("start", "", ("end",), {"user": "user", "assistant": "model", "tool": "tool"}),
        separator="newline",
    ),
    "deepseek": Family(
        ("user", "assistant", "end", "result", "result_end"),
        (
            Role("system", after=("",)),
            Role("user", ("user",)),
            Role("assistant", ("assistant",), ("end",)),
            Role("tool", ("result",), ("result_end",)),
        ),
    ),
    "mistral": Family(
        (
            *("user", "user_end", "end", "tools", "tools_end", "result", "result_end"),
            *("system", "system_end"),
        ),
        (
            Role("system", ("system",), ("system_end",)),
            Role("tools", ("tools",), ("tools_end",)),
            Role("user", ("user",), ("user_end",)),
            Role("tool", ("result",), ("result_end",)),
            Role("assistant", (), ("end",), after=("user", "tool")),
        ),
    ),
    "phi": Family(
        ("end", "newline", *_NAMED),
        tuple(Role(name, (name,), ("end",)) for name in _NAMED),
        separator="newline",
    ),
    "harmony": Family(
        ("start", "message", "end", "call", "return", *_NAMED),
        _headed("start", "", ("end", "call", "return"), _NAMED),
    ),
}
"""Families by name."""
_VOLATILE: Final = ("volatile", "volatile_end")
"""Optional markers of every family: a header that changes from request to request begins and ends with these."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt."""

    start: int
    """Position of its first token."""
    role: str
    """Its role, or empty where the template's words say none that is known."""
    body: int
    """Position behind its opening markers."""


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """A family with the ids of its markers; equal where both are."""

    spec: str
    """Canonical text: family and every id, as in `chat_format`."""
    family: str
    ids: tuple[tuple[str, tuple[int, ...]], ...] = field(repr=False)
    """Marker to its ids; only the volatile header's beginning may have several."""

    def messages(self, tokens: npt.ArrayLike) -> tuple[Message, ...]:
        """The messages of a prompt, in order; see the module's rules.

        Args:
            tokens: (n,) token ids.
        """
        return _messages(self, np.asarray(tokens, dtype=np.int32).tobytes())

    def cuts(self, tokens: npt.ArrayLike) -> tuple[int, ...]:
        """Where messages begin that follow another one, ascending."""
        return tuple(message.start for message in self.messages(tokens)[1:])

    def head(self, tokens: npt.ArrayLike) -> int:
        """Tokens of the head, system text and tools, that all turns share; 0 where there is none."""
        found = self.messages(tokens)
        after = next((message.start for message in found if message.role not in HEAD_ROLES), 0)
        return after if found and found[0].role in HEAD_ROLES else 0

    def turn(self, tokens: npt.ArrayLike) -> int:
        """Where the current turn begins: the last run of a user's or a tool's messages; 0 where nothing is before."""
        asking = _asking(self.messages(tokens))
        return asking.start if asking is not None else 0

    def arranged(self, tokens: Ids) -> Ids:
        """The prompt with its volatile header moved into the current turn, so that what is before it stays the same.

        A header stands right at the beginning of the first message's text. Where there is none, or nothing comes
        before the current turn, the prompt is returned as it is; so doing it twice changes nothing more.

        Args:
            tokens: (n,) token ids.
        """
        ids, found = dict(self.ids), self.messages(tokens)
        asking = _asking(found)
        if "volatile" not in ids or asking is None or not asking.start:
            return tokens
        span = self.volatile_span(tokens, found[0].body)
        if span is None:
            return tokens
        low, high = span
        place = self._text(tokens, asking.body)
        return np.concatenate((tokens[:low], tokens[high:place], tokens[low:high], tokens[place:]))

    def _text(self, tokens: Ids, body: int) -> int:
        """Where the text of a message begins, behind a separator if there is one."""
        separator = FAMILIES[self.family].separator
        wanted = dict(self.ids)[separator][0] if separator else -1
        return body + int(body < len(tokens) and int(tokens[body]) == wanted)

    def volatile_span(self, tokens: Ids, body: int) -> tuple[int, int] | None:
        """The header's positions [low, high), if the text at ``body`` begins with one."""
        ids, low = dict(self.ids), self._text(tokens, body)
        begins, end = ids["volatile"], ids["volatile_end"][0]
        if tuple(tokens[low : low + len(begins)].tolist()) != begins:
            return None
        ends = np.flatnonzero(tokens[low : low + VOLATILE_LIMIT] == end)
        return (low, low + int(ends[0]) + 1) if len(ends) else None


def _asking(messages: tuple[Message, ...]) -> Message | None:
    """The first message of the last run of asking roles."""
    number = len(messages)
    while number and messages[number - 1].role not in ASKING_ROLES:
        number -= 1
    last = number
    while number and messages[number - 1].role in ASKING_ROLES:
        number -= 1
    return messages[number] if number < last else None


def chat_format(text: str) -> ChatFormat:
    """A format from its text: ``family``, or ``family:marker=id,marker=id``; ids joined by ``+`` are a sequence.

    Raises:
        OptionError: an unknown family or marker, an id that is none, or one id for two markers.
    """
    name, _, given = text.partition(":")
    if name not in FAMILIES:
        raise OptionError(f"chat: expected one of {sorted(FAMILIES)}, found {name!r}")
    family = FAMILIES[name]
    ids: dict[str, tuple[int, ...]] = {
        marker: (number,) for marker, number in zip(family.markers, FREE_IDS, strict=False)
    }
    for pair in given.split(",") if given else ():
        marker, _, numbers = pair.partition("=")
        if marker not in (*family.markers, *_VOLATILE):
            raise OptionError(f"chat: expected one of {[*family.markers, *_VOLATILE]}, found {marker!r}")
        ids[marker] = _numbers(marker, numbers)
    used = [number for numbers in ids.values() for number in numbers]
    if len(set(used)) < len(used):
        raise OptionError(f"chat: expected an id of its own for each marker, found {ids}")
    if ("volatile" in ids) is not ("volatile_end" in ids):
        raise OptionError("chat: expected both volatile and volatile_end or neither, found one")
    spec = ",".join(f"{marker}={'+'.join(map(str, numbers))}" for marker, numbers in sorted(ids.items()))
    return ChatFormat(f"{name}:{spec}", name, tuple(sorted(ids.items())))


def _numbers(marker: str, text: str) -> tuple[int, ...]:
    parts = text.split("+")
    single = len(parts) == 1 or marker == "volatile"
    if not single or not all(part.isascii() and part.isdigit() for part in parts):
        raise OptionError(f"chat: expected an id from 0 on for {marker}, found {text!r}")
    return tuple(map(int, parts))


class _Scan:
    """One pass over a prompt's markers."""

    def __init__(self, chat: ChatFormat, tokens: Ids) -> None:
        self.tokens = tokens
        family, ids = FAMILIES[chat.family], {marker: numbers[0] for marker, numbers in chat.ids}
        self.openings = [(role, tuple(ids[marker] for marker in role.opens)) for role in family.roles if role.opens]
        self.unmarked = [role for role in family.roles if not role.opens]
        self.first = frozenset(opens[0] for _, opens in self.openings)
        self.closing = {role.name: frozenset(ids[marker] for marker in role.closes) for role in family.roles}
        # a message of an unknown role is ended like any of the family
        self.closing[""] = frozenset(ids[marker] for role in family.roles if role.opens for marker in role.closes)
        self.separator = ids[family.separator] if family.separator else -1
        self.found: list[Message] = []
        self.role: str | None = None
        """Role of the message that is open; None between messages."""
        self.next = 0
        """Where the next marker may be."""

    def run(self) -> tuple[Message, ...]:
        """Every message."""
        self._begin_unmarked("", 0)
        markers = sorted(self.first.union(*self.closing.values()))
        for place in np.flatnonzero(np.isin(self.tokens, markers)).tolist():
            if place >= self.next:
                self._at(place, int(self.tokens[place]))
        return tuple(self.found)

    def _at(self, place: int, token: int) -> None:
        if self.role is None:
            if token in self.first:
                self._open(place)
        elif token in self.closing[self.role]:
            self._close(place)
        elif token in self.first and not self.closing[self.role]:
            if place < 2 and not self.found[-1].start:
                self.found.pop()
            self._open(place)

    def _open(self, place: int) -> None:
        """A message begins at a marker."""
        fitting = [
            (role.name, len(opens))
            for role, opens in self.openings
            if tuple(self.tokens[place : place + len(opens)].tolist()) == opens
        ]
        self.role, length = fitting[0] if fitting else ("", 1)
        self.next = place + length
        self.found.append(Message(place, self.role, self.next))

    def _close(self, place: int) -> None:
        """An end marker, if something follows that may follow one."""
        closed, after = self.role or "", place + 1
        behind = after + int(after < len(self.tokens) and int(self.tokens[after]) == self.separator)
        if behind >= len(self.tokens) or int(self.tokens[behind]) in self.first:
            self.role, self.next = None, behind
        elif self._begin_unmarked(closed, after):
            self.next = after

    def _begin_unmarked(self, closed: str, place: int) -> bool:
        """A message begins without a marker; whether one does."""
        for role in self.unmarked:
            if closed in role.after and place < len(self.tokens):
                self.role = role.name
                self.found.append(Message(place, role.name, place))
                return True
        return False


@lru_cache(maxsize=16)
def _messages(chat: ChatFormat, data: bytes) -> tuple[Message, ...]:
    return _Scan(chat, np.frombuffer(data, dtype=np.int32)).run()
