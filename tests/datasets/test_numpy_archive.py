"""Archives: defaults for what is optional, and an error for everything that is wrong."""

import re
from pathlib import Path

import numpy as np
import pytest

from speedup_patch.datasets import read_demonstrations
from speedup_patch.datasets.numpy_archive import write_numpy_archive
from speedup_patch.errors import InputError

ROWS, ENDS = 7, [3, 7]


def _arrays() -> dict[str, object]:
    rng = np.random.default_rng(0)
    return {
        "states": rng.normal(size=(ROWS, 2)).astype(np.float32),
        "actions": rng.normal(size=(ROWS, 3)).astype(np.float32),
        "extra/observation.force": rng.normal(size=(ROWS, 1)).astype(np.float32),
        "episode_ends": np.array(ENDS),
        "task_index": np.array([1, 0]),
        "tasks": np.array(["pick", "place"]),
        "timestamps": np.arange(ROWS) / 20,
        "robot": np.array("panda"),
        "control_hz": np.float64(20.0),
    }


def test_the_documented_keys_are_read(tmp_path: Path) -> None:
    arrays = _arrays()
    np.savez(tmp_path / "data.npz", **arrays)
    found = read_demonstrations(tmp_path / "data.npz")
    assert (len(found), found.control_hz, found.robot_name) == (2, 20.0, "panda")
    assert [episode.task for episode in found] == ["place", "pick"]
    np.testing.assert_array_equal(found.episodes[1].states, arrays["states"][3:])
    np.testing.assert_array_equal(found.episodes[0].extras["observation.force"], arrays["extra/observation.force"][:3])


def test_what_is_optional_has_a_default(tmp_path: Path) -> None:
    needed = {name: _arrays()[name] for name in ("states", "actions", "episode_ends", "control_hz")}
    np.savez(tmp_path / "data.npz", **needed)
    found = read_demonstrations(tmp_path / "data.npz")
    assert found.robot_name == ""
    assert [episode.task for episode in found] == ["", ""]
    np.testing.assert_allclose(found.episodes[1].timestamps, [0.0, 0.05, 0.1, 0.15])


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32])
def test_other_numbers_become_float32(tmp_path: Path, dtype: type) -> None:
    np.savez(tmp_path / "data.npz", **_arrays() | {"states": np.arange(2 * ROWS).reshape(ROWS, 2).astype(dtype)})
    found = read_demonstrations(tmp_path / "data.npz")
    assert found.episodes[0].states.dtype == np.float32
    np.testing.assert_array_equal(found.episodes[1].states[0], [6, 7])


def _with_fault(name: str, row: int, value: float) -> dict[str, object]:
    table = np.array(_arrays()[name])
    table[row, ...] = value
    return {name: table}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"states": None}, "lacks 'states'"),
        ({"actions": None}, "lacks 'actions'"),
        ({"episode_ends": None}, "lacks 'episode_ends'"),
        ({"control_hz": None}, "does not say its control frequency; give it with --hz"),
        ({"control_hz": np.float64(0)}, "'control_hz' must be a positive number, not 0.0"),
        ({"control_hz": np.float64("nan")}, "'control_hz' must be a positive number, not nan"),
        ({"control_hz": np.array([20.0])}, "'control_hz' must hold numbers of shape ()"),
        ({"states": np.zeros(ROWS)}, "'states' must be numbers (rows, dimensions)"),
        ({"states": np.full((ROWS, 2), "x")}, "'states' must be numbers (rows, dimensions)"),
        ({"actions": np.zeros((ROWS - 1, 3))}, "'actions' has 6 rows, but 'states' has 7"),
        ({"extra/observation.force": np.zeros((ROWS + 1, 3))}, "'observation.force' has 8 rows"),
        ({"episode_ends": np.array([], dtype=np.int64)}, "holds no episodes"),
        ({"episode_ends": np.array([3, 6])}, "'episode_ends' must increase and end at 7"),
        ({"episode_ends": np.array([3, 2, 7])}, "'episode_ends' must increase and end at 7"),
        ({"episode_ends": np.array([3, 3, 7]), "task_index": np.array([0, 0, 0])}, "episode 1 has no rows"),
        ({"episode_ends": np.array([3.0, 7.0])}, "'episode_ends' must be a list of whole numbers"),
        ({"task_index": np.array([0])}, "'task_index' must hold numbers of shape (2,)"),
        ({"task_index": np.array([0, 2])}, "'task_index' must name places 0..1 of 'tasks'"),
        ({"tasks": np.array([1, 2])}, "'tasks' must be a list of texts"),
        ({"robot": np.array(["a", "b"])}, "'robot' must be one text"),
        ({"timestamps": np.zeros(3)}, "'timestamps' must hold numbers of shape (7,)"),
        (_with_fault("states", 4, np.nan), "column 'states' holds nan in episode 1, row 1, dimension 0"),
        (_with_fault("actions", 2, np.inf), "column 'actions' holds inf in episode 0, row 2, dimension 0"),
        (_with_fault("timestamps", 6, np.nan), "timestamps hold nan in episode 1, row 3"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    arrays = {name: array for name, array in (_arrays() | change).items() if array is not None}
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(InputError, match=r"data\.npz.*" + re.escape(message)):
        read_demonstrations(tmp_path / "data.npz")


def test_pickled_objects_are_neither_written_nor_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **_arrays() | {"tasks": np.array(["a", None], dtype=object)})
    with pytest.raises(InputError, match=r"data\.npz is not a whole \.npz file of plain arrays"):
        read_demonstrations(tmp_path / "data.npz")
    del (arrays := _arrays())["tasks"], arrays["task_index"]
    np.savez(tmp_path / "plain.npz", **arrays)
    write_numpy_archive(read_demonstrations(tmp_path / "plain.npz"), tmp_path / "again.npz")
    with np.load(tmp_path / "again.npz", allow_pickle=False) as archive:
        assert all(archive[name].dtype != object for name in archive.files)
