"""LeRobot v3.0 data sets, read with pyarrow alone; pictures and videos are left where they are."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from speedup_patch.datasets.lerobot_info import LeRobotInfo, read_info
from speedup_patch.datasets.parquet_columns import integers, read_columns, text_values, texts
from speedup_patch.datasets.parquet_episodes import Wanted, read_file
from speedup_patch.datasets.source import BadEpisode, Column, ColumnChoice, Entry, RawEpisode
from speedup_patch.errors import InputError

EPISODES = "meta/episodes"
TASKS = "meta/tasks.parquet"
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"


class Listed(NamedTuple):
    """One row of ``meta/episodes``."""

    number: int
    length: int
    chunk: int
    file: int
    task: str | None
    """None when the episode has several tasks, or its tasks are not listed."""

    @property
    def place(self) -> tuple[int, int]:
        return self.chunk, self.file


class LeRobotV3:
    """A LeRobot v3.0 folder: many episodes share a file, and ``meta/episodes`` says which."""

    def __init__(self, folder: Path) -> None:
        self._info: LeRobotInfo = read_info(folder)
        if not self._info.version.startswith("v3."):
            raise InputError(f"{self._info.file}: codebase_version must be v3.0, not {self._info.version}")
        self.path = folder
        self.control_hz: float = self._info.control_hz
        self.robot_name: str = self._info.robot_name
        self.columns: Mapping[str, Column] = self._info.columns
        self.defaults: ColumnChoice = self._info.defaults

    def entries(self) -> Sequence[Entry]:
        return [Entry(row.number, row.length, row.task) for row in self._listed.values()]

    def read(self, numbers: Sequence[int], columns: Sequence[str]) -> Iterator[RawEpisode | BadEpisode]:
        wanted = Wanted(
            lengths={row.number: row.length for row in self._listed.values()},
            widths={name: self.columns[name].width for name in columns},
            tasks=self._tasks,
            listed_in=EPISODES,
            tasks_in=TASKS,
        )
        for (chunk, file), members in groupby(numbers, lambda number: self._listed[number].place):
            together = list(members)
            path = self._info.data_file(DATA_PATH, chunk_index=chunk, file_index=file)
            yield from in_order(together, read_file(path, wanted, self._placed[chunk, file], together))

    @cached_property
    def _placed(self) -> dict[tuple[int, int], list[int]]:
        """The episodes that should be in each file."""
        placed: dict[tuple[int, int], list[int]] = {}
        for row in self._listed.values():
            placed.setdefault(row.place, []).append(row.number)
        return placed

    @cached_property
    def _listed(self) -> dict[int, Listed]:
        """Every episode by its number, in order."""
        rows = [row for file in sorted((self.path / EPISODES).glob("*/*.parquet")) for row in _read_listed(file)]
        listed = {row.number: row for row in sorted(rows, key=lambda row: row.number)}
        if len(listed) < len(rows):
            numbers = np.array([row.number for row in rows])
            repeated = next(number for number in listed if np.count_nonzero(numbers == number) > 1)
            raise InputError(f"{self.path / EPISODES} lists episode {repeated} more than once; list it once")
        self._info.check_totals([row.length for row in rows], EPISODES)
        return listed

    @cached_property
    def _tasks(self) -> dict[int, str]:
        file = self.path / TASKS
        table = read_columns(file, ["task_index"], optional=None)
        indices = integers(table["task_index"], "task_index", file)
        return {int(index): str(text) for index, text in zip(indices, texts(table, file), strict=True)}


def in_order(numbers: Sequence[int], episodes: Iterator[RawEpisode | BadEpisode]) -> Iterator[RawEpisode | BadEpisode]:
    """The same episodes in the order of ``numbers``; any that were not asked for come where they are found."""
    early: dict[int, RawEpisode | BadEpisode] = {}
    asked = set(numbers)
    awaited = 0
    for episode in episodes:
        if episode.number not in asked:
            yield episode
            continue
        early[episode.number] = episode
        while awaited < len(numbers) and numbers[awaited] in early:
            yield early.pop(numbers[awaited])
            awaited += 1


def _read_listed(file: Path) -> list[Listed]:
    names = ["episode_index", "length", "data/chunk_index", "data/file_index"]
    table = read_columns(file, names, optional=["tasks"])
    numbers, lengths, chunks, files = (integers(table[name], name, file).tolist() for name in names)
    tasks: list[Any] = [None] * len(table)
    if "tasks" in table.column_names:
        tasks = text_values(table["tasks"], "tasks", file)
    rows = zip(numbers, lengths, chunks, files, map(_only_text, tasks), strict=True)
    return [Listed(*row) for row in rows]


def _only_text(tasks: object) -> str | None:
    """The one text in a list of one, or the text itself."""
    if isinstance(tasks, list) and len(tasks) == 1:
        tasks = tasks[0]
    return tasks if isinstance(tasks, str) else None
