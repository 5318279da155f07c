"""What files of tests may ask for, wherever they lie."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.fakes.forked import Forking, end_templates, forked_children


@pytest.fixture(scope="session", autouse=True)
def _unflushed() -> Iterator[None]:
    """Do not wait for the disk: no test cuts the power, and thousands of small files are written and thrown away.

    A descriptor that is none is still refused; processes that tests start flush as they always do.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: os.fstat(descriptor) and None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_template_is_left() -> Iterator[None]:
    yield
    end_templates()


@pytest.fixture(scope="module")
def forked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forking | None]:
    """Children of this file's engines are forked of one that has imported the engine which the file calls ``ENGINE``,
    or torch; see `tests.fakes.forked`."""
    with forked_children(tmp_path_factory.mktemp("forked"), getattr(request.module, "ENGINE", "torch")) as forking:
        yield forking


@pytest.fixture(scope="module")
def forked_toys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Children of this file's engines are forked of one that has imported the toy engine; see `tests.fakes.forked`."""
    with forked_children(tmp_path_factory.mktemp("forked"), "toy"):
        yield


@pytest.fixture(scope="module")
def plain_aborts() -> Iterator[None]:
    """An abort of llama.cpp ends the process without a debugger, which takes a second and prints frames."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GGML_NO_BACKTRACE", "1")
        yield
