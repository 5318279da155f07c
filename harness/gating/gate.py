"""Walks certificates folders, gives each rule what it asks for, folds what they find to one exit code.

Rules kept here:

- Certificates pass by one at a time; after its rules ran only small facts of each stay in memory.
- A rule that raises is a finding of its own with exit code 3. The other rules still run; the end is never green.
- A document that could not be read is never skipped: it is counted, and some rule says why.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from harness.deriving.body import derive_body
from harness.errors import ExitCode, UsageError
from harness.gating.documents import read_document, read_evidence
from harness.gating.folder import READABLE, Entry, Folder, Form, Kind, scan
from harness.gating.kinds import applies
from harness.gating.known import CertificateFacts, Judged
from harness.gating.rule import Asked, Body, Document, FolderFacts, Ledger, Problem, Problems, Rule, Subject
from harness.gating.rules import asked_for
from harness.gating.sight import Sight
from harness.gating.states import state_of
from harness.model.certificate import Event, Finding, GateReport, Waived
from harness.model.evidence import Evidence
from harness.wire import canonical
from harness.wire.sha256 import Digested

if TYPE_CHECKING:
    from harness.deriving.prose import Prose
    from harness.gating.since import Covered, Since
    from harness.model.campaign import CampaignRecords
    from harness.model.policy import Policy
    from harness.wire.signed_documents import Keyring

MAX_FINDINGS: Final = 10_000
"""Findings kept; more are counted in one finding, so that a hostile folder cannot fill the memory."""

_PRECEDENCE: Final = (
    ExitCode.BROKEN,
    ExitCode.INVALID,
    ExitCode.FINDINGS,
    ExitCode.NOTHING,
)
_T = TypeVar("_T")


def gate(
    folders: Sequence[str | os.PathLike[str]],
    *,
    require_pass: bool = False,
    keyring: Keyring | None = None,
    require_signatures: bool = False,
    day: str = "",
    fresh_in: Sequence[str] = (),
    policy: Policy | None = None,
    since: Since | None = None,
    roots: Sequence[str] = (".",),
    prose: Sequence[Prose] = (),
    rules: Sequence[Rule] | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> GateReport:
    """Judge certificates folders.

    Args:
        folders: Folders to judge, each on its own; all must exist.
        require_pass: Also demand that every cell of every current certificate passed.
        keyring: Whose signatures count; without one no signature is looked at.
        require_signatures: Also demand that every certificate and event has a signature.
        day: On which waivers must hold, like ``2026-12-31``; today (UTC) by default.
        fresh_in: Trees in which the files of current certificates must still be what they were; none: not asked.
        policy: What is demanded beyond validity.
        since: The change that is judged; without one nothing is asked about what was there before.
        roots: Trees that packages lie below, to tell which certificates speak of a changed file.
        prose: Texts that speak of the certificates of one folder.
        rules: Rules to run; all by default. A run with fewer rules says less, and lists which ran.
        tell: Hears after each certificate how many of its folder are judged, and how many there are.

    Raises:
        UsageError: A folder does not exist, or none was named; signatures are required of nobody; a folder lies
            outside of the repository of the change.
    """
    if not folders:
        raise UsageError("no folder to gate; name one, like certificates")
    require_signatures = require_signatures or (policy is not None and policy.signatures)
    if require_signatures and keyring is None:
        raise UsageError("signatures are required, and it is not said whose; name the allowed signers")
    if prose and len(folders) > 1:
        raise UsageError("texts speak of one folder of certificates; name one")
    day = day or time.strftime("%Y-%m-%d", time.gmtime())
    fresh = None
    if fresh_in:
        from harness.gating.freshness import Freshness

        fresh = Freshness(fresh_in)
    asked = Asked(
        day=day,
        passes=require_pass,
        keyring=keyring,
        signatures=require_signatures,
        fresh=fresh,
        policy=policy,
        since=since,
        prose=prose,
    )
    given = asked.options
    named = asked_for(given) if rules is None else [one for one in rules if not one.option or one.option in given]
    run = _Run(named, asked)
    for root in folders:
        _gate_folder(run, root, tell)
    if since is not None:
        run.covered = since.coverage([os.fspath(root) for root in folders], roots, run.patterns)
    return run.report()


class _Run:
    """What one gate run has found and counted so far."""

    def __init__(self, rules: Sequence[Rule], asked: Asked) -> None:
        self.rules = rules
        self.derives = any(rule.certificate is not None for rule in rules)
        """Whether somebody asks what follows from evidence."""
        self.asked = asked
        self.findings: list[Finding] = []
        self.unlisted: Counter[ExitCode] = Counter()
        self.certificates = 0
        self.events = 0
        self.evidence_files = 0
        self.outcomes: Counter[str] = Counter()
        self.stops: list[str] = []
        self.waived: list[Waived] = []
        self.contested: list[str] = []
        self.judged = Judged()
        """What a record of this run binds it to."""
        self.patterns: dict[tuple[str, ...], list[str]] = {}
        self.covered: Sequence[Covered] = ()
        self._of_kind: dict[str, list[tuple[Rule, Callable[[Subject], Problems]]]] = {}
        self.carried: Counter[tuple[str, str]] = Counter()
        """Commit at which was measured, commit that carries it, to certificates."""

    def ask(self, check: Callable[[Rule], Callable[[_T], Problems] | None], subject: _T, where: str) -> None:
        """Run one kind of check of every rule that has it, on one subject."""
        for rule in self.rules:
            asked = check(rule)
            if asked is not None:
                self._ask_one(rule, asked, subject, where)

    def ask_certificate(self, subject: Subject, where: str) -> None:
        """Run the checks of the rules that ask something of this kind of certificate."""
        kind = subject.body["kind"]
        if kind not in self._of_kind:
            self._of_kind[kind] = [
                (rule, rule.certificate)
                for rule in self.rules
                if rule.certificate is not None and applies(rule.id, kind)
            ]
        for rule, check in self._of_kind[kind]:
            self._ask_one(rule, check, subject, where)

    def _ask_one(self, rule: Rule, check: Callable[[_T], Problems], subject: _T, where: str) -> None:
        try:
            for problem in check(subject):
                self._add(_finding(rule, where, problem))
        except Exception as error:  # noqa: BLE001 - a bug in a rule must not end the run, and must not be green
            self._add(_broken(rule, where, error))

    def _add(self, finding: Finding) -> None:
        """Keep a finding, or count it where there are too many."""
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)
        else:
            self.unlisted[finding.exit_code] += 1

    def report(self) -> GateReport:
        """Fold everything to the report."""
        findings = sorted([*self.findings, *_rolled_up(self.unlisted)], key=_worst_first)
        return GateReport(
            exit_code=_exit_code(finding.exit_code for finding in findings if finding.severity == "error"),
            findings=tuple(findings),
            certificates=self.certificates,
            events=self.events,
            evidence_files=self.evidence_files,
            rules=tuple(rule.id for rule in self.rules),
            outcomes=dict(sorted(self.outcomes.items())),
            stops=tuple(sorted(self.stops)),
            waived=tuple(sorted(self.waived, key=lambda one: _worst_first(one.finding))),
            contested=tuple(self.contested),
            judged=self.judged,
            carried=tuple(
                f"measured at {old}, carried to {new}: {count} certificates"
                for (old, new), count in sorted(self.carried.items())
            ),
            settings=self._settings(),
            changed=tuple((one.path, tuple(one.certificates)) for one in self.covered),
        )

    def _settings(self) -> Mapping[str, str]:
        """What the run was told, as its record has it."""
        asked = self.asked
        told = {"day": asked.day, "options": " ".join(sorted(asked.options))}
        if asked.signatures:
            told["signatures"] = "required"
        if asked.keyring is not None:
            told["keyring"] = asked.keyring.digest
        if asked.policy is not None:
            told |= {"policy": asked.policy.sha256, "policy_source": asked.policy.source}
        if asked.since is not None:
            since = asked.since
            told |= {"base": since.base, "merge_base": since.merge_base, "head": since.head}
        return told

    def waive(self, facts: FolderFacts, first: int) -> None:
        """Take the findings from ``first`` on that waivers of their folder accept to a list of their own."""
        if not any(event.kind == "waive" for event in facts.ledger.events):
            return
        from harness.gating.waiving import waive

        root = facts.folder.root
        places = {_place(Entry(root, one.path, Kind.CERTIFICATE, Form.REGULAR)): one.id for one in facts.certificates}
        standing, waived = waive(self.findings[first:], places, facts.ledger.by_target, self.asked.day)
        self.findings[first:] = standing
        self.waived += waived


def known(root: str | os.PathLike[str]) -> FolderFacts:
    """Return what a folder holds, without judging it: for what is generated from certificates and ledger.

    Raises:
        UsageError: The folder does not exist.
    """
    return _read_folder(_Run((), Asked(day="")), root)


def _read_folder(
    run: _Run, root: str | os.PathLike[str], tell: Callable[[int, int], None] | None = None
) -> FolderFacts:
    folder = scan(root)
    if not folder.exists:
        raise UsageError(f"no folder {folder.root!r}; name one that holds certificates")
    for entry in folder.entries:
        run.ask(_entry_check, entry, _place(entry))
        if entry.kind is Kind.DRAFT:
            run.stops.append(f"{_place(entry)}: draft, not judged")
    facts = FolderFacts(folder, _read_ledger(run, folder), _Loader(), run.asked)
    waiting = list(folder.of(Kind.CERTIFICATE))
    for count, entry in enumerate(waiting, 1):
        _gate_certificate(run, facts, entry)
        if tell is not None:
            tell(count, len(waiting))
    return facts


def _gate_folder(run: _Run, root: str | os.PathLike[str], tell: Callable[[int, int], None] | None) -> None:
    first = len(run.findings)
    facts = _read_folder(run, root, tell)
    folder = facts.folder
    for entry in folder.of(Kind.EVIDENCE):
        if entry.path not in facts.looked_at:
            _evidence(run, facts, entry)
    run.ask(_folder_check, facts, folder.root)
    for prose in run.asked.prose:
        run.ask(_prose_check(facts), prose, prose.path)
    run.waive(facts, first)
    run.contested += _contested(facts)
    run.judged.add(facts.certificates, facts.ledger.events)


def _contested(facts: FolderFacts) -> Iterator[str]:
    """Claims that one machine passed and another stopped; a folder of one machine is not looked at twice."""
    if all(one.machine == facts.certificates[0].machine for one in facts.certificates):
        return
    from harness.gating.rules.cg505 import contested

    for key, held in contested(facts.certificates).items():
        yield f"{key}: {', '.join(f'{one.id[:12]} {one.overall}' for one in held)}"


def _read_ledger(run: _Run, folder: Folder) -> Ledger:
    """Read every event; one that cannot be read leaves the ledger, and a finding."""
    entries = list(folder.of(Kind.EVENT))
    if not entries:
        return Ledger()
    from harness.deriving.status import in_order
    from harness.wire.event_doc import event_from_mapping

    events: list[Event] = []
    paths: dict[str, str] = {}
    for entry in entries:
        run.events += 1
        document = read_document(entry)
        run.ask(_document_check, document, _place(entry))
        if document.value:
            event = event_from_mapping(document.value, entry.path)
            events.append(event)
            paths[event.id] = entry.path
    ordered = in_order(events)
    by_target: dict[str, list[Event]] = {}
    for event in ordered:
        by_target.setdefault(event.target, []).append(event)
    return Ledger(events=ordered, paths=paths, by_target=by_target)


def _gate_certificate(run: _Run, facts: FolderFacts, entry: Entry) -> None:
    run.certificates += 1
    document = read_document(entry)
    run.ask(_document_check, document, _place(entry))
    if not document.value:
        facts.unread += 1
        return
    subject = _subject(run, facts, document)
    run.ask_certificate(subject, _place(entry))
    known = _facts(subject)
    facts.certificates.append(known)
    if known.state == "current":
        run.outcomes.update(cell["outcome"] for cell in subject.body.get("cells", ()))
        if run.asked.since is not None:
            _note_patterns(run, subject)
        if run.asked.fresh is not None:
            commit = subject.body["subject"]["commit"]
            if head := run.asked.fresh.carried(subject.body["harness"]["path_sets"], commit):
                run.carried[commit, head] += 1
        if known.overall != "pass":
            run.stops.append(f"{_place(entry)}: {known.overall}")


def _note_patterns(run: _Run, subject: Subject) -> None:
    """Remember which files a certificate speaks of; many certificates share the same few path sets."""
    for path_set in (*subject.body["harness"]["path_sets"], *subject.body["subject"]["path_sets"]):
        patterns = tuple(path_set.get("patterns", ()))
        held = run.patterns.setdefault(patterns, []) if patterns else []
        if not held or held[-1] != subject.id:
            held.append(subject.id)


def _subject(run: _Run, facts: FolderFacts, document: Document) -> Subject:
    body, status = document.value["body"], document.value["status"]
    entry = facts.folder.find(f"evidence/{body['run']['evidence']['sha256']}.jsonl")
    readable = run.derives and entry is not None and entry.form in READABLE
    evidence = _evidence(run, facts, entry) if readable and entry is not None else None
    derived, error = _derived(evidence)
    of_run = evidence if derived is not None and isinstance(evidence, Evidence) else None
    text = Digested(canonical.canonical_trusted(body))
    identity = text.hexdigest
    return Subject(
        document=document,
        id=identity,
        body=body,
        status=status,
        evidence=of_run,
        sight=None if of_run is None else Sight(of_run),
        campaign=None if derived is None or isinstance(evidence, Evidence) else evidence,
        derived=derived,
        derive_error=error,
        ledger=facts.ledger,
        state=str(state_of(facts.ledger.by_target.get(identity, ()))["state"]),
        asked=run.asked,
        text=text,
        axes=frozenset([check["axis"] for cell in body.get("cells", ()) for check in cell["checks"]]),
    )


def _evidence(run: _Run, facts: FolderFacts, entry: Entry) -> Evidence | CampaignRecords | None:
    """Read an evidence file and let the document rules see it, once."""
    document, evidence = read_evidence(entry)
    if entry.path not in facts.looked_at:
        facts.looked_at.add(entry.path)
        run.evidence_files += 1
        run.ask(_document_check, document, _place(entry))
    return evidence


def _derived(evidence: Evidence | CampaignRecords | None) -> tuple[Body | None, Exception | None]:
    if evidence is None:
        return None, None
    try:
        if isinstance(evidence, Evidence):
            return derive_body(evidence), None
        from harness.deriving.campaign import derive_campaign

        return derive_campaign(evidence), None
    except Exception as error:  # noqa: BLE001 - CG301 raises it again, or turns it into a finding
        return None, error


def _facts(subject: Subject) -> CertificateFacts:
    body = subject.body
    return CertificateFacts(
        path=subject.document.entry.path,
        id=subject.id,
        run_id=body["run"]["run_id"],
        created=body["run"]["created"],
        evidence=body["run"]["evidence"]["sha256"],
        claim_key=body["claim_key"],
        machine=body["environment"]["machine"],
        state=subject.state,
        overall=body["decision"]["overall"],
        record=body["record"]["sha256"] if body["kind"] == "foreign" else "",
    )


class _Loader:
    """Reads a body of a folder again by its id; for the few that the ledger speaks about."""

    def __call__(self, facts: FolderFacts, certificate: str) -> Body:
        known = facts.certificates.of_id(certificate)
        entry = None if known is None else facts.folder.find(known.path)
        value = read_document(entry).value if entry is not None else {}
        body: Body = value.get("body", {})
        return body


def _entry_check(rule: Rule) -> Callable[[Entry], Problems] | None:
    return rule.entry


def _document_check(rule: Rule) -> Callable[[Document], Problems] | None:
    return rule.document


def _prose_check(facts: FolderFacts) -> Callable[[Rule], Callable[[Prose], Problems] | None]:
    """Checks of texts against the certificates of a folder."""

    def check(rule: Rule) -> Callable[[Prose], Problems] | None:
        asked = rule.prose
        return None if asked is None else lambda prose: asked(facts, prose)

    return check


def _folder_check(rule: Rule) -> Callable[[FolderFacts], Problems] | None:
    return rule.folder


def _place(entry: Entry) -> str:
    return f"{entry.root.rstrip('/')}/{entry.path}" if entry.root.strip("/") else f"{entry.root}{entry.path}"


def _finding(rule: Rule, where: str, problem: Problem) -> Finding:
    at = problem.at
    place = f"{where}#{at}" if at.startswith("/") else f"{where}{at}" if at.startswith("#") else _joined(where, at)
    return Finding(
        rule=rule.id,
        severity=problem.severity or rule.severity,
        where=place,
        message=problem.message,
        hint=problem.hint or rule.hint,
        exit_code=rule.exit_code,
    )


def _joined(where: str, at: str) -> str:
    return f"{where.rstrip('/')}/{at}" if at else where


def _broken(rule: Rule, where: str, error: Exception) -> Finding:
    return Finding(
        rule=rule.id,
        severity="error",
        where=where,
        message=f"this rule broke ({type(error).__name__}); the record was not judged by it",
        hint="report it with the file; nothing can be said about the record until the rule is mended",
        exit_code=ExitCode.BROKEN,
    )


def _exit_code(codes: Iterable[ExitCode]) -> ExitCode:
    found = set(codes)
    return next((code for code in _PRECEDENCE if code in found), ExitCode.GOOD)


def _worst_first(finding: Finding) -> tuple[int, str, str, str]:
    rank = _PRECEDENCE.index(finding.exit_code) if finding.severity == "error" else len(_PRECEDENCE)
    return rank, finding.rule, finding.where, finding.message


def _rolled_up(unlisted: Mapping[ExitCode, int]) -> Iterator[Finding]:
    for code, count in sorted(unlisted.items()):
        yield Finding(
            rule="CG000",
            severity="error",
            where="",
            message=f"{count} more findings with exit code {int(code)} are not listed",
            hint="mend what is listed, then gate again",
            exit_code=code,
        )
