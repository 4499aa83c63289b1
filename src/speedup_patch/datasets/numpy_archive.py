"""Demonstrations as one ``.npz`` file: the plainest way to bring your own data, written and read with numpy alone.

states        float (N, S)     every episode's rows, one after the other
actions       float (N, A)
episode_ends  int (K,)         where each episode ends: cumulative row counts, the last equals N
control_hz    float            control steps per second
extra/<name>  float (N, D)     optional, any number of further columns
timestamps    float (N,)       optional, seconds since the start of the episode; default row / control_hz
tasks         text (M,)        optional, the distinct tasks; default one empty task
task_index    int (K,)         optional, each episode's place in ``tasks``; default 0
robot         text             optional, the robot's name; default empty
"""

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
from jaxtyping import Float, Num, Shaped

from speedup_patch.artefacts import write_file_atomically
from speedup_patch.data import Demonstrations, Episode
from speedup_patch.datasets.episode_rows import EpisodeRows, shared_extras
from speedup_patch.errors import InputError

EXTRA = "extra/"
Arrays = Mapping[str, Shaped[np.ndarray, "..."]]


def read_numpy_archive(path: Path) -> Demonstrations:
    """The demonstrations in a ``.npz`` file; states, actions and extras as float32."""
    arrays = _load(path)
    states, actions = _table(arrays, "states", path), _table(arrays, "actions", path)
    rows = _episode_rows(arrays, len(states), path)
    extras = {name.removeprefix(EXTRA): _table(arrays, name, path) for name in arrays if name.startswith(EXTRA)}
    for name, table in {"states": states, "actions": actions, **extras}.items():
        if len(table) != len(states):
            raise InputError(f"{path}: {name!r} has {len(table)} rows, but 'states' has {len(states)}")
        rows.refuse_non_finite(table, name, str(path))
    control_hz = float(_numbers(arrays, "control_hz", (), path))
    if not 0 < control_hz < float("inf"):
        raise InputError(f"{path}: 'control_hz' must be a positive number, not {control_hz}")
    timestamps = _timestamps(arrays, rows, control_hz, path)
    episodes = tuple(
        Episode(
            states=states[start:end],
            actions=actions[start:end],
            timestamps=timestamps[start:end],
            task=task,
            extras=MappingProxyType({name: table[start:end] for name, table in extras.items()}),
        )
        for start, end, task in zip(rows.starts, rows.ends, _tasks(arrays, len(rows.ends), path), strict=True)
    )
    robot = arrays.get("robot", np.array(""))
    if robot.dtype.kind != "U" or robot.ndim != 0:
        raise InputError(f"{path}: 'robot' must be one text, not {robot.dtype} {robot.shape}")
    return Demonstrations(episodes, control_hz, str(robot))


def write_numpy_archive(demonstrations: Demonstrations, path: Path, overwrite: bool = False) -> None:
    """Writes a ``.npz`` file that ``read_numpy_archive`` gives back as it was, in float32."""
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
    for name in shared_extras(demonstrations):
        arrays[EXTRA + name] = np.concatenate([episode.extras[name] for episode in episodes]).astype(np.float32)
    with write_file_atomically(path, overwrite) as unfinished:
        np.savez_compressed(unfinished, allow_pickle=False, **arrays)


def _load(path: Path) -> Arrays:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: np.asarray(archive[name]) for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"{path} is not a whole .npz file of plain arrays: {error}") from error


def _find(arrays: Arrays, name: str, path: Path) -> Shaped[np.ndarray, "..."]:
    if name not in arrays:
        raise InputError(f"{path} lacks {name!r}; it holds {', '.join(sorted(arrays)) or 'nothing'}")
    return arrays[name]


def _numbers(arrays: Arrays, name: str, shape: tuple[int, ...], path: Path) -> Num[np.ndarray, "..."]:
    array = _find(arrays, name, path)
    if array.dtype.kind not in "fiu" or array.shape != shape:
        raise InputError(f"{path}: {name!r} must hold numbers of shape {shape}, not {array.dtype} of {array.shape}")
    return array


def _table(arrays: Arrays, name: str, path: Path) -> Float[np.ndarray, "N D"]:
    array = _find(arrays, name, path)
    if array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"{path}: {name!r} must be numbers (rows, dimensions), not {array.dtype} {array.shape}")
    return array.astype(np.float32)


def _episode_rows(arrays: Arrays, rows: int, path: Path) -> EpisodeRows:
    ends = _find(arrays, "episode_ends", path)
    if ends.dtype.kind not in "iu" or ends.ndim != 1:
        raise InputError(f"{path}: 'episode_ends' must be a list of whole numbers, not {ends.dtype} {ends.shape}")
    if len(ends) == 0:
        raise InputError(f"{path} holds no episodes: 'episode_ends' is empty")
    lengths = np.diff(ends.astype(np.int64), prepend=0)
    if (lengths <= 0).any() or ends[-1] != rows:
        raise InputError(f"{path}: 'episode_ends' must increase and end at {rows}, the rows of 'states'; it is {ends}")
    return EpisodeRows(np.arange(len(ends)), lengths)


def _timestamps(arrays: Arrays, rows: EpisodeRows, control_hz: float, path: Path) -> Float[np.ndarray, " N"]:
    if "timestamps" not in arrays:
        return rows.frame_index / control_hz
    timestamps = _numbers(arrays, "timestamps", rows.frame_index.shape, path).astype(np.float64)
    rows.refuse_non_finite(timestamps[:, None], "timestamps", str(path))
    return timestamps


def _tasks(arrays: Arrays, episodes: int, path: Path) -> list[str]:
    tasks = arrays.get("tasks", np.array([""]))
    if tasks.dtype.kind != "U" or tasks.ndim != 1:
        raise InputError(f"{path}: 'tasks' must be a list of texts, not {tasks.dtype} {tasks.shape}")
    if "task_index" not in arrays:
        indices = np.zeros(episodes, dtype=np.int64)
    else:
        indices = _numbers(arrays, "task_index", (episodes,), path).astype(np.int64)
    if (indices < 0).any() or (indices >= len(tasks)).any():
        raise InputError(f"{path}: 'task_index' must name places 0..{len(tasks) - 1} of 'tasks'; it is {indices}")
    return [str(tasks[index]) for index in indices]
