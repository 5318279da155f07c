"""A conversation with a server that completes token ids: each prompt is one request, and so is each decode.

An answer tells the counts, and the distribution of the next token; decoding asks again, with all tokens so far, for as
many tokens as are wanted and one more, whose distribution is then pending. So after each call the server's slot holds
exactly the tokens of the session.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from harness.adapters.common import require_room, within
from harness.adapters.server_answers import Json, Reply
from harness.engines.interface import Begun, StatePart
from harness.errors import ProtocolError, RefusedError
from harness.model.values import RefusalCode

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from harness.adapters.server_adapter import ServerEngine

_HEAD: Final = struct.Struct("<3I")
"""Magic, version and number of tokens at the head of a slot file."""
_MARK: Final = -1
_MARKED: Final = 3


class ServerSession:
    """One conversation.

    Args:
        engine: Its server.
        slot: The slot that it is bound to; -1: the server chooses for each request.
    """

    def __init__(self, engine: ServerEngine, slot: int) -> None:
        self.engine, self.slot = engine, slot
        self.tokens: list[int] = []
        self.more: Sequence[int] = ()
        self.end = -1
        self.forwarded = 0
        self.cached = 0
        self.next = b""
        self.ready = False
        self.last_slot = max(slot, 0)

    def begin(self, prompt: Sequence[int], *, cache: bool) -> Begun:
        """Send the prompt; the counts are the server's."""
        self._room_for(len(prompt))
        self.reset()
        self.more, self.end = list(prompt), len(prompt)
        self._ask(self.more, reuse=cache, counted=cache)
        return Begun(cached=self.cached, restored_bytes=0, schedule=[self.end])

    def prefill(self, upto: int) -> int:
        """Say what the server computed of the prompt: it went through in one request."""
        if upto != self.end or not self.more:
            raise RefusedError(RefusalCode.STATE, f"expected {self.end}, found {upto}")
        self.tokens, self.more, self.ready = [*self.tokens, *self.more], (), True
        return self.forwarded

    def commit(self) -> None:
        """A server publishes what it has at once."""

    def abandon(self) -> None:
        """Erase the slot; all slots, where the server does not tell which one it was.

        Raises:
            RefusedError: ``unsupported``: the server cannot forget.
        """
        if self.engine.dialect.native:
            self.engine.slot(self.last_slot, "erase")
        else:
            self.engine.forget()

    def extend(self, tokens: Sequence[int]) -> Begun:
        """Another turn on top of the present one; reused is what the server says, not what should have been."""
        start = len(self.tokens)
        self._room_for(start + len(tokens))
        self._ask([*self.tokens, *tokens], reuse=True, counted=True)
        self.more, self.end, self.ready = list(tokens), start + len(tokens), False
        return Begun(cached=self.cached, restored_bytes=0, schedule=[self.end])

    def decode(self, count: int, sampler: Mapping[str, int]) -> Sequence[int]:
        """Ask for tokens after those so far, greedily, and for one more whose distribution is then pending."""
        if sampler:
            raise RefusedError(RefusalCode.UNSUPPORTED, "this adapter asks greedily")
        if not self.ready:
            raise RefusedError(RefusalCode.STATE, "no prompt has gone through")
        self._room_for(len(self.tokens) + count)
        if not count:
            return []
        reply = self._ask(self.tokens, reuse=True, counted=False, count=count + 1)
        found = list(reply.tokens[:count])
        self.tokens += found
        return found

    def position(self) -> int:
        """Tokens of the conversation; before a prompt is through, those of it that were reused."""
        return len(self.tokens) or (self.cached if self.more else 0)

    def logits(self) -> Buffer | None:
        """Ids and log-probabilities of the most likely next tokens, as the server tells them."""
        return self.next if self.ready and self.next else None

    def parts(self) -> Sequence[StatePart]:
        """A server shows no state."""
        return ()

    def snapshot(self) -> str:
        """Save the slot to a file of the server's."""
        file = self.engine.file()
        self.engine.slot(self.last_slot, "save", file)
        handle = f"h{len(self.engine.handles) + 1}"
        self.engine.handles[handle] = file, tuple(self.tokens)
        return handle

    def restore(self, handle: str) -> Begun:
        """Restore a slot from its file; a later turn shows whether anything is reused."""
        if handle not in self.engine.handles:
            raise RefusedError(RefusalCode.MISSING, f"no snapshot {handle!r}")
        file, tokens = self.engine.handles[handle]
        told = self.engine.slot(self.last_slot, "restore", file)
        return self._restored(told, tokens)

    def image_size(self) -> int:
        """Bytes of the slot file as it is now."""
        return len(self.engine.slot_file(self.last_slot))

    def export_image(self, capacity: int) -> Buffer:
        """The slot file that the server writes."""
        return within(self.engine.slot_file(self.last_slot), capacity)

    def import_image(self, data: Buffer) -> Begun:
        """Hand a slot file to the server."""
        image = bytes(data)
        if len(image) < _HEAD.size:
            raise RefusedError(
                RefusalCode.SHORT_BUFFER, f"found {len(image)} bytes; a slot file has a head of {_HEAD.size}"
            )
        return self._restored(self.engine.take_slot_file(self.last_slot, image), tokens_of(image))

    def synchronize(self) -> None:
        """An answer says that the work is done."""

    def reset(self) -> None:
        """Forget the conversation; what the server keeps of it is its own business."""
        self.tokens, self.more, self.end = [], (), -1
        self.next, self.ready, self.cached, self.forwarded = b"", False, 0, 0

    def close(self) -> None:
        """Forget the conversation."""
        self.reset()

    def _ask(self, prompt: Sequence[int], *, reuse: bool, counted: bool, count: int = 1) -> Reply:
        """Ask, and remember the counts of the answer and the distribution that is pending after it.

        Raises:
            ProtocolError: Counts were needed, and the server does not tell them.
        """
        reply = self.engine.complete(prompt, count, reuse=reuse, slot=self.slot)
        if counted and reply.cached is None:
            raise ProtocolError(f"{self.engine.dialect.path}: the answer does not tell how many tokens were cached")
        self.cached, self.forwarded = reply.cached or 0, forwarded_of(reply, len(prompt))
        self.next = reply.probabilities[-1] if reply.probabilities else b""
        self.last_slot = reply.slot
        return reply

    def _restored(self, told: Json, tokens: Sequence[int]) -> Begun:
        self.reset()
        self.tokens, self.ready = list(tokens), True
        restored, read = restored_of(told)
        return Begun(cached=restored, restored_bytes=read, schedule=[len(tokens)] if tokens else [])

    def _room_for(self, tokens: int) -> None:
        require_room(tokens, self.engine.options, "conversation")


