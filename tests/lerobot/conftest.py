import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Run = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="session")
def run_module() -> Run:
    """Starts the ``main()`` of a module, such as LeRobot's own entry points, in a process of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
        "HF_HUB_OFFLINE": "1",
        "MUJOCO_GL": "egl",
    }

    def start(module: str, *arguments: str, folder: Path) -> subprocess.Popen[str]:
        code = (
            "from vision_operators import declare_missing_operators; declare_missing_operators();"
            f"import importlib; importlib.import_module({module!r}).main()"
        )
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


@pytest.fixture(scope="session")
def insertion_patch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A patch for ALOHA insertion, from a few scripted demonstrations and a short training."""
    import torch

    from speedup_patch.envs.collect import collect_demonstrations
    from speedup_patch.pipeline import TrainingConfig, train_patch
    from speedup_patch.robots import ALOHA
    from speedup_patch.scheduler.config import SchedulerConfig
    from speedup_patch.training import LoopConfig

    demonstrations = collect_demonstrations("aloha/insertion", 8, seed=5, processes=1, report=lambda done, of: None)
    loop = LoopConfig(steps=200, batch_size=128, evaluate_every=200)
    config = TrainingConfig(chunk_length=24, states=2000, scheduler=SchedulerConfig(loop=loop))
    folder = tmp_path_factory.mktemp("patches") / "insertion.patch"
    train_patch(demonstrations, ALOHA, config, device=torch.device("cpu")).save(folder)
    return folder
