"""Data classes that cost little to make: for nouns, of which an import makes many and a run uses few.

:func:`dataclasses.dataclass` writes and compiles five methods for each class, whether anybody calls them or not; for
the nouns of this package that was half of what a quick gate took. Here comparing, hashing and printing are shared
functions, ``__init__`` is compiled when the first object is made, and ``__dataclass_fields__`` when somebody asks for
it, so that :func:`dataclasses.fields`, ``replace`` and ``asdict`` work as ever. Type checkers see the real decorator.

Only one kind is made: frozen, keyword-only, slotted, without a base class of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

__all__ = ["NO_DEFAULT", "dataclass", "defaults", "field", "replace"]

_Noun = TypeVar("_Noun")

_FEW: Final = 12
"""Objects that are made before it pays to compile."""


class _Nothing:
    """Stands where there is no default."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _Nothing()
"""Default of a field that has none."""


class _Field:
    """What :func:`field` was given."""

    __slots__ = ("default", "default_factory", "repr")

    def __init__(
        self,
        *,
        default: object = NO_DEFAULT,
        default_factory: Callable[[], object] | _Nothing = NO_DEFAULT,
        repr: bool = True,  # noqa: A002 - the name that the real one has
    ) -> None:
        self.default = default
        self.default_factory = default_factory
        self.repr = repr

    def real(self) -> Any:
        """Return the same for the standard library."""
        import dataclasses

        given = {"default": self.default, "default_factory": self.default_factory}
        named: Any = {name: value for name, value in given.items() if value is not NO_DEFAULT}
        return dataclasses.field(**named, repr=self.repr)


def replace(noun: _Noun, **changes: object) -> _Noun:
    """Return a noun like another one, but for some fields; :func:`dataclasses.replace` without its import."""
    kind: Any = type(noun)
    return kind(**{**dict(zip(kind.__slots__, kind.__noun_values__(noun), strict=True)), **changes})  # type: ignore[no-any-return]


def _noun(*, frozen: bool, kw_only: bool, slots: bool) -> Callable[[type], type]:
    """Return the decorator; the three words stand at each class, where a reader looks for them."""
    if not (frozen and kw_only and slots):
        raise TypeError("a noun is frozen, keyword-only and slotted; take dataclasses.dataclass for anything else")
    return _made


def _made(plain: type) -> type:
    """Return the class again, with slots and with the shared methods."""
    if plain.__bases__ != (object,):
        raise TypeError(f"{plain.__qualname__} has a base class; a noun has none")
    space = dict(vars(plain))
    names = tuple(space.get("__annotations__", ()))
    defaults = {name: space.pop(name) for name in names if name in space}
    for unwanted in ("__dict__", "__weakref__"):
        space.pop(unwanted, None)
    for name, method in _SHARED.items():
        space.setdefault(name, method)
    space["__slots__"] = names
    space["__match_args__"] = ()
    space["__noun_defaults__"] = defaults
    space["__noun_values__"] = staticmethod(_getter(names))
    space["__dataclass_fields__"] = _Fields()
    made = type(plain.__name__, (), space)
    made.__qualname__ = plain.__qualname__
    made.__init__ = _first_init(made)  # type: ignore[misc]
    return made


def _getter(names: tuple[str, ...]) -> Callable[[object], tuple[object, ...]]:
    if len(names) > 1:
        several: Callable[[object], tuple[object, ...]] = attrgetter(*names)
        return several
    return lambda noun: tuple(getattr(noun, name) for name in names)


def _first_init(made: type) -> Callable[..., None]:
    """Return an ``__init__`` for the first few objects: a loop, which then puts the compiled one in its place."""
    left = _FEW

    def init(self: object, /, *values: object, **named: object) -> None:
        nonlocal left
        left -= 1
        if left and not values and _filled(made, self, named):
            return
        real = _init(made)
        made.__init__ = real  # type: ignore[misc]
        real(self, *values, **named)

    return init


