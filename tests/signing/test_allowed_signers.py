"""Whose keys count: the same answer as ``ssh-keygen -Y verify``, case by case, and with a reason."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from harness.certifying.sign import key_signer
from harness.errors import InvalidDocumentError, UsageError
from harness.wire.allowed_signers import Reason, matches, parse_revoked, parse_signers, parse_time
from harness.wire.sha256 import Digested
from harness.wire.signed_documents import Keyring, check_signature
from harness.wire.trust_files import with_revoked, with_signer, without_signer
from tests.signing.support import NAMESPACE, make_key, oracle_accepts, public

MESSAGE = b'{"kind":"withdraw"}'
NOON = 1_780_315_200
"""2026-06-01T12:00:00Z."""


class Lab:
    """A key, its signature, and whether both judges accept it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = make_key(folder)
        self.other = make_key(folder, "other")
        self.elliptic = make_key(folder, "elliptic", kind="ecdsa")
        self.signature = key_signer(self.key).sign(MESSAGE, NAMESPACE)

    def fill(self, text: str) -> str:
        for name in ("key", "other", "elliptic"):
            text = text.replace(f"<{name}>", public(getattr(self, name)))
        return text

    def ours(self, signers: str, **changes: object) -> Reason | None:
        text = self.fill(signers).encode()
        keyring = Keyring(
            signers=parse_signers(text, "signers"),
            at=int(str(changes.get("at", NOON))),
            principal=str(changes.get("principal", "lab-a")),
        )
        return check_signature(Digested(MESSAGE), self.signature, NAMESPACE, keyring, "a").reason

    def theirs(self, signers: str, at: int = NOON, principal: str = "lab-a") -> bool:
        return oracle_accepts(self.folder, self.fill(signers), self.signature, MESSAGE, at=at, principal=principal)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("lab"))


CASES = [
    ("lab-a <key>", None),
    ("lab-a <key> a comment\n", None),
    ("# nothing\n\n  lab-a   <key>\n", None),
    ("lab-a\t<key>", None),
    ('"lab-a" <key>', None),
    ("lab-b,lab-a <key>", None),
    ("lab-? <key>", None),
    ("*,!lab-b <key>", None),
    ("*,!lab-a <key>", Reason.UNKNOWN_PRINCIPAL),
    ("LAB-A <key>", Reason.UNKNOWN_PRINCIPAL),
    ("lab-b <key>", Reason.UNKNOWN_PRINCIPAL),
    ("lab-a <other>", Reason.UNKNOWN_KEY),
    ("lab-a <elliptic>", Reason.UNKNOWN_KEY),
    ("lab-a cert-authority <key>", Reason.UNKNOWN_KEY),
    ('lab-a namespaces="statecert/*" <key>', None),
    ('lab-a NAMESPACES="statecert/*" <key>', None),
    ('lab-a namespaces="file,git" <key>', Reason.NAMESPACE_NOT_ALLOWED),
    ('lab-a namespaces="statecert/*,!statecert/event/*" <key>', Reason.NAMESPACE_NOT_ALLOWED),
    ('lab-a namespaces="file" <key>\nlab-a namespaces="statecert/event/*" <key>', None),
    ('lab-a valid-before="20260601120000Z" <key>', None),
    ('lab-a valid-before="20260601115959Z" <key>', Reason.EXPIRED),
    ('lab-a valid-before="202606011159Z" <key>', Reason.EXPIRED),
    ('lab-a valid-before="20260601Z" <key>', Reason.EXPIRED),
    ('lab-a valid-after="20260601120000Z" <key>', None),
    ('lab-a valid-after="20260601120001Z" <key>', Reason.NOT_YET_VALID),
    ('lab-a valid-after="20260101Z",valid-before="20270101Z",namespaces="statecert/*" <key>', None),
    ('lab-a valid-before="20260101Z" <key>\nlab-a <key>', None),
    ("lab-b <key>\nlab-a <other>\nlab-a <key>", None),
    ("", Reason.UNKNOWN_KEY),
]


@pytest.mark.parametrize(("signers", "reason"), CASES)
def test_the_answer_is_that_of_ssh_keygen(lab: Lab, signers: str, reason: Reason | None) -> None:
    assert lab.ours(signers) == reason
    assert lab.theirs(signers) is (reason is None)


@pytest.mark.parametrize(
    "line",
    [
        "lab-a",
        "lab-a ssh-ed25519",
        "lab-a ssh-ed25519 AAAA",
        "lab-a ssh-ed25519 !!!!",
        "lab-a ecdsa-sha2-nistp256 AAAAC3NzaC1lZDI1NTE5AAAA",
        "lab-a unknown-option <key>",
        "lab-a namespaces=statecert <key>",
        'lab-a namespaces="a",namespaces="b" <key>',
        'lab-a valid-before="20260601Z",valid-before="20270601Z" <key>',
        'lab-a valid-before="tomorrow" <key>',
        'lab-a valid-before="20261301Z" <key>',
        'lab-a valid-after="20270101Z",valid-before="20260101Z" <key>',
        'lab-a namespaces="a", <key>',
        'lab-a namespaces="a\\" <key>',
        '"lab-a <key>',
        'lab-a namespaces="a" ',
    ],
)
def test_a_line_that_means_nothing_refuses_the_file_as_ssh_keygen_does(lab: Lab, line: str) -> None:
    assert not lab.theirs(line)
    with pytest.raises(InvalidDocumentError, match="line 1"):
        lab.ours(line)


