"""What the benchmark needs of a stranger before it can be measured: demonstrations, a base policy, a patch.

Each is made where it is missing, the way a newcomer would: the policy and the patch see the demonstrations alone.
"""

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from speedup_patch.bench.config import BenchConfig
from speedup_patch.bench.imitation import ImitationConfig, learn, write_policy
from speedup_patch.data import Demonstrations
from speedup_patch.datasets import read_demonstrations, write_demonstrations
from speedup_patch.envs.collect import follow
from speedup_patch.envs.seeds import DEMONSTRATIONS
from speedup_patch.envs.strangers import StrangerEnv
from speedup_patch.envs.strangers.collecting import collect
from speedup_patch.interfaces import ChunkPolicy
from speedup_patch.pipeline import TrainingConfig, train_patch
from speedup_patch.policies.onnx import OnnxPolicy
from speedup_patch.reporting import Report

FIRST_TRIAL = DEMONSTRATIONS + 50_000
"""Seed from which policies are tried while they are made; no demonstration and no table begins there."""


@dataclass(frozen=True)
class Recipe:
    """How a stranger's artefacts are made; its patch is trained as the package does by default."""

    demonstrations: tuple[int, ...] = (60, 120, 240)
    """As many are recorded at first; more, as long as the policy that is learned from them fails too often. The best
    policy stays."""
    trials: int = 60
    enough: float = 0.97
    """The share of so many trials that a policy must solve; more than the 95% that the table asks for, as it is an
    estimate."""
    imitation: ImitationConfig = field(default_factory=ImitationConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)


def prepare(config: BenchConfig, suite: str, recipe: Recipe, report: Report) -> Demonstrations:
    """Makes what is missing of WORK/SUITE.npz, SUITE.onnx and SUITE.patch, and returns the demonstrations."""
    env = StrangerEnv(int(suite))
    archive, policy = config.work / f"{suite}.npz", config.work / f"{suite}.onnx"
    config.work.mkdir(parents=True, exist_ok=True)
    if not (archive.exists() and policy.exists()):
        _teach(env, recipe, archive, policy, report)
    demonstrations = read_demonstrations(archive)
    if not config.patch(suite).exists():
        _train(config, suite, env, recipe.training, demonstrations, report)
    return demonstrations


def _teach(env: StrangerEnv, recipe: Recipe, archive: Path, policy: Path, report: Report) -> None:
    """Demonstrations and a policy learned from them that solves its task often enough; where no number of them gives
    one, the best."""
    attempt, best = policy.with_suffix(".attempt.onnx"), -1.0
    for count in recipe.demonstrations:
        collected = collect(env, count, DEMONSTRATIONS, report)
        write_policy(learn(collected, env.robot, env.stranger.chunk, recipe.imitation, report), attempt)
        solved = try_policy(env, OnnxPolicy(attempt), recipe.trials, report)
        if solved > best:
            best = solved
            write_demonstrations(collected, archive, overwrite=True)
            attempt.replace(policy)
        if solved >= recipe.enough:
            break
    attempt.unlink(missing_ok=True)


def try_policy(env: StrangerEnv, policy: ChunkPolicy, trials: int, report: Report) -> float:
    """The share of trials that the unpatched policy solves."""
    solved = 0
    for number in range(trials):
        solved += follow(env, policy, env.reset(FIRST_TRIAL + number), env.max_steps) is None
        report("trials", number + 1, trials, {})
    return solved / trials


def _train(
    config: BenchConfig,
    suite: str,
    env: StrangerEnv,
    training: TrainingConfig,
    demonstrations: Demonstrations,
    report: Report,
) -> None:
    """The patch, in a folder of checkpoints from which a training that was stopped goes on."""
    workspace = config.work / f"{suite}.patch.training"
    patch = train_patch(
        demonstrations,
        env.robot,
        replace(training, chunk_length=env.stranger.chunk),
        device=torch.device("cpu"),
        workspace=workspace,
        resume=workspace.exists(),
        report=report,
    )
    patch.save(config.patch(suite))
    shutil.rmtree(workspace)
