"""ALOHA and ACT recordings: one file per episode."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from sample_hdf5 import ALOHA_WIDTHS, write_aloha
from speedup_patch.datasets import read_demonstrations
from speedup_patch.datasets.hdf5 import open_hdf5
from speedup_patch.datasets.hdf5_layout import open_layout
from speedup_patch.datasets.source import BadEpisode, RawEpisode, Source
from speedup_patch.errors import InputError


@pytest.mark.parametrize("compressed", [False, True])
def test_a_folder_of_episodes_is_read_in_natural_order(tmp_path: Path, compressed: bool) -> None:
    written = [write_aloha(tmp_path / f"episode_{n}.hdf5", 2 + n, n, compressed) for n in range(11)]
    source = open_layout(tmp_path) if compressed else open_hdf5(tmp_path)
    assert isinstance(source, Source)
    assert (source.control_hz, source.robot_name) == (50.0, "aloha")
    assert (source.defaults.state, source.defaults.action) == (("observations/qpos",), ("action",))
    assert {name: column.width for name, column in source.columns.items()} == ALOHA_WIDTHS
    assert [entry.length for entry in source.entries()] == [2 + n for n in range(11)]
    for found, expected in zip(source.read(range(11), list(ALOHA_WIDTHS)), written, strict=True):
        assert isinstance(found, RawEpisode)
        for name, column in expected.items():
            np.testing.assert_array_equal(found.columns[name], column)


def test_one_file_is_a_data_set_of_one_episode(tmp_path: Path) -> None:
    columns = write_aloha(tmp_path / "episode_0.hdf5", 5)
    found = read_demonstrations(tmp_path / "episode_0.hdf5")
    assert (len(found), found.control_hz, found.robot_name) == (1, 50.0, "aloha")
    np.testing.assert_array_equal(found.episodes[0].states, columns["observations/qpos"])
    np.testing.assert_array_equal(found.episodes[0].actions, columns["action"])


def test_a_mobile_base_is_a_further_column_and_another_robot_is_not_aloha(tmp_path: Path) -> None:
    write_aloha(tmp_path / "episode_0.hdf5", 5)
    with h5py.File(tmp_path / "episode_0.hdf5", "a") as file:
        file["base_action"] = np.zeros((5, 2))
        del file["action"]
        file["action"] = np.zeros((5, 16))
    source = open_layout(tmp_path)
    assert source.columns["base_action"].width == 2
    assert source.robot_name == ""


def test_damaged_episodes_are_named_and_the_others_are_read(tmp_path: Path) -> None:
    for number in range(4):
        write_aloha(tmp_path / f"episode_{number}.hdf5", 5, number)
    whole = (tmp_path / "episode_0.hdf5").read_bytes()
    (tmp_path / "episode_0.hdf5").write_bytes(whole[:-600])
    (tmp_path / "episode_1.hdf5").write_bytes(b"not HDF5")
    with h5py.File(tmp_path / "episode_2.hdf5", "a") as file:
        del file["observations/qpos"]
    source = open_layout(tmp_path)
    assert [entry.length for entry in source.entries()] == [None, None, 5, 5]
    *bad, good = source.read(range(4), ["observations/qpos", "action"])
    assert isinstance(good, RawEpisode)
    problems = [episode.problem for episode in bad if isinstance(episode, BadEpisode)]
    assert len(problems) == 3
    assert f"episode 0: {tmp_path}/episode_0.hdf5 is not a whole HDF5 file" in problems[0]
    assert f"episode 1: {tmp_path}/episode_1.hdf5 is not a whole HDF5 file" in problems[1]
    assert f"episode 2: {tmp_path}/episode_2.hdf5 lacks 'observations/qpos'" in problems[2]


def test_a_recording_without_joint_positions_has_no_default_state(tmp_path: Path) -> None:
    write_aloha(tmp_path / "episode_0.hdf5", 5)
    with h5py.File(tmp_path / "episode_0.hdf5", "a") as file:
        del file["observations/qpos"]
    assert open_layout(tmp_path).defaults.state == ()
    with pytest.raises(InputError, match="no column that is clearly the state"):
        read_demonstrations(tmp_path)
