"""What the probes share: a session to try things on, its rows and state as digests, what a refusal is told as."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from harness.codec.archive import Component, decode_page, encode_page
from harness.codec.paths import coder
from harness.deriving.prompts import prompt_ids
from harness.engines.pages import PageComponent, PageEngine, PageRefusedError, PageSession
from harness.model.scenario import PromptSegment, PromptSpec

Probe = tuple[str, str, str]
"""Name, what was observed, what was expected (empty where the specification says it)."""
F16 = np.ndarray[Any, np.dtype[np.float16]]


KERNELS: Final = ("triton", "triton_interpreted")
"""Paths of a restore that know LCG2 alone."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The declared paths of the codec."""

    code: str
    """Encodes."""
    restore: str
    """Decodes into resident rows."""


ATTENTION: Final[Mapping[str, str | int]] = {"preset": "tiny", "arch": "attention", "chunk": 1024, "max_seq_len": 2048}
_TOKENS: Final = 300
"""More than one tile."""


def sha(data: bytes) -> str:
    """SHA-256, hex."""
    return hashlib.sha256(data).hexdigest()


def told(ask: Callable[[], str]) -> str:
    """What comes out, or the word of a refusal that nobody expected."""
    try:
        return ask()
    except PageRefusedError as error:
        return f"refused:{error.word}"


def word_of(ask: Callable[[], object], done: str = "taken") -> str:
    """The word of a refusal; another error by its kind."""
    try:
        ask()
    except PageRefusedError as error:
        return error.word
    except Exception as error:  # noqa: BLE001 - whatever else it is, it is no refusal
        return f"crash:{type(error).__name__}"
    return done


def session_of(
    pages: PageEngine, options: Mapping[str, str | int], tokens: int = _TOKENS, seed: int = 710
) -> PageSession:
    """A small model with these options, after a prompt of so many tokens."""
    made = pages.open({**ATTENTION, **options})
    segments = [PromptSegment(tokens=tokens, seed=seed)]
    made.prefill(list(prompt_ids({"A": PromptSpec(segments=segments)}, "A")))
    return made


def rows_of(session: PageSession) -> str:
    """Digest of all rows of K, V and index."""
    sha = hashlib.sha256()
    for name, (kind, data) in session.parts().items():
        if name.startswith("layer"):
            sha.update(f"{name}\0{kind}\0".encode() + data)
    return sha.hexdigest()


def state_of(session: PageSession) -> str:
    """Digest of all parts."""
    sha = hashlib.sha256()
    for name, (kind, data) in session.parts().items():
        sha.update(f"{name}\0{kind}\0".encode() + data)
    return sha.hexdigest()


def _words(components: list[PageComponent]) -> list[Component]:
    return [
        Component(
            layers=one.layers, tokens=one.tokens, k_element=one.k_element, v_element=one.v_element,
            k_channels=one.k_channels, v_channels=one.v_channels, transposed_v=one.transposed_v,
            exact_bytes=one.exact_bytes,
        )
        for one in components
    ]  # fmt: skip


def reference_of(session: PageSession, version: int, *, transposed: bool = False) -> bytes:
    """The archive of a session's page, made by the harness itself."""
    parts = _words(list(session.components(transposed=transposed)))
    page = session.page(transposed=transposed)
    return encode_page(page, parts, version=2 if version == 2 else 1, path=coder("numpy"))


def through(source: PageSession, version: int, paths: Paths, *, transposed: bool = False) -> str:
    """The rows of a session that the engine has coded and brought back."""
    target = source.fork()
    data = source.archive(version, paths.code, transposed=transposed)
    target.bring_archive(data, source.tail(), paths.restore, transposed=transposed)
    return rows_of(target)


def without_restoring(source: PageSession, version: int, paths: Paths) -> str:
    """The rows of a session that the engine has coded and the harness has decoded: they come back as an exact page."""
    target = source.fork()
    data = source.archive(version, paths.code, transposed=False)
    target.bring(bytes(decode_page(data, path=coder("numpy"))), source.tail(), transposed=False)
    return rows_of(target)


def require_none(found: object) -> None:
    """Do nothing if nothing was found."""
    if found is not None:
        raise ValueError("found something")


def identity_of(version: int, length: int) -> Mapping[str, object]:
    """Who coded a page: a version of CacheGen, or nobody (0)."""
    return {
        "name": "lmcache-cachegen" if version else "raw", "version": version or 1,
        "class": "lossy" if version else "exact", "decoded_length": length, "calibration": sha(b""),
    }  # fmt: skip
