"""How an engine decodes an archive of coded rows, and how it refuses one."""

from __future__ import annotations

from typing import Final

from harness.engines.client import RemoteSession
from harness.engines.conformance import Kit, UnaskedError, first_difference
from harness.engines.obligations.common import refused, require
from harness.errors import RefusedError
from harness.model.values import RefusalCode

CODEC: Final = "lmcache-cachegen"
VERSIONS: Final = (2, 1)


def archives(kit: Kit) -> None:
    """What the harness coded is decoded into the live rows, bit for bit; what is damaged is refused, untouched."""
    taken = [version for version in VERSIONS if _decodes(kit, version)]
    require(taken, f"import_archive() takes neither {CODEC} 2 nor 1; declare the capability only with one of them")
    with kit.session() as session:
        kit.live(session)
        archive = _coded(session, taken[0])
        before = session.look(spool=False)
        for what, data, codec, code in (
            ("an archive that is cut short", archive[:-1], CODEC, RefusalCode.FORMAT),
            ("an archive with a byte too many", archive + b"\0", CODEC, RefusalCode.FORMAT),
            ("bytes that are no archive", bytes(4096), CODEC, RefusalCode.FORMAT),
            ("an archive of an unknown codec", archive, "nobodys", RefusalCode.UNSUPPORTED),
        ):
            refused(what, code, lambda d=data, c=codec: session.import_archive(d, codec=c, version=taken[0]))  # type: ignore[misc]
            found = first_difference(before, session.look(spool=False))
            require(not found, f"{what} was refused, and yet {found} changed; check everything before writing")
        session.decode(1, {})
        refused(
            "an archive of fewer tokens than the session has",
            RefusalCode.LAYOUT,
            lambda: session.import_archive(archive, codec=CODEC, version=taken[0]),
        )


def _decodes(kit: Kit, version: int) -> bool:
    """Tell whether a version is taken; it must then give what the harness's own decoder gives."""
    with kit.session() as session:
        kit.live(session)
        _coded(session, version)  # says so where this target's rows cannot be coded at all
        encoded = session.encode(CODEC, version, spool=False)
        try:
            begun = session.import_archive(encoded.archive, codec=CODEC, version=version).value
        except RefusedError as refusal:
            if refusal.code == RefusalCode.UNSUPPORTED:
                return False
            raise
        found = first_difference(encoded.look, session.look(spool=False))
        require(not found, f"import_archive() of version {version}: {found} is not what the codec gives; see the page")
        require(
            begun.restored_bytes == encoded.page_bytes,
            f"import_archive() says {begun.restored_bytes} bytes were written; the rows have {encoded.page_bytes}",
        )
        return True


def _coded(session: RemoteSession, version: int) -> bytes:
    try:
        return session.encode(CODEC, version, spool=False).archive
    except RefusedError as refusal:
        raise UnaskedError(
            f"the rows of this target cannot be coded ({refusal.message}); ask one with f16 rows"
        ) from None
