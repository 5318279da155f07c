"""Adapters are found by entry point; what cannot be found or loaded is named."""

from __future__ import annotations

import pytest

from harness.engines import registry
from harness.errors import UsageError
from tests.fakes.toy_support import FAKES


@pytest.fixture
def doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FAKES / "doubled"))
    return


def test_installed_engines_are_listed_without_loading_any() -> None:
    assert "toy" in registry.names()


def test_a_known_engine_is_made_without_arguments() -> None:
    assert registry.load("toy").name == "toy"


def test_an_unknown_engine_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no engine 'tyo' in harness\.engines; known are: .*toy"):
        registry.find("tyo")


def test_an_engine_offered_twice_is_an_error_that_names_both(doubled: None) -> None:
    with pytest.raises(UsageError, match=r"offered by doubled-fakes .* and statecert-fakes"):
        registry.find("toy")


def test_a_missing_package_is_answered_with_the_extra_that_brings_it() -> None:
    with pytest.raises(UsageError, match=r"needs the package 'toy_moon'.*statecert-fakes\[moon\]"):
        registry.load("moon")


def test_an_entry_point_to_nothing_is_named() -> None:
    with pytest.raises(UsageError, match="toy_engine:NoSuchAdapter, which does not exist"):
        registry.load("nowhere")
