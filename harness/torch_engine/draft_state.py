"""What a session of route ``mtp`` keeps for its draft head: rows, carry, seed, pending drafts, policy.

The head stands one position behind the target: after p tokens it has p - 1 rows. All of it belongs to
family ``draft``; its rows are always f32.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.torch_engine.kv.elements import ELEMENT_TYPES
from harness.torch_engine.kv.rows import Rows
from harness.torch_engine.kv.types import element_type
from harness.torch_engine.metadata import KIND_CODES
from harness.torch_engine.models.attention import AttentionState
from harness.torch_engine.models.config import ModelConfig
from harness.torch_engine.models.draft import UNCHOSEN
from harness.torch_engine.options import MAX_DRAFT_DEPTH
from harness.torch_engine.state import HOST_LAYER, FixedPart, RowStream

DraftLengths = tuple[tuple[int, int, int, int], tuple[int, int, int, int]]
"""The head's entry of part 0 (kind code, K/V rows, raw and pooled index rows), then the drafter's (kind
code, depth, rounds, pending drafts)."""
POLICY_WORDS = ("depth", "rounds", "proposed", "accepted", "rejected", "round_size")
NO_TOKEN = -1
_FIRST_DEPTH = 2


class DraftState:
    """Buffers of the head in one session.

    Args:
        config: the target's sizes, which the head shares.
        capacity: tokens of the session.
        device: where the rows lie; what the host decides with lies on the host.
        depth: most tokens of a draft.
    """

    def __init__(self, config: ModelConfig, capacity: int, device: torch.device, depth: int) -> None:
        self.config = config
        self.max_depth = depth
        heads, plain = (config.kv_heads, config.head_dim), ELEMENT_TYPES["f32"]
        self.rows = AttentionState(
            k=Rows.empty(plain, (capacity, *heads), device),
            v=Rows.empty(plain, (capacity, *heads), device),
            raw=Rows.empty(plain, (capacity, config.index_dim), device),
            pooled=Rows.empty(plain, (max(1, capacity // config.pool), config.index_dim), device),
        )
        self.selection = torch.zeros(config.top_blocks, dtype=torch.int64, device=device)
        self.carry = torch.zeros((1, config.d_model), device=device)
        self.seed = torch.zeros(1, dtype=torch.int64)
        self.policy = torch.zeros(len(POLICY_WORDS), dtype=torch.int64)
        self.pending = torch.zeros(1 + MAX_DRAFT_DEPTH, dtype=torch.int64)  # count, tokens, zeros
        self.reset()

    def reset(self) -> None:
        """The state before any token; rows are declared invalid, not written."""
        self.truncate(0)
        self.carry.zero_()
        self.policy.zero_()
        self.pending.zero_()
        self.selection.fill_(UNCHOSEN)
        self.seed.fill_(NO_TOKEN)
        self.set_word("depth", min(_FIRST_DEPTH, self.max_depth))

    def void(self) -> None:
        """No logits are pending: nothing is drafted and no token is next."""
        self.set_drafts(())
        self.seed.fill_(NO_TOKEN)

    # -- labels --------------------------------------------------------------------------------

    def fixed_parts(self) -> list[FixedPart]:
        """What is overwritten in place."""
        tensors = {
            "selection": self.selection,
            "carry": self.carry,
            "seed": self.seed,
            "policy": self.policy,
            "pending": self.pending,
        }
        return [
            FixedPart(
                name=f"draft.{name}",
                family="draft",
                layer=HOST_LAYER,
                element_type=element_type(tensor.dtype),
                tensor=tensor,
            )
            for name, tensor in tensors.items()
        ]

    def row_streams(self, lengths: Sequence[tuple[int, int, int, int]]) -> list[RowStream]:
        """The head's rows with the given lengths."""
        _, kv, raw, pooled = lengths[0]
        r = self.rows
        streams = {"k": (r.k, kv), "v": (r.v, kv), "index_raw": (r.raw, raw), "index_pooled": (r.pooled, pooled)}
        return [
            RowStream(
                name=f"draft.{name}{stream.suffix}",
                family="draft",
                layer=HOST_LAYER,
                element_type=stream.element,
                tensor=tensor,
                rows=count,
            )
            for name, (rows, count) in streams.items()
            for stream, tensor in rows.streams()
        ]

    # -- lengths -------------------------------------------------------------------------------

    def lengths(self) -> DraftLengths:
        """The head's entries of part 0 as they are now."""
        r = self.rows
        drafter = (KIND_CODES["drafter"], self.word("depth"), self.word("rounds"), int(self.pending[0]))
        return (KIND_CODES["draft"], r.kv_rows, r.raw_rows, r.pooled_rows), drafter

    def lengths_at(self, position: int) -> DraftLengths:
        """What `lengths` must be when ``position`` tokens of a prompt have been forwarded."""
        rows = max(0, position - 1)
        drafter = (KIND_CODES["drafter"], min(_FIRST_DEPTH, self.max_depth), 0, 0)
        return (KIND_CODES["draft"], rows, rows, rows // self.config.pool), drafter

    def fits(self, lengths: Sequence[tuple[int, int, int, int]], position: int) -> bool:
        """Whether entries of part 0 may belong to a session at ``position``."""
        if len(lengths) != len(self.lengths_at(0)):
            return False
        head, (kind, depth, _, pending) = lengths
        sane = kind == KIND_CODES["drafter"] and 1 <= depth <= self.max_depth and pending <= self.max_depth
        return sane and head == self.lengths_at(position)[0]

    def set_lengths(self, lengths: Sequence[tuple[int, int, int, int]]) -> None:
        """Declare rows valid; the drafter's entry repeats what its parts say."""
        _, self.rows.kv_rows, self.rows.raw_rows, self.rows.pooled_rows = lengths[0]

    def truncate(self, rows: int) -> None:
        """Keep the first ``rows`` positions."""
        self.rows.kv_rows = self.rows.raw_rows = rows
        self.rows.pooled_rows = rows // self.config.pool

    # -- words ---------------------------------------------------------------------------------

    def word(self, name: str) -> int:
        """A word of the policy; one of `POLICY_WORDS`."""
        return int(self.policy[POLICY_WORDS.index(name)])

    def set_word(self, name: str, value: int) -> None:
        """Change a word of the policy."""
        self.policy[POLICY_WORDS.index(name)] = value

    def drafts(self) -> list[int]:
        """Drafted tokens that have not been judged yet, next one first."""
        return list(map(int, self.pending[1 : 1 + int(self.pending[0])].tolist()))

    def set_drafts(self, tokens: Sequence[int]) -> None:
        """Replace the drafted tokens."""
        self.pending.zero_()
        self.pending[0] = len(tokens)
        if tokens:
            self.pending[1 : 1 + len(tokens)] = torch.tensor(tokens, dtype=torch.int64)
