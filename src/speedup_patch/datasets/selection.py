"""What a user wants of a data set: which columns are the state and the action, which episodes, which tasks."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from math import isfinite

from speedup_patch.datasets.source import Column, Source
from speedup_patch.errors import InputError

MANY = 12
"""So many names are listed in an error message, the nearest first."""
RANGE = r"(?P<only>[0-9]{1,18})|(?P<start>[0-9]{0,18}):(?P<stop>[0-9]{0,18})"
PLACES = re.compile(rf"(?P<column>.+)\[(?:{RANGE})\]")
EPISODES = re.compile(RANGE)


@dataclass(frozen=True)
class Part:
    """Neighbouring dimensions of one column."""

    column: str
    start: int
    stop: int
    whole: bool
    """Whether these are all dimensions of the column."""


@dataclass(frozen=True)
class Chosen:
    """The columns that one data set is read with."""

    state: tuple[Part, ...]
    action: tuple[Part, ...]
    extras: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that has to be read, once."""
        return tuple(dict.fromkeys([*(part.column for part in (*self.state, *self.action)), *self.extras]))


@dataclass(frozen=True)
class Selection:
    """Everything is taken unless it is said otherwise."""

    state: tuple[str, ...] = ()
    """Columns put side by side, each with an optional slice, such as ``observation.state[0:7]``."""
    action: tuple[str, ...] = ()
    episodes: str = ""
    """Episode numbers and ranges, such as ``0:50,60,70:``; a range leaves its end out."""
    tasks: tuple[str, ...] = ()
    """Texts of tasks, or patterns such as ``pick*``."""
    control_hz: float | None = None
    """Control steps per second, for data sets that do not say."""
    skip_bad: bool = False
    """Leave out episodes that cannot be read, instead of stopping at the first."""

    def __post_init__(self) -> None:
        if self.control_hz is not None and not (isfinite(self.control_hz) and self.control_hz > 0):
            raise InputError(f"--hz must be a positive number of control steps per second, not {self.control_hz}")
        self._ranges()

    def choose_columns(self, source: Source) -> Chosen:
        """The columns of this data set that the user named, or those that its format suggests."""
        state = _parts(self.state or source.defaults.state, "state", source)
        action = _parts(self.action or source.defaults.action, "action", source)
        taken = {part.column for part in (*state, *action) if part.whole}
        return Chosen(state, action, tuple(name for name in source.defaults.extras if name not in taken))

    def choose_episodes(self, source: Source) -> list[int]:
        """The numbers of the episodes to read; those whose task only the rows tell are among them."""
        entries = source.entries()
        numbers = {entry.number for entry in entries}
        if not numbers:
            raise InputError(f"{source.path} holds no episodes; record some before reading the data set")
        chosen: set[int] = set()
        for start, stop in self._ranges():
            found = {number for number in numbers if start <= number and (stop is None or number < stop)}
            if not found:
                asked = str(start) if stop == start + 1 else f"{start}:{'' if stop is None else stop}"
                raise InputError(f"{source.path} has no episode {asked}; its episodes are {_as_ranges(numbers)}")
            chosen |= found
        ranged = [entry for entry in entries if not self.episodes or entry.number in chosen]
        found = [entry.number for entry in ranged if entry.task is None or self.wants_task(entry.task)]
        if not found:
            raise self.unknown_task(source, [entry.task for entry in ranged if entry.task is not None])
        return found

    def wants_task(self, task: str) -> bool:
        """Whether an episode of this task is wanted."""
        return not self.tasks or any(task == wanted or fnmatchcase(task, wanted) for wanted in self.tasks)

    def unknown_task(self, source: Source, tasks: Iterable[str]) -> InputError:
        """The error for a data set in which no episode has a wanted task."""
        wanted = " or ".join(repr(task) for task in self.tasks)
        return InputError(
            f"{source.path} has no episode of task {wanted}; its tasks are {nearest(self.tasks[0], set(tasks))}"
        )

    def _ranges(self) -> list[tuple[int, int | None]]:
        """(first, the one after the last) of every range; None where it is open."""
        ranges: list[tuple[int, int | None]] = []
        for text in self.episodes.split(",") if self.episodes else []:
            found = EPISODES.fullmatch(text.strip())
            if not found:
                raise InputError(f"--episodes {self.episodes!r} is not a list of numbers and ranges like 0:50,60,70:")
            start = int(found["only"] or found["start"] or 0)
            stop = start + 1 if found["only"] else int(found["stop"]) if found["stop"] else None
            if stop is not None and stop <= start:
                raise InputError(f"--episodes {text.strip()} is an empty range; {start}:{start + 10} would be ten")
            ranges.append((start, stop))
        return ranges


