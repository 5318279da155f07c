"""Certificates to the view model. Everything is copied or counted; nothing is decided."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.model.certificate import Certificate, Event
from harness.model.values import CertificateState, DecisionAxis
from harness.reporting import campaigns, claimable, exactness
from harness.reporting.counts import count_sections
from harness.reporting.foreign import FOREIGN
from harness.reporting.history import history, notes, state_note
from harness.reporting.matrix import CellState, matrix, tallies
from harness.reporting.problems import headline, problems
from harness.reporting.reading import UNKNOWN, flat, integer, items, mapping, text, texts
from harness.reporting.reasons import left_out_sentence
from harness.reporting.subjects import grid_of, shown
from harness.reporting.timings import first_token_bars, timing_sheet
from harness.reporting.units import counted, duration, number, size
from harness.reporting.view import (
    NOTHING,
    Badge,
    CertificateView,
    ClaimPage,
    Fact,
    Link,
    Overview,
    OverviewRow,
    Section,
)
from harness.reporting.words import mark

_ADHOC = "adhoc"
"""Suite of a run at one given scale."""
_NOTABLE = frozenset(
    {"name", "driver", "runtime", "memory_kind", "cpu", "cores", "os", "kernel", "python", "package.torch"}
)
"""Facts that a reader wants on the first page; all are in the settings."""
_DECISIONS = ("error", "stop", "inconclusive", "pass")


class Archive:
    """What reports are made from.

    Args:
        certificates: All of them, in any order.
        events: The ledger.
        titles: Scenario id to its title.
    """

    def __init__(
        self,
        certificates: Sequence[Certificate],
        *,
        events: Sequence[Event] = (),
        titles: Mapping[str, str] | None = None,
    ) -> None:
        self.certificates = tuple(sorted(certificates, key=_newest_last))
        self.events = tuple(events)
        self.titles = dict(titles or {})
        self._by_key: dict[str, list[Certificate]] = {}
        for one in self.certificates:
            self._by_key.setdefault(claim_key_of(one), []).append(one)
        self._events_of: dict[str, list[Event]] = {}
        for event in self.events:
            self._events_of.setdefault(event.target, []).append(event)

    @property
    def claim_keys(self) -> list[str]:
        """All claim keys, sorted."""
        return sorted(self._by_key)

    def of_key(self, claim_key: str) -> Sequence[Certificate]:
        """Return the certificates of a claim key, oldest first."""
        return self._by_key.get(claim_key, [])

    def events_of(self, certificate: Certificate) -> Sequence[Event]:
        """Return the ledger events of one certificate."""
        return self._events_of.get(certificate.id, [])

    def history_of(self, claim_key: str, *, here: str = "") -> list[Link]:
        """Return the chain of a claim key, newest first."""
        chain = self.of_key(claim_key)
        events = [event for one in chain for event in self._events_of.get(one.id, [])]
        return history(chain, events, here=here)


def claim_key_of(certificate: Certificate) -> str:
    """Return the claim key of a certificate."""
    return text(certificate.body, "claim_key")


def certificate_view(certificate: Certificate, archive: Archive) -> CertificateView:
    """Return all that a report says of one certificate."""
    body = certificate.body
    if campaigns.is_campaign(body):
        return _campaign_view(certificate, archive)
    found, note = problems(body)
    return CertificateView(
        id=certificate.id,
        claim_key=claim_key_of(certificate),
        title=_title(body, archive),
        created=text(body, "run", "created"),
        state=certificate.status.state.value,
        state_note=state_note(certificate, archive.events_of(certificate)),
        successor=certificate.status.superseded_by,
        badges=_badges(body),
        sentence=claimable.sentence(body),
        claims=claimable.claims(certificate),
        no_claims=claimable.no_claims(certificate),
        matrix=matrix(_cells(body)),
        problems=found,
        problems_note=note,
        exactness=exactness.exactness_facts(body),
        comparisons=exactness.comparison_sheet(body),
        timings=timing_sheet(body),
        bars=first_token_bars(body),
        sections=[*_left_out(body), *count_sections(body)],
        environment=_environment(body),
        settings=_settings(body),
        history=archive.history_of(claim_key_of(certificate), here=certificate.id),
        limits=claimable.limits(body),
        command=_command(body),
        digests=[_announced(body), *_digests(certificate)],
    )


def _campaign_view(certificate: Certificate, archive: Archive) -> CertificateView:
    body, said = certificate.body, campaigns.told(certificate)
    return CertificateView(
        id=certificate.id,
        claim_key=claim_key_of(certificate),
        title=said.title,
        created=text(body, "run", "created"),
        state=certificate.status.state.value,
        state_note=state_note(certificate, archive.events_of(certificate)),
        successor=certificate.status.superseded_by,
        badges=[Badge(name="overall", state=_overall(body))],
        sentence=said.sentence,
        claims=said.claims,
        no_claims=said.no_claims,
        matrix=None,
        problems=said.problems,
        problems_note=said.problems_note,
        exactness=(),
        comparisons=NOTHING,
        timings=NOTHING,
        bars=(),
        sections=said.sections,
        environment=_environment(body),
        settings=_settings(body),
        history=archive.history_of(claim_key_of(certificate), here=certificate.id),
        limits=claimable.limits(body),
        command=said.command,
        digests=_digests(certificate),
    )


def claim_page(claim_key: str, archive: Archive) -> ClaimPage:
    """Return the page of a claim key: current certificates in full; without one, the latest that there was."""
    all_of_key = archive.of_key(claim_key)
    current = [one for one in all_of_key if one.status.state is CertificateState.CURRENT]
    shown = current or list(all_of_key[-1:])
    here = shown[0].id if len(shown) == 1 else ""
    return ClaimPage(
        claim_key=claim_key,
        shown=[certificate_view(one, archive) for one in shown],
        history=archive.history_of(claim_key, here=here),
    )


def overview(archive: Archive) -> Overview:
    """Return one row per claim key, worst first; one without a current certificate counts as what became of it."""
    rows = [_row(key, archive) for key in archive.claim_keys]
    rows.sort(key=lambda row: (row.state != "current", _badness(row.overall), row.claim_key))
    decisions = [shown(row) for row in rows]
    words = ", ".join(f"{decisions.count(word)} {mark(word).word.lower()}" for word in dict.fromkeys(decisions))
    current = sum(one.status.state is CertificateState.CURRENT for one in archive.certificates)
    sentence = (
        f"{counted(len(rows), 'claim key')}: {words}. "
        f"{counted(len(archive.certificates), 'certificate')}, {current:,} current."
    )
    return Overview(
        sentence=sentence if rows else "There is no certificate.",
        grid=grid_of(rows),
        rows=rows,
        tallies=sorted(tallies(decisions), key=lambda tally: _badness(tally.state)),
    )


def _row(claim_key: str, archive: Archive) -> OverviewRow:
    all_of_key = archive.of_key(claim_key)
    current = [one for one in all_of_key if one.status.state is CertificateState.CURRENT]
    shown = min(current or all_of_key[-1:], key=lambda one: (_badness(_overall(one.body)), one.id))
    body = shown.body
    others = tallies([one.status.state.value for one in all_of_key if one.id != shown.id])
    said = _row_of_campaign(shown) if campaigns.is_campaign(body) else _row_of_run(body, archive)
    return OverviewRow(
        claim_key=claim_key,
        title=said.title,
        state=shown.status.state.value,
        overall=_overall(body),
        cells=said.cells,
        comparisons=said.comparisons,
        created=text(body, "run", "created"),
        id=shown.id,
        others=", ".join(f"{tally.count} {mark(tally.state).word.lower()}" for tally in others),
        headline=" ".join([said.headline, *notes(shown, archive.events_of(shown))]).strip(),
        ran_passed=claimable.ran_passed(body),
    )


class _Said(NamedTuple):
    """What of a row depends on the kind of certificate."""

    title: str
    cells: str
    comparisons: str
    headline: str


def _row_of_run(body: Mapping[str, object], archive: Archive) -> _Said:
    states = [text(cell, "outcome") for cell in items(body, "cells")]
    found, _ = problems(body)
    counts = [tally for tally in tallies(states) if tally.state != "pass"]
    return _Said(
        title=_title(body, archive),
        cells=", ".join(
            [f"{states.count('pass')}/{len(states)} pass", *(f"{one.count} {mark(one.state).word}" for one in counts)]
        ),
        comparisons=str(exactness.comparisons(body)),
        headline=headline(found) or claimable.open_cells(body) or claimable.foremost_limit(body),
    )


def _row_of_campaign(certificate: Certificate) -> _Said:
    said = campaigns.told(certificate)
    return _Said(title=said.title, cells=said.count, comparisons="", headline=said.headline)


def _title(body: Mapping[str, object], archive: Archive) -> str:
    scenario = text(body, "scenario", "id")
    return f"{scenario} {archive.titles.get(scenario, '')}".rstrip()


def _badges(body: Mapping[str, object]) -> list[Badge]:
    by_axis = mapping(body, "decision", "by_axis")
    names = [axis.value for axis in DecisionAxis if axis is not DecisionAxis.TOLERANCE or axis in by_axis]
    axes = [Badge(name=name, state=text(by_axis, name, default="not_evaluated")) for name in names]
    axes.sort(key=lambda badge: badge.state == "not_evaluated")
    return [Badge(name="overall", state=_overall(body)), *axes]


def _overall(body: Mapping[str, object]) -> str:
    return text(body, "decision", "overall")


def _cells(body: Mapping[str, object]) -> list[CellState]:
    return [
        CellState(
            id=text(cell, "id"),
            coords={axis: text(cell, "coords", axis) for axis in mapping(cell, "coords")},
            state=text(cell, "outcome"),
            reason=text(cell, "reason", default=""),
        )
        for cell in items(body, "cells")
    ]


def _left_out(body: Mapping[str, object]) -> list[Section]:
    """What the reasons in the matrix mean, of cells that nothing was asked of; nothing where there is no such cell."""
    codes = dict.fromkeys(
        text(cell, "reason")
        for cell in items(body, "cells")
        if text(cell, "outcome") in ("not_supported", "not_run") and text(cell, "reason") != UNKNOWN
    )
    facts = [Fact(name=code, value=left_out_sentence(code), code=False) for code in codes]
    return [Section(title="Why cells were left out", facts=facts)] if facts else []


def _environment(body: Mapping[str, object]) -> list[Fact]:
    engine = mapping(body, "subject", "engine")
    facts = [
        Fact(name="Engine", value=f"{text(engine, 'name')} {text(engine, 'version')}"),
        Fact(name="Model", value=text(body, "subject", "model", "name")),
        Fact(name="Hardware class", value=text(body, "environment", "hw_class")),
        Fact(name="Abilities declared", value=", ".join(texts(body, "subject", "capabilities")) or UNKNOWN),
        *([] if text(body, "kind") == FOREIGN else [Fact(name="Run took", value=_taken(body))]),
        Fact(name="Machine (salted hash)", value=text(body, "environment", "machine"), code=True),
    ]
    device = mapping(body, "environment", "device")
    machine = mapping(body, "environment", "facts")
    facts += [Fact(name=f"Device {name}", value=value) for name, value in flat(device) if name in _NOTABLE]
    facts += [Fact(name=f"Machine {name}", value=value) for name, value in flat(machine) if name in _NOTABLE]
    return facts


def _taken(body: Mapping[str, object]) -> str:
    """The time of the run, and whether others took from it; records from before jobs were told had one."""
    jobs = mapping(body, "environment", "facts").get("jobs", 1)
    beside = f"; one of {jobs} jobs side by side, so times are not those of a quiet machine" if jobs != 1 else ""
    return f"{duration(integer(body, 'run', 'elapsed_ns'))}{beside}"


def _settings(body: Mapping[str, object]) -> list[Fact]:
    facts: list[Fact] = []
    for title, part in (
        ("engine", mapping(body, "subject", "identity")),
        ("device", mapping(body, "environment", "device")),
        ("machine", mapping(body, "environment", "facts")),
    ):
        facts += [Fact(name=f"{title}: {name}", value=value, code=_is_digest(value)) for name, value in flat(part)]
    return facts


def _digests(certificate: Certificate) -> list[Fact]:
    body = certificate.body
    found, created = mapping(body, "run", "evidence"), text(body, "run", "created")
    records = integer(found, "records")
    facts = [
        Fact(name="Certificate", value=certificate.id, code=True),
        Fact(name="File", value=f"{claim_key_of(certificate)}/{created[:10]}-{certificate.id[:12]}.json", code=True),
        Fact(name="Run", value=text(body, "run", "run_id"), code=True),
        Fact(name="Evidence", value=text(found, "sha256"), code=True),
        Fact(name="Evidence holds", value=f"{number(records)} records, {size(integer(found, 'bytes'))}"),
        *_procedure(body),
        Fact(name="Model", value=text(body, "subject", "model", "digest"), code=True),
        Fact(name="Source tree", value=text(body, "subject", "tree").replace("_", " ")),
        Fact(name="Commit (information)", value=text(body, "subject", "commit", default="none"), code=True),
        Fact(name="Harness", value=text(body, "harness", "version")),
    ]
    for owner in ("subject", "harness"):
        facts += [
            Fact(name=f"Path set {text(part, 'name')} of the {owner}", value=text(part, "digest"), code=True)
            for part in items(body, owner, "path_sets")
        ]
    return facts


def _procedure(body: Mapping[str, object]) -> list[Fact]:
    """The digest of a scenario's procedure; a campaign's is told in full elsewhere on its page."""
    if campaigns.is_campaign(body):
        return []
    return [Fact(name="Procedure of the scenario", value=text(body, "scenario", "procedure_digest"), code=True)]


def _command(body: Mapping[str, object]) -> str:
    suite, scales = text(body, "run", "suite"), texts(body, "run", "scales")
    scale = ["--suite", suite] if suite != _ADHOC or not scales else ["--scale", scales[0]]
    target = text(body, "subject", "engine", "adapter")
    asked = dict(mapping(body, "subject", "options"))
    preset = ["--preset", str(asked.pop("preset"))] if "preset" in asked else []
    options = [word for key in sorted(asked) for word in ("--option", f"{key}={_option(asked[key])}")]
    return shlex.join(["statecert", "run", text(body, "scenario", "id"), *scale, "--target", target, *preset, *options])


def _option(value: object) -> str:
    """As the command line takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _announced(body: Mapping[str, object]) -> Fact:
    """How a run of the same target names itself. Older records have no options, and those can make another target."""
    engine, model = text(body, "subject", "engine", "name"), text(body, "subject", "model", "name")
    said = f"{engine} {model} on {text(body, 'environment', 'hw_class')}"
    if not mapping(body, "subject", "options"):
        said += "; if it names another model, add the `--option KEY=VALUE` of the settings below that makes this one"
    return Fact(name="The run must begin with", value=said)


def _is_digest(value: str) -> bool:
    return len(value) == 64 and set(value) <= set("0123456789abcdef")


def _badness(decision: str) -> int:
    return _DECISIONS.index(decision) if decision in _DECISIONS else 0


def _newest_last(certificate: Certificate) -> tuple[str, str]:
    return text(certificate.body, "run", "created"), certificate.id
