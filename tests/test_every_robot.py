"""Every robot we know goes the whole way: demonstrations, training, the saved patch, a decision on the robot."""

import numpy as np
import pytest
import torch

from sample_motions import demonstrate
from speedup_patch.pipeline import TrainingConfig, train_patch
from speedup_patch.robots import ROBOTS
from speedup_patch.runtime.accelerator import ChunkAccelerator
from speedup_patch.runtime.engine import load_engine
from speedup_patch.scheduler.config import SchedulerConfig
from speedup_patch.training import LoopConfig
from speedup_patch.world_model.config import WorldModelConfig

CHUNK = 10
LOOP = LoopConfig(steps=10, batch_size=32, learning_rate=1e-3, evaluate_every=5, patience=0, seed=0)
CONFIG = TrainingConfig(
    chunk_length=CHUNK,
    states=300,
    world_model=WorldModelConfig(kind="gru", hidden=8, layers=1, loop=LOOP),
    scheduler=SchedulerConfig(hidden=8, loop=LOOP),
)


@pytest.mark.parametrize("name", ROBOTS)
def test_a_patch_trains_is_saved_and_decides(name, tmp_path):
    robot = ROBOTS[name]
    demonstrations = demonstrate(robot)
    train_patch(demonstrations, robot, CONFIG, device=torch.device("cpu")).save(tmp_path / "my.patch")
    accelerator = ChunkAccelerator(load_engine(tmp_path / "my.patch", robot))
    episode = demonstrations.episodes[0]
    for t in range(0, len(episode) - CHUNK, CHUNK):
        chunk = episode.actions[t : t + CHUNK].astype(np.float64)
        result = accelerator.shorten(chunk, episode.states[t])
        assert np.isfinite(result.actions).all()
        assert result.actions.shape[1] == robot.action_size
        if len(result.actions) < CHUNK:
            assert (result.actions >= robot.action_low).all()
            assert (result.actions <= robot.action_high).all()
        else:
            assert np.array_equal(result.actions, chunk)
    assert accelerator.fallbacks["decision failed"] == accelerator.fallbacks["resampling failed"] == 0
