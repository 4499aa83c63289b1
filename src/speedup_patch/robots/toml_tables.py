"""Reads values out of a TOML table, with errors that name the file, the key and what would be right."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

from speedup_patch.errors import InputError
from speedup_patch.robots.suggestions import nearest

LARGEST = 1e12
"""No angle, length, limit or frequency is larger."""


class Table:
    """One table: ``place`` says where it stands, ``allowed`` which keys it may have."""

    def __init__(self, values: object, place: str, allowed: Sequence[str]) -> None:
        self.place = place
        if not isinstance(values, Mapping):
            raise InputError(f"{place} must be a table with the keys {', '.join(allowed)}, not {kind(values)}")
        self._values = cast(Mapping[str, object], values)
        for key in self._values:
            if key not in allowed:
                raise InputError(f"{place}: unknown key {key!r}{nearest(key, allowed)}")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def at(self, key: str) -> str:
        """The place of one key, for messages."""
        return f"{self.place}: {key}"

    def value(self, key: str, right: str) -> object:
        """What the key holds; ``right`` says what it should hold when it is missing."""
        if key not in self._values:
            raise InputError(f"{self.place}: {key!r} is missing; {right} would be right")
        return self._values[key]

    def text(self, key: str, right: str = "a text") -> str:
        """A text that is not empty."""
        value = self.value(key, right)
        if not isinstance(value, str) or not value:
            raise InputError(f"{self.at(key)} must be {right}, not {kind(value)}")
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """One of the words in ``choices``."""
        value = self.text(key, f"one of {', '.join(choices)}")
        if value not in choices:
            raise InputError(f"{self.at(key)}: unknown {value!r}{nearest(value, choices)}")
        return value

    def number(self, key: str) -> float:
        """A finite number."""
        return as_number(self.value(key, "a number"), self.at(key))

    def whole_number(self, key: str) -> int:
        """A whole number."""
        value = self.value(key, "a whole number")
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST:
            raise InputError(f"{self.at(key)} must be a whole number, not {kind(value)}")
        return value

    def flag(self, key: str) -> bool:
        """True or false; false when the key is missing."""
        value = self._values.get(key, False)
        if not isinstance(value, bool):
            raise InputError(f"{self.at(key)} must be true or false, not {kind(value)}")
        return value

    def items(self, key: str, right: str, empty: bool = False) -> list[object]:
        """An array, which may be empty if ``empty``; one value alone counts as an array of one."""
        value = self.value(key, right)
        items = cast(list[object], value) if isinstance(value, list) else [value]
        if not items and not empty:
            raise InputError(f"{self.at(key)} is empty; {right} would be right")
        return items

    def names(self, key: str) -> tuple[str, ...]:
        """Texts, one at least."""
        items = self.items(key, 'an array of names, such as ["joint1", "joint2"],')
        for item in items:
            if not isinstance(item, str) or not item:
                raise InputError(f"{self.at(key)} must hold names, not {kind(item)}")
        return tuple(str(item) for item in items)

    def numbers(self, key: str, count: int) -> tuple[float, ...]:
        """``count`` numbers; a single one stands for all of them."""
        items = [as_number(item, self.at(key)) for item in self.items(key, f"a number, or an array of {count},")]
        if len(items) not in (1, count):
            raise InputError(f"{self.at(key)} holds {len(items)} numbers; 1 or {count} would be right")
        return tuple(items * count if len(items) == 1 else items)


def as_number(value: object, place: str) -> float:
    """The value as a float, if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -LARGEST <= value <= LARGEST:
        raise InputError(f"{place} must be a finite number, not {kind(value)}")
    return float(value)


def dimensions(table: Table, key: str, names: tuple[str, ...], what: str, empty: bool = False) -> tuple[int, ...]:
    """Dimensions given by name or by number, counted from 0; none of them only if ``empty``."""
    items = table.items(key, f"an array of {what} dimensions, by name or number,", empty)
    return tuple(dimension(item, table.at(key), names, what) for item in items)


def dimension(item: object, place: str, names: tuple[str, ...], what: str) -> int:
    """One dimension, given by its name in ``names`` or by its number."""
    if isinstance(item, str):
        if item not in names:
            raise InputError(f"{place}: the {what} has no dimension {item!r}{nearest(item, names)}")
        return names.index(item)
    if isinstance(item, bool) or not isinstance(item, int):
        raise InputError(f"{place} must hold names or numbers of {what} dimensions, not {kind(item)}")
    if not 0 <= item < len(names):
        raise InputError(f"{place}: the {what} has no dimension {kind(item)}; 0..{len(names) - 1} would be right")
    return item


def kind(value: object) -> str:
    """What a value is, for messages."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return "an array"
    return repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:40]}..."


@contextmanager
def named(place: str) -> Generator[None]:
    """Puts ``place`` in front of what goes wrong inside."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
