"""The frames of a data set in one table; a very large data set is looked at in an even sample."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from speedup_patch.data import Demonstrations
from speedup_patch.inspect.report import Dimension
from speedup_patch.robots import Robot

MOST_FRAMES = 200_000
"""A larger data set is sampled, so that its size does not decide how much memory an inspection takes."""
FEWEST_EPISODES = 32
"""So many episodes are sampled at least; where they are too long together, each in three stretches."""


@dataclass(frozen=True, eq=False)
class Frames:
    """Frames one episode after the other, in float64."""

    states: Float[np.ndarray, "N S"]
    actions: Float[np.ndarray, "N A"]
    timestamps: Float[np.ndarray, " N"]
    episode: Int[np.ndarray, " N"]
    row: Int[np.ndarray, " N"]
    """Each frame's place in its episode."""
    lengths: Int[np.ndarray, " E"]
    """Frames of every episode of the data set, also of those that were not sampled."""

    def __len__(self) -> int:
        return len(self.row)

    @cached_property
    def joined(self) -> Bool[np.ndarray, " pairs"]:
        """Which pairs of neighbouring frames follow each other in one episode."""
        return (np.diff(self.episode) == 0) & (np.diff(self.row) == 1)

    @cached_property
    def stretches(self) -> tuple[tuple[int, slice], ...]:
        """(episode, frames without a gap): a whole episode where it was not cut for the sample."""
        ends = [*(np.flatnonzero(~self.joined) + 1).tolist(), len(self)]
        starts = [0, *ends[:-1]]
        return tuple((int(self.episode[start]), slice(start, end)) for start, end in zip(starts, ends, strict=True))

    @cached_property
    def sampled(self) -> int:
        """How many episodes these frames come from."""
        return len(np.unique(self.episode))

    def where(self, frame: int) -> str:
        return f"episode {self.episode[frame]}, row {self.row[frame]}"


@dataclass(frozen=True, eq=False)
class View:
    """What an inspection looks at: the data, the sampled frames, and what their dimensions are."""

    demonstrations: Demonstrations
    frames: Frames
    robot: Robot | None
    poses: Float[np.ndarray, "N arms 7"]
    """Where the end-effectors are; no arms without a robot."""
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]

    @property
    def control_hz(self) -> float:
        return float(self.demonstrations.control_hz)


def sample_frames(demonstrations: Demonstrations, most: int = MOST_FRAMES) -> Frames:
    """All frames, or about ``most`` of them from episodes spread evenly over the data set."""
    lengths = np.array([len(episode) for episode in demonstrations])
    pieces = list(_choose(lengths, most))
    parts = [(demonstrations.episodes[number], rows) for number, rows in pieces]
    sizes = [rows.stop - rows.start for _, rows in pieces]
    return Frames(
        states=np.concatenate([episode.states[rows] for episode, rows in parts], dtype=np.float64),
        actions=np.concatenate([episode.actions[rows] for episode, rows in parts], dtype=np.float64),
        timestamps=np.concatenate([episode.timestamps[rows] for episode, rows in parts], dtype=np.float64),
        episode=np.repeat([number for number, _ in pieces], sizes),
        row=np.concatenate([np.arange(rows.start, rows.stop) for _, rows in pieces]),
        lengths=lengths,
    )


def _choose(lengths: Int[np.ndarray, " E"], most: int) -> Iterator[tuple[int, slice]]:
    """(episode, rows) of every stretch to look at."""
    total = int(lengths.sum())
    if total <= most:
        yield from ((number, slice(0, int(length))) for number, length in enumerate(lengths))
        return
    episodes = min(len(lengths), max(FEWEST_EPISODES, len(lengths) * most // total))
    share = max(most // episodes, 3)
    for number in np.linspace(0, len(lengths) - 1, episodes).round().astype(int).tolist():
        length, third = int(lengths[number]), share // 3
        if length <= 2 * share:
            yield number, slice(0, length)
        else:
            for start in (0, (length - third) // 2, length - third):
                yield number, slice(start, start + third)


def measure_dimensions(tables: Sequence[Float[np.ndarray, "_ D"]], names: Sequence[str]) -> tuple[Dimension, ...]:
    """Range and spread of every dimension over all rows, one table at a time."""
    rows = sum(len(table) for table in tables)
    low = np.min([table.min(axis=0) for table in tables], axis=0)
    high = np.max([table.max(axis=0) for table in tables], axis=0)
    mean = np.sum([table.sum(axis=0, dtype=np.float64) for table in tables], axis=0) / rows
    squares = np.sum([np.square(table - mean).sum(axis=0) for table in tables], axis=0) / rows
    figures = zip(names, low, high, np.sqrt(squares), strict=True)
    return tuple(Dimension(name, float(lowest), float(highest), float(std)) for name, lowest, highest, std in figures)
