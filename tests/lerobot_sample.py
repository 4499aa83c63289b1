"""The episodes that the tests with the real LeRobot record; ``tests/datasets/lerobot_v21`` holds them too.

That folder was written by LeRobot 0.3.3, the last release that records v2.1, with this program: LeRobot 0.4.4 reads
v2.1 (its converter does) but no longer writes it. To write it again, with LeRobot 0.3.3 installed:

    PYTHONPATH=src python tests/lerobot_sample.py FOLDER
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from speedup_patch.data import Demonstrations, Episode

LENGTHS, TASKS = (6, 9, 7), ("pick the cube", "", "pick the cube")
EXTRA, FORCE = "observation.environment_state", "observation.force"
FEATURES = {
    "observation.state": {"dtype": "float32", "shape": (3,), "names": ["a", "b", "c"]},
    EXTRA: {"dtype": "float32", "shape": (2,), "names": None},
    FORCE: {"dtype": "float32", "shape": (1,), "names": None},
    "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
}


def sample() -> Demonstrations:
    """Three episodes of two tasks."""
    rng = np.random.default_rng(0)
    draw = lambda length, width: rng.normal(size=(length, width)).astype(np.float32)  # noqa: E731
    episodes = (
        Episode(
            draw(length, 3),
            draw(length, 2),
            np.arange(length) / 50,
            task,
            {EXTRA: draw(length, 2), FORCE: draw(length, 1)},
        )
        for length, task in zip(LENGTHS, TASKS, strict=True)
    )
    return Demonstrations(tuple(episodes), 50.0, "aloha")


def frame(episode: Episode, row: int) -> dict[str, Any]:
    """One row of an episode as LeRobot takes it, without its task."""
    columns = {"observation.state": episode.states, "action": episode.actions, **episode.extras}
    return {name: column[row] for name, column in columns.items()}


def create(dataset: Any, folder: Path) -> Any:
    """An empty data set of LeRobot's own class, ready to record the sample."""
    return dataset.create("speedup/test", fps=50, features=FEATURES, root=folder, robot_type="aloha", use_videos=False)


def declare_vision_operators() -> object:
    """Schemas of the operators that torchvision lacks beside a CPU torch, without which LeRobot cannot be imported."""
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def _record_with_lerobot_0_3_3(folder: Path) -> None:
    declared = declare_vision_operators()
    from lerobot.datasets.lerobot_dataset import CODEBASE_VERSION, LeRobotDataset

    assert declared is not None
    assert CODEBASE_VERSION == "v2.1", f"this LeRobot records {CODEBASE_VERSION}"
    recording = create(LeRobotDataset, folder)
    for episode in sample():
        for row in range(len(episode)):
            recording.add_frame(frame(episode, row), task=episode.task)
        recording.save_episode()


if __name__ == "__main__":
    _record_with_lerobot_0_3_3(Path(sys.argv[1]))
