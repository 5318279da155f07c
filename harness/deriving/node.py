"""A value inside a scenario together with its path, so that every error can say where it lies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NoReturn, TypeVar

from harness.errors import InvalidScenarioError
from harness.model.noun import dataclass
from harness.model.scenario import Scalar

_Choice = TypeVar("_Choice", bound=StrEnum)


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One value of a scenario file."""

    value: object
    where: str
    """File or scenario, then ``#`` and the path inside."""

    def fail(self, message: str) -> NoReturn:
        """Raise the named error at this place.

        Raises:
            InvalidScenarioError: Always.
        """
        raise InvalidScenarioError(message, where=self.where)

    def __contains__(self, key: str) -> bool:
        return isinstance(self.value, Mapping) and key in self.value

    def child(self, key: str) -> Node:
        """Return the value of a key; a missing one is an error."""
        if not isinstance(self.value, Mapping) or key not in self.value:
            self.fail(f"found no {key!r}; it is required")
        return Node(value=self.value[key], where=f"{self.where}/{key}")

    def items(self) -> Iterator[tuple[str, Node]]:
        """Return keys and values of a mapping."""
        if not isinstance(self.value, Mapping):
            self.fail("found no mapping; allowed is one")
        for key, value in self.value.items():
            yield str(key), Node(value=value, where=f"{self.where}/{key}")

    def elements(self) -> Iterator[Node]:
        """Return the elements of a list."""
        if not isinstance(self.value, (list, tuple)):
            self.fail("found no list; allowed is one")
        for index, value in enumerate(self.value):
            yield Node(value=value, where=f"{self.where}/{index}")

    def text(self) -> str:
        """Return a text."""
        if not isinstance(self.value, str):
            self.fail(f"found {self.value!r}; allowed is text")
        return self.value

    def integer(self) -> int:
        """Return an integer."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.fail(f"found {self.value!r}; allowed is an integer")
        return self.value

    def flag(self) -> bool:
        """Return a boolean."""
        if not isinstance(self.value, bool):
            self.fail(f"found {self.value!r}; allowed are true and false")
        return self.value

    def scalar(self) -> Scalar:
        """Return a text, an integer or a boolean."""
        if not isinstance(self.value, (str, int, bool)):
            self.fail(f"found {type(self.value).__name__}; allowed are text, an integer, true and false")
        return self.value

    def choice(self, choices: type[_Choice]) -> _Choice:
        """Return a member of a closed vocabulary."""
        text = self.text()
        if text not in {str(member) for member in choices}:
            self.fail(f"found {text!r}; allowed are {', '.join(choices)}")
        return choices(text)

    def optional_text(self, key: str, default: str) -> str:
        """Return the text of a key, or the default."""
        return self.child(key).text() if key in self else default

    def optional_integer(self, key: str, default: int) -> int:
        """Return the integer of a key, or the default."""
        return self.child(key).integer() if key in self else default

    def optional_flag(self, key: str) -> bool:
        """Return the boolean of a key, or false."""
        return self.child(key).flag() if key in self else False
