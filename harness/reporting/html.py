"""HTML pages from the view model: one self-contained file per certificate, and an index.

No script, no network, no inline event or style attribute; the page forbids itself anything else by its
content security policy. The template engine escapes every value; before that each string of the view is
made plain, so that a control character cannot reach a page either.
"""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar, cast

from harness.reporting import escape
from harness.reporting.figures import first_token_bars, heat_map
from harness.reporting.view import CertificateView, Overview
from harness.reporting.words import mark

if TYPE_CHECKING:
    from jinja2 import Environment

Noun = TypeVar("Noun")
_ID: Final = re.compile(r"[0-9a-f]{12}(?:[0-9a-f]{52})?")


def page_name(certificate_id: str) -> str:
    """Return the file name of a certificate's page; what is no id gets no name of its own choosing."""
    return f"{certificate_id[:12]}.html" if _ID.fullmatch(certificate_id) else "unknown.html"


def render_certificate(view: CertificateView) -> bytes:
    """Return the page of one certificate."""
    shown = plainly(view)
    page = _environment().get_template("certificate.html.j2")
    text = page.render(
        view=shown, heat=heat_map(shown.matrix) if shown.matrix else None, bars=first_token_bars(shown.bars)
    )
    return text.encode()


def render_index(overview: Overview) -> bytes:
    """Return the index: one row per claim key, linked to the pages beside it."""
    return _environment().get_template("index.html.j2").render(overview=plainly(overview)).encode()


def plainly(noun: Noun) -> Noun:
    """Return a noun of the view model with every string in it made plain, at any depth."""
    return cast("Noun", _plain(noun))


def _plain(value: object) -> object:
    if isinstance(value, str):
        return escape.plain(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (field.name for field in dataclasses.fields(value))
        return dataclasses.replace(value, **{name: _plain(getattr(value, name)) for name in fields})
    return value


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("harness.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["mark"] = mark
    environment.filters["page_name"] = page_name
    return environment
