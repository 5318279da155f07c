"""From evidence to the store: what is filed, what is refused, what replaces what, and what a stop in between leaves."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import pytest

from harness.certifying.issue import NOT_NEWER, alone, draft, issue, why_draft
from harness.certifying.ledger import reinstate, withdraw
from harness.certifying.store import read_store
from harness.deriving.ids import claim_key
from harness.deriving.status import derive_status, ledger_problems
from harness.errors import InvalidDocumentError, StorageError, UsageError
from harness.model.certificate import Certificate
from harness.model.values import CertificateState, Outcome, Phase, ReasonCode
from harness.pipeline import file_observed
from harness.wire import files, strict
from harness.wire.certificate_doc import parse_certificate
from tests.fakes.evidence import Recorded, recorded

KEY = "T01/fake-digests/cpu-x86_64"
FIRST = recorded(run=1, day=1)
SECOND = recorded(run=2, day=2)


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder with the first certificate, and one with both."""
    first, whole = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("whole")
    for folder in (first, whole):
        issue(FIRST.data(), folder)
    issue(SECOND.data(), whole)
    return first, whole


def content(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def by_run(folder: Path, run: int) -> Certificate:
    return next(one for one in read_store(folder).certificates.values() if one.body["run"]["run_id"] == f"{run:032x}")  # type: ignore[index]


def test_a_first_certificate_is_filed_with_its_evidence_and_page(tmp_path: Path) -> None:
    written = issue(FIRST.data(), tmp_path)

    (certificate,) = read_store(tmp_path).certificates.values()
    sha256 = FIRST.evidence().sha256
    names = sorted(str(path.relative_to(tmp_path)) for path in written)
    assert names == [f"{KEY}/2026-01-01-{certificate.id[:12]}.json", f"{KEY}/README.md", f"evidence/{sha256}.jsonl"]
    assert certificate.status.state is CertificateState.CURRENT
    assert certificate.body["decision"]["overall"] == "pass"  # type: ignore[index]
    assert (tmp_path / ".gitattributes").read_text() == "* -text\n"


def test_issuing_the_same_evidence_again_changes_nothing(tmp_path: Path) -> None:
    issue(FIRST.data(), tmp_path)
    issue(SECOND.data(), tmp_path)
    before = content(tmp_path)

    assert issue(FIRST.data(), tmp_path) == []
    assert issue(SECOND.data(), tmp_path, now="2030-01-01T00:00:00Z") == []

    assert content(tmp_path) == before


def test_a_newer_run_supersedes_its_predecessor_and_the_old_body_stays(tmp_path: Path) -> None:
    issue(FIRST.data(), tmp_path)
    old_body = by_run(tmp_path, 1).body
    issue(SECOND.data(), tmp_path)

    store = read_store(tmp_path)
    old, new = by_run(tmp_path, 1), by_run(tmp_path, 2)
    (event,) = store.events
    assert old.body == old_body
    assert (old.status.state, old.status.superseded_by) == (CertificateState.SUPERSEDED, new.id)
    assert old.status == derive_status(old.id, store.events)
    assert new.status.state is CertificateState.CURRENT
    assert (event.reason_code, event.differs, event.dropped_cells) == (ReasonCode.RERUN_SAME_INPUTS, (), ())
    assert ledger_problems(store.bodies(), store.events) == []
    page = (tmp_path / KEY / "README.md").read_text()
    assert f"`{new.id[:12]}` replaced `{old.id[:12]}`: the same inputs were run again." in page
    assert f"| `{old.id[:12]}` | 2026-01-01 | pass | superseded | `{new.id[:12]}` |" in page


@pytest.mark.parametrize(
    ("change", "reason", "named"),
    [
        (lambda e: e.with_target(model_digest="77" * 32), ReasonCode.MODEL_CHANGED, "subject.model.digest"),
        (
            lambda e: e.with_target(path_sets=[{"name": "engine", "digest": "88" * 32, "files": 3}]),
            ReasonCode.SOURCE_CHANGED,
            "subject.path_sets.engine",
        ),
        (lambda e: e.with_target(device={"name": "other"}), ReasonCode.HARDWARE_CHANGED, "environment.device.name"),
        (
            lambda e: e.with_header(
                environment={"machine": "c3" * 32, "facts": {"os": "linux", "cores": 8, "load_1min_milli": 5}}
            ),
            ReasonCode.ENVIRONMENT_CHANGED,
            "environment.facts.cores",
        ),
        (
            lambda e: e.with_header(
                environment={"machine": "c3" * 32, "facts": {"os": "linux", "cores": 4, "load_1min_milli": 5}}
            ),
            ReasonCode.RERUN_SAME_INPUTS,
            "",
        ),
    ],
)
def test_why_it_was_replaced_is_computed_from_what_differs(
    tmp_path: Path, change: Callable[[Recorded], Recorded], reason: ReasonCode, named: str
) -> None:
    issue(FIRST.data(), tmp_path)
    issue(change(SECOND).data(), tmp_path)

    (event,) = read_store(tmp_path).events
    assert event.reason_code is reason
    assert list(event.differs) == ([named] if named else [])


def test_another_machine_corroborates(tmp_path: Path) -> None:
    issue(FIRST.data(), tmp_path)
    issue(SECOND.with_header(environment={"machine": "99" * 32, "facts": {}}).data(), tmp_path)

    store = read_store(tmp_path)
    assert not store.events
    assert {one.status.state for one in store.certificates.values()} == {CertificateState.CURRENT}


def test_a_stop_is_filed_too_and_replaces_a_pass(tmp_path: Path) -> None:
    issue(FIRST.data(), tmp_path)
    issue(SECOND.with_part("warm", "again", Phase.END, "layer1.k").data(), tmp_path)

    assert by_run(tmp_path, 2).body["decision"]["overall"] == "stop"  # type: ignore[index]
    assert by_run(tmp_path, 1).status.state is CertificateState.SUPERSEDED


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda e: replace(e, closed=False), "cut_off"),
        (lambda e: replace(e, interrupted=True), "interrupted"),
        (lambda e: e.with_target(group="harness.mutants"), "mutant"),
        (lambda e: e.with_header(source={**e.header.source, "tree": "dirty"}), "dirty_tree"),
        (lambda e: e.with_end("2026-01-01T07:00:00Z"), "clock_was_set"),
    ],
)
def test_what_cannot_be_certified_is_refused_and_nothing_is_written(
    tmp_path: Path, change: Callable[[Recorded], Recorded], reason: str
) -> None:
    data = change(FIRST).data()

    assert why_draft(data) == reason
    with pytest.raises(InvalidDocumentError, match=reason):
        issue(data, tmp_path / "certificates")
    assert not (tmp_path / "certificates").exists()


