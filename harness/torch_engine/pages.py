"""A session as a page and a tail: K, V and index rows in the order of a page archive, and the rest as it is.

A page is a list of components: the base cache (full attention), then the sliding-window cache. In a component all K
layers follow one another, then all V layers, then the index rows as exact bytes. Where V is ``transposed`` it lies
channel by channel. An archive is decoded straight into the resident buffers, without a decoded copy; a native page is
copied into them. Whatever fails after the first write leaves the session reset.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness.codec.archive import Component, encode_page, read_archive
from harness.codec.errors import CodecError, GeometryError
from harness.codec.paths import Coder, coder
from harness.torch_engine.coded.restoring import Placed, fill, place
from harness.torch_engine.errors import MetadataError, OptionError, TransferError
from harness.torch_engine.kv.rows import Rows
from harness.torch_engine.metadata import Metadata, decode_metadata
from harness.torch_engine.models.attention import AttentionState
from harness.torch_engine.models.sliding import SlidingState
from harness.torch_engine.session import TorchSession
from harness.torch_engine.state import Part, bytes_view

PAGED = ("kv", "index", "window")
"""Families that a page holds; all others are in the tail."""


@dataclass(frozen=True, slots=True)
class Cache:
    """One component of a page: live rows."""

    k: tuple[Rows, ...]
    """Of each layer, (tokens, kv_heads, head_dim)."""
    v: tuple[Rows, ...]
    exact: tuple[Tensor, ...]
    """Index rows, u8 views (bytes,)."""

    @property
    def tokens(self) -> int:
        """Rows of each layer."""
        return len(self.k[0])


def caches(session: TorchSession, position: int) -> list[Cache]:
    """The components of a session that holds, or is going to hold, ``position`` tokens."""
    states = session.buffers.layers
    full = [s for s in states if isinstance(s, AttentionState)]
    rings = [s for s in states if isinstance(s, SlidingState)]
    pooled = position // session.decoder.config.pool
    found = []
    if full:
        index = [part for s in full for part in (s.raw[:position], s.pooled[:pooled])]
        exact = tuple(bytes_view(t) for rows in index for t in rows.tensors)
        found.append(Cache(tuple(s.k[:position] for s in full), tuple(s.v[:position] for s in full), exact))
    if rings:
        count = min(position, session.decoder.config.window)
        found.append(Cache(tuple(s.k[:count] for s in rings), tuple(s.v[:count] for s in rings), ()))
    return found


def components(session: TorchSession, position: int, *, transposed: bool = False) -> list[Component]:
    """What a page of the session is made of, in the words of the archive.

    Raises:
        GeometryError: an element type that the archive has no record for, or blocks that are to be transposed.
    """
    found = []
    for cache in caches(session, position):
        k, v = cache.k[0], cache.v[0]
        one = Component(
            layers=len(cache.k),
            tokens=cache.tokens,
            k_element=k.element.name,
            v_element=v.element.name,
            k_channels=int(np.prod(k.shape[1:])),
            v_channels=int(np.prod(v.shape[1:])),
            transposed_v=transposed,
            exact_bytes=sum(t.numel() for t in cache.exact),
        )
        list(one.sides())  # asks for the kind of every layer
        found.append(one)
    return found


class Pager:
    """Pages out of a session and into one; every step is a method to override."""

    cancel_after = -1
    """Pieces after whose writing the next import is broken off; below 0: none is."""

    def check(self, k_type: str, v_type: str, *, transposed: bool) -> None:
        """A page of these types can be made at all.

        Raises:
            OptionError: blocks cannot be cut across a transposition.
        """
        if transposed and self.blocked(v_type):
            raise OptionError(f"v_pages: expected rows for V of {v_type}, found transposed ({k_type}/{v_type})")

    def blocked(self, kind: str) -> bool:
        """Whether a type has blocks or scales, which lie along a row."""
        return kind not in ("f32", "f16", "bf16", "f8_e4m3")

    # -- out -----------------------------------------------------------------------------------

    def page(self, session: TorchSession, *, transposed: bool = False) -> bytes:
        """The page as it is stored, byte for byte."""
        pieces: list[bytes] = []
        for cache in caches(session, session.position):
            pieces += [self.raw(rows, transposed=False) for rows in cache.k]
            pieces += [self.raw(rows, transposed=transposed) for rows in cache.v]
            pieces += [one.cpu().numpy().tobytes() for one in cache.exact]
        return b"".join(pieces)

    def raw(self, rows: Rows, *, transposed: bool) -> bytes:
        """All streams of a layer's rows."""
        out = []
        for tensor in rows.tensors:
            flat = tensor.reshape(len(rows), -1)
            out.append(bytes_view((flat.T if transposed else flat).contiguous()).cpu().numpy().tobytes())
        return b"".join(out)

    def archive(self, session: TorchSession, version: int, path: str, *, transposed: bool = False) -> bytes:
        """The page, coded. The page is the encoder's input and is made for it.

        Raises:
            CodecError: a type, a value or a path that cannot be coded.
        """
        parts = components(session, session.position, transposed=transposed)
        page = self.page(session, transposed=transposed)
        return self.encode(page, parts, version, path)

    def encode(self, page: bytes, parts: Sequence[Component], version: int, path: str) -> bytes:
        """A page to its archive."""
        return encode_page(page, parts, version=2 if version == 2 else 1, path=self.coder(path))

    def coder(self, path: str) -> Coder:
        """What encodes tiles by a declared path.

        Raises:
            PathError: it is not available.
        """
        return coder(path)

    def raw_length(self, data: bytes) -> int:
        """Bytes of the page of an archive, which is validated.

        Raises:
            CodecError: it is none.
        """
        return read_archive(data).raw

    def tail(self, session: TorchSession) -> bytes:
        """Everything else: a line of JSON, then part 0 and the parts that no page holds."""
        parts = list(self.unpaged(session, session.layout("session").parts()))
        meta = session.metadata()
        head = {
            "meta": len(meta),
            "parts": [[part.name, part.nbytes] for part in parts],
            "prompt": session.prompt.tolist(),
        }
        body = [bytes_view(part.valid()).cpu().numpy().tobytes() for part in parts]
        return b"".join((json.dumps(head).encode(), b"\n", meta, *body))

    def unpaged(self, session: TorchSession, parts: Iterator[Part]) -> Iterator[Part]:
        """Parts that the tail holds."""
        del session
        return (part for part in parts if part.family not in PAGED)

    # -- in ------------------------------------------------------------------------------------

    def bring(self, session: TorchSession, page: bytes, tail: bytes, *, transposed: bool = False) -> None:
        """Become the session of a native page and its tail.

        Raises:
            MetadataError: the tail contradicts itself or the session; nothing was touched.
            GeometryError: the page has another size; nothing was touched.
            TransferError: the copy failed; the session is reset.
        """
        meta, rest, prompt = self.read_tail(session, tail)
        pieces = list(self.targets(session, meta.position, transposed=transposed))
        size = sum(t.numel() * t.element_size() for t in pieces)
        if size != len(page):
            raise GeometryError(f"page: expected {size} bytes, found {len(page)}")
        with self.into(session):
            at = 0
            for target in pieces:
                count = target.numel() * target.element_size()
                data = np.frombuffer(page, np.uint8, count, at)
                view = torch.from_numpy(data.copy() if not data.flags.writeable else data)
                target.copy_(view.view(target.dtype).view(target.shape))
                at += count
            self.finish(session, meta, rest, prompt)

    def bring_archive(
        self, session: TorchSession, data: bytes, tail: bytes, path: str, *, transposed: bool = False
    ) -> str:
        """Become the session of an archive and its tail; the archive is validated whole first.

        Returns:
            The path that decoded it.

        Raises:
            CodecError: the archive or a symbol in it; after a symbol the session is reset, else nothing was touched.
            MetadataError: as `bring`.
        """
        meta, rest, prompt = self.read_tail(session, tail)
        parts = components(session, meta.position, transposed=transposed)
        staged: list[tuple[Tensor, Sequence[Tensor]]] = []
        targets: list[Tensor] = []
        for cache, one in zip(caches(session, meta.position), parts, strict=True):
            targets += [self.target(rows) for rows in (*cache.k, *cache.v)]
            if one.exact_bytes:
                room = torch.empty(one.exact_bytes, dtype=torch.uint8, device=session.buffers.device)
                staged.append((room, cache.exact))
                targets.append(room)
        placed = self.validate(data, targets)
        with self.into(session):
            ran = self.decode(placed, path)
            for room, exact in staged:
                at = 0
                for part in exact:
                    part.copy_(room[at : at + part.numel()])
                    at += part.numel()
            self.finish(session, meta, rest, prompt)
        return ran

    def validate(self, data: bytes, targets: Sequence[Tensor]) -> Placed:
        """Everything about an archive that can be wrong before the first write."""
        return place(data, targets)

    def decode(self, placed: Placed, path: str) -> str:
        """A validated archive into resident rows; the path that decoded it."""
        return fill(placed, path, wrote=self.wrote)

    def wrote(self, pieces: int) -> None:
        """Is told after each piece of an archive how many are written.

        Raises:
            InterruptedError: the import was cancelled here.
        """
        if pieces == self.cancel_after:
            self.cancel_after = -1
            raise InterruptedError(f"import: cancelled after {pieces} pieces")

    def target(self, rows: Rows) -> Tensor:
        """A layer's rows as the decoder fills them: (tokens, channels), or (tokens, row bytes) of blocks."""
        return rows.tensors[0].flatten(1)

    def targets(self, session: TorchSession, position: int, *, transposed: bool) -> Iterator[Tensor]:
        """Live views in the order and the shape of a native page."""
        for cache in caches(session, position):
            for rows in cache.k:
                yield from rows.tensors
            for rows in cache.v:
                for tensor in rows.tensors:
                    yield tensor.flatten(1).T if transposed else tensor
            yield from cache.exact

    def read_tail(self, session: TorchSession, tail: bytes) -> tuple[Metadata, dict[str, memoryview], Any]:
        """Part 0, the parts by name, and the prompt.

        Raises:
            MetadataError: it is no tail, or not one of a session like this.
        """
        head, _, body = tail.partition(b"\n")
        try:
            told = json.loads(head)
            sizes = {str(name): int(size) for name, size in told["parts"]}
            view, at = memoryview(body), int(told["meta"])
            meta = decode_metadata(bytes(view[:at]))
            prompt = np.asarray(told["prompt"], dtype=np.int32)
        except (ValueError, KeyError, TypeError) as error:
            raise MetadataError(f"tail: expected its head, found {error}") from error
        session.buffers.check_lengths(meta, meta.position)
        layout = session.buffers.layout("session", meta.layers, meta.position + meta.owed)
        wanted = {part.name: part.nbytes for part in self.unpaged(session, layout.parts())}
        if wanted != sizes or at + sum(sizes.values()) != len(body):
            raise MetadataError(f"tail: expected parts {wanted}, found {sizes}")
        rest = {}
        for name, size in sizes.items():
            rest[name] = view[at : at + size]
            at += size
        return meta, rest, prompt

    def finish(self, session: TorchSession, meta: Metadata, rest: dict[str, memoryview], prompt: Any) -> None:
        """Write the tail's parts and take the counters over."""
        layout = session.buffers.layout("session", meta.layers, meta.position + meta.owed)
        for part in self.unpaged(session, layout.parts()):
            if part.nbytes:
                data = np.frombuffer(rest[part.name], np.uint8).copy()
                bytes_view(part.valid()).copy_(torch.from_numpy(data))
        for state in session.buffers.layers:
            if isinstance(state, SlidingState):
                for tensor in (*state.k.tensors, *state.v.tensors):
                    tensor[meta.position :].zero_()  # places of a ring that nothing has been written to
        session.become(meta, prompt)

    def into(self, session: TorchSession) -> _Into:
        """A context in which the session is written; whatever goes wrong resets it."""
        session.idle("import")
        return _Into(session)


class _Into:
    def __init__(self, session: TorchSession) -> None:
        self.session = session

    def __enter__(self) -> None:
        self.session.continuing.leave()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is None:
            return
        self.session.reset()
        if isinstance(error, Exception) and not isinstance(error, CodecError):
            raise TransferError(f"page: expected all rows, found {kind.__name__}: {error}") from error
