"""What we write is loaded by the real LeRobot, and what it writes is read by us (run with ``make test-lerobot``)."""

import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lerobot.datasets", reason="needs the LeRobot environment")
pytest.importorskip("torch")

from lerobot_sample import EXTRA, LENGTHS, create, declare_vision_operators, frame, sample
from speedup_patch.data import Demonstrations
from speedup_patch.datasets import open_source, read_datasets, read_demonstrations, write_demonstrations
from speedup_patch.datasets.lerobot_v3_writer import write_lerobot_v3

pytestmark = pytest.mark.lerobot
V21 = Path(__file__).parents[1] / "datasets" / "lerobot_v21"


@pytest.fixture(scope="session")
def vision_operators() -> object:
    return declare_vision_operators()


@pytest.fixture
def lerobot_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vision_operators: object) -> type:
    """LeRobotDataset, with a cache that goes away."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    return LeRobotDataset


def _assert_same(found: Demonstrations, written: Demonstrations) -> None:
    assert (found.fingerprint(), found.control_hz, found.robot_name) == (written.fingerprint(), 50.0, "aloha")
    for ours, theirs in zip(found, written, strict=True):
        assert ours.task == theirs.task
        np.testing.assert_allclose(ours.timestamps, theirs.timestamps, atol=1e-6)
        assert ours.extras.keys() == theirs.extras.keys()
        for name, column in theirs.extras.items():
            np.testing.assert_array_equal(ours.extras[name], column)


def _record(lerobot_dataset: type, folder: Path) -> None:
    recording = create(lerobot_dataset, folder)
    for episode in sample():
        for row in range(len(episode)):
            recording.add_frame(frame(episode, row) | {"task": episode.task})
        recording.save_episode()
    recording.finalize()


@pytest.mark.parametrize("file_megabytes", [100.0, 1e-9])
def test_lerobot_loads_what_we_write(lerobot_dataset: type, tmp_path: Path, file_megabytes: float) -> None:
    written = sample()
    write_lerobot_v3(written, tmp_path / "data", file_megabytes=file_megabytes)
    loaded = lerobot_dataset("speedup/test", root=tmp_path / "data", delta_timestamps={"action": [0.0, 0.02]})
    assert (loaded.num_episodes, len(loaded), loaded.fps, loaded.meta.robot_type) == (3, sum(LENGTHS), 50, "aloha")
    rows = [(episode, row) for episode in written for row in range(len(episode))]
    for item, (episode, row) in zip((loaded[i] for i in range(len(loaded))), rows, strict=True):
        assert item["task"] == episode.task
        assert item["frame_index"].item() == row
        np.testing.assert_array_equal(item["observation.state"].numpy(), episode.states[row])
        np.testing.assert_array_equal(item[EXTRA].numpy(), episode.extras[EXTRA][row])
        np.testing.assert_array_equal(item["observation.force"].numpy(), episode.extras["observation.force"][row, 0])
        np.testing.assert_array_equal(item["action"].numpy()[0], episode.actions[row])
        np.testing.assert_array_equal(item["action"].numpy()[1], episode.actions[min(row + 1, len(episode) - 1)])
    states = np.concatenate([episode.states for episode in written])
    np.testing.assert_allclose(loaded.meta.stats["observation.state"]["mean"], states.mean(axis=0), rtol=1e-5)


def test_lerobot_selects_episodes_of_what_we_write(lerobot_dataset: type, tmp_path: Path) -> None:
    write_lerobot_v3(sample(), tmp_path / "data")
    loaded = lerobot_dataset("speedup/test", root=tmp_path / "data", episodes=[1])
    assert len(loaded) == LENGTHS[1]
    np.testing.assert_array_equal(loaded[3]["action"].numpy(), sample().episodes[1].actions[3])


def test_lerobot_continues_recording_into_what_we_wrote(lerobot_dataset: type, tmp_path: Path) -> None:
    written = sample()
    write_lerobot_v3(written, tmp_path / "data")
    recording = lerobot_dataset("speedup/test", root=tmp_path / "data")
    first = written.episodes[0]
    for row in range(LENGTHS[0]):
        recording.add_frame(frame(first, row) | {"task": first.task})
    recording.save_episode()
    recording.finalize()
    longer = Demonstrations((*written.episodes, first), 50.0, "aloha")
    _assert_same(read_demonstrations(tmp_path / "data"), longer)


def test_we_read_what_lerobot_writes(lerobot_dataset: type, tmp_path: Path) -> None:
    _record(lerobot_dataset, tmp_path / "data")
    found = read_datasets([tmp_path / "data"])
    _assert_same(found.demonstrations, sample())
    assert (found.state_names, found.action_names) == (("a", "b", "c"), ("x", "y"))


def test_every_version_gives_the_same_demonstrations(
    lerobot_dataset: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """v3.0 recorded by LeRobot 0.4.4, v2.1 recorded by 0.3.3, its conversion to v3.0 by 0.4.4, and our archive."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from lerobot.datasets.v30.convert_dataset_v21_to_v30 import convert_dataset

    _record(lerobot_dataset, tmp_path / "v30")
    shutil.copytree(V21, tmp_path / "speedup" / "converted")
    convert_dataset("speedup/converted", root=tmp_path, push_to_hub=False)
    write_demonstrations(sample(), tmp_path / "sample.npz")
    paths = {
        tmp_path / "v30": "LeRobotV3",
        V21: "LeRobotV21",
        tmp_path / "speedup" / "converted": "LeRobotV3",
        tmp_path / "sample.npz": "NumpyArchive",
    }
    for path, kind in paths.items():
        assert type(open_source(path)).__name__ == kind
        _assert_same(read_demonstrations(path), sample())
