"""A session as an image and back: what `image.py` needs to know of it.

`Imager` does the work in small methods, so that one step can be replaced and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from harness.torch_engine.errors import SnapshotError
from harness.torch_engine.handles import IDENTITY_FREE
from harness.torch_engine.image import (
    Expectation,
    ExpectedPart,
    ImageDescription,
    ImageFormatError,
    ImageInfo,
    PartKind,
    PartSpec,
    export_into,
    image_size,
    inspect,
    parts_of,
    validate,
)
from harness.torch_engine.image_wire import ShortBufferError
from harness.torch_engine.metadata import Metadata, decode_metadata
from harness.torch_engine.state import Part, RowStream, bytes_view

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from harness.torch_engine.session import TorchSession


HISTORY = "sampler.history"
"""The part that holds the tokens which the header's history begins with."""


class Imager:
    """Exports sessions and imports them. Stateless; every step is a method to override."""

    def size(self, session: TorchSession) -> int:
        """Bytes of a session's image.

        Raises:
            ImageUnsupportedError: the model has no decoding state.
            SessionStateError: a call is in progress, the turn was cancelled, or the owners do not stand together.
        """
        return image_size(self.describe(session))

    def export(self, session: TorchSession, capacity: int) -> bytearray:
        """The image of a session, which is only read.

        Args:
            session: what to export.
            capacity: bytes that the caller has room for.

        Raises:
            ShortBufferError: it needs more.
            ImageUnsupportedError, SessionStateError: as for `size`.
        """
        about = self.describe(session)
        size = image_size(about)
        if size > capacity:
            raise ShortBufferError(f"buffer: expected {size} bytes, found {capacity}")
        made = bytearray(size)
        export_into(made, about, self.payload(session))
        return made

    def bring(self, session: TorchSession, data: Buffer) -> int:
        """Make a session that of an image; everything is checked before anything is touched.

        Returns:
            Bytes copied into its parts.

        Raises:
            ImageError: as `image.validate`; nothing was touched.
            SnapshotError: part 0 contradicts itself or the session; nothing was touched.
            TransferError: the copy failed; the session is reset.
            SessionStateError: a call is in progress.
        """
        session.idle("adopt")
        info = self.check(session, data)
        about = info.description
        meta = decode_metadata(about.meta)
        parts = parts_of(info, data)
        history = about.history or ()
        prompt = history if len(history) > about.position + meta.owed else ()
        session.adopt(about.meta, parts, prompt)
        return sum(len(view) for view in parts.values())

    # -- out -----------------------------------------------------------------------------------

    def describe(self, session: TorchSession) -> ImageDescription:
        """What a session says of itself."""
        session.idle("export")
        session.owners_agree("export")
        history = (*session.history(), *session.prompt[session.position + session.owed :].tolist())
        raw = session.metadata()
        return ImageDescription(
            identity=self.identity(session),
            position=session.position,
            history=history,
            meta=raw,
            logits_valid=session.logits_valid,
            owed_forward=len(history) > session.position,
            sampler_present=decode_metadata(raw).sampler_valid,
            parts=tuple(self.spec(part) for part in session.layout("session").parts()),
        )

    def identity(self, session: TorchSession) -> Mapping[str, str | int | bool]:
        """Everything that changes bits."""
        return session.identity

    def spec(self, part: Part) -> PartSpec:
        """One part as the image lists it."""
        return PartSpec(
            name=part.name,
            family=part.family,
            layer=part.layer,
            element_type=part.element_type,
            kind=PartKind.ROWS if isinstance(part, RowStream) else PartKind.FIXED,
            shape=part.shape,
        )

    def payload(self, session: TorchSession) -> list[Buffer]:
        """The parts' valid bytes on the host: views where they lie there, copies where they do not."""
        found = (bytes_view(part.valid()) for part in session.layout("session").parts())
        return [flat.cpu().numpy().data for flat in found]

    # -- in ------------------------------------------------------------------------------------

    def check(self, session: TorchSession, data: Buffer) -> ImageInfo:
        """Everything that can be wrong with an image for this session; nothing is written.

        Raises:
            ImageError: as `image.validate`.
            ImageFormatError: also for a token outside the vocabulary, or part 0 against the header.
        """
        about = inspect(data).description
        info = validate(data, self.expectation(session, about))
        self.check_claims(session, about)
        self.check_history(session, about, parts_of(info, data))
        return info

    def expectation(self, session: TorchSession, about: ImageDescription) -> Expectation:
        """What an image must be to fit into a session."""
        layout = session.layout("session")
        parts = tuple(self._room(part) for part in layout.parts())

        def rows_at(position: int) -> Mapping[str, int]:
            meta = self.part_zero(session, about, position)
            claimed = session.buffers.layout("session", meta.layers, position + meta.owed)
            return {stream.name: stream.rows for stream in claimed.rows}

        return Expectation(
            identity=self.identity(session),
            identity_free=IDENTITY_FREE,
            capacity=session.buffers.capacity,
            parts=parts,
            rows_at=rows_at,
        )

    def part_zero(self, session: TorchSession, about: ImageDescription, position: int) -> Metadata:
        """Part 0, shown to fit the session and the header.

        Raises:
            ImageFormatError: it does not.
        """
        try:
            meta = decode_metadata(about.meta)
            session.buffers.check_lengths(meta, position)
        except SnapshotError as error:
            raise ImageFormatError(f"part 0: {error}") from error
        return meta

    def check_claims(self, session: TorchSession, about: ImageDescription) -> None:
        """Flags agree with part 0, and every token is one of the vocabulary.

        Raises:
            ImageFormatError: the first thing that does not hold.
        """
        meta = decode_metadata(about.meta)
        said = (about.logits_valid, about.sampler_present)
        if said != (meta.logits_valid, meta.sampler_valid):
            raise ImageFormatError(f"flags: expected logits and sampler as in part 0, found {said}")
        history, vocab = about.history or (), session.decoder.config.vocab
        if history and max(history) >= vocab:
            raise ImageFormatError(f"history: expected tokens below {vocab}, found {max(history)}")

    def check_history(self, session: TorchSession, about: ImageDescription, parts: Mapping[str, memoryview]) -> None:
        """The header's tokens begin with those of the sampler's part, as many as part 0 says.

        Raises:
            ImageFormatError: they do not.
        """
        known, vocab = np.frombuffer(parts[HISTORY], dtype="<i4").tolist(), session.decoder.config.vocab
        count = about.position + decode_metadata(about.meta).owed
        told = known if about.history is None else list(about.history[:count])
        if len(known) != count or told != known:
            raise ImageFormatError(f"history: expected the {count} tokens of {HISTORY}, found others")
        if known and not 0 <= min(known) <= max(known) < vocab:
            raise ImageFormatError(f"{HISTORY}: expected tokens below {vocab}, found {min(known)}..{max(known)}")

    def _room(self, part: Part) -> ExpectedPart:
        spec = self.spec(part)
        return ExpectedPart(
            name=spec.name,
            family=spec.family,
            layer=spec.layer,
            element_type=spec.element_type,
            kind=spec.kind,
            shape=part.room,
        )
