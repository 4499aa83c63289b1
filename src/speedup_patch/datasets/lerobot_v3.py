"""Reads LeRobot v3.0 data sets from disk with pyarrow alone; pictures and videos are left where they are."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Int

from speedup_patch.artefacts import read_json
from speedup_patch.data import Demonstrations, Episode
from speedup_patch.datasets.episode_rows import EpisodeRows
from speedup_patch.datasets.parquet_columns import integer_column, matrix_column, read_columns, text_column
from speedup_patch.errors import InputError

INFO = "meta/info.json"
EPISODES = "meta/episodes"
TASKS = "meta/tasks.parquet"
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
STATE, ACTION = "observation.state", "action"
EXECUTED = "executed_action"
"""What was really sent, where a disturbance was added to the demonstrated action."""
NUMERIC = {"float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}


@dataclass(frozen=True)
class Layout:
    """What ``meta/info.json`` promises; ``widths`` maps each column that is read to its number of dimensions."""

    folder: Path
    info: dict[str, Any]
    widths: dict[str, int]


@dataclass(frozen=True, eq=False)
class DataFile:
    """One file of the data set and the episodes that ``meta/episodes`` places in it."""

    path: Path
    rows: EpisodeRows


def read_lerobot_v3(folder: Path) -> Demonstrations:
    """Every episode of the data set, in order; states, actions and extras as float32, timestamps as float64."""
    layout = _read_layout(folder)
    files = _read_episode_index(layout)
    tasks = _read_tasks(folder)
    episodes = tuple(episode for file in files for episode in _read_data_file(layout, file, tasks))
    return Demonstrations(episodes, float(layout.info["fps"]), str(layout.info.get("robot_type") or ""))


def read_names(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(state names, action names), one per dimension; empty where the data set does not name them."""
    layout = _read_layout(folder)
    features = layout.info["features"]
    state, action = (_names(features[column].get("names"), layout.widths[column]) for column in (STATE, ACTION))
    return state, action


def _read_layout(folder: Path) -> Layout:
    info = read_json(folder / INFO)
    version = str(info.get("codebase_version"))
    if version.startswith("v2"):
        raise InputError(
            f"{folder} is a LeRobot {version} data set, which is not supported yet; convert it to v3.0 with `python -m "
            f"lerobot.datasets.v30.convert_dataset_v21_to_v30 --repo-id=NAME --root={folder} --push-to-hub=false`"
        )
    if not version.startswith("v3."):
        raise InputError(f"{folder / INFO}: codebase_version must be v3.0, not {version}")
    fps = info.get("fps")
    if not isinstance(fps, int | float) or isinstance(fps, bool) or not 0 < fps < float("inf"):
        raise InputError(f"{folder / INFO}: fps must be a positive number, not {fps!r}")
    return Layout(folder, info, _column_widths(info.get("features"), folder / INFO))


def _column_widths(features: object, file: Path) -> dict[str, int]:
    if not isinstance(features, dict):
        raise InputError(f"{file}: features must be an object that describes each column, not {features!r}")
    widths: dict[str, int] = {}
    for name, feature in features.items():
        wanted = name in (ACTION, EXECUTED) or name.startswith("observation.")
        if wanted and isinstance(feature, dict) and feature.get("dtype") in NUMERIC:
            shape = feature.get("shape")
            if isinstance(shape, list) and len(shape) == 1 and isinstance(shape[0], int) and shape[0] > 0:
                widths[name] = shape[0]
    for name in (STATE, ACTION):
        if name not in widths:
            raise InputError(
                f"{file}: features need {name!r} with a numeric dtype and a shape of one number; "
                f"they are {', '.join(features)}"
            )
    return widths


def _names(names: object, width: int) -> tuple[str, ...]:
    if isinstance(names, dict):  # {"motors": [...]} in older recordings, {name: place} in some conversions
        inner = list(names.values())
        names = inner[0] if len(inner) == 1 and isinstance(inner[0], list) else list(names)
    if not isinstance(names, list) or len(names) != width:
        return ()
    return tuple(str(name) for name in names)


