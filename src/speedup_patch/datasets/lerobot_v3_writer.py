"""Writes LeRobot v3.0 data sets that LeRobot 0.4 loads, with pyarrow alone."""

# pyright: reportUnknownParameterType=false
# pyarrow ships no types.

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float, Int, Num

from speedup_patch.artefacts import write_folder_atomically, write_json
from speedup_patch.data import Demonstrations, Episode
from speedup_patch.datasets.lerobot_info import ACTION, EXECUTED, INFO, STATE
from speedup_patch.datasets.lerobot_v3 import DATA_PATH, EPISODES, TASKS
from speedup_patch.errors import InputError
from speedup_patch.robots import ROBOTS, Robot

FILES_PER_CHUNK = 1000
FILE_MEGABYTES = 100.0
QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}

Columns = dict[str, Num[np.ndarray, "_ ..."]]
"""The columns of some rows: two-dimensional for features, one-dimensional for the counters LeRobot adds."""


@dataclass(frozen=True)
class Place:
    """Where an episode goes: its number, the first of its rows, and the data file, counted from 0."""

    episode: int
    first_row: int
    file: int

    @property
    def chunk_and_file(self) -> tuple[int, int]:
        return divmod(self.file, FILES_PER_CHUNK)


def write_lerobot_v3(
    demonstrations: Demonstrations,
    folder: Path,
    robot: Robot | None = None,
    overwrite: bool = False,
    file_megabytes: float = FILE_MEGABYTES,
) -> None:
    """Writes a data set folder, whole or not at all; the names of the dimensions come from ``robot``, or from the known
    robot that the data name, or are numbers."""
    robot = _naming_robot(demonstrations, robot)
    widths = {STATE: demonstrations.state_size, ACTION: demonstrations.action_size, **_extra_widths(demonstrations)}
    tasks = list(dict.fromkeys(episode.task for episode in demonstrations))
    places = _places(demonstrations, widths, file_megabytes)
    columns = [
        _columns(episode, widths, place, tasks.index(episode.task))
        for episode, place in zip(demonstrations, places, strict=True)
    ]
    with write_folder_atomically(folder, overwrite) as unfinished:
        for file in range(places[-1].file + 1):
            members = [part for part, place in zip(columns, places, strict=True) if place.file == file]
            _write_table(_data_table(members), unfinished / _data_path(file))
        episodes = _episodes_table(demonstrations, columns, places)
        _write_table(episodes, unfinished / EPISODES / "chunk-000/file-000.parquet")
        _write_table(_tasks_table(tasks), unfinished / TASKS)
        write_json(unfinished / "meta/stats.json", {name: _lists(stats) for name, stats in _all_stats(columns).items()})
        write_json(unfinished / INFO, _info(demonstrations, widths, robot, len(tasks)))


def _naming_robot(demonstrations: Demonstrations, robot: Robot | None) -> Robot | None:
    sizes = (demonstrations.state_size, demonstrations.action_size)
    if robot:
        robot.check_sizes(*sizes, "the data to write")
        return robot
    known = ROBOTS.get(demonstrations.robot_name)
    return known if known and sizes == (known.state_size, known.action_size) else None


def _extra_widths(demonstrations: Demonstrations) -> dict[str, int]:
    widths = demonstrations.shared_extras()
    for name in widths:
        if not (name == EXECUTED or name.startswith("observation.")) or name == STATE or "/" in name:
            raise InputError(
                f"further column {name!r} must be named {EXECUTED} or observation.<something>, without a slash"
            )
    return widths


def _places(demonstrations: Demonstrations, widths: Mapping[str, int], file_megabytes: float) -> list[Place]:
    rows_per_file = max(1, int(file_megabytes * 2**20 / (4 * sum(widths.values()) + 36)))
    places: list[Place] = []
    row, file, file_start = 0, 0, 0
    for number, episode in enumerate(demonstrations):
        if row > file_start and row + len(episode) - file_start > rows_per_file:
            file, file_start = file + 1, row
        places.append(Place(number, row, file))
        row += len(episode)
    return places


def _columns(episode: Episode, widths: Mapping[str, int], place: Place, task: int) -> Columns:
    source = {STATE: episode.states, ACTION: episode.actions, **episode.extras}
    frames = np.arange(len(episode))
    return {name: source[name].astype(np.float32) for name in widths} | {
        "timestamp": episode.timestamps.astype(np.float32),
        "frame_index": frames,
        "episode_index": np.full(len(episode), place.episode),
        "index": place.first_row + frames,
        "task_index": np.full(len(episode), task),
    }


def _data_path(file: int) -> str:
    chunk_index, file_index = divmod(file, FILES_PER_CHUNK)
    return DATA_PATH.format(chunk_index=chunk_index, file_index=file_index)


def _data_table(episodes: Sequence[Columns]) -> pa.Table:
    return pa.table({name: _arrow(np.concatenate([part[name] for part in episodes])) for name in episodes[0]})