def _filled(made: type, noun: object, named: Mapping[str, object]) -> bool:
    """Set all slots; False where an argument is missing or unknown, which the compiled ``__init__`` words best."""
    known: Mapping[str, object] = made.__noun_defaults__  # type: ignore[attr-defined]
    used = 0
    for name in made.__slots__:  # type: ignore[attr-defined]
        if name in named:
            used += 1
            value = named[name]
        else:
            value = known.get(name, NO_DEFAULT)
            if isinstance(value, _Field):
                value = _default(value)
            if value is NO_DEFAULT:
                return False
        object.__setattr__(noun, name, value)
    return used == len(named)


def _default(of: _Field) -> object:
    make = of.default_factory
    return make() if callable(make) else of.default


def _init(made: type) -> Callable[..., None]:
    """Compile ``__init__``: each slot is set by its own descriptor, which no frozen class keeps from its maker."""
    space: dict[str, Any] = {"_none": NO_DEFAULT}
    arguments: list[str] = []
    lines: list[str] = []
    defaults: Mapping[str, object] = vars(made)["__noun_defaults__"]
    for name in vars(made)["__slots__"]:
        space[f"_set_{name}"] = vars(made)[name].__set__
        default = defaults.get(name, NO_DEFAULT)
        value = name
        if isinstance(default, _Field):
            if callable(default.default_factory):
                space[f"_make_{name}"] = default.default_factory
                default, value = NO_DEFAULT, f"_make_{name}() if {name} is _none else {name}"
                arguments.append(f"{name}=_none")
            else:
                default = default.default
        if default is not NO_DEFAULT:
            space[f"_default_{name}"] = default
            arguments.append(f"{name}=_default_{name}")
        elif value == name:
            arguments.append(name)
        lines.append(f"    _set_{name}(self, {value})\n")
    exec(f"def __init__(self, *, {', '.join(arguments)}):\n{''.join(lines)}", space)  # noqa: S102 - names of fields
    real: Callable[..., None] = space["__init__"]
    real.__qualname__ = f"{made.__qualname__}.__init__"
    return real


def defaults(noun: type) -> Iterator[tuple[str, object]]:
    """Return the names of the fields of a noun, each with its default; ``NO_DEFAULT`` where there is none."""
    known: Mapping[str, object] = vars(noun)["__noun_defaults__"]
    for name in vars(noun)["__slots__"]:
        default = known.get(name, NO_DEFAULT)
        yield name, _default(default) if isinstance(default, _Field) else default


class _Fields:
    """``__dataclass_fields__``, made when it is first asked for."""

    def __get__(self, noun: object, made: type) -> Mapping[str, object]:
        import dataclasses

        kept = {name: getattr(made, name) for name in ("__annotations__", "__module__")}
        known: Mapping[str, object] = vars(made)["__noun_defaults__"]
        defaults = {name: one.real() if isinstance(one, _Field) else one for name, one in known.items()}
        plain: Any = type(made.__name__, (), {**kept, **defaults})
        real = dataclasses.dataclass(frozen=True, kw_only=True)(plain)
        fields: Mapping[str, object] = vars(real)["__dataclass_fields__"]
        made.__dataclass_fields__ = fields  # type: ignore[attr-defined]
        return fields


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self.__noun_values__(self) == self.__noun_values__(other)


def _hash(self: Any) -> int:
    return hash(self.__noun_values__(self))


def _shown(self: Any) -> str:
    import dataclasses

    shown = (one.name for one in dataclasses.fields(self) if one.repr)
    inside = (f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{self.__class__.__qualname__}({', '.join(inside)})"


def _refuse_set(_self: object, name: str, _value: object) -> NoReturn:
    import dataclasses

    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(_self: object, name: str) -> NoReturn:
    import dataclasses

    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    return list(self.__noun_values__(self))


def _set_state(self: Any, state: list[object]) -> None:
    for name, value in zip(self.__slots__, state, strict=True):
        object.__setattr__(self, name, value)


_SHARED: Final[Mapping[str, object]] = {
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _shown,
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
    "__getstate__": _state,
    "__setstate__": _set_state,
}


if TYPE_CHECKING:
    from dataclasses import dataclass, field
else:
    dataclass = _noun
    field = _Field
