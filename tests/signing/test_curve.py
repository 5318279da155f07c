"""Helpers give the answers that this process gives, and one that fails is not believed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness.wire import curve


def some(count: int) -> tuple[list[curve.Check], list[bool]]:
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    made = [(public, private.sign(bytes([n])), bytes([n])) for n in range(count)]
    wrong = {n: n % 3 == 0 for n in range(count)}
    checks = [(key, sign, message + b"!" if wrong[n] else message) for n, (key, sign, message) in enumerate(made)]
    return checks, [not wrong[n] for n in range(count)]


@pytest.mark.parametrize(("count", "helpers"), [(0, 2), (1, 2), (7, 0), (7, 2), (50, 3)])
def test_helpers_give_the_same_answers(count: int, helpers: int) -> None:
    checks, wanted = some(count)

    assert curve.are_valid(checks, helpers, count=count) == wanted


@pytest.mark.parametrize("told", [0, 1, 20, 21, 400])
def test_checks_are_answered_in_their_order_however_many_were_announced(told: int) -> None:
    checks, wanted = some(20)

    assert curve.are_valid(iter(checks), 2, count=told) == wanted


def test_helpers_end_when_a_check_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = curve._start

    def noted(checks: Sequence[curve.Check]) -> subprocess.Popen[bytes]:
        started.append(start(checks))
        return started[-1]

    def broken() -> Iterator[curve.Check]:
        yield from some(12)[0]
        raise KeyboardInterrupt

    monkeypatch.setattr(curve, "_start", noted)
    with pytest.raises(KeyboardInterrupt):
        curve.are_valid(broken(), 1, count=20)

    assert [helper.poll() is not None for helper in started] == [True]


@pytest.mark.parametrize(
    "program", ["raise SystemExit(1)", "print('x' * 30)", "print(end='')", "print(chr(1) * 5, end='')"]
)
def test_a_helper_that_fails_or_babbles_is_not_believed(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "python"
    fake.write_text(f"#!{sys.executable}\n{program}\n")
    fake.chmod(0o755)
    checks, wanted = some(60)
    monkeypatch.setattr(sys, "executable", str(fake))

    assert curve.are_valid(checks, 1, count=60) == wanted


def test_nonsense_keys_are_no_valid_signatures() -> None:
    assert curve.are_valid([(bytes(32), bytes(64), b""), (b"", b"", b"")], 0, count=2) == [False, False]
