"""What a certified matrix leaves to be run: whatever it does not show, and a few of what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.certifying.issue import issue
from harness.engines import registry
from harness.model.scenario import Scenario
from harness.model.target import PathSet
from harness.model.values import Sha256
from harness.mutation.certified import (
    NO_MATRIX,
    NOT_STOPPED,
    OF_KIND,
    OF_SCENARIO,
    OTHER_FILES,
    OTHER_SCENARIO,
    UNTOLD,
    Ground,
    Matrix,
    ground_of,
    matrix_of,
    newest_matrix,
    to_run,
)
from harness.mutation.sources import files_of_mutant, imported
from harness.pipeline import plain
from tests.fakes.campaign import Flown, digest
from tests.fakes.crossed import crossed, with_files
from tests.fakes.evidence import scenario
from tests.gating.count_fixtures import survived, unsound

SCENARIOS = {name: replace(scenario(), id=name, procedure_digest=digest(name)) for name in ("A01", "A02", "A03")}
ENGINE = str(crossed().lines[0]["target"]["engine"])
FILES = {name: PathSet(name="mutant", digest=digest(name), files=1, patterns=("a.b:c.py",)) for name in ("one", "two")}


def written_in(name: str) -> PathSet | None:
    return FILES.get(name.partition(".")[2])


def shown(of: Flown | None = None) -> Matrix:
    told = crossed() if of is None else of
    for number, name in enumerate(("one", "two")):
        told = with_files(told, number, plain(FILES[name]))
    return matrix_of(told.records())


def reasons(
    matrix: Matrix | None,
    *names: str,
    scenarios: Mapping[str, Scenario] = SCENARIOS,
    ground: Ground | None = None,
) -> dict[str, str]:
    here = ground or (matrix.ground if matrix else ())
    return to_run(names or ("K01.one", "K02.two"), matrix, written_in, scenarios, here)


def test_of_what_a_matrix_shows_one_of_each_kind_is_run() -> None:
    assert reasons(shown()) == {"K01.one": OF_KIND, "K02.two": OF_KIND}


def test_without_a_matrix_all_are_run() -> None:
    assert reasons(None) == {"K01.one": NO_MATRIX, "K02.two": NO_MATRIX}


def test_a_new_mutant_is_run_whatever_else_is_shown() -> None:
    assert reasons(shown(), "K01.one", "K02.two", "K02.three")["K02.three"] == NO_MATRIX


@pytest.mark.parametrize("of", [survived, unsound])
def test_one_that_was_not_stopped_or_where_the_clean_engine_fails_is_run(of: Callable[[], Flown]) -> None:
    assert reasons(shown(of()))["K01.one"] == NOT_STOPPED


def test_one_whose_files_changed_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = shown()
    monkeypatch.setitem(FILES, "one", replace(FILES["one"], digest=Sha256(digest("other"))))
    assert reasons(matrix) == {"K01.one": OTHER_FILES, "K02.two": OF_KIND}


def test_one_whose_files_nobody_can_tell_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = shown()
    monkeypatch.delitem(FILES, "one")
    assert reasons(matrix)["K01.one"] == UNTOLD


def test_one_whose_files_the_matrix_does_not_tell_is_run() -> None:
    assert reasons(matrix_of(crossed().records()))["K02.two"] == UNTOLD


@pytest.mark.parametrize(
    "changed",
    [{}, {"A01": replace(SCENARIOS["A01"], procedure_digest=digest("other"))}],
)
def test_one_whose_scenario_changed_or_is_gone_is_run(changed: Mapping[str, Scenario]) -> None:
    scenarios = {**{name: one for name, one in SCENARIOS.items() if name != "A01"}, **changed}
    assert reasons(shown(), scenarios=scenarios) == {"K01.one": OTHER_SCENARIO, "K02.two": OF_KIND}


def _many() -> Matrix:
    """Three mutants of one kind, of two scenarios; all shown."""
    matrix = shown()
    names = {"K01.one": "A01", "K01.a": "A01", "K01.b": "A02", "K01.c": "A02"}
    rows = {name: {**matrix.rows["K01.one"], "id": name, "scenario": named} for name, named in names.items()}
    return replace(matrix, rows=rows, told=dict.fromkeys(names, matrix.told["K01.one"]))


def _chosen(matrix: Matrix, ground: Ground) -> dict[str, str]:
    return to_run(sorted(matrix.rows), matrix, lambda _: FILES["one"], SCENARIOS, ground)


def test_on_other_ground_one_of_each_scenario_is_run() -> None:
    matrix = _many()
    assert list(_chosen(matrix, matrix.ground).values()) == [OF_KIND]

    found = _chosen(matrix, ground_of({"engine": "0"}, hw_class="cpu", torch="2"))

    assert list(found.values()) == [OF_SCENARIO, OF_SCENARIO]
    assert {matrix.rows[name]["scenario"] for name in found} == {"A01", "A02"}


def test_which_one_is_run_follows_from_the_files_and_changes_with_them() -> None:
    matrix = _many()
    grounds = [ground_of({"engine": str(n)}, hw_class="cpu", torch="2") for n in range(32)]
    found = [tuple(_chosen(matrix, ground)) for ground in grounds]

    assert found == [tuple(_chosen(matrix, ground)) for ground in grounds]
    assert {name for names in found for name in names} == set(matrix.rows), "each comes to its turn"


def test_the_ground_is_path_sets_class_of_machine_and_library() -> None:
    base = ground_of({"engine": "a", "codec": "b"}, hw_class="cpu", torch="2")
    assert base == ground_of({"codec": "b", "engine": "a"}, hw_class="cpu", torch="2")
    others = [
        ground_of({"engine": "a", "codec": "c"}, hw_class="cpu", torch="2"),
        ground_of({"engine": "a", "codec": "b"}, hw_class="gpu", torch="2"),
        ground_of({"engine": "a", "codec": "b"}, hw_class="cpu", torch="3"),
    ]
    assert base not in others


def test_the_newest_current_matrix_counts_and_only_that_of_the_engine(tmp_path: Path) -> None:
    assert newest_matrix(tmp_path, ENGINE, "tiny") is None
    with_preset = crossed().with_header(target=_of_preset("tiny"))
    issue(with_preset.data(), tmp_path)
    later = crossed(run=4, day=2).with_header(target=_of_preset("tiny")).without(_is_second)
    issue(later.with_header(procedure={"mutants": 1}).data(), tmp_path)

    found = newest_matrix(tmp_path, ENGINE, "tiny")

    assert found is not None
    assert list(found.rows) == ["K01.one"]
    assert newest_matrix(tmp_path, ENGINE, "small") is None
    assert newest_matrix(tmp_path, "other", "tiny") is None


def _of_preset(preset: str) -> Mapping[str, object]:
    identity = crossed().lines[0]["target"]["identity"]
    return {"identity": {**identity, "preset": preset}}


def _is_second(line: Mapping[str, object]) -> bool:
    of = {"mutant": "id", "pair": "mutant"}.get(str(line["type"]), "")
    return (bool(of) and line[of] == "K02.two") or (line["type"] == "sound" and line["scenario"] == "A02")


def test_the_files_of_every_mutant_here_can_be_told_and_hold_its_own_module() -> None:
    for name in registry.names(registry.MUTANTS):
        found = files_of_mutant(name)
        assert found is not None, name
        package, _, module = registry.find(name, registry.MUTANTS).module.rpartition(".")
        assert {f"{package}:{module}.py", f"{package}:__init__.py"} <= set(found.patterns)


def test_what_a_module_takes_from_beside_it_belongs_to_its_files() -> None:
    found = files_of_mutant("K08.namespace-cut")
    assert found is not None
    assert {f"harness.adapters.mutants:{name}.py" for name in ("k06", "tools", "base")} <= set(found.patterns)
    source = b"import a.b.c\nimport a.bx\nfrom a.b import d\nfrom a.b.e import F\nfrom . import g\nfrom .h import I\nfrom os import j\n"
    assert set(imported("a.b", source)) >= {"c", "d", "e", "g", "h"}
    assert not {"bx", "j", "os"} & set(imported("a.b", source))


def test_a_mutant_of_no_package_has_no_files_that_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent / "adapters")
    assert files_of_mutant("Z00.nothing-planted") is None