def nearest(wanted: str, names: Iterable[str]) -> str:
    """The names there are, the one most like ``wanted`` first."""
    likeness = {name: SequenceMatcher(None, wanted.lower(), name.lower()).ratio() for name in names}
    ordered = sorted(likeness, key=lambda name: (-likeness[name], name))
    more = f" and {len(ordered) - MANY} more" if len(ordered) > MANY else ""
    return ", ".join(repr(name) for name in ordered[:MANY]) + more or "not named"


def names_of(parts: Sequence[Part], source: Source) -> tuple[str, ...]:
    """One name per dimension; empty when none of the columns names its dimensions."""
    columns = [source.columns[part.column] for part in parts]
    if not any(column.names for column in columns):
        return ()
    names: list[str] = []
    for part, column in zip(parts, columns, strict=True):
        own = column.names or tuple(f"{part.column}[{i}]" for i in range(column.width))
        names += own[part.start : part.stop]
    return tuple(names)


def _parts(names: Sequence[str], kind: str, source: Source) -> tuple[Part, ...]:
    if names:
        return tuple(_part(name, kind, source) for name in names)
    if not source.columns:
        raise InputError(
            f"{source.path} has no column of numbers, only pictures or texts; a patch learns from the robot's {kind}, "
            f"so record it with the pictures"
        )
    listed = ", ".join(f"{name!r} ({column.width})" for name, column in list(source.columns.items())[:MANY])
    raise InputError(
        f"{source.path} has no column that is clearly the {kind}; name it with --{kind}: "
        f"its columns of numbers are {listed}"
    )


def _part(name: str, kind: str, source: Source) -> Part:
    if name in source.columns:
        return Part(name, 0, source.columns[name].width, whole=True)
    found = PLACES.fullmatch(name)
    column = found["column"] if found else name
    if found is None or column not in source.columns:
        there = nearest(column, source.columns)
        raise InputError(f"{source.path} has no column {column!r} for the {kind}; it has {there}")
    return _slice(found, source.columns[column], name, source)


def _slice(found: re.Match[str], column: Column, name: str, source: Source) -> Part:
    start = int(found["only"] or found["start"] or 0)
    stop = start + 1 if found["only"] else int(found["stop"]) if found["stop"] else column.width
    if not start < stop <= column.width:
        raise InputError(
            f"{source.path}: {name} is not a part of {found['column']!r}, which has {column.width} dimensions; "
            f"[0:{column.width}] is all of it"
        )
    return Part(found["column"], start, stop, whole=(start, stop) == (0, column.width))


def _as_ranges(numbers: Iterable[int]) -> str:
    """Numbers in the way ``--episodes`` takes them."""
    texts: list[str] = []
    ordered = sorted(numbers)
    first = 0
    for i in range(1, len(ordered) + 1):
        if i == len(ordered) or ordered[i] != ordered[i - 1] + 1:
            texts.append(f"{ordered[first]}:{ordered[i - 1] + 1}" if i - first > 1 else f"{ordered[first]}")
            first = i
    return ",".join(texts[:MANY]) + (",..." if len(texts) > MANY else "")
