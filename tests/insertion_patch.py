"""Writes a patch for ALOHA insertion, from a few scripted demonstrations and a short training, to the given folder."""

import sys
from pathlib import Path

import torch

from speedup_patch.envs.collect import collect_demonstrations
from speedup_patch.pipeline import TrainingConfig, train_patch
from speedup_patch.robots import ALOHA
from speedup_patch.scheduler.config import SchedulerConfig
from speedup_patch.training import LoopConfig


def main() -> None:
    """Less than a minute on one idle core."""
    demonstrations = collect_demonstrations("aloha/insertion", 8, seed=5, processes=1, report=lambda done, of: None)
    loop = LoopConfig(steps=200, batch_size=128, evaluate_every=200)
    config = TrainingConfig(chunk_length=24, states=2000, scheduler=SchedulerConfig(loop=loop))
    train_patch(demonstrations, ALOHA, config, device=torch.device("cpu")).save(Path(sys.argv[1]))
