"""Demonstrations as one ``.npz`` file: the plainest way to bring your own data, written and read with numpy alone.

states        float (N, S)     every episode's rows, one after the other
actions       float (N, A)
episode_ends  int (K,)         where each episode ends: cumulative row counts, the last equals N
control_hz    float            optional, control steps per second; where it is missing the reader has to say
extra/<name>  float (N, D)     optional, any number of further columns
timestamps    float (N,)       optional, seconds since the start of the episode; default row / control_hz
tasks         text (M,)        optional, the distinct tasks; default one empty task
task_index    int (K,)         optional, each episode's place in ``tasks``; default 0
robot         text             optional, the robot's name; default empty
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, Num, Shaped

from speedup_patch.artefacts import write_file_atomically
from speedup_patch.data import Demonstrations
from speedup_patch.datasets.npz_members import Member, list_members
from speedup_patch.datasets.source import BadEpisode, Column, ColumnChoice, Entry, RawEpisode
from speedup_patch.errors import InputError

STATE, ACTION = "states", "actions"
EXTRA = "extra/"


class NumpyArchive:
    """A ``.npz`` file; its tables are mapped into memory where they are not compressed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._members: Mapping[str, Member] = list_members(path)
        self._tables = {name.removeprefix(EXTRA): self._table(name) for name in self._table_names()}
        self.columns: Mapping[str, Column] = {name: Column(table.shape[1]) for name, table in self._tables.items()}
        self._ends = self._episode_ends()
        self.control_hz: float | None = self._control_hz()
        self.robot_name: str = self._robot_name()

    def _table_names(self) -> list[str]:
        names = [name for name in self._members if name in (STATE, ACTION) or name.startswith(EXTRA)]
        taken = [name for name in names if name.removeprefix(EXTRA) in (STATE, ACTION) and name.startswith(EXTRA)]
        if taken:
            raise InputError(f"{self.path}: a further column must not be named {taken[0]!r}; choose another name")
        return names

    def _control_hz(self) -> float | None:
        if "control_hz" not in self._members:
            return None
        control_hz = float(self._numbers("control_hz", ()))
        if not 0 < control_hz < float("inf"):
            raise InputError(f"{self.path}: 'control_hz' must be a positive number, not {control_hz}")
        return control_hz

    def _robot_name(self) -> str:
        if "robot" not in self._members:
            return ""
        robot = self._members["robot"]
        if robot.dtype.kind != "U" or robot.shape != ():
            raise InputError(f"{self.path}: 'robot' must be one text, not {robot.dtype} {robot.shape}")
        return str(robot.read())

    @property
    def defaults(self) -> ColumnChoice:
        extras = tuple(name for name in self.columns if name not in (STATE, ACTION))
        return ColumnChoice((STATE,), (ACTION,), extras)

    def entries(self) -> Sequence[Entry]:
        lengths = np.diff(self._ends, prepend=0).tolist()
        return [Entry(number, length, self._tasks[number]) for number, length in enumerate(lengths)]

    def read(self, numbers: Sequence[int], columns: Sequence[str]) -> Iterator[RawEpisode | BadEpisode]:
        tables = {name: self._tables[name].load() for name in columns}
        timestamps = self._timestamps()
        for number in numbers:
            rows = slice(int(self._ends[number - 1]) if number else 0, int(self._ends[number]))
            yield RawEpisode(
                number,
                {name: _as_float32(table[rows]) for name, table in tables.items()},
                str(self.path),
                None if timestamps is None else timestamps[rows],
                self._tasks[number],
            )

    def _find(self, name: str) -> Member:
        if name not in self._members:
            raise InputError(f"{self.path} lacks {name!r}; it holds {', '.join(sorted(self._members)) or 'nothing'}")
        return self._members[name]

    def _table(self, name: str) -> Member:
        table = self._find(name)
        if table.dtype.kind not in "fiu" or len(table.shape) != 2 or table.shape[1] == 0:
            raise InputError(
                f"{self.path}: {name!r} must be numbers (rows, dimensions), not {table.dtype} {table.shape}"
            )
        rows = self._find(STATE).shape[:1]
        if table.shape[:1] != rows:
            raise InputError(
                f"{self.path}: {name.removeprefix(EXTRA)!r} has {table.shape[0]} rows, but {STATE!r} has {rows[0]}; "
                f"each needs one row per control step"
            )
        return table

    def _numbers(self, name: str, shape: tuple[int, ...]) -> Num[np.ndarray, "..."]:
        member = self._find(name)
        if member.dtype.kind not in "fiu" or member.shape != shape:
            raise InputError(
                f"{self.path}: {name!r} must hold numbers of shape {shape}, not {member.dtype} of {member.shape}"
            )
        return member.read()

    def _episode_ends(self) -> Int[np.ndarray, " K"]:
        for name in (STATE, ACTION):
            self._find(name)
        member, rows = self._find("episode_ends"), self._find(STATE).shape[0]
        if member.dtype.kind not in "iu" or len(member.shape) != 1:
            raise InputError(
                f"{self.path}: 'episode_ends' must be a list of whole numbers, not {member.dtype} {member.shape}"
            )
        ends = member.read().astype(np.int64)
        if len(ends) == 0:
            raise InputError(f"{self.path} holds no episodes: 'episode_ends' is empty")
        if (np.diff(ends, prepend=0) < 0).any() or ends[-1] != rows:
            raise InputError(
                f"{self.path}: 'episode_ends' must increase and end at {rows}, the rows of {STATE!r}; it is {ends}"
            )
        return ends

    def _timestamps(self) -> Float[np.ndarray, " N"] | None:
        if "timestamps" not in self._members:
            return None
        return self._numbers("timestamps", (int(self._ends[-1]),)).astype(np.float64)

    @cached_property
    def _tasks(self) -> list[str]:
        if "tasks" not in self._members:
            return [""] * len(self._ends)
        member = self._find("tasks")
        if member.dtype.kind != "U" or len(member.shape) != 1:
            raise InputError(f"{self.path}: 'tasks' must be a list of texts, not {member.dtype} {member.shape}")
        indices = np.zeros(len(self._ends), dtype=np.int64)
        if "task_index" in self._members:
            indices = self._numbers("task_index", (len(self._ends),)).astype(np.int64)
        if (indices < 0).any() or (indices >= member.shape[0]).any():
            raise InputError(
                f"{self.path}: 'task_index' must name places 0..{member.shape[0] - 1} of 'tasks'; it is {indices}"
            )
        texts = member.read()
        return [str(texts[index]) for index in indices]


