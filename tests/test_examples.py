"""The examples as a user runs them: the real simulator, the bundled policy, a patch from a few demonstrations."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from speedup_patch.envs.collect import collect_demonstrations
from speedup_patch.pipeline import TrainingConfig, train_patch
from speedup_patch.robots import ALOHA

EXAMPLES = sorted(Path(__file__).parents[1].glob("examples/*.py"))
UNPATCHED_STEPS = 300
"""Every unpatched attempt at the insertion takes longer than this (364 on average)."""


@pytest.fixture(scope="module")
def patch(tmp_path_factory):
    demonstrations = collect_demonstrations("aloha/insertion", 5, seed=0, processes=1, report=lambda done, total: None)
    config = TrainingConfig(states=500)
    quick = replace(config, scheduler=replace(config.scheduler, loop=replace(config.scheduler.loop, steps=500)))
    folder = tmp_path_factory.mktemp("examples") / "insertion.patch"
    train_patch(demonstrations, ALOHA, quick, device=torch.device("cpu")).save(folder)
    return folder


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_solves_the_task_faster_than_the_policy_alone(example, patch):
    run = subprocess.run([sys.executable, example, patch], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    found = re.fullmatch(r"solved in (\d+) control steps\n", run.stdout)
    assert found, run.stdout
    assert int(found[1]) < UNPATCHED_STEPS


def test_there_are_examples():
    assert {path.stem for path in EXAMPLES} == {"act_style", "openpi_style", "vla_adapter_style"}