def test_stricter_than_ssh_keygen_in_two_things(lab: Lab) -> None:
    """A line about somebody else that means nothing, and a day that does not exist."""
    for signers in ("lab-b nonsense\nlab-a <key>", 'lab-a valid-after="20260230Z" <key>'):
        assert lab.theirs(signers)
        with pytest.raises(InvalidDocumentError):
            lab.ours(signers)


def test_random_lines_are_judged_alike(lab: Lab) -> None:
    chosen = random.Random(7)
    for _ in range(60):
        lines = [random_line(chosen) for _ in range(chosen.randint(1, 3))]
        signers = "\n".join(lines)
        at = NOON + chosen.choice([-86400 * 200, -1, 0, 1, 86400 * 200])
        assert (lab.ours(signers, at=at) is None) is lab.theirs(signers, at=at), signers


def random_line(chosen: random.Random) -> str:
    options = []
    if chosen.random() < 0.5:
        options.append(
            f'namespaces="{chosen.choice(["*", "statecert/*", "?tatecert/e*1@*", "file", "a,!b", "!*,*", "*v1*"])}"'
        )
    if chosen.random() < 0.4:
        options.append(f'valid-after="{chosen.choice(["20260101Z", "202606011200Z", "20260601120001Z", "20261001Z"])}"')
    if chosen.random() < 0.4:
        options.append(f'valid-before="{chosen.choice(["20261231Z", "202612010000Z", "20261101115959Z"])}"')
    chosen.shuffle(options)
    principals = chosen.choice(["lab-a", "lab-b", "*", "lab-?,x", "!lab-a,*", "x,lab-a", "l*a", "lab-a*b*"])
    return f"{principals} {','.join(options)}{' ' if options else ''}{chosen.choice(['<key>', '<key>', '<other>'])}"


def test_times_without_a_zone_are_local_time_as_ssh_keygen_has_them(lab: Lab) -> None:
    assert parse_time("20260601Z") == NOON - 12 * 3600
    assert parse_time("20260601") > 0
    for text in ("", "2026", "20260601120Z", "20260230Z", "20261301Z", "2026060112000000Z", "20260601z"):
        assert parse_time(text) == 0
    for seconds in (-1, 0, 1):
        at = parse_time("20260601") + seconds
        signers = 'lab-a valid-before="20260601" <key>'
        assert (lab.ours(signers, at=at) is None) is lab.theirs(signers, at=at)


def test_a_revoked_key_is_refused_as_by_ssh_keygen(lab: Lab, tmp_path: Path) -> None:
    signers = lab.fill("lab-a <key>\n")
    for text, refused in (
        ("<key>\n", True),
        ("# comment\n\n<other>\n<key> why\n", True),
        ("<other>\n<elliptic>\n", False),
        ("", False),
    ):
        path = tmp_path / "revoked"
        path.write_text(lab.fill(text))
        keyring = Keyring(
            signers=parse_signers(signers.encode(), "signers"),
            at=NOON,
            revoked=parse_revoked(path.read_bytes(), "revoked"),
        )
        found = check_signature(Digested(MESSAGE), lab.signature, NAMESPACE, keyring, "a").reason
        assert found == (Reason.REVOKED if refused else None)
        assert oracle_accepts(tmp_path, signers, lab.signature, MESSAGE, at=NOON, revoked=path) is not refused


def test_a_binary_revocation_list_is_refused_and_not_passed_over(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "krl"
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", str(path), f"{lab.key}.pub"], check=True)

    with pytest.raises(InvalidDocumentError, match="binary revocation list"):
        parse_revoked(path.read_bytes(), "krl")


def test_patterns_take_linear_time() -> None:
    assert not matches("a" * 5000, "*a" * 200 + "b")
    assert matches("statecert/event/v1@x", "statecert/*")
    assert matches("", "*")
    assert not matches("", "?")


def test_a_file_that_is_no_text_or_too_large_is_refused() -> None:
    for data in (b"\xff\xfe", b"lab-a\0", b"#" * (1024 * 1024 + 1)):
        with pytest.raises(InvalidDocumentError):
            parse_signers(data, "signers")


def test_lines_are_added_and_removed_and_the_rest_stays(lab: Lab) -> None:
    key = parse_signers(lab.fill("x <key>").encode(), "f").lines[0].key
    before = lab.fill("# ours\nlab-b <other>\nlab-c <elliptic>").encode()

    added = with_signer(before, "lab-a", key, "statecert/*", "2026-01-01", "2026-12-31T12:00:00Z", "f")
    assert added.startswith(before + b"\n")
    (line,) = (one for one in parse_signers(added, "f").lines if one.key == key)
    assert (line.principals, line.namespaces) == ("lab-a", "statecert/*")
    assert (line.valid_after, line.valid_before) == (parse_time("20260101Z"), parse_time("20261231120000Z"))
    assert without_signer(added, lambda one: one.principals == "lab-a", "f") == (before + b"\n", 1)
    assert lab.theirs(added.decode())

    for principal in ("", "Lab", "a@b.org", "a b", "*", "x" * 65):
        with pytest.raises(UsageError):
            with_signer(before, principal, key, "statecert/*", "", "", "f")
    with pytest.raises(UsageError, match="already"):
        with_signer(added, "lab-a", key, "statecert/*", "", "", "f")
    with pytest.raises(UsageError, match="time"):
        with_signer(before, "lab-a", key, "statecert/*", "soon", "", "f")
    with pytest.raises(InvalidDocumentError):
        with_signer(before, "lab-a", key, "statecert/*", "2027-01-01", "2026-01-01", "f")
    revoked = with_revoked(b"", key, "f")
    assert parse_revoked(revoked, "f") == {key}
    assert with_revoked(revoked, key, "f") == revoked