def _as_float32(table: Shaped[np.ndarray, "T D"]) -> Float[np.ndarray, "T D"]:
    """The same rows, not copied when they are float32 already."""
    with np.errstate(over="ignore"):  # a float64 too large for float32 becomes infinite, and is refused as such
        return table.astype(np.float32, copy=False)


def write_numpy_archive(demonstrations: Demonstrations, path: Path, overwrite: bool = False) -> None:
    """Writes a ``.npz`` file that ``NumpyArchive`` gives back as it was, in float32."""
    episodes = demonstrations.episodes
    tasks = list(dict.fromkeys(episode.task for episode in episodes))
    arrays = {
        "states": np.concatenate([episode.states for episode in episodes]).astype(np.float32),
        "actions": np.concatenate([episode.actions for episode in episodes]).astype(np.float32),
        "episode_ends": np.cumsum([len(episode) for episode in episodes], dtype=np.int64),
        "control_hz": np.float64(demonstrations.control_hz),
        "timestamps": np.concatenate([episode.timestamps for episode in episodes]).astype(np.float64),
        "tasks": np.array(tasks, dtype=np.str_),
        "task_index": np.array([tasks.index(episode.task) for episode in episodes], dtype=np.int64),
        "robot": np.array(demonstrations.robot_name, dtype=np.str_),
    }
    for name in demonstrations.shared_extras():
        arrays[EXTRA + name] = np.concatenate([episode.extras[name] for episode in episodes]).astype(np.float32)
    with write_file_atomically(path, overwrite) as unfinished:
        np.savez_compressed(unfinished, allow_pickle=False, **arrays)
