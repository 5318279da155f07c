"""Page mutants of stored pages: identities of codecs, lossy and exact entries, publishing and reading."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO

from harness.adapters.mutants.kv_page_mutant import Caught, PageMutant
from harness.adapters.torch_pages import TorchPages
from harness.codec.identity import Class, CodecIdentity
from harness.torch_engine.coded.shelf import Entry, PageShelf


class _AnyIdentityPages(TorchPages):
    def admit(self, identity: Mapping[str, object], wanted: str, length: int) -> None:
        del wanted
        super().admit(identity, "lossy", length)


class LossyShownAsExact(PageMutant):
    """A lossy entry answers a lookup that asks for an exact one."""

    mutant_id = "K10.lossy-shown-as-exact"
    caught_by = Caught("G11", "lossy for exact")
    pages = _AnyIdentityPages


class _AnyClass(PageShelf):
    def serving(self, wanted: Class) -> tuple[Class, ...]:
        del wanted
        return ("exact", "lossy")

    def identity(self, record: Mapping[str, object], wanted: Class) -> CodecIdentity:
        del wanted
        return super().identity(record, "lossy")


class LossyEntryServed(PageMutant):
    """A lookup of an exact page that is not there is served by the lossy one of the same key."""

    mutant_id = "K08.lossy-entry-served"
    caught_by = Caught("G11", "shelf lossy for exact")
    shelf = _AnyClass


class _InPlace(PageShelf):
    def publish(self, key: str, identity: CodecIdentity, page: bytes, tail: bytes) -> None:
        with self.place(key, identity.kind).open("wb") as file:
            file.write(self.line(key, identity, page, tail) + page)
            file.flush()
            self.within("publish")
            file.write(tail)


class PublishedInPlace(PageMutant):
    """Entries are written under the name that readers look for."""

    mutant_id = "K05.page-published-in-place"
    caught_by = Caught("H05", "killed in publish")
    shelf = _InPlace


class _OpensAgain(PageShelf):
    def read(self, file: IO[bytes], key: str, wanted: Class) -> Entry:
        self.within("find")
        with Path(file.name).open("rb") as again:
            return super().read(again, key, wanted)


class ReaderLosesItsEntry(PageMutant):
    """An entry is opened anew for each part of it, so that an eviction in between takes it from its reader."""

    mutant_id = "K15.reader-loses-its-entry"
    caught_by = Caught("H05", "evicted while read")
    shelf = _OpensAgain


class _NoDigest(PageShelf):
    def checked(self, file: IO[bytes], key: str, wanted: Class) -> Entry:
        about, identity = self.head(file.readline(4096), key, wanted)
        page, tail = file.read(about["page"]), file.read(about["tail"])
        return Entry(identity=identity, page=page, tail=tail)


class StoredFlipServed(PageMutant):
    """Bytes of an entry are handed out without a look at its digest."""

    mutant_id = "K05.stored-flip-served"
    caught_by = Caught("H05", "flipped bits of an entry")
    shelf = _NoDigest


class _KnownNamesPages(TorchPages):
    def admit(self, identity: Mapping[str, object], wanted: str, length: int) -> None:
        whole = {"calibration": "0" * 64, **identity}
        super().admit({**whole, "version": min(int(str(whole["version"])), 2)}, wanted, length)


class NewerCodecTaken(PageMutant):
    """Entries of a newer version, or without all of their identity, are read as if they were today's."""

    mutant_id = "K06.newer-codec-taken"
    caught_by = Caught("G11", "newer")
    pages = _KnownNamesPages