def test_a_partial_run_becomes_a_draft_that_no_reader_takes_for_a_certificate(tmp_path: Path) -> None:
    from tests.fakes.evidence import scenario, sized

    two = recorded(scenario(sized(b"axes: {size: [1, 2]}")))
    partial = two.with_header(selected=("T01[scale=16,size=1]",)).without(
        lambda one: getattr(one, "cell", "") == "T01[scale=16,size=2]"
    )

    (path,) = draft(partial.data(), tmp_path / "drafts")

    assert why_draft(partial.data()) == "partial"
    assert path.name.startswith("draft-T01-")
    value = strict.loads(path.read_bytes(), where="draft", form="rendered")
    assert isinstance(value, dict)
    assert value["why"] == "partial"
    with pytest.raises(InvalidDocumentError):
        parse_certificate(path.read_bytes(), path.name)
    with pytest.raises(InvalidDocumentError, match="partial"):
        issue(partial.data(), tmp_path)


def test_an_older_run_is_not_issued_over_a_newer_one(tmp_path: Path) -> None:
    issue(SECOND.data(), tmp_path)
    before = content(tmp_path)

    with pytest.raises(InvalidDocumentError, match="not newer"):
        issue(FIRST.data(), tmp_path)
    assert content(tmp_path) == before


def test_a_run_that_is_no_newer_than_the_current_one_is_a_draft(tmp_path: Path) -> None:
    issue(SECOND.data(), tmp_path / "c")
    (tmp_path / "first.jsonl").write_bytes(FIRST.data())

    (path,), why = file_observed(tmp_path / "first.jsonl", tmp_path / "c", tmp_path / "drafts")

    assert why == NOT_NEWER
    assert path.parent == tmp_path / "drafts"
    assert why_draft(recorded(run=3, day=3).data(), tmp_path / "c") == ""


def test_what_is_filed_into_one_folder_is_filed_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "second.jsonl").write_bytes(SECOND.data())
    places = (tmp_path / "second.jsonl", tmp_path / "c", tmp_path / "drafts")

    with ThreadPoolExecutor(1) as other:
        with alone(tmp_path / "c"):
            filed = other.submit(file_observed, *places)
            assert wait([filed], timeout=0.3).not_done
            issue(FIRST.data(), tmp_path / "c")
        assert filed.result()[1] == ""

    assert by_run(tmp_path / "c", 1).status.superseded_by == by_run(tmp_path / "c", 2).id


def test_one_run_is_not_shown_as_two(tmp_path: Path) -> None:
    issue(FIRST.data(), tmp_path)

    with pytest.raises(InvalidDocumentError, match=r"run\.run_id"):
        issue(recorded(run=1, day=3).data(), tmp_path)


