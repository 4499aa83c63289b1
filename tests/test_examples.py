"""The examples as a user runs them: the real simulator, the bundled policy, a patch from a few demonstrations.

Whether so small a patch solves the task depends on the processor's rounding; what is printed, and that the policy is
asked more often because its chunks are shortened, does not.
"""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from speedup_patch.candidates import Rates
from speedup_patch.envs import make_env
from speedup_patch.envs.collect import collect_demonstrations
from speedup_patch.pipeline import TrainingConfig, train_patch
from speedup_patch.policies import load_policy
from speedup_patch.robots import ALOHA
from speedup_patch.scheduler.config import SchedulerConfig
from speedup_patch.training import LoopConfig
from speedup_patch.world_model.config import WorldModelConfig

EXAMPLES = sorted(Path(__file__).parents[1].glob("examples/*.py"))
CHUNK = 24
each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def patch(tmp_path_factory):
    """A patch whose one rate and whose tolerance halve every familiar chunk, whatever a training run learns."""
    demonstrations = collect_demonstrations("aloha/insertion", 5, seed=0, processes=1, report=lambda done, total: None)
    loop = LoopConfig(steps=2, batch_size=16, evaluate_every=2)
    config = TrainingConfig(
        chunk_length=CHUNK,
        choices=Rates((2.0,)),
        epsilon=10.0,
        states=100,
        world_model=WorldModelConfig("mlp", hidden=8, loop=loop),
        scheduler=SchedulerConfig(hidden=8, loop=loop),
    )
    folder = tmp_path_factory.mktemp("examples") / "insertion.patch"
    train_patch(demonstrations, ALOHA, config, device=torch.device("cpu")).save(folder)
    return folder


@each_example
def test_an_example_runs_an_episode_to_its_end(example, patch):
    run = subprocess.run([sys.executable, example, patch], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    assert re.fullmatch(r"(not )?solved in [1-9]\d* control steps\n", run.stdout), run.stdout


@each_example
def test_an_example_asks_the_policy_again_before_its_chunk_is_over(example, patch, monkeypatch, capsys):
    """The first chunk, from where every episode starts, is halved; the later ones may be unfamiliar and run as they
    are. Without the patch the policy would be asked twice in this time."""
    env, policy, asked = make_env("aloha/insertion"), load_policy("bundled:aloha/insertion"), []
    env.max_steps = 2 * CHUNK
    infer = policy.infer
    monkeypatch.setattr(policy, "infer", lambda observation: (asked.append(observation), infer(observation))[1])
    monkeypatch.setattr("speedup_patch.envs.make_env", lambda name: env)
    monkeypatch.setattr("speedup_patch.policies.load_policy", lambda spec: policy)
    monkeypatch.setattr(sys, "argv", [str(example), str(patch)])
    runpy.run_path(str(example), run_name="__main__")
    assert len(asked) > 2
    assert capsys.readouterr().out.startswith("not solved in ")


def test_there_are_examples():
    assert {path.stem for path in EXAMPLES} == {"act_style", "openpi_style", "vla_adapter_style"}
