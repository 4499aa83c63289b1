"""Small LeRobot policies with random weights that move ALOHA a little around its start, and engines to patch them."""

from collections.abc import Iterable
from pathlib import Path

import gymnasium
import torch
from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy
from lerobot.policies.factory import make_pre_post_processors
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.processor import PolicyProcessorPipeline
from lerobot.scripts.lerobot_eval import rollout
from lerobot.utils.constants import ACTION, OBS_ENV_STATE, OBS_STATE

from speedup_patch.baselines import FixedRate, OneRatePerChunk
from speedup_patch.lerobot import aloha_state  # noqa: F401  (registers the environment)
from speedup_patch.lerobot.processor_speedup_patch import make_speedup_patch_pre_post_processors
from speedup_patch.robots import ALOHA
from speedup_patch.runtime.engine import Engine
from stand_ins import START

Loaded = tuple[PreTrainedPolicy, PolicyProcessorPipeline, PolicyProcessorPipeline]

CAMERA = "observation.images.top"
OBJECTS = torch.tensor([0.1, 0.5, 0.05, 1.0, 0.0, 0.0, 0.0, -0.1, 0.5, 0.05, 1.0, 0.0, 0.0, 0.0])
AROUND_START = {
    OBS_STATE: {"mean": torch.tensor(START).float(), "std": torch.full((14,), 0.05)},
    OBS_ENV_STATE: {"mean": OBJECTS, "std": torch.full((14,), 0.05)},
    ACTION: {"mean": torch.tensor(START).float(), "std": torch.full((14,), 0.02)},
}
MEAN_STD = dict.fromkeys(("STATE", "ENV", "ACTION"), NormalizationMode.MEAN_STD) | {
    "VISUAL": NormalizationMode.IDENTITY
}


def aloha_features(camera: tuple[int, int, int] | None = None) -> dict[str, dict[str, PolicyFeature]]:
    """ALOHA's joints and either a camera or the poses of its two objects."""
    scene = (
        {CAMERA: PolicyFeature(FeatureType.VISUAL, camera)}
        if camera
        else {OBS_ENV_STATE: PolicyFeature(FeatureType.ENV, (14,))}
    )
    return {
        "input_features": {OBS_STATE: PolicyFeature(FeatureType.STATE, (14,)), **scene},
        "output_features": {ACTION: PolicyFeature(FeatureType.ACTION, (14,))},
    }


def small_act(n_action_steps: int = 24, camera: tuple[int, int, int] | None = None, **options: float) -> Loaded:
    """An ACT that predicts 24 actions."""
    config = ACTConfig(
        **aloha_features(camera),
        normalization_mapping=MEAN_STD,
        chunk_size=24,
        n_action_steps=n_action_steps,
        dim_model=32,
        n_heads=2,
        dim_feedforward=64,
        n_encoder_layers=1,
        n_vae_encoder_layers=1,
        pretrained_backbone_weights=None,
        push_to_hub=False,
        device="cpu",
        **options,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        policy = ACTPolicy(config)
    return policy.eval(), *make_pre_post_processors(config, dataset_stats=AROUND_START)


def small_diffusion() -> Loaded:
    """A diffusion policy that sees two observations and executes 8 actions."""
    config = DiffusionConfig(
        **aloha_features(),
        normalization_mapping=MEAN_STD,
        n_obs_steps=2,
        horizon=16,
        n_action_steps=8,
        down_dims=(32, 64),
        diffusion_step_embed_dim=16,
        n_groups=4,
        noise_scheduler_type="DDIM",
        num_inference_steps=3,
        push_to_hub=False,
        device="cpu",
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        policy = DiffusionPolicy(config)
    return policy.eval(), *make_pre_post_processors(config, dataset_stats=AROUND_START)


def save_checkpoint(loaded: Loaded, folder: Path) -> Path:
    """The policy and its pipelines as LeRobot saves them."""
    for part in loaded:
        part.save_pretrained(folder)
    return folder


def fixed_engine(*rates: float, chunk_length: int | None = None) -> Engine:
    """Every chunk of the i-th robot runs at the i-th rate; the last rate is for all further ones."""
    remaining = list(rates)

    def new_scheduler() -> OneRatePerChunk:
        return OneRatePerChunk(FixedRate(remaining.pop(0) if len(remaining) > 1 else remaining[0]))

    return Engine(ALOHA, new_scheduler, chunk_length=chunk_length)


def run_rollout(
    policy: PreTrainedPolicy,
    pipelines: Iterable[PolicyProcessorPipeline],
    *,
    seeds: Iterable[int] = (3, 4, 5),
    steps: int = 50,
) -> dict[str, torch.Tensor]:
    """LeRobot's own evaluation rollout on insertion, one environment per seed, with the noise of one fixed seed."""
    seeds = list(seeds)
    environments = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make("speedup_patch/aloha_insertion-v0", max_episode_steps=steps)] * len(seeds),
        autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
    )
    untouched = PolicyProcessorPipeline(steps=[])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return rollout(environments, policy, untouched, untouched, *pipelines, seeds=seeds, return_observations=True)


def run_patched(policy: PreTrainedPolicy, **options: object) -> dict[str, torch.Tensor]:
    """The same with the pipelines that go around a patched policy."""
    return run_rollout(policy, make_speedup_patch_pre_post_processors(policy.config), **options)
