"""Contexts of a model, and the sequences in them: every call into libllama that works on state."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from harness.adapters.llama_library import Llama
from harness.errors import EngineError, RefusedError
from harness.model.values import RefusalCode

_REASONS: Final = (
    ("mismatched key type", RefusalCode.KV_MODE),
    ("mismatched value type", RefusalCode.KV_MODE),
    ("rotation", RefusalCode.KV_MODE),
    ("incompatible V transposition", RefusalCode.KV_MODE),
    ("n_stream mismatch", RefusalCode.LAYOUT),
    ("mismatched", RefusalCode.LAYOUT),
    ("not enough", RefusalCode.SHORT_BUFFER),
    ("unexpectedly reached end", RefusalCode.SHORT_BUFFER),
)
"""Words of the log to the seam's word: the API only returns 0."""


class Context:
    """One llama context.

    Args:
        llama: The library.
        model: Handle of a loaded model.
        fields: Parameters of the context.

    Raises:
        RefusedError: llama.cpp makes no such context (``unsupported``).
    """

    def __init__(self, llama: Llama, model: Any, fields: dict[str, float]) -> None:
        self.llama, self.c, self.ffi = llama, llama.c, llama.ffi
        llama.take_log()
        self.handle = self.c.llama_init_from_model(model, llama.context_params(fields))
        if self.handle == self.ffi.NULL:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"no context with these options: {llama.take_log()[:300]}")
        self.memory = self.c.llama_get_memory(self.handle)
        self.vocab = self.c.llama_vocab_n_tokens(self.c.llama_model_get_vocab(model))
        self._room = int(self.c.llama_n_batch(self.handle))
        self._batch = self.c.llama_batch_init(self._room, 0, 1)

    def forward(self, tokens: Sequence[int], start: int, sequence: int) -> bytes:
        """Forward tokens as one batch; return the logits after the last one, 32-bit floats.

        Raises:
            RefusedError: The context is full (``capacity``).
            EngineError: llama.cpp failed.
        """
        batch = self._batch
        batch.n_tokens = len(tokens)
        for index, token in enumerate(tokens):
            batch.token[index], batch.pos[index] = token, start + index
            batch.n_seq_id[index], batch.seq_id[index][0] = 1, sequence
            batch.logits[index] = index == len(tokens) - 1
        status = self.c.llama_decode(self.handle, batch)
        if status == 1:
            raise RefusedError(RefusalCode.CAPACITY, "no room in the context")
        if status:
            raise EngineError(f"LlamaDecode: llama_decode returned {status}: {self.llama.take_log()[:300]}")
        found = self.c.llama_get_logits_ith(self.handle, -1)
        if found == self.ffi.NULL:
            raise EngineError("LlamaDecode: no logits after a batch that asked for some")
        return bytes(self.ffi.buffer(found, 4 * self.vocab))

    @property
    def batch_room(self) -> int:
        """Tokens that one batch takes."""
        return self._room

    @property
    def keeps_past(self) -> bool:
        """Whether the context keeps snapshots of recurrent state for rollbacks."""
        return int(self.c.llama_n_rs_seq(self.handle)) > 0

    def position(self, sequence: int) -> int:
        """Tokens that a sequence holds, by the library's own count."""
        return int(self.c.llama_memory_seq_pos_max(self.memory, sequence)) + 1

    def remove(self, sequence: int, start: int = -1) -> bool:
        """Remove a sequence from a position on; return what llama.cpp returned."""
        return bool(self.c.llama_memory_seq_rm(self.memory, sequence, start, -1))

    def copy(self, source: int, target: int) -> None:
        """Let another sequence share the cells of one."""
        self.c.llama_memory_seq_cp(self.memory, source, target, -1, -1)

    def save(self, sequence: int, flags: int = 0) -> bytes:
        """Return the state of a sequence as llama.cpp writes it.

        Raises:
            EngineError: It wrote less than it said.
        """
        size = int(self.c.llama_state_seq_get_size_ext(self.handle, sequence, flags))
        room = self.ffi.new("uint8_t[]", size)
        written = int(self.c.llama_state_seq_get_data_ext(self.handle, room, size, sequence, flags))
        if written != size:
            raise EngineError(f"LlamaState: {written} bytes were written; {size} were announced")
        return bytes(self.ffi.buffer(room, size))

    def load(self, sequence: int, blob: bytes, flags: int = 0) -> None:
        """Put a state into a sequence.

        Raises:
            RefusedError: llama.cpp returned 0; the code is told by its log.
        """
        self.llama.take_log()
        room = self.ffi.from_buffer("uint8_t[]", blob)
        if not self.c.llama_state_seq_set_data_ext(self.handle, room, len(blob), sequence, flags):
            raise self._refused()

    def save_file(self, sequence: int, tokens: Sequence[int]) -> bytes:
        """Return the sequence file that llama.cpp writes."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "sequence"
            ids = self.ffi.new("int32_t[]", list(tokens) or 1)
            name = str(path).encode()
            written = int(self.c.llama_state_seq_save_file(self.handle, name, sequence, ids, len(tokens)))
            data = path.read_bytes() if path.is_file() else b""
        if not written or written != len(data):
            raise EngineError(f"LlamaState: a file of {len(data)} bytes; {written} were announced")
        return data

    def load_file(self, sequence: int, data: bytes, most: int) -> Sequence[int]:
        """Put a sequence file into a sequence; return the tokens in it. What is no such file may end the process.

        Raises:
            RefusedError: llama.cpp returned 0.
        """
        self.llama.take_log()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "sequence"
            path.write_bytes(data)
            ids, count = self.ffi.new("int32_t[]", most), self.ffi.new("size_t *")
            read = self.c.llama_state_seq_load_file(self.handle, str(path).encode(), sequence, ids, most, count)
        if not read:
            raise self._refused()
        return [int(ids[index]) for index in range(int(count[0]))]

    def settle(self) -> None:
        """Wait for the device."""
        self.c.llama_synchronize(self.handle)

    def close(self) -> None:
        """Free the context."""
        if self.handle is not None:
            self.c.llama_batch_free(self._batch)
            self.c.llama_free(self.handle)
            self.handle = None

    def _refused(self) -> RefusedError:
        told = self.llama.take_log()
        code = next((code for words, code in _REASONS if words in told), RefusalCode.FORMAT)
        return RefusedError(code, told[:400] or "llama.cpp returned 0 and logged nothing")
