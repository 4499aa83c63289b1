import pytest
import torch
from jaxtyping import config

from speedup_patch.candidates import Rates, Retimings
from speedup_patch.pipeline import TrainingConfig, train_patch
from speedup_patch.robots import ALOHA
from speedup_patch.scheduler.config import SchedulerConfig
from speedup_patch.training import LoopConfig
from speedup_patch.world_model.config import WorldModelConfig
from stand_ins import smooth_demonstrations

CHUNK = 12


def quick_patch(folder, choices, epsilon=0.03):
    """A patch trained for a moment on stand-in demonstrations."""
    loop = LoopConfig(steps=40, batch_size=64, learning_rate=1e-3, evaluate_every=20, patience=0, seed=0)
    settings = TrainingConfig(
        chunk_length=CHUNK,
        choices=choices,
        epsilon=epsilon,
        world_model=WorldModelConfig(kind="gru", hidden=16, loop=loop),
        scheduler=SchedulerConfig(hidden=16, loop=loop),
    )
    train_patch(smooth_demonstrations(episodes=12), ALOHA, settings, device=torch.device("cpu")).save(folder)
    return folder


@pytest.fixture(scope="session", params=[Rates((1.0, 2.0, 3.0)), Retimings()], ids=["rates", "retimings"])
def patch_folder(tmp_path_factory, request):
    return quick_patch(tmp_path_factory.mktemp("patches") / "my.patch", request.param)


@pytest.fixture(scope="session")
def strict_folder(tmp_path_factory):
    """Only rates above 1, and a tolerance that nothing meets."""
    return quick_patch(tmp_path_factory.mktemp("patches") / "strict.patch", Rates((2.0, 3.0)), epsilon=1e-9)


@pytest.fixture
def unchecked():
    """Without the tests' checks of types and shapes, which cost ten times as much as a decision and see to it that what
    users may do wrong goes wrong earlier."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
