import pytest
import torch

from report.run_folders import CHUNK
from speedup_patch.candidates import Rates
from speedup_patch.pipeline import TrainingConfig, train_patch
from speedup_patch.robots import ALOHA
from speedup_patch.scheduler.config import SchedulerConfig
from speedup_patch.training import LoopConfig
from speedup_patch.world_model.config import WorldModelConfig
from stand_ins import smooth_demonstrations


@pytest.fixture(scope="session")
def patch_folder(tmp_path_factory):
    """A patch of constant rates, trained for a moment on stand-in demonstrations."""
    folder = tmp_path_factory.mktemp("patches") / "my.patch"
    loop = LoopConfig(steps=20, batch_size=64, learning_rate=1e-3, evaluate_every=10, patience=0, seed=0)
    config = TrainingConfig(
        chunk_length=CHUNK,
        choices=Rates((1.0, 2.0, 4.0)),
        measure="time_aligned",
        world_model=WorldModelConfig(kind="gru", hidden=16, loop=loop),
        scheduler=SchedulerConfig(hidden=16, loop=loop),
    )
    train_patch(smooth_demonstrations(episodes=8), ALOHA, config, device=torch.device("cpu")).save(folder)
    return folder
