"""A view with something in every field, for the tests of the renderers."""

from __future__ import annotations

from harness.reporting.subjects import grid_of
from harness.reporting.view import (
    Badge,
    Bar,
    CertificateView,
    ClaimPage,
    Fact,
    Head,
    Link,
    Matrix,
    MatrixCell,
    MatrixRow,
    Overview,
    OverviewRow,
    Problem,
    Sheet,
    Tally,
)

ID = "0a1b2c3d4e5f" + "0" * 52
OTHER = "f5e4d3c2b1a0" + "1" * 52
KEY = "A16/torch-tiny/cpu-x86_64-avx512"


def cell(name: str, state: str, reason: str = "") -> MatrixCell:
    return MatrixCell(id=name, state=state, reason=reason)


def sample_view() -> CertificateView:
    return CertificateView(
        id=ID,
        claim_key=KEY,
        title="A16 Snapshot at every place around the end",
        created="2026-01-02T03:04:05Z",
        state="superseded",
        state_note="Superseded on 2026-02-03 by f5e4d3c2b1a0 because the source changed.",
        successor=OTHER,
        badges=(
            Badge(name="overall", state="stop"),
            Badge(name="exactness", state="stop"),
            Badge(name="footprint", state="pass"),
            Badge(name="latency", state="not_evaluated"),
        ),
        sentence="torch 0.1.0 with model tiny on cpu-x86_64-avx512: 6 cells, 3 pass; 22 of 24 comparisons equal.",
        claims=("The cells that passed are exact in all 48 state parts (n = 22 comparisons).",),
        no_claims=("No exactness for A16[scale=16,arch=hybrid,at=end+1].", "Nothing about latency: not evaluated."),
        matrix=Matrix(
            down="scale, arch",
            across="at",
            columns=("end-1", "end", "end+1"),
            rows=(
                MatrixRow(
                    label="16, hybrid",
                    cells=(
                        cell("A16[scale=16,arch=hybrid,at=end-1]", "pass"),
                        cell("A16[scale=16,arch=hybrid,at=end]", "inconclusive", "not_repeatable"),
                        cell("A16[scale=16,arch=hybrid,at=end+1]", "fail"),
                    ),
                    total="1/3",
                ),
                MatrixRow(
                    label="16, attention",
                    cells=(
                        cell("A16[scale=16,arch=attention,at=end-1]", "pass"),
                        cell("A16[scale=16,arch=attention,at=end]", "excluded", "no_recurrent_state"),
                        cell("A16[scale=16,arch=attention,at=end+1]", "not_run", "no_device"),
                    ),
                    total="1/3",
                ),
            ),
            totals=("2/2", "0/2", "0/2"),
            total="2/6",
            tallies=(Tally(state="fail", count=1), Tally(state="inconclusive", count=1), Tally(state="pass", count=2)),
        ),
        problems=(
            Problem(
                cell="A16[scale=16,arch=hybrid,at=end+1]",
                state="fail",
                check="warm-c",
                code="EXACT.STATE@1",
                observed="1 part differs",
                limit="0 parts differ",
                reason="State parts differ from the reference right after the restore.",
                place="layer3.delta (recurrent, layer 3), row 0, element 9: 3f800000 against 3f800001",
            ),
            Problem(
                cell="A16[scale=16,arch=hybrid,at=end]",
                state="inconclusive",
                check="",
                code="",
                observed="",
                limit="",
                reason="The reference was unequal to itself.",
                place="",
            ),
        ),
        problems_note="Controls: 6 of 6 seen.",
        exactness=(Fact(name="Comparisons equal", value="22/24"), Fact(name="Part root", value="ab" * 32, code=True)),
        comparisons=Sheet(
            heads=(Head(text="check"), Head(text="equal", right=True)), rows=(("warm-c", "5/6"),), note="One root each."
        ),
        timings=Sheet(
            heads=(Head(text="turn"), Head(text="cached", right=True), Head(text="first token", right=True)),
            rows=(("cold_a.a", "0", "912 ms"), ("warm.a2", "1,024", "41.0 ms")),
            note="Single measurements; no percentile can be claimed.",
        ),
        bars=(
            Bar(label="cold_a.a", value="912 ms", ppm=1_000_000, restored=False),
            Bar(label="warm.a2", value="41.0 ms", ppm=44_956, restored=True),
        ),
        environment=(Fact(name="cpu", value="8 cores"), Fact(name="python", value="3.11.7")),
        settings=(Fact(name="engine: threads", value="4"),),
        history=(
            Link(
                id12=ID[:12],
                created="2026-01-02T03:04:05Z",
                state="superseded",
                overall="stop",
                reason="the source changed",
                changed="source path set engine",
                dropped="",
                here=True,
            ),
            Link(
                id12=OTHER[:12],
                created="2026-02-03T00:00:00Z",
                state="current",
                overall="pass",
                reason="",
                changed="",
                dropped="",
                here=False,
            ),
        ),
        limits=("Unsigned: whoever can write the file can claim to have run it.",),
        command="statecert run A16 --target torch-cpu --suite default",
        digests=(Fact(name="Certificate", value=ID, code=True),),
    )


def sample_overview() -> Overview:
    row = OverviewRow(
        claim_key=KEY,
        title="Snapshot at every place around the end",
        state="current",
        overall="stop",
        cells="3/6 pass, 1 fail",
        comparisons="22/24",
        created="2026-01-02T03:04:05Z",
        id=ID,
        others="1 superseded",
        headline="warm-c: parts differ",
    )
    return Overview(
        sentence="1 claim key; 1 stop.", grid=grid_of((row,)), rows=(row,), tallies=(Tally(state="stop", count=1),)
    )


def sample_page() -> ClaimPage:
    view = sample_view()
    return ClaimPage(claim_key=KEY, shown=(view,), history=view.history)
