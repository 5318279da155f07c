"""A conversation with a chat endpoint: messages go out, and what stands around them is the server's business.

A template puts marks and roles around each message, and the server cuts the text into tokens, so the tokens of a prompt
are not the harness's: how many they are is what the server tells, and no count is held against the scenario's. Each id
of a prompt is sent as one word (`` w17``). Tokens that are decoded are told beside their log-probabilities, by id or by
what they read. A decode asks for the same message anew, for as many tokens as are wanted and one more, whose
distribution is then pending; a later turn sends what was decoded as the message of the assistant.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from harness.adapters.common import require_room, within
from harness.adapters.server_session import forwarded_of, restored_of
from harness.engines.interface import Begun, StatePart
from harness.errors import EngineError, ProtocolError, RefusedError
from harness.model.values import RefusalCode

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from harness.adapters.server_adapter import ServerEngine
    from harness.adapters.server_answers import Json, Reply


_HEAD: Final = struct.Struct("<8sI")
_MAGIC: Final = b"SCCHAT01"


def unpacked(image: bytes) -> tuple[bytes, bytes]:
    """Return messages and slot file of an image.

    Raises:
        RefusedError: It is none (``format``), or is cut off (``short_buffer``).
    """
    if len(image) < _HEAD.size:
        raise RefusedError(RefusalCode.SHORT_BUFFER, f"found {len(image)} bytes; a head has {_HEAD.size}")
    magic, length = _HEAD.unpack_from(image)
    noted = image[_HEAD.size : _HEAD.size + length]
    if magic != _MAGIC or len(noted) < length:
        code = RefusalCode.SHORT_BUFFER if magic == _MAGIC else RefusalCode.FORMAT
        raise RefusedError(code, f"found {magic!r} and {len(noted)} of {length} bytes of messages")
    try:
        found: object = json.loads(noted)
    except ValueError:
        found = None
    if not isinstance(found, list) or len(found) != _NOTED:
        raise RefusedError(RefusalCode.FORMAT, "the messages of the image cannot be read")
    return noted, image[_HEAD.size + length :]


_NOTED: Final = 6
"""What is kept of a chat beside the slot file."""


def words_of(tokens: Sequence[int]) -> str:
    """Return token ids as text: one word for each."""
    return "".join(f" w{token}" for token in tokens)


class ChatSession:
    """One chat.

    Args:
        engine: Its server.
        slot: The slot that it is bound to; -1: the server chooses for each request.
    """

    def __init__(self, engine: ServerEngine, slot: int) -> None:
        self.engine, self.slot = engine, slot
        self.messages: list[Json] = []
        self.asked: list[int] = []
        """Ids of the message that is to be answered."""
        self.answered: list[int] = []
        """Tokens decoded of the answer, and what they read."""
        self.texts: list[str] = []
        self.before = 0
        """Ids and decoded tokens of earlier messages."""
        self.forwarded = 0
        self.next = b""
        self.open = False
        self.ready = False

    def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
        """Send one message; the counts, that of the prompt too, are the server's."""
        self._room_for(len(prompt))
        self.reset()
        self.asked = list(prompt)
        return self._begun(reuse=cache)

    def prefill(self, upto: int) -> int:
        """Say what the server computed of the prompt: it went through in one request."""
        if not self.open or upto != self.before + len(self.asked):
            raise RefusedError(RefusalCode.STATE, f"expected the end of the message, found {upto}")
        self.open, self.ready = False, True
        return self.forwarded

    def commit(self) -> None:
        """A server publishes what it has at once."""

    def abandon(self) -> None:
        """Erase all slots, since the server does not tell which one it was.

        Raises:
            RefusedError: ``unsupported``: the server cannot forget.
        """
        self.engine.forget()

    def extend(self, tokens: Sequence[int]) -> Begun:
        """Send another message, after what was decoded; without that the present message goes on."""
        self._room_for(self.position() + len(tokens))
        if self.answered:
            self.messages = [*self._history(), {"role": "assistant", "content": "".join(self.texts)}]
            self.before += len(self.asked) + len(self.answered)
            self.asked = []
        self.asked = [*self.asked, *tokens]
        self.answered, self.texts = [], []
        return self._begun(reuse=True)

    def decode(self, count: int, sampler: Mapping[str, int]) -> Sequence[int]:
        """Ask for the answer so far, ``count`` tokens more, and one whose distribution is then pending.

        Raises:
            EngineError: ``AnotherAnswer``: what was answered before is not what is answered now.
        """
        if sampler:
            raise RefusedError(RefusalCode.UNSUPPORTED, "this adapter asks greedily")
        if not self.ready:
            raise RefusedError(RefusalCode.STATE, "no message has gone through")
        self._room_for(self.position() + count)
        if not count:
            return []
        done = len(self.answered)
        reply = self._ask(reuse=True, count=done + count + 1)
        if list(reply.tokens[:done]) != self.answered:
            raise EngineError("AnotherAnswer: the server begins its answer otherwise than before")
        self.answered, self.texts = list(reply.tokens[:-1]), list(reply.texts[:-1])
        return self.answered[done:]

    def position(self) -> int:
        """Ids that went through and tokens that were decoded; those of the template are not known."""
        return self.before + (0 if self.open else len(self.asked) + len(self.answered))

    def logits(self) -> Buffer | None:
        """Tokens and log-probabilities of the most likely next ones, as the server tells them."""
        return self.next if self.ready and self.next and self.engine.options["logprobs"] else None

    def parts(self) -> Sequence[StatePart]:
        """A server shows no state."""
        return ()

    def snapshot(self) -> str:
        """Save the slot to a file of the server's, and keep the messages here."""
        file = self.engine.file()
        self.engine.slot(self.slot, "save", file)
        handle = f"h{len(self.engine.chats) + 1}"
        self.engine.chats[handle] = file, self._noted()
        return handle

    def restore(self, handle: str) -> Begun:
        """Restore a slot from its file, and the messages; a later turn shows whether anything is reused."""
        if handle not in self.engine.chats:
            raise RefusedError(RefusalCode.MISSING, f"no snapshot {handle!r}")
        file, noted = self.engine.chats[handle]
        return self._restored(self.engine.slot(self.slot, "restore", file), noted)

    def image_size(self) -> int:
        """Bytes of the messages and of the slot file as they are now."""
        return len(self._image())

    def export_image(self, capacity: int) -> Buffer:
        """The messages, and the slot file that the server writes."""
        return within(self._image(), capacity)

    def import_image(self, data: Buffer) -> Begun:
        """Take the messages, and hand the slot file to the server."""
        noted, file = unpacked(bytes(data))
        return self._restored(self.engine.take_slot_file(self.slot, file), noted)

    def synchronize(self) -> None:
        """An answer says that the work is done."""

    def reset(self) -> None:
        """Forget the conversation; what the server keeps of it is its own business."""
        self.messages, self.asked, self.answered, self.texts = [], [], [], []
        self.before, self.forwarded, self.next = 0, 0, b""
        self.open = self.ready = False

    def close(self) -> None:
        """Forget the conversation."""
        self.reset()

    def _begun(self, *, reuse: bool) -> Begun:
        reply = self._ask(reuse=reuse, count=1)
        if reply.cached is None or reply.total is None:
            missing = "were cached" if reply.cached is None else "the prompt has"
            raise ProtocolError(f"{self.engine.dialect.chat}: the answer does not tell how many tokens {missing}")
        self.forwarded, self.open, self.ready = forwarded_of(reply, reply.total), True, False
        end = self.before + len(self.asked)
        return Begun(cached=reply.cached, restored_bytes=0, schedule=[end], prompt_tokens=reply.total)

    def _noted(self) -> bytes:
        """Return what a slot file does not hold: messages, and the one that is open."""
        kept = (self.messages, self.asked, self.answered, self.texts, self.before, self.ready)
        return json.dumps(kept).encode()

    def _image(self) -> bytes:
        noted = self._noted()
        return _HEAD.pack(_MAGIC, len(noted)) + noted + self.engine.slot_file(self.slot)

    def _restored(self, told: Json, noted: bytes) -> Begun:
        restored, read = restored_of(told)
        self.reset()
        self.messages, self.asked, self.answered, self.texts, self.before, self.ready = json.loads(noted)
        end = self.position()
        return Begun(cached=restored, restored_bytes=read, schedule=[end] if end else [])

    def _history(self) -> Sequence[Json]:
        return [*self.messages, {"role": "user", "content": words_of(self.asked)}]

    def _ask(self, *, reuse: bool, count: int) -> Reply:
        reply = self.engine.chat(self.messages, self.asked, count, reuse=reuse, slot=self.slot)
        self.next = reply.probabilities[-1] if reply.probabilities else b""
        return reply

    def _room_for(self, tokens: int) -> None:
        require_room(tokens, self.engine.options, "conversation")
