"""What we write is loaded by the real LeRobot, and what it writes is read by us (run with ``make test-lerobot``)."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lerobot.datasets", reason="needs the LeRobot environment")
torch = pytest.importorskip("torch")

from speedup_patch.data import Demonstrations, Episode  # noqa: E402
from speedup_patch.datasets import read_demonstrations, read_names  # noqa: E402
from speedup_patch.datasets.lerobot_v3_writer import write_lerobot_v3  # noqa: E402

pytestmark = pytest.mark.lerobot
LENGTHS, TASKS = (6, 9, 7), ("pick the cube", "", "pick the cube")
EXTRA = "observation.environment_state"
FEATURES = {
    "observation.state": {"dtype": "float32", "shape": (3,), "names": ["a", "b", "c"]},
    EXTRA: {"dtype": "float32", "shape": (2,), "names": None},
    "observation.force": {"dtype": "float32", "shape": (1,), "names": None},
    "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
}


@pytest.fixture(scope="session")
def vision_operators() -> object:
    """Schemas of the operators that torchvision lacks beside a CPU torch, without which it cannot be imported."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


@pytest.fixture
def lerobot_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vision_operators: object) -> type:
    """LeRobotDataset, with a cache that goes away."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    return LeRobotDataset


def _demonstrations() -> Demonstrations:
    rng = np.random.default_rng(0)
    draw = lambda length, width: rng.normal(size=(length, width)).astype(np.float32)  # noqa: E731
    episodes = (
        Episode(
            draw(length, 3),
            draw(length, 2),
            np.arange(length) / 50,
            task,
            {EXTRA: draw(length, 2), "observation.force": draw(length, 1)},
        )
        for length, task in zip(LENGTHS, TASKS, strict=True)
    )
    return Demonstrations(tuple(episodes), 50.0, "aloha")


def _frame(episode: Episode, row: int) -> dict[str, object]:
    columns = {"observation.state": episode.states, "action": episode.actions, **episode.extras}
    return {name: column[row] for name, column in columns.items()} | {"task": episode.task}


def _assert_same(found: Demonstrations, written: Demonstrations) -> None:
    assert (found.fingerprint(), found.control_hz, found.robot_name) == (written.fingerprint(), 50.0, "aloha")
    for ours, theirs in zip(found, written, strict=True):
        assert ours.task == theirs.task
        np.testing.assert_allclose(ours.timestamps, theirs.timestamps, atol=1e-6)
        for name, column in theirs.extras.items():
            np.testing.assert_array_equal(ours.extras[name], column)


@pytest.mark.parametrize("file_megabytes", [100.0, 1e-9])
def test_lerobot_loads_what_we_write(lerobot_dataset: type, tmp_path: Path, file_megabytes: float) -> None:
    written = _demonstrations()
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
    write_lerobot_v3(_demonstrations(), tmp_path / "data")
    loaded = lerobot_dataset("speedup/test", root=tmp_path / "data", episodes=[1])
    assert len(loaded) == LENGTHS[1]
    np.testing.assert_array_equal(loaded[3]["action"].numpy(), _demonstrations().episodes[1].actions[3])


def test_lerobot_continues_recording_into_what_we_wrote(lerobot_dataset: type, tmp_path: Path) -> None:
    written = _demonstrations()
    write_lerobot_v3(written, tmp_path / "data")
    recording = lerobot_dataset("speedup/test", root=tmp_path / "data")
    for row in range(LENGTHS[0]):
        recording.add_frame(_frame(written.episodes[0], row))
    recording.save_episode()
    recording.finalize()
    longer = Demonstrations((*written.episodes, written.episodes[0]), 50.0, "aloha")
    _assert_same(read_demonstrations(tmp_path / "data"), longer)


def test_we_read_what_lerobot_writes(lerobot_dataset: type, tmp_path: Path) -> None:
    written = _demonstrations()
    recording = lerobot_dataset.create(
        "speedup/test", fps=50, features=FEATURES, root=tmp_path / "data", robot_type="aloha", use_videos=False
    )
    for episode in written:
        for row in range(len(episode)):
            recording.add_frame(_frame(episode, row))
        recording.save_episode()
    recording.finalize()
    _assert_same(read_demonstrations(tmp_path / "data"), written)
    assert read_names(tmp_path / "data") == (("a", "b", "c"), ("x", "y"))
