"""libllama through cffi: opened by path, its structures checked before anything is passed by value, its log captured.

llama.cpp's structures change between builds, and a wrong layout shifts every later field without an error. So they are
passed as raw bytes, larger than any build's, and a field is written only at an offset of a layout that fits the
defaults which the library itself returns. A build that fits none is refused.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from collections import deque
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from harness.errors import RefusedError
from harness.model.values import RefusalCode

PACKAGE: Final = "xllamacpp"
"""Its extension module exports the C API."""
_RAW: Final = 512
_CDEF: Final = f"""
typedef struct {{ uint8_t raw[{_RAW}]; }} params;
typedef struct {{ int32_t n_tokens; int32_t *token; float *embd; int32_t *pos; int32_t *n_seq_id; int32_t **seq_id;
                  int8_t *logits; }} batch;
params llama_model_default_params(void);
params llama_context_default_params(void);
void llama_backend_init(void);
void llama_log_set(void (*)(int, const char *, void *), void *);
void *llama_model_load_from_file(const char *, params);
void llama_model_free(void *);
void *llama_init_from_model(void *, params);
void llama_free(void *);
void *llama_get_memory(const void *);
const void *llama_model_get_vocab(const void *);
int32_t llama_vocab_n_tokens(const void *);
int32_t llama_model_desc(const void *, char *, size_t);
bool llama_model_is_recurrent(const void *);
bool llama_model_is_hybrid(const void *);
int32_t llama_model_n_swa(const void *);
const char *llama_print_system_info(void);
uint32_t llama_n_ctx_seq(const void *);
uint32_t llama_n_batch(const void *);
uint32_t llama_n_ubatch(const void *);
uint32_t llama_n_seq_max(const void *);
uint32_t llama_n_rs_seq(const void *);
int32_t llama_n_threads(void *);
batch llama_batch_init(int32_t, int32_t, int32_t);
void llama_batch_free(batch);
int32_t llama_decode(void *, batch);
void llama_synchronize(void *);
float *llama_get_logits_ith(void *, int32_t);
bool llama_memory_seq_rm(void *, int32_t, int32_t, int32_t);
void llama_memory_seq_cp(void *, int32_t, int32_t, int32_t, int32_t);
int32_t llama_memory_seq_pos_min(void *, int32_t);
int32_t llama_memory_seq_pos_max(void *, int32_t);
size_t llama_state_seq_get_size(void *, int32_t);
size_t llama_state_seq_get_data(void *, uint8_t *, size_t, int32_t);
size_t llama_state_seq_set_data(void *, const uint8_t *, size_t, int32_t);
size_t llama_state_seq_get_size_ext(void *, int32_t, uint32_t);
size_t llama_state_seq_get_data_ext(void *, uint8_t *, size_t, int32_t, uint32_t);
size_t llama_state_seq_set_data_ext(void *, const uint8_t *, size_t, int32_t, uint32_t);
size_t llama_state_seq_save_file(void *, const char *, int32_t, const int32_t *, size_t);
size_t llama_state_seq_load_file(void *, const char *, int32_t, int32_t *, size_t, size_t *);
"""

_COMMON: Final[Mapping[str, tuple[int, str]]] = {
    "n_ctx": (0, "I"),
    "n_batch": (4, "I"),
    "n_ubatch": (8, "I"),
    "n_seq_max": (12, "I"),
    "n_rs_seq": (16, "I"),
    "n_threads": (28, "i"),
    "n_threads_batch": (32, "i"),
    "flash_attn_type": (52, "i"),
    "defrag_thold": (84, "f"),
    "cb_eval": (88, "Q"),
    "type_k": (104, "i"),
    "type_v": (108, "i"),
}
_FLAGS: Final = ("embeddings", "offload_kqv", "no_perf", "op_offload", "swa_full", "kv_unified")


def _layout(abort_callback: int) -> Mapping[str, tuple[int, str]]:
    """Return the offsets of a build whose abort callback lies there; flags, samplers and their count follow it."""
    flags = abort_callback + 16
    after = {name: (flags + index, "?") for index, name in enumerate(_FLAGS)}
    return {**_COMMON, "abort_callback": (abort_callback, "Q"), **after, "n_samplers": (flags + 16, "Q")}


LAYOUTS: Final[Mapping[str, Mapping[str, tuple[int, str]]]] = {"b11549": _layout(120), "b11434": _layout(112)}
"""Layout of ``llama_context_params`` by the first build that it was seen in: field to offset and format."""
DEFAULTS: Final[Mapping[str, float]] = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "flash_attn_type": -1,
    "defrag_thold": -1.0,
    "cb_eval": 0,
    "type_k": 1,
    "type_v": 1,
    "abort_callback": 0,
    "embeddings": False,
    "offload_kqv": True,
    "op_offload": True,
    "kv_unified": False,
    "n_samplers": 0,
}
"""What every build returns as defaults of these fields."""


def fitting_layout(raw: bytes) -> str:
    """Return the name of the layout that default context parameters fit.

    Args:
        raw: As the library returned them.

    Raises:
        RefusedError: None fits, or more than one does (``unsupported``).
    """
    fits = [
        name
        for name, layout in LAYOUTS.items()
        if all(
            struct.unpack_from(f"<{layout[field][1]}", raw, layout[field][0])[0] == DEFAULTS[field]
            for field in DEFAULTS
        )
    ]
    if len(fits) != 1:
        raise RefusedError(
            RefusalCode.UNSUPPORTED,
            f"this libllama has context parameters of no layout that is known here ({', '.join(LAYOUTS)})",
        )
    return fits[0]


class Llama:
    """One loaded libllama; use :func:`library`.

    Args:
        path: The shared library, or the extension module that exports it.

    Raises:
        RefusedError: It cannot be opened, or its structures fit no known layout (``unsupported``).
    """

    def __init__(self, path: Path) -> None:
        import cffi

        self.ffi: Any = cffi.FFI()
        self.ffi.cdef(_CDEF)
        try:
            self.c: Any = self.ffi.dlopen(str(path))
        except OSError as error:
            raise RefusedError(RefusalCode.UNSUPPORTED, f"libllama cannot be opened ({error})") from error
        self.digest = hashlib.sha256(path.read_bytes()).hexdigest()
        self._words: deque[str] = deque(maxlen=64)
        self._callback = self.ffi.callback("void(int, const char *, void *)", self._log)
        self.c.llama_log_set(self._callback, self.ffi.NULL)
        self.layout = fitting_layout(bytes(self.c.llama_context_default_params().raw))
        self.c.llama_backend_init()

    def context_params(self, fields: Mapping[str, float]) -> Any:
        """Return context parameters: the defaults, with these fields."""
        made = self.c.llama_context_default_params()
        raw = bytearray(made.raw)
        for name, value in fields.items():
            offset, kind = LAYOUTS[self.layout][name]
            struct.pack_into(f"<{kind}", raw, offset, value)
        self.ffi.memmove(self.ffi.addressof(made), bytes(raw), _RAW)
        return made

    def system_info(self) -> str:
        """What the library says of the instructions that it uses."""
        told = self.ffi.string(self.c.llama_print_system_info()).decode("utf-8", "replace")
        return " ".join(word.strip() for word in told.split("|") if word.strip().endswith("= 1"))[:400]

    def take_log(self) -> str:
        """Return warnings and errors that were logged since the last call: the API itself only returns 0."""
        told = " ".join("".join(self._words).split())
        self._words.clear()
        return told

    def _log(self, level: int, text: Any, _: Any) -> None:
        words = self.ffi.string(text).decode("utf-8", "replace")
        if level in (3, 4):
            self._words.append(words)
        if level in (2, 3, 4):
            sys.stderr.write(words)


@cache
def library(path: str = "") -> Llama:
    """Return the library of a path, opened once; without one, that of the installed package.

    Raises:
        ModuleNotFoundError: The package is not installed.
        RefusedError: As :class:`Llama`.
    """
    return Llama(Path(path) if path else packaged())


def packaged(within: str = "") -> Path:
    """Return the extension module of the package that exports the C API.

    Args:
        within: Folder that a package was unpacked into; empty: the installed one.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    folder = Path(within) / PACKAGE if within else Path(str(import_module(PACKAGE).__file__)).parent
    return next(iter(sorted(folder.glob(f"{PACKAGE}.*.so"))), folder / PACKAGE)
