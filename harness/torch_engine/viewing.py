"""What a session shows of its state: all of it, or what its target would have on route ``ar``.

Saving and restoring never go through here; they always take everything.
"""

from __future__ import annotations

from dataclasses import replace

from harness.torch_engine.metadata import decode_metadata
from harness.torch_engine.session_state import SessionState
from harness.torch_engine.state import Part


def shown(session: SessionState) -> tuple[bytes, list[Part]]:
    """Part 0 and the other parts, as the session's option ``view`` wants them.

    With ``target`` the draft head's parts and its entries of part 0 are left out, so that the same tokens
    give the same bytes on both routes.
    """
    meta, parts = session.metadata(), list(session.layout("session").parts())
    if session.options.view == "all" or session.buffers.draft is None:
        return meta, parts
    decoded = decode_metadata(meta)
    own = replace(decoded, layers=decoded.layers[: len(session.buffers.layers)])
    return own.encode(), [part for part in parts if part.family != "draft"]
