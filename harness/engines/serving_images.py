"""Operations of a child process on session images: whole states as one byte string each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from harness.engines.channel import Message
from harness.engines.desk import Desk, begun, frame, number, text, unseen
from harness.errors import ProtocolError

if TYPE_CHECKING:
    from harness.engines.desk import Answer


def export_image(desk: Desk, message: Message) -> Answer:
    """Export a session, with room for so many bytes, or for so many less than it needs; by default for all of it."""
    session = desk.session(message)
    size = int(session.image_size())
    asked, short_by = number(message.body, "capacity"), number(message.body, "short_by")
    capacity = size - short_by if asked < 0 else asked
    image, ns = desk.timed("export_image", session, lambda: session.export_image(max(capacity, 0)))
    view = memoryview(image)
    if view.nbytes != size or size > capacity:
        raise ProtocolError(f"found an image of {view.nbytes} bytes; its size was {size}, the room {capacity}")
    return {"ns": ns, "bytes": size}, (view,)


def import_image(desk: Desk, message: Message) -> dict[str, object]:
    """Import an image into a session."""
    session, image = desk.session(message), frame(message)
    wait = not unseen(message.body)
    found, ns = desk.timed("import_image", session, lambda: session.import_image(image), wait=wait)
    return {**begun(found), "ns": ns}


def import_archive(desk: Desk, message: Message) -> dict[str, object]:
    """Let the engine decode an archive into a session's K/V rows."""
    session, archive = desk.session(message), frame(message)
    codec, version = text(message.body, "codec"), number(message.body, "version")
    found, ns = desk.timed(
        "import_archive",
        session,
        lambda: session.import_archive(archive, codec=codec, version=version),
        wait=not unseen(message.body),
    )
    return {**begun(found), "ns": ns}


def forge_image(desk: Desk, message: Message) -> Answer:
    """Let the engine forge one field of an image."""
    forged = memoryview(desk.engine(message).forge_image(frame(message), text(message.body, "what")))
    return {"bytes": forged.nbytes}, (forged,)


OPERATIONS: Final[Mapping[str, Callable[[Desk, Message], dict[str, object] | Answer]]] = {
    "export_image": export_image,
    "import_image": import_image,
    "import_archive": import_archive,
    "forge_image": forge_image,
}
