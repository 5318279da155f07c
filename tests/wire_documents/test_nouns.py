"""Nouns behave as the data classes that they stand for."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import typing
from collections.abc import Iterator, Sequence
from types import ModuleType

import pytest

from harness.model import certificate, decision, evidence, scenario, target
from harness.model.evidence import PartTable, Point, StepRecord
from harness.model.noun import NO_DEFAULT, dataclass, defaults, field, replace
from harness.model.scenario import PointRef, PromptSegment, PromptSpec
from harness.model.values import CellId, Phase, Sha256
from harness.wire import records

MODULES = (certificate, decision, evidence, scenario, target)


def nouns(modules: Sequence[ModuleType] = MODULES) -> Iterator[type]:
    for module in modules:
        for _, found in inspect.getmembers(module, inspect.isclass):
            if found.__module__ == module.__name__ and dataclasses.is_dataclass(found):
                yield found


def the_real_one(noun: type) -> type:
    """The same class, made by the standard library."""
    space = {"__annotations__": noun.__annotations__, "__module__": noun.__module__}
    for name in noun.__annotations__:
        default = vars(noun)["__noun_defaults__"].get(name, NO_DEFAULT)
        if default is not NO_DEFAULT:
            space[name] = default.real() if hasattr(default, "real") and not isinstance(default, int) else default
    return dataclasses.dataclass(frozen=True, kw_only=True, slots=True)(type(noun.__name__, (), space))


@pytest.mark.parametrize("noun", list(nouns()), ids=lambda noun: noun.__name__)
def test_a_noun_prints_compares_hashes_and_is_made_like_the_real_one(noun: type) -> None:
    real = the_real_one(noun)
    needed = {name: f"{name}!" for name, default in defaults(noun) if default is NO_DEFAULT}
    ours, theirs = noun(**needed), real(**needed)

    assert repr(ours).partition("(")[2] == repr(theirs).partition("(")[2]
    assert ours == noun(**needed)
    assert ours != theirs
    assert [field.name for field in dataclasses.fields(ours)] == [field.name for field in dataclasses.fields(theirs)]
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert pickle.loads(pickle.dumps(ours)) == copy.deepcopy(ours) == dataclasses.replace(ours) == replace(ours) == ours
    assert vars(noun)["__slots__"] == tuple(noun.__annotations__)
    assert not hasattr(ours, "__dict__")
    for name in needed:
        with pytest.raises(TypeError, match=f"missing 1 required keyword-only argument: '{name}'"):
            noun(**{key: value for key, value in needed.items() if key != name})


def test_nothing_can_be_set_or_deleted_and_nothing_be_given_by_place() -> None:
    ref = PointRef(arm="a", label="b")

    with pytest.raises(dataclasses.FrozenInstanceError, match="arm"):
        ref.arm = "c"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="arm"):
        del ref.arm
    with pytest.raises(TypeError, match="positional"):
        PointRef("a", "b")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        PointRef(arm="a", label="b", other="c")  # type: ignore[call-arg]


def test_hashes_follow_values_and_an_own_method_stays() -> None:
    assert {PointRef(arm="a", label="b"): 1}[PointRef(arm="a", label="b")] == 1
    assert str(PointRef(arm="a", label="b")) == "a.b"
    with pytest.raises(TypeError, match="unhashable"):
        hash(StepRecord(cell=CellId("c"), arm="a", rep=0, label="l", kind="k", ended="done"))


def test_a_noun_of_one_field_compares_too() -> None:
    one = PromptSpec(segments=(PromptSegment(tokens=3),))

    assert one == PromptSpec(segments=(PromptSegment(tokens=3),)) != PromptSpec(segments=())
    assert one.length == 3


def test_a_factory_makes_a_value_for_each() -> None:
    first, second = (StepRecord(cell=CellId("c"), arm="a", rep=0, label="l", kind="k", ended="done") for _ in range(2))

    assert first.detail == {}
    assert first.detail is not second.detail


def test_only_the_one_kind_is_made() -> None:
    with pytest.raises(TypeError, match="frozen"):
        dataclass(frozen=False, kw_only=True, slots=True)

    class Base:
        pass

    with pytest.raises(TypeError, match="base class"):

        @dataclass(frozen=True, kw_only=True, slots=True)
        class Derived(Base):
            name: str = field(default="")


def test_records_read_closed_vocabularies_by_the_types_that_annotations_name() -> None:
    for noun in records.TYPES.values():
        hints = typing.get_type_hints(noun)
        for name, reader in records._field_readers(noun).items():
            wanted = hints[name] if hints[name] in records._VOCABULARIES.values() else None
            assert (reader if reader in records._VOCABULARIES.values() else None) is wanted, (noun, name)


def test_matching_by_class_needs_no_fields() -> None:
    point: object = Point(
        cell=CellId("c"), arm="a", rep=0, label="l", phase=Phase.END, position=1, root=Sha256("0" * 64)
    )
    match point:
        case PartTable():
            pytest.fail("a point is no table")
        case Point(position=1):
            pass
        case _:
            pytest.fail("not matched")
