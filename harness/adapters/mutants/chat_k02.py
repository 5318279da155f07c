"""K02: cuts of a chat lie elsewhere than where its messages begin."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.adapters.mutants.base import Mutant, Stop
from harness.torch_engine.chat import ChatFormat, Message
from harness.torch_engine.session import TorchSession


def _own(chat: ChatFormat, kind: type[ChatFormat]) -> ChatFormat:
    return kind(chat.spec, chat.family, chat.ids)


class _Late(ChatFormat):
    def cuts(self, tokens: npt.ArrayLike) -> tuple[int, ...]:
        return tuple(message.body for message in self.messages(tokens)[1:])


class _CutsLate(TorchSession):
    def new_chat(self, text: str) -> ChatFormat:
        return _own(super().new_chat(text), _Late)


class MessageCutLate(Mutant):
    """A message's cut lies behind the markers that open it, so a message of another role finds nothing."""

    mutant_id = "K02.message-cut-late"
    stopped_by = Stop(scenario="C04", check="deepest-message", reason="other_count")
    session = _CutsLate


class _Eager(ChatFormat):
    def messages(self, tokens: npt.ArrayLike) -> tuple[Message, ...]:
        ids, first = np.asarray(tokens), min(number for _, numbers in self.ids for number in numbers)
        places = [0, *np.flatnonzero(ids[1:] == first) + 1]
        return tuple(Message(int(place), "", int(place)) for place in places)


class _CutsQuotes(TorchSession):
    def new_chat(self, text: str) -> ChatFormat:
        return _own(super().new_chat(text), _Eager)


class QuotedMarkerCuts(Mutant):
    """Every opening marker is taken for the beginning of a message, wherever it stands."""

    mutant_id = "K02.quoted-marker-cuts"
    stopped_by = Stop(scenario="C05", cell={"template": "chatml"}, check="quoted-is-content", reason="other_count")
    session = _CutsQuotes


class _Halting(ChatFormat):
    def messages(self, tokens: npt.ArrayLike) -> tuple[Message, ...]:
        ids, found = np.asarray(tokens), ChatFormat.messages(self, tokens)
        ends = set(dict(self.ids)["end"])
        lone = [
            place
            for place in range(1, len(ids) - 2)
            if int(ids[place]) in ends and not any(place < message.start <= place + 2 for message in found)
        ]
        return tuple(message for message in found if not lone or message.start <= lone[0])


class _StopsAtEnd(TorchSession):
    def new_chat(self, text: str) -> ChatFormat:
        return _own(super().new_chat(text), _Halting)


class StrayEndHides(Mutant):
    """A lone end marker inside a message ends the search: what comes after it is not cut."""

    mutant_id = "K02.stray-end-hides"
    stopped_by = Stop(
        scenario="C05", cell={"template": "llama3"}, check="stray-end-hides-nothing", reason="other_count"
    )
    session = _StopsAtEnd


class _LastMessage(ChatFormat):
    def turn(self, tokens: npt.ArrayLike) -> int:
        asked = [message.start for message in self.messages(tokens) if message.role in ("user", "tool")]
        return asked[-1] if len(asked) > 1 else 0


class _InsideTurn(TorchSession):
    def new_chat(self, text: str) -> ChatFormat:
        return _own(super().new_chat(text), _LastMessage)


class CutInsideTurn(Mutant):
    """Of a turn with several tool answers only the last one is taken for the turn."""

    mutant_id = "K02.cut-inside-turn"
    stopped_by = Stop(scenario="C06", check="before-both-answers", reason="other_count")
    session = _InsideTurn


class _AnyHeader(ChatFormat):
    def volatile_span(self, tokens: npt.NDArray[np.int32], body: int) -> tuple[int, int] | None:
        begins = np.flatnonzero(tokens[body:] == dict(self.ids)["volatile"][0])
        return ChatFormat.volatile_span(self, tokens, body + int(begins[0])) if len(begins) else None


class _MovesQuotes(TorchSession):
    def new_chat(self, text: str) -> ChatFormat:
        return _own(super().new_chat(text), _AnyHeader)


class QuotedHeaderMoved(Mutant):
    """What looks like a header is moved from wherever it stands, also out of the middle of a text."""

    mutant_id = "K02.quoted-header-moved"
    stopped_by = Stop(scenario="C11", check="quoted-stays-text", reason="other_count")
    session = _MovesQuotes
