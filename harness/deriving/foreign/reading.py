"""Typed members of a published record, by dotted paths, and an error that names the path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from harness.errors import InvalidDocumentError

NS_PER_MS: Final = 1_000_000
MAX_WHOLE: Final = 2**53 - 1


class Members:
    """A published object and where it stands. A member that is null counts as absent."""

    def __init__(self, value: Mapping[str, object], at: str = "record") -> None:
        self.value = value
        self.at = at

    def has(self, *names: str) -> bool:
        """Tell whether all these members are there."""
        return all(self.value.get(name) is not None for name in names)

    def inner(self, name: str) -> Members:
        """Return an object inside; empty where it is absent."""
        found = self.value.get(name)
        if found is None:
            return Members({}, f"{self.at}.{name}")
        if not isinstance(found, Mapping):
            raise self._wrong(name, "an object")
        return Members(found, f"{self.at}.{name}")

    def list(self, name: str) -> Sequence[Members]:
        """Return a list of objects; empty where it is absent."""
        found = self.value.get(name) or []
        if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
            raise self._wrong(name, "a list of objects")
        return [Members(one, f"{self.at}.{name}.{index}") for index, one in enumerate(found)]

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings; empty where it is absent."""
        found = self.value.get(name) or []
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise self._wrong(name, "a list of strings")
        return tuple(found)

    def text(self, name: str, default: str = "") -> str:
        """Return a string."""
        found = self.value.get(name)
        if found is None:
            return default
        if not isinstance(found, str):
            raise self._wrong(name, "a string")
        return found

    def flag(self, name: str) -> bool | None:
        """Return a boolean; None where it is absent."""
        found = self.value.get(name)
        if found is not None and not isinstance(found, bool):
            raise self._wrong(name, "a boolean")
        return found

    def number(self, name: str) -> Decimal | None:
        """Return a number, exact; None where it is absent."""
        found = self.value.get(name)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, (int, Decimal)):
            raise self._wrong(name, "a number")
        return Decimal(found)

    def measure(self, name: str) -> Decimal | None:
        """Return a number of at least 0, exact; None where it is absent."""
        found = self.number(name)
        if found is not None and found < 0:
            raise self._wrong(name, "a number of at least 0")
        return found

    def whole(self, name: str) -> int | None:
        """Return an integer of at least 0; None where it is absent."""
        found = self.number(name)
        if found is None:
            return None
        if found != int(found) or not 0 <= found <= MAX_WHOLE:
            raise self._wrong(name, "an integer of at least 0")
        return int(found)

    def required(self, name: str) -> int:
        """Return an integer of at least 0 that must be there."""
        found = self.whole(name)
        if found is None:
            raise InvalidDocumentError("is missing", where=f"{self.at}.{name}")
        return found

    def ns(self, name: str) -> int | None:
        """Return milliseconds as nanoseconds, rounded to the nearest; None where they are absent."""
        found = self.number(name)
        if found is None:
            return None
        scaled = found * NS_PER_MS
        if not 0 <= scaled <= MAX_WHOLE:
            raise self._wrong(name, "milliseconds of at least 0")
        return int(scaled.to_integral_value())

    def _wrong(self, name: str, wanted: str) -> InvalidDocumentError:
        shown = str(self.value.get(name))[:60]
        return InvalidDocumentError(f"found {shown!r}; expected {wanted}", where=f"{self.at}.{name}")
