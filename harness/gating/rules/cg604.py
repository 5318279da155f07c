"""CG604: only what may be certified is a certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.deriving.fields import value_at
from harness.gating.rule import Problem, Problems, Rule, Subject
from harness.model.evidence import CellEvent, Evidence
from harness.model.target import FORKED

if TYPE_CHECKING:
    from harness.model.campaign import CampaignRecords

_ENGINES: Final = "harness.engines"
_FOREIGN: Final = "foreign"
"""Kind and group of records that others published: nobody here ran an engine."""
_UNFIT: Final = "its evidence is of a mutant or of changed files"


def check(subject: Subject) -> Problems:
    """A whole run in which something ran, of a tree that equals its commit, on an engine without a planted fault."""
    run, target = subject.body["run"], subject.body["subject"]
    if run.get("partial"):
        yield Problem("/body/run/partial", "was a partial run; that is a draft")
    if target["tree"] == "dirty":
        yield Problem("/body/subject/tree", "was made from changed files; that is a draft")
    if target["engine"]["group"] != (_FOREIGN if subject.body["kind"] == _FOREIGN else _ENGINES):
        yield Problem("/body/subject/engine/group", "is a mutant; its evidence is never certified")
    if subject.campaign is not None:
        yield from _campaign(subject.campaign)
    if subject.evidence is not None:
        yield from _run(subject.evidence)


def _campaign(found: CampaignRecords) -> Problems:
    """A campaign that was broken off has no end record, and could not be read."""
    group, tree = value_at(found.header, "target", "group"), value_at(found.header, "source", "tree")
    if group != (_FOREIGN if found.name == _FOREIGN else _ENGINES) or tree == "dirty":
        yield Problem("/body/run/evidence", _UNFIT)


def _run(evidence: Evidence) -> Problems:
    header = evidence.header
    if evidence.end is None or evidence.end.interrupted:
        yield Problem("/body/run/evidence", "its run was broken off")
    if header.target.get("group") != _ENGINES or header.source.get("tree") == "dirty":
        yield Problem("/body/run/evidence", _UNFIT)
    if value_at(header.environment, "facts", "children") == FORKED:
        yield Problem("/body/run/evidence", "its children were forked; that is a draft")
    if not any(isinstance(one, CellEvent) and one.event == "begin" for one in evidence.observations):
        yield Problem("/body/run/evidence", "no cell ran; that is a draft")


RULE = Rule(
    id="CG604",
    text="A certificate rests on a whole run of unchanged files, on an engine without a planted fault.",
    pain="A result of files that nobody else has is shown as one of the commit that is named beside it.",
    hint="commit, then run again with every cell of the scenario; drafts stay in runs/",
    failing=(
        "dirty_tree",
        "forked",
        "mutant",
        "partial_run",
        "interrupted",
        "nothing_ran",
        "campaign_of_changed_files",
        "campaign_of_a_mutant",
    ),
    certificate=check,
)