def _read_episode_index(layout: Layout) -> list[DataFile]:
    """The data files in the order of their episodes; an episode always lies whole in one file."""
    folder = layout.folder / EPISODES
    columns = ["episode_index", "length", "data/chunk_index", "data/file_index"]
    tables = [(read_columns(file, columns), file) for file in sorted(folder.glob("*/*.parquet"))]
    found = [np.stack([integer_column(table, name, file) for name in columns], axis=1) for table, file in tables]
    index = np.concatenate(found) if found else np.zeros((0, 4), dtype=np.int64)
    index = index[np.argsort(index[:, 0], kind="stable")]
    _check_episode_index(index[:, 0], index[:, 1], layout)
    files = np.unique(index[:, 2:], axis=0)
    members = [index[(index[:, 2:] == file).all(axis=1)] for file in files]
    return [
        DataFile(layout.folder / _data_path(layout, int(chunk), int(number)), EpisodeRows(part[:, 0], part[:, 1]))
        for (chunk, number), part in zip(files, members, strict=True)
    ]


def _check_episode_index(numbers: Int[np.ndarray, " K"], lengths: Int[np.ndarray, " K"], layout: Layout) -> None:
    folder = layout.folder / EPISODES
    if len(numbers) == 0:
        raise InputError(f"{folder} lists no episodes; record some before reading the data set")
    repeated = numbers[1:][np.diff(numbers) == 0]
    if len(repeated):
        raise InputError(f"{folder} lists episode {repeated[0]} more than once")
    if (lengths < 1).any():
        raise InputError(f"{folder}: episode {numbers[lengths < 1][0]} has no rows; leave it out of the data set")
    for key, found in (("total_episodes", len(numbers)), ("total_frames", int(lengths.sum()))):
        if layout.info.get(key, found) != found:
            raise InputError(f"{layout.folder / INFO} says {key} is {layout.info[key]}, but {EPISODES} lists {found}")


def _data_path(layout: Layout, chunk_index: int, file_index: int) -> str:
    template = layout.info.get("data_path", DATA_PATH)
    try:
        return str(template).format(chunk_index=chunk_index, file_index=file_index)
    except (KeyError, IndexError, ValueError) as error:
        raise InputError(f"{layout.folder / INFO}: data_path must look like {DATA_PATH}, not {template!r}") from error


def _read_tasks(folder: Path) -> dict[int, str]:
    table = read_columns(folder / TASKS, ["task_index"], others=True)
    indices = integer_column(table, "task_index", folder / TASKS)
    return {int(index): text for index, text in zip(indices, text_column(table, folder / TASKS), strict=True)}


def _read_data_file(layout: Layout, file: DataFile, tasks: dict[int, str]) -> Iterator[Episode]:
    path, rows = file.path, file.rows
    table = read_columns(path, [*layout.widths, "timestamp", "frame_index", "episode_index", "task_index"])
    _check_rows(integer_column(table, "episode_index", path), integer_column(table, "frame_index", path), file)
    columns = {name: matrix_column(table, name, width, rows, path) for name, width in layout.widths.items()}
    timestamps = matrix_column(table, "timestamp", 1, rows, path, np.float64)[:, 0]
    task_indices = integer_column(table, "task_index", path)
    extras = [name for name in columns if name not in (STATE, ACTION)]
    for number, start, end in zip(rows.numbers, rows.starts, rows.ends, strict=True):
        task = int(task_indices[start])
        if task not in tasks:
            raise InputError(f"{path}: episode {number} has task_index {task}, which {TASKS} does not list")
        yield Episode(
            states=columns[STATE][start:end],
            actions=columns[ACTION][start:end],
            timestamps=timestamps[start:end],
            task=tasks[task],
            extras=MappingProxyType({name: columns[name][start:end] for name in extras}),
        )


def _check_rows(episode_index: Int[np.ndarray, " N"], frame_index: Int[np.ndarray, " N"], file: DataFile) -> None:
    rows = file.rows
    if not np.array_equal(episode_index, np.repeat(rows.numbers, rows.lengths)):
        _explain_wrong_rows(episode_index, file)
    wrong = np.flatnonzero(frame_index != rows.frame_index)
    if len(wrong):
        raise InputError(
            f"{file.path}: column 'frame_index' must count 0, 1, 2, ... in every episode, "
            f"but it is {frame_index[wrong[0]]} in {rows.where(int(wrong[0]))}"
        )


def _explain_wrong_rows(episode_index: Int[np.ndarray, " N"], file: DataFile) -> None:
    for number, length in zip(file.rows.numbers, file.rows.lengths, strict=True):
        found = np.count_nonzero(episode_index == number)
        if found != length:
            raise InputError(f"{file.path} has {found} rows of episode {number}, but {EPISODES} says {length}")
    stray = np.setdiff1d(episode_index, file.rows.numbers)
    if len(stray):
        raise InputError(f"{file.path} has rows of episode {stray[0]}, but {EPISODES} does not place it there")
    raise InputError(f"{file.path}: column 'episode_index' must never go down, so that an episode's rows lie together")
