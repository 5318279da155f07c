"""Operations of a child process on the snapshots that an engine holds, and on the files of its disk tier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from harness.engines.channel import Message
from harness.engines.desk import Desk, mapping, number, text


def store(desk: Desk, message: Message) -> dict[str, object]:
    """List the snapshots held, and the counters."""
    entries, counters = desk.engine(message).store()
    return {"entries": [dict(entry) for entry in entries], "counters": dict(counters)}


def evict(desk: Desk, message: Message) -> dict[str, object]:
    """Evict snapshots."""
    return {"evicted": int(desk.engine(message).evict(number(message.body, "count")))}


def release(desk: Desk, message: Message) -> dict[str, object]:
    """Give bytes of snapshots back."""
    return {"freed": int(desk.engine(message).release(number(message.body, "need")))}


def set_budget(desk: Desk, message: Message) -> dict[str, object]:
    """Change the budget of the store."""
    budget = {name: int(str(value)) for name, value in mapping(message.body, "budget").items()}
    desk.engine(message).set_budget(budget)
    return {}


def corrupt_handle(desk: Desk, message: Message) -> dict[str, object]:
    """Flip bits of a part in an explicit snapshot."""
    desk.engine(message).corrupt_handle(text(message.body, "handle"), *_place(message))
    return {}


def corrupt_store(desk: Desk, message: Message) -> dict[str, object]:
    """Flip bits of a part in a stored snapshot."""
    desk.engine(message).corrupt_store(text(message.body, "key"), *_place(message))
    return {}


def damage_store(desk: Desk, message: Message) -> dict[str, object]:
    """Break the geometry of a stored snapshot."""
    desk.engine(message).damage_store(text(message.body, "key"), text(message.body, "kind"))
    return {}


def disk_files(desk: Desk, message: Message) -> dict[str, object]:
    """List the files of the disk tier."""
    return {"files": [dict(one) for one in desk.engine(message).disk_files()]}


def _place(message: Message) -> tuple[str, int, int]:
    return text(message.body, "part"), number(message.body, "byte"), number(message.body, "mask")


OPERATIONS: Final[Mapping[str, Callable[[Desk, Message], dict[str, object]]]] = {
    "store": store,
    "evict": evict,
    "release": release,
    "set_budget": set_budget,
    "corrupt_handle": corrupt_handle,
    "corrupt_store": corrupt_store,
    "damage_store": damage_store,
    "disk_files": disk_files,
}
