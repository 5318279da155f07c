"""What a fuzzed input must come to: a refusal by name, or the very meaning that it had. One function per target.

Each target has seeds and a question. The answer is a signature (which refusal, which rules) and, where something is
wrong, one word for it. Known wrongs:

- ``raised``: an exception that is no refusal; ``broke``: a rule of the gate broke.
- ``false_pass``: a folder with a changed file is good.
- ``disagreed``: two readers, or two folds of the ledger, give different answers to the same bytes.
- ``slow``: more than a second; ``large``: more than 64 MiB.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from harness.certifying.events import make_event, write_event
from harness.certifying.packing import pack_folder
from harness.certifying.regenerating import regenerate_all
from harness.deriving.bodies import body_of
from harness.deriving.status import KINDS, derive_status, ledger_problems
from harness.errors import ExitCode, InvalidDocumentError, StatecertError
from harness.gating.gate import gate
from harness.gating.states import state_of
from harness.model.certificate import Event, GateReport
from harness.model.values import ReasonCode
from harness.selfcheck import mutations, specimens
from harness.wire import canonical, json_bytes, packs, schemas, strict
from harness.wire.allowed_signers import parse_signers
from harness.wire.certificate_doc import parse_certificate
from harness.wire.event_doc import parse_event
from harness.wire.observed import read_observed
from harness.wire.policy_doc import parse_policy
from harness.wire.schema_walk import UnsureError, Walker
from harness.wire.sshsig import parse as parse_signature
from harness.wire.tokens import Reader

_WORDS: Final = re.compile(r"[^a-zA-Z _/-]+")
_RULES: Final = frozenset({ExitCode.GOOD, ExitCode.FINDINGS, ExitCode.INVALID, ExitCode.NOTHING})


class Answer(NamedTuple):
    """What one input came to."""

    signature: str
    wrong: str = ""
    """One word; empty: nothing is wrong."""


Judge = Callable[[bytes], Answer]


class Target(NamedTuple):
    """A reader of documents, with valid ones to start from."""

    name: str
    seeds: Sequence[bytes]
    judge: Judge
    change: Callable[[Random, bytes, bytes], bytes] | None = None
    """Makes another input of one, with pieces of a second; None: as documents are changed."""


def readers(folder: Path) -> Sequence[Target]:
    """Return the targets that read one document. ``folder`` holds valid certificates, events and signatures."""
    certificates = _bytes(folder, "T*/*/*/*.json")
    events = _bytes(folder, "ledger/*/*.json")
    evidence = _bytes(folder, "evidence/*.jsonl")
    signatures = _bytes(folder, "T*/*/*/*.sig")
    policy = specimens.module("gating.policy_fixtures")
    signers = b'lab-a namespaces="statecert/*",valid-after="20260101Z" ssh-ed25519 ' + b"A" * 68 + b"\n"
    return (
        Target("json", (*certificates[:1], *events, *evidence[:1][:1]), _json),
        Target("certificate", certificates, lambda data: _read(lambda: parse_certificate(data, "a.json"))),
        Target("event", events, lambda data: _read(lambda: parse_event(data, "a.json"))),
        Target("evidence", evidence, _evidence),
        Target("signature", signatures, lambda data: _read(lambda: parse_signature(data, "a.sig"))),
        Target("signers", (signers,), lambda data: _read(lambda: parse_signers(data, "signers"))),
        Target("reading", (*certificates[:1], *events), _reading),
        Target("schema", (*certificates[:1], *events), _schema),
        Target("pack", (_whole_pack(evidence),), _pack),
        Target("policy", ((policy.HEAD + policy.WHOLE).encode(),), lambda data: _read(lambda: parse_policy(data, "p"))),
    )


def _bytes(folder: Path, pattern: str) -> Sequence[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob(pattern))]


def packed(source: Path, target: Path) -> Path:
    """Return a copy of a certificates folder whose evidence lies in packs."""
    shutil.copytree(source, target)
    pack_folder(target)
    return target


def _whole_pack(evidence: Sequence[bytes]) -> bytes:
    """What a pack holds, uncompressed: fuzzed before it is compressed, since a changed xz stream is hardly ever one."""
    members = [(f"evidence/{hashlib.sha256(data).hexdigest()}.jsonl", data) for data in evidence]
    name, data = packs.pack(members)
    return packs.unpack(data, name).data


def _pack(data: bytes) -> Answer:
    """What is accepted as a pack is made of its files, without a byte beside them."""
    name = f"{packs.FOLDER}/{hashlib.sha256(data).hexdigest()}{packs.SUFFIX}"
    try:
        found = packs.unpack(lzma.compress(data, preset=0), name)
    except InvalidDocumentError as refused:
        return Answer(f"refused {essence(refused.message)}")
    rest = data.partition(b"\n")[2]
    return Answer("accepted", "" if b"".join(map(found.read, found.members)) == rest else "disagreed")


def _read(read: Callable[[], object]) -> Answer:
    try:
        read()
    except StatecertError as refused:
        return Answer(f"{type(refused).__name__} {essence(str(refused))}")
    return Answer("accepted")


def essence(message: str) -> str:
    """Return the words of a message without what it quotes and counts."""
    return " ".join(_WORDS.sub(" ", re.sub(r"'[^']*'|\"[^\"]*\"|\S*[/\\]\S*", " ", message)).split())[:120]


def _json(data: bytes) -> Answer:
    """The fast and the slow reader agree, with one another and with a reader of somebody else."""
    try:
        value = strict.loads(data, where="")
    except InvalidDocumentError as refused:
        return Answer(f"refused {essence(refused.message)}", _slow_refuses(data))
    if not _same(value, json.loads(data, object_pairs_hook=_once)):
        return Answer("accepted", "disagreed")
    if not _same(value, Reader(data, "", strict.DOCUMENT, certificate_keys=False).read()):
        return Answer("accepted", "disagreed")
    rendered = canonical.render(value)
    if not _same(strict.loads(rendered, where="", form="rendered"), value):
        return Answer("accepted", "disagreed")
    return Answer("accepted as rendered" if rendered == data else "accepted")


def _reading(data: bytes) -> Answer:
    """What the reader of few documents reads, the reader of many reads too, to the same value."""
    import orjson

    try:
        few = json_bytes._read(data)  # noqa: SLF001 - which of the two reads is nobody's business but this question's
    except json_bytes._UnsureError:  # noqa: SLF001
        return Answer("left to the other")
    try:
        many = orjson.loads(data)
    except orjson.JSONDecodeError:
        return Answer("accepted", "disagreed")
    return Answer("accepted", "" if _same(few, many) else "disagreed")


def _schema(data: bytes) -> Answer:
    """The validator of few documents and the one of many say the same."""
    import orjson

    try:
        value: object = orjson.loads(data)
    except orjson.JSONDecodeError:
        return Answer("refused")
    name = "event.v1" if isinstance(value, dict) and "target" in value else "certificate.v1"
    try:
        few = _walker().is_valid(value, name)
    except UnsureError:
        return Answer("left to the other")
    many = schemas.product_schemas().is_valid(value, name)
    return Answer("accepted" if many else "refused", "" if few == many else "disagreed")


@cache
def _walker() -> Walker:
    product = schemas.product_schemas()
    return Walker({name: dict(product.schema(name)) for name in product.names})


def _slow_refuses(data: bytes) -> str:
    if len(data) > strict.DOCUMENT.max_bytes:
        return ""
    try:
        Reader(data, "", strict.DOCUMENT, certificate_keys=False).read()
    except InvalidDocumentError:
        return ""
    return "disagreed"


def _same(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _once(pairs: Sequence[tuple[str, object]]) -> Mapping[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise KeyError("a key twice")
    return found


def _evidence(data: bytes) -> Answer:
    """What reads as evidence gives one body, or a refusal."""
    try:
        found = read_observed(data, "a.jsonl")
        first = canonical.canonical(body_of(found))
    except InvalidDocumentError as refused:
        return Answer(f"refused {essence(refused.message)}")
    except StatecertError as refused:
        return Answer(f"{type(refused).__name__} {essence(str(refused))}")
    again = canonical.canonical(body_of(read_observed(data, "a.jsonl")))
    return Answer("judged", "" if again == first else "disagreed")


class Folder:
    """A folder in which one file at a time is changed and put right again.

    Args:
        scratch: An empty folder.
        source: A valid certificates folder.
    """

    name = "folder"

    def __init__(self, scratch: Path, source: Path, judge: Callable[[Path], GateReport] | None = None) -> None:
        self.root = scratch / "certificates"
        shutil.copytree(source, self.root)
        self.files = [path for path in sorted(self.root.rglob("*")) if path.is_file()]
        self.texts = {path: path.read_bytes() for path in self.files}
        self._gate = judge or (lambda folder: gate([folder], day="2026-06-01"))

    def case(self, rng: Random) -> tuple[bytes, Callable[[], Answer]]:
        """Return the changed bytes, and the question about the folder that holds them."""
        path = rng.choice([one for one in self.files if one.name != ".gitattributes"])
        old = self.texts[path]
        new = changed(rng, old, self.texts[rng.choice(self.files)], lines=path.suffix == ".jsonl")
        return new, lambda: self._asked(path, old, new)

    def _asked(self, path: Path, old: bytes, new: bytes) -> Answer:
        try:
            path.write_bytes(new)
            report = self._gate(self.root)
        finally:
            path.write_bytes(old)
        rules = " ".join(sorted({one.rule for one in report.findings}))
        if report.exit_code not in _RULES:
            return Answer(rules, "broke")
        unsigned = path.suffix == ".sig"  # nobody asked whose signatures count
        if report.exit_code is ExitCode.GOOD and new != old and not unsigned:
            return Answer("good", "false_pass")
        return Answer(f"{int(report.exit_code)} {rules}")


class LedgerTarget:
    """A folder whose ledger gets events of any content under their right names.

    Args:
        scratch: An empty folder.
        source: A valid certificates folder.
    """

    name = "ledger"

    def __init__(self, scratch: Path, source: Path) -> None:
        self.root = scratch / "certificates"
        self._source = source
        shutil.copytree(source, self.root)
        self.ids = sorted(
            canonical.digest(strict.loads(path.read_bytes(), where="")["body"])  # type: ignore[index]
            for path in source.glob("T*/*/*/*.json")
        )

    def case(self, rng: Random) -> tuple[bytes, Callable[[], Answer]]:
        """Return some events as bytes, and the question about the folder that has them."""
        events = [self._event(rng) for _ in range(rng.randint(1, 5))]
        told = repr([(one.kind, one.target, one.by, one.created, one.rule, one.until, one.note) for one in events])
        return told.encode("utf-8", "surrogatepass"), lambda: self._asked(events)

    def _event(self, rng: Random) -> Event:
        names = [*self.ids, "0" * 64]
        kind = rng.choice(KINDS)
        fields: dict[str, Any] = {}
        if kind == "supersede" or rng.random() < 0.05:
            fields["by"] = rng.choice(names)
        if kind == "waive":
            fields |= {
                "rule": rng.choice(("CG601", "CG010", "CG999")),
                "until": rng.choice(("", "2026-02-01", "2027-01-01")),
            }
        if kind == "annotate":
            fields["note"] = rng.choice(("", "looked at", "</td>", "| a |", "::error::x"))
        if rng.random() < 0.1:
            fields["differs"] = ("subject.model.digest",)
        created = f"2026-{rng.choice((1, 2, 3)):02d}-{rng.randint(1, 28):02d}T0{rng.randrange(10)}:00:00Z"
        return make_event(kind, rng.choice(names), rng.choice(list(ReasonCode)), created, **fields)

    def _asked(self, events: Sequence[Event]) -> Answer:
        try:
            for event in events:
                write_event(self.root, event)
            return self._judged()
        except InvalidDocumentError as refused:
            return Answer(f"refused {essence(refused.message)}")
        finally:
            shutil.rmtree(self.root)
            shutil.copytree(self._source, self.root)

    def _judged(self) -> Answer:
        from harness.certifying.regenerating import read_bodies

        regenerate_all(self.root)
        report = gate([self.root], day="2026-06-01")
        store = read_bodies(self.root)
        problems = ledger_problems(store.bodies(), store.events)
        rules = " ".join(sorted({one.rule for one in report.findings}))
        codes = " ".join(sorted({one.code for one in problems}))
        if report.exit_code not in _RULES:
            return Answer(rules, "broke")
        if report.exit_code is ExitCode.GOOD and problems:
            return Answer(codes, "false_pass")
        for identity in store.certificates:
            own = sorted((one for one in store.events if one.target == identity), key=lambda one: (one.created, one.id))
            if state_of(own)["state"] != str(derive_status(identity, store.events).state):
                return Answer(codes, "disagreed")
        return Answer(f"{int(report.exit_code)} {rules} {codes}")


def changed(rng: Random, data: bytes, other: bytes, *, lines: bool = False) -> bytes:
    """Return changed bytes: half of the time of the text, else of its value, spelled as documents are or otherwise."""
    if rng.random() < 0.45:
        return mutations.of_bytes(rng, data, other)
    return _lines_changed(rng, data) if lines else _value_changed(rng, data)


def _value_changed(rng: Random, data: bytes) -> bytes:
    try:
        value = mutations.of_value(rng, json.loads(data))
    except (ValueError, RecursionError):
        return mutations.of_bytes(rng, data, data)
    if rng.random() < 0.7:
        try:
            return canonical.render(value)
        except (TypeError, ValueError):
            pass
    return mutations.spelled(rng, value)


def _lines_changed(rng: Random, data: bytes) -> bytes:
    """Change one record of a file of observations, and mostly close the file again so that it seems whole."""
    lines = data.splitlines()
    if len(lines) < 2:
        return mutations.of_bytes(rng, data, data)
    at = rng.randrange(len(lines) - 1)
    try:
        lines[at] = canonical.canonical(mutations.of_value(rng, json.loads(lines[at])))
        end = json.loads(lines[-1])
        before = b"".join(line + b"\n" for line in lines[:-1])
        end |= {"records": len(lines) - 1, "sha256": hashlib.sha256(before).hexdigest()}
        lines[-1] = canonical.canonical(end)
    except (TypeError, ValueError, RecursionError):
        return mutations.of_bytes(rng, data, data)
    return b"".join(line + b"\n" for line in lines)
