from pathlib import Path

import pytest
import torch

from speedup_patch.candidates import Rates
from speedup_patch.pipeline import TrainingConfig, train_patch
from speedup_patch.robots import find_robot
from speedup_patch.scheduler.config import SchedulerConfig
from speedup_patch.training import LoopConfig
from speedup_patch.world_model.config import WorldModelConfig
from stand_ins import smooth_demonstrations


@pytest.fixture(scope="session")
def patch_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A patch for chunks of 24 actions, trained for a moment, whose rates and tolerance let it only shorten."""
    loop = LoopConfig(steps=10, batch_size=32, learning_rate=1e-3, evaluate_every=10, patience=0, seed=0)
    config = TrainingConfig(
        chunk_length=24,
        choices=Rates((2.0, 3.0)),
        epsilon=10.0,
        world_model=WorldModelConfig(kind="gru", hidden=16, loop=loop),
        scheduler=SchedulerConfig(hidden=16, loop=loop),
    )
    folder = tmp_path_factory.mktemp("patches") / "my.patch"
    patch = train_patch(smooth_demonstrations(episodes=6), find_robot("aloha"), config, device=torch.device("cpu"))
    patch.save(folder)
    return folder
