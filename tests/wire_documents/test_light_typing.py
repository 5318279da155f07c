"""What a quick command has of ``typing`` behaves as the real one does."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

from harness.model import light_typing, typed

ROOT = Path(__file__).resolve().parents[2]


class Real(typing.NamedTuple):
    """Doc."""

    first: int
    second: str = "two"
    third: tuple[int, ...] = ()

    @property
    def double(self) -> int:
        return 2 * self.first


class Light(light_typing.NamedTuple):
    """Doc."""

    first: int
    second: str = "two"
    third: tuple[int, ...] = ()

    @property
    def double(self) -> int:
        return 2 * self.first  # type: ignore[no-any-return,operator,unused-ignore]


BOTH: Any = (Real, Light)
GOOD = [
    ((1,), {}),
    ((1, "b", (3,)), {}),
    ((), {"first": 1}),
    ((1,), {"third": (4,)}),
    ((), {"third": (4,), "first": 0, "second": ""}),
]
BAD = [((), {}), ((1, "b", (), 4), {}), ((1,), {"first": 2}), ((1,), {"fourth": 2}), ((), {"second": "b"})]


@pytest.mark.parametrize("round_", range(2 * light_typing._FEW))
@pytest.mark.parametrize(("values", "named"), GOOD)
def test_a_named_tuple_holds_what_the_real_one_holds(values: Any, named: Any, round_: int) -> None:
    assert round_ >= 0  # early objects are made by a loop, later ones by compiled code
    real, light = (kind(*values, **named) for kind in BOTH)
    assert tuple(light) == tuple(real)
    assert light == real
    assert hash(light) == hash(real)
    assert (light.first, light.second, light.third, light.double) == (real.first, real.second, real.third, real.double)
    assert repr(light).replace("Light", "Real") == repr(real)
    assert light._asdict() == real._asdict()
    assert light._replace(second="x") == real._replace(second="x")
    assert type(light._replace(second="x")) is Light
    assert BOTH[1]._make(real) == real
    for again in (pickle.loads(pickle.dumps(light)), copy.deepcopy(light)):
        assert type(again) is Light
        assert again == real


@pytest.mark.parametrize(("values", "named"), BAD)
def test_wrong_arguments_are_refused_alike(values: Any, named: Any) -> None:
    said = []
    for kind in BOTH:
        with pytest.raises(TypeError) as refused:
            kind(*values, **named)
        said.append(str(refused.value).replace("Light", "Real"))
    assert said[0].partition(".")[2] == said[1].partition(".")[2] or said[0].split()[-1] == said[1].split()[-1]


def test_a_class_of_named_tuples_has_what_the_real_one_has() -> None:
    for name in ("_fields", "_field_defaults", "__match_args__", "__doc__", "__slots__"):
        assert getattr(Light, name) == getattr(Real, name), name
    assert Light.__annotations__.keys() == Real.__annotations__.keys()
    light: Any = Light(1)  # type: ignore[call-arg,unused-ignore]
    with pytest.raises(AttributeError):
        light.first = 2
    with pytest.raises(AttributeError):
        light.other = 2
    with pytest.raises(TypeError):
        light._make([1])
    with pytest.raises(ValueError, match="other"):
        light._replace(other=1)
    named: Any = type(light_typing.NamedTuple)
    with pytest.raises(TypeError, match="default"):
        named("Wrong", (light_typing.NamedTuple,), {"__annotations__": {"a": "int", "b": "int"}, "a": 1})


def test_every_word_is_there_both_ways() -> None:
    for name in set(typed.__all__) - {"TYPE_CHECKING"}:
        assert getattr(typed, name) is getattr(typing, name)
        assert name in light_typing.__all__


def test_a_word_can_be_used_where_a_program_uses_it() -> None:
    words: Any = light_typing
    assert words.Literal["a", "b"] is words.Literal
    assert words.NewType("Name", str)("x") == "x"
    assert repr(words.TypeVar("T", bound=int)) == "T"
    assert list[words.Any] is not None
    with pytest.raises(AssertionError, match="unreachable"):
        words.assert_never(1)


def test_a_process_without_typing_gets_the_light_ones() -> None:
    code = "import sys; from harness.gating.rule import Problem; print('typing' in sys.modules, Problem('a', 'b'))"
    command = [sys.executable, "-S", "-c", code]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said == "False Problem(at='a', message='b', severity='', hint='')\n"