def _arrow(column: Num[np.ndarray, "N ..."]) -> pa.Array:
    """Lists of fixed size, or plain numbers for one dimension, as LeRobot has it."""
    if column.ndim == 1 or column.shape[1] == 1:
        return pa.array(column.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(pa.array(column.reshape(-1)), column.shape[1])


def _episodes_table(demonstrations: Demonstrations, columns: Sequence[Columns], places: Sequence[Place]) -> pa.Table:
    lengths = [len(episode) for episode in demonstrations]
    table: dict[str, Sequence[Any]] = {
        "episode_index": [place.episode for place in places],
        "tasks": [[episode.task] for episode in demonstrations],
        "length": lengths,
        "data/chunk_index": [place.chunk_and_file[0] for place in places],
        "data/file_index": [place.chunk_and_file[1] for place in places],
        "dataset_from_index": [place.first_row for place in places],
        "dataset_to_index": [place.first_row + length for place, length in zip(places, lengths, strict=True)],
    }
    stats = [{name: _lists(_stats(column)) for name, column in episode.items()} for episode in columns]
    for name in columns[0]:
        for statistic in stats[0][name]:
            table[f"stats/{name}/{statistic}"] = [episode[name][statistic] for episode in stats]
    zeros = [0] * len(lengths)
    return pa.table({**table, "meta/episodes/chunk_index": zeros, "meta/episodes/file_index": zeros})


def _all_stats(columns: Sequence[Columns]) -> dict[str, dict[str, Num[np.ndarray, " _"]]]:
    return {name: _stats(np.concatenate([episode[name] for episode in columns])) for name in columns[0]}


def _stats(column: Num[np.ndarray, "N ..."]) -> dict[str, Num[np.ndarray, " _"]]:
    """The statistics LeRobot normalises with, per dimension."""
    table = column.reshape(len(column), -1)
    exact = table.astype(np.float64)
    quantiles: Float[np.ndarray, "Q D"] = np.quantile(exact, list(QUANTILES.values()), axis=0)
    count: Int[np.ndarray, " 1"] = np.array([len(table)])
    return {
        "min": table.min(axis=0),
        "max": table.max(axis=0),
        "mean": exact.mean(axis=0),
        "std": exact.std(axis=0),
        "count": count,
        **dict(zip(QUANTILES, quantiles, strict=True)),
    }


def _lists(stats: Mapping[str, Num[np.ndarray, " _"]]) -> dict[str, list[float | int]]:
    return {name: values.tolist() for name, values in stats.items()}


def _tasks_table(tasks: Sequence[str]) -> pa.Table:
    """The texts as the index of a pandas table, which is where LeRobot looks for them."""
    index = "__index_level_0__"
    columns = [("task_index", "task_index", "int64", "int64"), (None, index, "unicode", "object")]
    pandas = {
        "index_columns": [index],
        "column_indexes": [
            {"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object", "metadata": None}
        ],
        "columns": [
            {"name": name, "field_name": field, "pandas_type": kind, "numpy_type": numpy, "metadata": None}
            for name, field, kind, numpy in columns
        ],
        "pandas_version": "2.0.0",
    }
    table = pa.table({"task_index": pa.array(range(len(tasks)), pa.int64()), index: pa.array(tasks, pa.string())})
    return table.replace_schema_metadata({"pandas": json.dumps(pandas)})


def _info(
    demonstrations: Demonstrations, widths: Mapping[str, int], robot: Robot | None, tasks: int
) -> dict[str, object]:
    hz = demonstrations.control_hz
    return {
        "codebase_version": "v3.0",
        "robot_type": demonstrations.robot_name or None,
        "total_episodes": len(demonstrations),
        "total_frames": demonstrations.frames,
        "total_tasks": tasks,
        "chunks_size": FILES_PER_CHUNK,
        "data_files_size_in_mb": round(FILE_MEGABYTES),
        "video_files_size_in_mb": 200,
        "fps": int(hz) if float(hz).is_integer() else hz,
        "splits": {"train": f"0:{len(demonstrations)}"},
        "data_path": DATA_PATH,
        "video_path": None,
        "features": _features(widths, robot),
    }


def _features(widths: Mapping[str, int], robot: Robot | None) -> dict[str, object]:
    names: dict[str, Sequence[str]] = {
        STATE: robot.state_names if robot else [f"state_{i}" for i in range(widths[STATE])],
        ACTION: robot.action_names if robot else [f"action_{i}" for i in range(widths[ACTION])],
    }
    features = {
        name: {"dtype": "float32", "shape": [width], "names": list(names[name]) if name in names else None}
        for name, width in widths.items()
    }
    counters = ("frame_index", "episode_index", "index", "task_index")
    added = {name: {"dtype": "int64", "shape": [1], "names": None} for name in counters}
    return {**features, "timestamp": {"dtype": "float32", "shape": [1], "names": None}, **added}


def _write_table(table: pa.Table, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file)
