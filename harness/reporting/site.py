"""Whole trees of pages from a folder of certificates: Markdown to be committed, HTML to be looked at.

The bytes follow from the certificates, the ledger and the titles of the scenarios alone. States come from
the ledger, as everywhere; what a certificate file says of its own status is not believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.deriving.fields import text_at
from harness.deriving.status import derive_status
from harness.errors import InvalidDocumentError, NothingToDoError, UsageError
from harness.model.certificate import Certificate, Event
from harness.model.values import CertificateState
from harness.reporting import html, markdown
from harness.reporting.building import Archive, certificate_view, claim_page, overview
from harness.reporting.view import CLAIM_KEY
from harness.wire import files, resources
from harness.wire.certificate_doc import MAX_BYTES, parse_certificate
from harness.wire.event_doc import parse_event
from harness.wire.scenario_doc import parse_scenario

OVERVIEW: Final = "README.md"
INDEX: Final = "index.html"
_LEDGER: Final = "ledger"
_NOT_CERTIFICATES: Final = frozenset({_LEDGER, "evidence"})


def render_all(folder: Path, *, titles: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """Return the Markdown tree: relative path to bytes.

    Args:
        folder: The certificates' folder.
        titles: Scenario id to title; those of the scenarios that travel with the package by default.

    Raises:
        UsageError: There is no such folder.
        InvalidDocumentError: A certificate or event is not what its kind must be.
    """
    archive = read_archive(folder, titles=titles)
    pages = {markdown.page_path(key): markdown.render_page(claim_page(key, archive)) for key in archive.claim_keys}
    return {OVERVIEW: markdown.render_overview(overview(archive)), **pages}


def render_site(folder: Path, *, titles: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """Return the HTML pages: one per certificate, and the index. Raises as :func:`render_all`."""
    archive = read_archive(folder, titles=titles)
    pages = {
        html.page_name(one.id): html.render_certificate(certificate_view(one, archive)) for one in archive.certificates
    }
    return {INDEX: html.render_index(overview(archive)), **pages}


def out_of_date(reports: Path, made: Mapping[str, bytes]) -> list[str]:
    """Return what is wrong with a committed tree of pages, one sentence per file; empty: nothing.

    Args:
        reports: Folder of the committed pages.
        made: What :func:`render_all` makes now.
    """
    there = {path.relative_to(reports).as_posix(): path for path in reports.rglob("*.md")} if reports.is_dir() else {}
    found: list[str] = []
    for name in sorted({*made, *there}):
        if name not in there:
            found.append(f"{name}: is missing")
        elif name not in made:
            if is_generated(there[name]):
                found.append(f"{name}: belongs to no claim key")
        elif there[name].is_symlink() or there[name].read_bytes() != made[name]:
            found.append(f"{name}: has other bytes than the certificates give")
    return found


def is_generated(page: Path) -> bool:
    """Tell whether a file is a page that was made here: its first line says so. A link never is."""
    if page.is_symlink() or not page.is_file():
        return False
    with page.open("rb") as file:
        return file.readline(1024).rstrip(b"\r\n") == markdown.GENERATED.encode()


def read_archive(folder: Path, *, titles: Mapping[str, str] | None = None) -> Archive:
    """Return all certificates of a folder with their ledger.

    Raises:
        UsageError: There is no such folder.
        InvalidDocumentError: A certificate or event is not what its kind must be.
    """
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}; a report wants the folder of certificates")
    events = [parse_event(data, where) for where, data in _documents(folder, folder / _LEDGER)]
    certificates = [
        _with_status(parse_certificate(data, where), events, where)
        for step in sorted(folder.iterdir())
        if step.is_dir() and step.name not in _NOT_CERTIFICATES
        for where, data in _documents(folder, step)
    ]
    ids = {text_at(one.body, "scenario", "id") for one in certificates}
    return Archive(certificates, events=events, titles=scenario_titles(ids) if titles is None else titles)


def find_certificate(archive: Archive, identity: str) -> Certificate:
    """Return the certificate whose id begins with the given digits, or the current one of a claim key.

    Args:
        archive: Where to look.
        identity: First digits of an id, or a claim key or its first steps: ``A01``, ``A01/torch-tiny``.

    Raises:
        NothingToDoError: None does.
        UsageError: Several do.
    """
    if "/" in identity:
        return _of_claim(archive, identity)
    found = [one for one in archive.certificates if one.id.startswith(identity)]
    if not found and any(key.startswith(f"{identity}/") for key in archive.claim_keys):
        return _of_claim(archive, identity)
    if not found:
        raise NothingToDoError(f"no certificate whose id or claim key begins with {identity[:64]!r}")
    if len(found) > 1:
        raise UsageError(f"{len(found)} certificates have ids that begin with {identity[:64]!r}; give more digits")
    return found[0]


def _of_claim(archive: Archive, start: str) -> Certificate:
    of_claim = [key for key in archive.claim_keys if f"{key}/".startswith(f"{start.rstrip('/')}/")]
    if not of_claim:
        raise NothingToDoError(f"no certificate whose claim key begins with {start[:64]!r}")
    if len(of_claim) > 1:
        raise UsageError(f"{len(of_claim)} claim keys begin with {start[:64]!r}: {', '.join(of_claim[:3])}; give one")
    found = archive.of_key(of_claim[0])
    current = [one for one in found if one.status.state is CertificateState.CURRENT]
    if len(current) > 1:
        ids = ", ".join(one.id[:12] for one in current)
        raise UsageError(f"{of_claim[0]} has {len(current)} current certificates: {ids}; give an id")
    return (current or found)[-1]


def scenario_titles(ids: set[str]) -> dict[str, str]:
    """Return the titles of scenarios that travel with the package; an unknown id has none."""
    names = [name for name in resources.resource_names("scenarios") if name.rpartition("/")[2].partition("-")[0] in ids]
    scenarios = [parse_scenario(resources.resource_text("scenarios", name), name) for name in names]
    return {scenario.id: scenario.title for scenario in scenarios}


def _documents(folder: Path, below: Path) -> Iterator[tuple[str, bytes]]:
    """Return every JSON file with its name below the folder, in one order; a link is refused, not followed."""
    for path in sorted(below.rglob("*.json")):
        where = path.relative_to(folder).as_posix()
        if path.is_symlink() or not path.is_file():
            raise InvalidDocumentError("is no regular file", where=where)
        yield where, files.read(path, max_bytes=MAX_BYTES)


def _with_status(certificate: Certificate, events: list[Event], where: str) -> Certificate:
    key = certificate.body.get("claim_key")
    if not isinstance(key, str) or CLAIM_KEY.fullmatch(key) is None:
        raise InvalidDocumentError(f"found claim key {str(key)[:80]!r}; allowed are three slugs", where=where)
    return replace(certificate, status=derive_status(certificate.id, events))
