from __future__ import annotations

from pathlib import Path

import pytest

from harness.deriving.changes import differs, dropped_cells
from harness.errors import InvalidDocumentError, NothingToDoError, UsageError
from harness.model.certificate import Certificate, Event
from harness.model.values import ReasonCode, Sha256
from harness.reporting.markdown import GENERATED
from harness.reporting.site import find_certificate, out_of_date, read_archive, render_all, render_site
from harness.wire import canonical
from harness.wire.certificate_doc import format_certificate
from harness.wire.event_doc import event_to_mapping
from tests.reporting.bodies import KEY, PASSED, STOPPED, certificate

PAGE = f"{KEY}.md"


def file(folder: Path, one: Certificate) -> Path:
    path = folder / str(one.body["claim_key"]) / f"2026-01-02-{one.id[:12]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(format_certificate(one))
    return path


def supersede(folder: Path, old: Certificate, new: Certificate) -> None:
    event = Event(
        id=Sha256("0" * 64), kind="supersede", target=old.id, by=new.id, reason_code=ReasonCode.SOURCE_CHANGED,
        created="2026-02-03T00:00:00Z", differs=differs(old.body, new.body),
        dropped_cells=dropped_cells(old.body, new.body),
    )  # fmt: skip
    value = event_to_mapping(event)
    path = folder / "ledger" / "2026" / f"{canonical.digest(value)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(canonical.render(value))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    certificates = tmp_path / "certificates"
    old, new = certificate(STOPPED), certificate(PASSED)
    file(certificates, old)
    file(certificates, new)
    supersede(certificates, old, new)
    (certificates / "evidence").mkdir()
    return certificates


def test_the_tree_has_an_overview_and_a_page_per_claim_key_and_is_the_same_each_time(folder: Path) -> None:
    first, second = render_all(folder), render_all(folder)

    assert sorted(first) == [PAGE, "README.md"]
    assert first == second


def test_the_state_comes_from_the_ledger_and_not_from_the_file(folder: Path) -> None:
    page = render_all(folder, titles={})[PAGE].decode()

    old = certificate(STOPPED).id[:12]
    assert f"| `{old}` | 2026-01-02 | ◌ SUPERSEDED | ✗ stop | the source changed |" in page


def test_the_title_of_a_scenario_that_travels_with_the_package_is_shown(folder: Path) -> None:
    assert "A16 Shown" in render_all(folder, titles={"A16": "Shown"})["README.md"].decode()
    assert len(render_all(folder)["README.md"]) >= len(render_all(folder, titles={})["README.md"])


def test_a_committed_tree_is_compared_byte_by_byte(folder: Path, tmp_path: Path) -> None:
    made = render_all(folder)
    reports = tmp_path / "reports"
    for name, data in made.items():
        (reports / name).parent.mkdir(parents=True, exist_ok=True)
        (reports / name).write_bytes(data)
    assert out_of_date(reports, made) == []

    (reports / PAGE).write_bytes(made[PAGE] + b"\n")
    (reports / "old.md").write_bytes(f"{GENERATED}\n".encode())
    (reports / "by-hand.md").write_bytes(b"# Mine\n")
    (reports / "README.md").unlink()

    assert out_of_date(reports, made) == [
        f"{PAGE}: has other bytes than the certificates give",
        "README.md: is missing",
        "old.md: belongs to no claim key",
    ]


def test_html_has_a_page_per_certificate_and_an_index_that_leads_to_them(folder: Path) -> None:
    pages = render_site(folder)

    index = pages["index.html"].decode()
    assert len(pages) == 3
    assert f'href="{certificate(PASSED).id[:12]}.html"' in index
    for page in pages.values():
        text = page.decode()
        assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text
        assert "<script" not in text
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in text
        assert " style=" not in text


def test_drawings_have_a_title_and_a_description_and_stay_small(folder: Path) -> None:
    page = render_site(folder)[f"{certificate(PASSED).id[:12]}.html"].decode()

    drawings = page.split("<svg")[1:]
    assert len(drawings) == 2
    for drawing in drawings:
        inner = drawing.partition("</svg>")[0]
        assert "<title id=" in inner
        assert "<desc id=" in inner
        assert len(inner) < 20_000


def test_a_certificate_is_found_by_its_first_digits(folder: Path) -> None:
    archive = read_archive(folder)
    wanted = certificate(PASSED).id

    assert find_certificate(archive, wanted[:12]).id == wanted
    with pytest.raises(NothingToDoError):
        find_certificate(archive, "zz")
    with pytest.raises(UsageError, match="more digits"):
        find_certificate(archive, "")


def test_a_certificate_is_found_by_its_claim_key_and_the_current_one_is_taken(folder: Path) -> None:
    archive = read_archive(folder)
    wanted = certificate(PASSED).id

    for start in (KEY, KEY.rpartition("/")[0], f"{KEY.partition('/')[0]}/", KEY.partition("/")[0]):
        assert find_certificate(archive, start).id == wanted
    with pytest.raises(NothingToDoError, match="claim key begins"):
        find_certificate(archive, f"{KEY[:-1]}/")


def test_a_start_of_several_claim_keys_is_refused_with_their_names(folder: Path) -> None:
    other = {**PASSED, "claim_key": f"{KEY}2"}
    file(folder, certificate(other))

    with pytest.raises(UsageError, match=f"2 claim keys begin .*{KEY}, {KEY}2"):
        find_certificate(read_archive(folder), f"{KEY.partition('/')[0]}/")


def test_a_link_is_refused(folder: Path) -> None:
    (folder / KEY / "link.json").symlink_to(folder / "elsewhere.json")

    with pytest.raises(InvalidDocumentError, match="no regular file"):
        render_all(folder)


def test_a_certificate_in_another_spelling_is_refused(folder: Path) -> None:
    path = file(folder, certificate(PASSED))
    path.write_bytes(path.read_bytes() + b"\n")

    with pytest.raises(InvalidDocumentError):
        render_all(folder)


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        render_all(tmp_path / "none")