def test_something_private_is_not_certified(tmp_path: Path) -> None:
    with pytest.raises(InvalidDocumentError, match="private"):
        issue(FIRST.with_target(identity={"file": "/opt/models/x.bin"}).data(), tmp_path)


@pytest.mark.parametrize("writes", range(8))
def test_a_stop_at_any_write_is_completed_by_the_same_call(
    tmp_path: Path, issued: tuple[Path, Path], writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, whole = issued
    broken = tmp_path / "broken"
    shutil.copytree(first, broken)
    left = [writes]

    def failing(real: Callable[[Path, bytes], None]) -> Callable[[Path, bytes], None]:
        def write(path: Path, data: bytes) -> None:
            if left[0] == 0:
                raise StorageError("no space")
            left[0] -= 1
            real(path, data)

        return write

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_new", failing(files.write_new))
        patch.setattr(files, "replace", failing(files.replace))
        try:
            issue(SECOND.data(), broken)
        except StorageError:
            assert left[0] == 0
    issue(SECOND.data(), broken)

    assert content(broken) == content(whole)


def test_withdraw_and_reinstate_are_events_and_keep_the_invariants(tmp_path: Path) -> None:
    issue(FIRST.data(), tmp_path)
    issue(SECOND.data(), tmp_path)
    old, new = by_run(tmp_path, 1), by_run(tmp_path, 2)

    with pytest.raises(InvalidDocumentError, match="two_current"):
        reinstate(tmp_path, old.id, ReasonCode.RECORD_ERROR, "2026-02-01T00:00:00Z")
    withdraw(tmp_path, new.id, ReasonCode.HARNESS_BUG, "2026-02-02T00:00:00Z")
    reinstate(tmp_path, old.id, ReasonCode.RECORD_ERROR, "2026-02-03T00:00:00Z")

    assert by_run(tmp_path, 1).status.state is CertificateState.CURRENT
    assert by_run(tmp_path, 2).status.state is CertificateState.WITHDRAWN
    with pytest.raises(InvalidDocumentError, match="withdrawn_twice"):
        withdraw(tmp_path, new.id, ReasonCode.HARNESS_BUG, "2026-02-04T00:00:00Z")
    with pytest.raises(UsageError):
        withdraw(tmp_path, "0" * 64, ReasonCode.HARNESS_BUG, "2026-02-04T00:00:00Z")


def test_a_renamed_certificate_is_not_read(tmp_path: Path) -> None:
    issue(FIRST.data(), tmp_path)
    (path,) = (tmp_path / KEY).glob("*.json")
    path.rename(path.with_name("2026-01-02" + path.name[10:]))

    with pytest.raises(InvalidDocumentError, match="not its own"):
        read_store(tmp_path)


def test_dropped_cells_are_listed(tmp_path: Path) -> None:
    from tests.fakes.evidence import scenario, sized

    two = recorded(scenario(sized(b"axes: {size: [1, 2]}")), run=1, day=1)
    one = recorded(scenario(sized(b"axes: {size: [1]}")), run=2, day=2)
    issue(two.data(), tmp_path)
    issue(one.data(), tmp_path)

    (event,) = read_store(tmp_path).events
    assert event.reason_code is ReasonCode.SCENARIO_CHANGED
    assert event.dropped_cells == ("T01[scale=16,size=2]",)
    assert "No longer covered: `T01[scale=16,size=2]`." in (tmp_path / KEY / "README.md").read_text()
    assert two.cell("T01[scale=16,size=2]").outcome is Outcome.PASS


@pytest.mark.parametrize("text", ["[a](b)", "<b>", "a|b", "a`b", "a b", "a\nb"])
def test_names_of_files_and_versions_hold_no_markup(tmp_path: Path, text: str) -> None:
    sets = [{"name": text, "digest": "a1" * 32, "files": 3}]
    source = FIRST.header.source
    for run in (
        FIRST.with_target(path_sets=sets),
        FIRST.with_target(engine_version=text),
        FIRST.with_target(adapter=text),
        FIRST.with_header(source={**source, "harness_version": text}),
        FIRST.with_header(source={**source, "path_sets": sets}),
    ):
        with pytest.raises(InvalidDocumentError):
            issue(run.data(), tmp_path / "certificates")
    assert not (tmp_path / "certificates").exists()


def test_an_engine_has_no_dash_in_its_name() -> None:
    assert claim_key("T01", "fake_one", "a-b", "cpu") == "T01/fake_one-a-b/cpu"
    with pytest.raises(InvalidDocumentError, match="without dashes, like 'fake_one'"):
        claim_key("T01", "fake-one", "a-b", "cpu")
