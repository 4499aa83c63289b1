"""What every reader offers: a data set on disk, its columns, and its episodes one at a time.

A reader knows one format and nothing else. It says what the data set holds without reading its rows, then reads the
episodes and columns it is asked for, one episode in memory at a time where the format allows. An episode that cannot be
read is a value, not an exception, so that the caller decides whether to stop or to leave it out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Column:
    """A column of numbers: how many a row has, and what they are called (empty when the data set does not say)."""

    width: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ColumnChoice:
    """Columns by name; several are put side by side in this order."""

    state: tuple[str, ...]
    action: tuple[str, ...]
    extras: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """One episode as the data set lists it, before its rows are read; None where only the rows would tell."""

    number: int
    length: int | None = None
    task: str | None = None


@dataclass(frozen=True, eq=False)
class RawEpisode:
    """One episode's columns as they are stored, as (rows, dimensions); their lengths may still differ."""

    number: int
    columns: Mapping[str, Float[np.ndarray, "_ _"]]
    where: str
    """The file and the place in it, for error messages, such as ``demos.hdf5: data/demo_3``."""
    timestamps: Float[np.ndarray, " _"] | None = None
    """Seconds since the start of the episode; None when the data set has none."""
    task: str = ""


@dataclass(frozen=True)
class BadEpisode:
    """An episode that cannot be read: ``problem`` names file, episode and column, and what would be right."""

    number: int
    problem: str


@runtime_checkable
class Source(Protocol):
    """A data set that was opened."""

    @property
    def path(self) -> Path: ...

    @property
    def control_hz(self) -> float | None:
        """Control steps per second; None when the data set does not say."""
        ...

    @property
    def robot_name(self) -> str:
        """What the data set says its robot is; empty when it does not say."""
        ...

    @property
    def columns(self) -> Mapping[str, Column]:
        """Every column of numbers with one row per control step that can be read."""
        ...

    @property
    def defaults(self) -> ColumnChoice:
        """The columns that are read when the user names none; a part is empty where there is no good guess."""
        ...

    def entries(self) -> Sequence[Entry]:
        """Every episode, in the order of the data set."""
        ...

    def read(self, numbers: Sequence[int], columns: Sequence[str]) -> Iterator[RawEpisode | BadEpisode]:
        """These episodes, in this order, with these columns."""
        ...
