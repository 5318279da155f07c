"""What sessions and options of several adapters say in the same words."""

from __future__ import annotations

from harness.engines.interface import Options
from harness.errors import RefusedError
from harness.model.values import RefusalCode


def completed(given: Options, defaults: Options) -> Options:
    """Return all options: those given, the others as they go without saying.

    Raises:
        RefusedError: ``unsupported``: an unknown option.
    """
    unknown = sorted(set(given) - set(defaults))
    if unknown:
        raise RefusedError(RefusalCode.UNSUPPORTED, f"unknown options {unknown}; known are {sorted(defaults)}")
    return {**defaults, **given}


def require_room(tokens: int, options: Options, what: str) -> None:
    """Do nothing if so many tokens fit into a session of these options.

    Args:
        tokens: How many it would hold.
        options: Of the engine; ``max_seq_len`` says how many it may.
        what: What holds them, in the engine's word.

    Raises:
        RefusedError: ``capacity``: they do not.
    """
    most = int(options["max_seq_len"])
    if tokens > most:
        raise RefusedError(RefusalCode.CAPACITY, f"{tokens} tokens; a {what} holds {most}")


def within(image: bytes, capacity: int) -> bytes:
    """Return an image that fits into the bytes that there is room for.

    Raises:
        RefusedError: ``short_buffer``: it does not.
    """
    if len(image) > capacity:
        raise RefusedError(RefusalCode.SHORT_BUFFER, f"the image has {len(image)} bytes; there is room for {capacity}")
    return image
