"""What must not enter a record is found, what belongs there passes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.wire import privacy
from harness.wire.canonical import canonical
from harness.wire.privacy import WITHHELD, Watch, findings, text_kind, told
from tests.fakes.evidence import recorded

NAMES = ["lab-box-3", "alice1", "c0ffee" * 10 + "c0de"]
PRIVATE = [
    "/home/somebody/model.gguf", "loaded /opt/rocm/lib/libhip.so", "path=/srv/x/y", "C:\\Users\\x", "D:/models/a",
    "~/models/x", "file:///x", "\\\\server\\share", "(/var/log/x)", "someone@example.org",
    "GPU-12345678-1234-1234-1234-123456789abc", "00:1b:44:11:3a:b7", "192.168.1.20", "ghp_abcdefghijklmnopqrst",
    "hf_abcdefghijklmnopqrst", "AKIAABCDEFGHIJKLMNOP", "password: hunter22", "-----BEGIN KEY", "host lab-box-3 up",
    "/root", "user Alice1",
    "c0ffee" * 10 + "c0de",
]  # fmt: skip


@pytest.mark.parametrize("text", PRIVATE)
def test_private_things_are_found(text: str) -> None:
    assert text_kind(text, names=NAMES)


@pytest.mark.parametrize("text", PRIVATE)
def test_a_watch_says_of_every_document_what_a_look_at_it_alone_says(text: str) -> None:
    watch = Watch(NAMES)
    clean = {"name": "layer0.k", "sha256": "ab" * 32, "more": [1, True, "bytes/s"]}

    for value in (clean, {**clean, "more": [text]}, {**clean, text: 1}, {**clean, "serial": "12"}, clean):
        assert list(watch.findings(value, canonical(value))) == findings(value, NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 64, "0" * 32, "A02/torch-tiny/cpu-x86_64", "bytes/s", "12.8.4.1", "580.126.09", "x86_64-linux-gnu",
        "Intel(R) Xeon(R) CPU @ 2.20GHz", "sha256-part-v1", "6.8.0-45-generic", "#/body/cells/2", "1/16", "and/or",
        "token agreement", "2026-01-01T08:00:00Z", "root", "A16[scale=16,at=end+1]", "GNU C 13.2", "k/v cache",
        "tokens", "sampler.rng", "layer0.k", "glibc 2.39", "AMD Ryzen AI MAX+ 395 w/ Radeon 8060S",
    ],
)  # fmt: skip
def test_what_belongs_into_a_record_passes(text: str) -> None:
    assert text_kind(text, names=["root", "user", "ab"]) == ""


def test_a_finding_names_the_place_and_the_kind_and_never_the_thing() -> None:
    value = {"facts": {"cpu": "x", "lib": ["ok", "/opt/secret/lib.so"]}, "serial": "1234", "/home/x/y": 1}

    found = findings(value)

    assert found == [
        "/facts/lib/1: absolute path",
        "/serial: field that identifies a machine or person",
        "/(a key): absolute path",
    ]


def test_a_whole_body_has_nothing_private() -> None:
    assert findings(recorded().body(), names=["somebody"]) == []


def test_options_are_told_but_for_what_is_private() -> None:
    given: dict[str, str | int | bool] = {
        "preset": "tiny",
        "threads": 2,
        "paged": True,
        "model": "/home/x/m.gguf",
        "host": "lab-box-3",
    }

    said = told(given, names=["lab-box-3"])

    assert said == {"preset": "tiny", "threads": 2, "paged": True, "model": WITHHELD, "host": WITHHELD}
    assert not findings(said, names=["lab-box-3"])


_PIECES = st.sampled_from(
    [
        "/", "//", "home", "Users", "~", ":", "::", "@", ".", ".org", "a", "B1", "-", "_", "=", " ", "tmp", "00:1b:44:11:3a:b7",
        "token", "API_KEY", "password", "bearer ", "secretsecret", "192.168.", "1.20", "12345678-1234-1234-1234-123456789abc",
        "ghp_", "\\\\", "C:\\", "file://", "AKIA", "\n", "\u017f", "\u212a", "x" * 20, "AB" * 8, "eyJ", "(", ")", "]", "#",
    ]
)  # fmt: skip


@given(st.lists(_PIECES, max_size=9).map("".join) | st.text(max_size=20))
@settings(max_examples=1500)
def test_a_pattern_is_never_passed_over_that_would_have_fitted(text: str) -> None:
    fitting = [kind for kind, _, _, pattern in privacy._PATTERNS if re.search(pattern, text)]

    assert text_kind(text) == (fitting[0] if fitting else "")


_WORDS = st.sampled_from([*privacy._KEYS, "SERIAL", "Number", "_", ".", "-", " ", "\n", "u\u017fer", "name", "id", "x"])


@given(st.lists(_WORDS, max_size=4).map("".join))
@settings(max_examples=500)
def test_keys_that_name_somebody_are_those_of_the_expression(key: str) -> None:
    wanted = re.search(rf"(?i)(?:^|[_.-])(?:{'|'.join(privacy._KEYS)})$", key)

    assert privacy.names_somebody(key) is (wanted is not None)