def restored_of(told: Json) -> tuple[int, int]:
    """Return tokens and bytes that a server says it restored.

    Raises:
        ProtocolError: It does not say.
    """
    restored, read = told.get("n_restored"), told.get("n_read")
    if not isinstance(restored, int) or not isinstance(read, int):
        raise ProtocolError("restore: the server does not tell what it restored")
    return restored, read


def forwarded_of(reply: Reply, length: int) -> int:
    """Return the prompt tokens that a server forwarded: as it counts them, else what its other counts leave.

    A count beyond the prompt stays a wrong count: with it, reused and forwarded do not add up to the prompt.

    Args:
        reply: The answer.
        length: Tokens of the prompt, where the answer does not tell them.
    """
    total = length if reply.total is None else reply.total
    return max(0, total - (reply.cached or 0)) if reply.computed is None else reply.computed


def tokens_of(image: bytes) -> Sequence[int]:
    """Return the tokens at the head of a slot file: bare, or between a mark with a count and a closing zero."""
    ids = array("i")
    count = _HEAD.unpack_from(image)[2]
    ids.frombytes(image[_HEAD.size : _HEAD.size + 4 * min(count, (len(image) - _HEAD.size) // 4)])
    found = ids.tolist()
    return found[3 : 3 + found[2]] if found[:1] == [_MARK] and len(found) > _MARKED else found
