"""One function, by whichever module: the interpreter's own, OpenSSL's, and the one after the other."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.wire import sha256 as own

ROOT = Path(__file__).resolve().parents[2]
BARE = """
import sys
from harness.wire.sha256 import sha256
for size in map(int, sys.argv[1:]):
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    grown = sha256(size=size)
    for at in range(0, size, 1000):
        grown.update(data[at : at + 1000])
    print(sha256(data).hexdigest(), grown.hexdigest(), "hashlib" in sys.modules)
"""


def test_the_digest_of_nothing_is_what_it_says() -> None:
    assert hashlib.sha256(b"").hexdigest() == own.NOTHING


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_interpreters_own_module_gives_the_same(first: bytes, more: bytes) -> None:
    module = pytest.importorskip(own._MODULE)
    found = module.sha256(first)
    found.update(more)
    assert found.hexdigest() == hashlib.sha256(first + more).hexdigest()


@given(st.binary(max_size=300))
def test_bytes_and_their_digest_belong_together(data: bytes) -> None:
    found = own.Digested(data)

    assert found.data == data
    assert found.digest == hashlib.sha256(data).digest()
    assert found.hexdigest == hashlib.sha256(data).hexdigest()


def test_little_is_hashed_without_openssl_and_much_with_it() -> None:
    pytest.importorskip(own._MODULE)
    sizes = (0, 55, 64, 70_000, own._FEW, 5)
    command = [sys.executable, "-c", BARE, *map(str, sizes)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for size, line in zip(sizes, said, strict=True):
        data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        assert line.split()[:2] == [hashlib.sha256(data).hexdigest()] * 2
    assert [line.split()[2] for line in said] == ["False", "False", "False", "False", "True", "True"]
