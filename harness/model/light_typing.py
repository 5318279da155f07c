"""What :mod:`harness.model.typed` has in a process without :mod:`typing`.

A word is an object that can be called and subscripted, and says nothing. :class:`NamedTuple` makes the same classes as
the real one, of functions that they share: a class costs a third of it (``tests/wire_documents/test_light_typing.py``).
"""

from __future__ import annotations

from _collections import _tuplegetter  # type: ignore[import-not-found] # the places of a named tuple, as it has them

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any as Anything

__all__ = ["Any", "Final", "Literal", "NamedTuple", "NewType", "NoReturn", "TypeVar", "assert_never", "overload"]


class _Word:
    """A word that says something to readers only."""

    __slots__ = ("__name__",)

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __repr__(self) -> str:
        return self.__name__

    def __getitem__(self, _inside: object) -> _Word:
        return self

    def __call__(self, name: str, *_bounds: object, **_more: object) -> _Word:
        return _Word(name)

    def __or__(self, _other: object) -> _Word:
        return self

    __ror__ = __or__


Any = _Word("Any")
Final = _Word("Final")
Literal = _Word("Literal")
NoReturn = _Word("NoReturn")
TypeVar = _Word("TypeVar")


class NewType:
    """A type that is another one when a program runs."""

    def __init__(self, name: str, plain: object) -> None:
        self.__name__ = self.__qualname__ = name
        self.__supertype__ = plain

    def __call__(self, value: object) -> object:
        """Return the value itself."""
        return value


def overload(function: object) -> object:
    """Return the function; the next one of its name takes its place."""
    return function


def assert_never(value: object) -> object:
    """Refuse a value that type checkers know cannot be there.

    Raises:
        AssertionError: Always.
    """
    raise AssertionError(f"Expected code to be unreachable, but got: {value!r}")


_FEW = 8
"""Objects that are made before it pays to compile."""
_made: Anything = tuple.__new__


class _Named(type):
    """Makes a class of named tuples of a class body with annotated fields."""

    def __new__(meta, name: str, bases: tuple[type, ...], space: dict[str, Anything]) -> Anything:
        """Return the class; :class:`NamedTuple` itself is none."""
        if not bases:
            return super().__new__(meta, name, bases, space)
        fields = tuple(space.get("__annotations__", ()))
        defaults = {field: space.pop(field) for field in fields if field in space}
        if fields[len(fields) - len(defaults) :] != tuple(defaults):
            raise TypeError(f"{name}: a field without a default cannot follow one that has a default")
        for place, field in enumerate(fields):
            space[field] = _tuplegetter(place, None)
        own = {
            "_fields": fields,
            "_field_defaults": defaults,
            "__match_args__": fields,
            "__slots__": (),
            "__new__": _first_new(fields, defaults),
        }
        return type(name, (tuple,), {**_SHARED, **space, **own})


def _first_new(fields: Sequence[str], defaults: Mapping[str, object]) -> Callable[..., object]:
    """Return a ``__new__`` for the first few objects: a loop, which then puts the compiled one in its place."""
    left = _FEW

    def new(cls: Anything, /, *values: object, **named: object) -> object:
        nonlocal left
        left -= 1
        if left and len(values) <= len(fields):
            given, rest = {**defaults, **named}, fields[len(values) :]
            if given.keys() >= {*rest} >= named.keys():
                return _made(cls, (*values, *[given[field] for field in rest]))
        real = _new(fields, defaults)
        next(one for one in cls.__mro__ if "_fields" in vars(one)).__new__ = real
        return real(cls, *values, **named)

    return new


def _new(fields: Sequence[str], defaults: Mapping[str, object]) -> Callable[..., object]:
    """Compile ``__new__``, which also words what is wrong with arguments."""
    names = "".join(f"{field}, " for field in fields)
    real: Anything = eval(f"lambda _cls, {names}: _made(_cls, ({names}))", {"_made": _made})  # noqa: S307 - names of fields
    real.__name__ = "__new__"
    real.__defaults__ = tuple(defaults.values()) or None
    return real  # type: ignore[no-any-return]


def _make(cls: Anything, values: Iterable[object]) -> object:
    made = _made(cls, values)
    if len(made) != len(cls._fields):
        raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
    return made


def _replace(self: Anything, /, **changes: object) -> object:
    made = self._make(map(changes.pop, self._fields, self))
    if changes:
        raise ValueError(f"Got unexpected field names: {list(changes)!r}")
    return made


def _asdict(self: Anything) -> dict[str, object]:
    return dict(zip(self._fields, self, strict=True))


def _arguments(self: Iterable[object]) -> tuple[object, ...]:
    return tuple(self)


def _shown(self: Anything) -> str:
    inside = ", ".join(f"{field}={value!r}" for field, value in self._asdict().items())
    return f"{type(self).__name__}({inside})"


_SHARED = {
    "__repr__": _shown,
    "__getnewargs__": _arguments,
    "_make": classmethod(_make),
    "_replace": _replace,
    "_asdict": _asdict,
}


class NamedTuple(metaclass=_Named):
    """A tuple whose places have names."""
