"""Nouns behave as the data classes that they stand for."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import typing
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest

from harness.model import certificate, decision, evidence, scenario, target
from harness.model.evidence import PartTable, Point, StepRecord
from harness.model.noun import NO_DEFAULT, NamedTuple, dataclass, defaults, field, replace
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


class Place(NamedTuple):
    """A tuple of ours."""

    row: int
    column: int = 7
    name: str = ""

    @property
    def sum(self) -> int:
        """Both numbers."""
        return self.row + self.column


class RealPlace(typing.NamedTuple):
    """The same by the standard library."""

    row: int
    column: int = 7
    name: str = ""


def both(*values: Any, **named: Any) -> Iterator[Any]:
    for kind in (Place, RealPlace):
        try:
            yield kind(*values, **named)
        except TypeError as error:
            yield str(error).partition(".")[2]


@pytest.mark.parametrize("times", [1, 30])
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((1,), {}),
        ((1, 2, "x"), {}),
        ((1,), {"name": "x"}),
        ((), {"row": 1, "column": 2, "name": "y"}),
        ((), {}),
        ((1, 2, "x", 4), {}),
        ((1,), {"row": 1}),
        ((1,), {"colour": 1}),
        ((), {"column": 1}),
    ],
)
def test_a_tuple_is_made_like_the_real_one_the_first_times_and_later(
    values: tuple[Any, ...], named: dict[str, Any], times: int
) -> None:
    for _ in range(times):
        ours, theirs = both(*values, **named)
        assert ours == theirs


def test_a_tuple_behaves_as_the_real_one() -> None:
    ours: Any = Place(1, name="x")
    theirs: Any = RealPlace(1, name="x")

    assert ours == theirs == (1, 7, "x")
    assert hash(ours) == hash(theirs)
    assert repr(ours) == repr(theirs).removeprefix("Real")
    assert ours._asdict() == theirs._asdict()
    assert ours._replace(column=2) == theirs._replace(column=2) == (1, 2, "x")
    assert tuple(Place._make([1, 2, "z"])) == tuple(RealPlace._make([1, 2, "z"]))
    assert Place._fields == RealPlace._fields
    assert Place._field_defaults == RealPlace._field_defaults
    assert (ours.row, ours.column, ours.name, ours.sum) == (1, 7, "x", 8)
    assert pickle.loads(pickle.dumps(ours)) == copy.deepcopy(ours) == copy.copy(ours) == ours
    assert type(copy.copy(ours)) is type(ours._replace(row=2)) is Place
    assert Place.__bases__ == RealPlace.__bases__
    assert Place.__doc__ == "A tuple of ours."
    assert not hasattr(ours, "__dict__")
    match ours:
        case Place(row, column, name):
            assert (row, column, name) == ours


def test_a_tuple_refuses_what_the_real_one_refuses() -> None:
    ours: Any = Place(1)
    with pytest.raises(AttributeError):
        ours.row = 2
    with pytest.raises(AttributeError):
        ours.colour = 2
    with pytest.raises(ValueError, match="colour"):
        ours._replace(colour=2)
    with pytest.raises(TypeError):
        Place._make([1])


def test_a_tuple_has_no_other_base_and_no_field_without_a_default_after_one_that_has_it() -> None:
    maker: Any = NamedTuple
    kind = type(maker)
    with pytest.raises(TypeError, match="without a default"):
        kind("Wrong", (maker,), {"__annotations__": {"a": int, "b": int}, "a": 1})
    with pytest.raises(TypeError, match="another base"):
        kind("Wrong", (maker, int), {"__annotations__": {"a": int}})
