"""Every mutant is registered, says what is wrong, and names one check that exists; scenarios name mutants that exist."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import entry_points

import pytest

import harness.adapters.mutants as package
from harness.adapters.mutants.base import Foreign, Mutant
from harness.commands.mutants import kind_table
from harness.engines import registry
from harness.errors import NothingToDoError
from harness.model.scenario import CheckKind, Scenario
from harness.mutation.expecting import Expected, cell_of, chosen
from harness.pipeline import available_scenarios

ID = re.compile(r"K(0[1-9]|1[0-5])\.[a-z][a-z0-9-]+")


AnyMutant = type[Mutant] | type[Foreign]


def all_mutants() -> list[AnyMutant]:
    found: list[AnyMutant] = []
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        classes = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]
        found += [one for one in classes if issubclass(one, Mutant | Foreign) and one.__dict__.get("mutant_id")]
    return found


MUTANTS = all_mutants()


@pytest.fixture(scope="module")
def scenarios() -> Mapping[str, Scenario]:
    return available_scenarios()


def expected(mutant: AnyMutant) -> Expected:
    stop = mutant.stopped_by
    return Expected(
        id=mutant.mutant_id,
        fault=mutant.fault(),
        scenario=stop.scenario,
        cell={axis: str(label) for axis, label in stop.cell.items()},
        check=stop.check,
        part=stop.part,
        phase=stop.phase,
        reason=stop.reason,
    )


def test_there_are_enough_of_every_kind() -> None:
    kinds = Counter(mutant.mutant_id.partition(".")[0] for mutant in MUTANTS)
    assert len(MUTANTS) >= 100
    assert {f"K0{kind}" for kind in range(1, 10)} | {"K10", "K11", "K13", "K14", "K15"} <= set(kinds)
    assert min(kinds.values()) >= 3


def test_ids_are_unique_and_lie_in_the_module_of_their_kind_or_of_a_subject() -> None:
    ids = [mutant.mutant_id for mutant in MUTANTS]
    assert len(set(ids)) == len(ids)
    for mutant in MUTANTS:
        assert ID.fullmatch(mutant.mutant_id), mutant.mutant_id
        module = importlib.import_module(mutant.__module__)
        kind = mutant.mutant_id.partition(".")[0].lower()
        of_its_kind = kind in module.__name__.rpartition(".")[2].split("_")  # k04, k04_counting, chat_k02
        assert of_its_kind or "of several kinds" in (module.__doc__ or ""), mutant.mutant_id


def test_each_is_registered_under_its_id_and_nothing_else_is() -> None:
    points = {
        point.name: point.value.partition(" ")[0]
        for point in entry_points(group=registry.MUTANTS)
        if point.dist is not None
    }
    assert points == {one.mutant_id: f"{one.__module__}:{one.__qualname__}" for one in MUTANTS}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.mutant_id)
def test_each_says_its_fault_in_a_line_and_plants_it(mutant: AnyMutant) -> None:
    assert mutant.fault().endswith(".")
    assert 20 < len(mutant.fault()) < 130
    carriers = (
        "engine",
        "store",
        "session",
        "buffers",
        "snapshotter",
        "speculator",
        "imager",
        "adapter_session",
        "disk_class",
        "archiver_class",
    )
    foreign = issubclass(mutant, Foreign)  # its engine class is made by its adapter
    assert foreign or any(getattr(mutant, name) is not getattr(Mutant, name) for name in carriers)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.mutant_id)
def test_each_names_one_check_of_one_cell(mutant: AnyMutant, scenarios: Mapping[str, Scenario]) -> None:
    plan = cell_of(expected(mutant), scenarios)
    cell = next(one for one in plan.cells if one.id == plan.selected[0])
    check = next(one for one in cell.checks if one.id == mutant.stopped_by.check)
    assert check.kind is not CheckKind.SEEN, "a control stops nothing"
    if check.kind in (CheckKind.EXACT, CheckKind.UNCHANGED):
        assert mutant.stopped_by.part or mutant.stopped_by.reason


def test_scenarios_name_mutants_that_exist(scenarios: Mapping[str, Scenario]) -> None:
    ids = {mutant.mutant_id for mutant in MUTANTS}
    for scenario in scenarios.values():
        assert set(scenario.faults) <= ids, scenario.id
        # a mutant of the others needs several devices
        assert scenario.faults or "devices" in scenario.procedure, scenario.id


def test_those_that_need_real_weights_are_of_the_preset_that_has_them() -> None:
    real = set(chosen([], "smollm2"))

    assert real == {one.mutant_id for one in MUTANTS if one.stopped_by.scenario.startswith("Q")}
    assert real.isdisjoint(chosen([]))
    assert set(chosen([])) == set(chosen([], "small"))
    with pytest.raises(NothingToDoError, match="--preset smollm2"):
        chosen(["K02.needle-lost"])


def test_those_of_another_engine_are_of_the_target_of_its_name() -> None:
    of_servers = chosen([], "tiny", "server")

    assert set(of_servers) == {one.mutant_id for one in MUTANTS if one.__module__.endswith(".servers")}
    assert set(of_servers).isdisjoint(chosen([]))
    with pytest.raises(NothingToDoError, match="--target server"):
        chosen(["K08.server-stale"])


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.mutant_id)
def test_each_is_listed_by_the_scenario_that_stops_it(mutant: AnyMutant, scenarios: Mapping[str, Scenario]) -> None:
    assert mutant.mutant_id in scenarios[mutant.stopped_by.scenario].faults


def test_every_kind_has_mutants_and_scenarios_that_stop_them(scenarios: Mapping[str, Scenario]) -> None:
    counts = kind_table([mutant.mutant_id for mutant in MUTANTS], scenarios, whole=True)
    rows = {str(row["kind"]): row for row in counts.rows}

    assert [f"K{number:02}" for number in range(1, 16)] == sorted(set(rows) - {"all"})
    assert all(int(row["mutants"]) >= 4 and int(row["scenarios"]) >= 2 for row in rows.values()), rows
    assert int(rows["all"]["mutants"]) >= 90


def test_what_needs_two_devices_asks_what_a_scenario_with_mutants_asks(scenarios: Mapping[str, Scenario]) -> None:
    """A18 is run on no machine with one device; what shows that its checks can fail is that they are those of A26."""
    there, here = (dict(scenarios[name].procedure) for name in ("A18", "A26"))

    assert there.pop("devices") == 2
    assert json.loads(json.dumps(there).replace('"placement": "other"', '"placement": "beside"')) == here
    assert len(scenarios["A26"].faults) >= 3
