"""From the text of a configuration to a policy and the engine of its patch."""

# LeRobot is not in the type checker's environment.
# pyright: reportMissingImports=false, reportUnknownParameterType=false

import re
from pathlib import Path

from huggingface_hub.constants import CONFIG_NAME
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

from speedup_patch.errors import InputError
from speedup_patch.lerobot.base_policies import BasePolicy, LeRobotBase, OnnxBase
from speedup_patch.policies import LOADERS, load_policy
from speedup_patch.policies.onnx import OnnxPolicy
from speedup_patch.runtime.engine import Engine, load_engine

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def load_base(address: str, device: str, n_action_steps: int | None = None) -> BasePolicy:
    """The policy at ``address``: a LeRobot checkpoint, ``onnx:FILE`` or ``bundled:NAME``."""
    if not address:
        raise InputError("which policy? give --policy.base: a LeRobot checkpoint, onnx:FILE or bundled:aloha/insertion")
    if address.partition(":")[0] in LOADERS:
        policy = load_policy(address)
        if not isinstance(policy, OnnxPolicy) or n_action_steps is not None:
            raise InputError(f"{address} executes its whole chunk; n_action_steps is for LeRobot checkpoints")
        return OnnxBase(policy)
    if Path(address).is_dir():
        if not (Path(address) / CONFIG_NAME).is_file():
            raise InputError(f"{address} is no LeRobot checkpoint: it has no {CONFIG_NAME}")
    elif not HUB_NAME.fullmatch(address):
        raise InputError(f"{address} is no folder: give a LeRobot checkpoint, its name on the hub, or onnx:FILE")
    return _load_checkpoint(address, device, n_action_steps)


def load_patch_engine(patch: str, robot: str | None) -> Engine:
    """The engine of a patch folder; with ``robot``, of any scheduler that ``sup eval`` takes."""
    if not patch:
        raise InputError("which patch? give --policy.patch: the folder that `sup train` wrote")
    if robot is None:
        return load_engine(Path(patch))
    from speedup_patch.evaluation.schedulers import find_engine
    from speedup_patch.robots import find_robot

    return find_engine(patch, find_robot(robot))


def _load_checkpoint(address: str, device: str, n_action_steps: int | None) -> LeRobotBase:
    try:
        config = PreTrainedConfig.from_pretrained(address)
    except OSError as error:
        raise InputError(f"{address} is neither a folder nor a LeRobot checkpoint on the hub: {error}") from error
    if config.use_peft:
        raise InputError(f"{address} is an adapter (PEFT): merge it into its policy first")
    config.device = device
    if n_action_steps is not None:
        config.n_action_steps = n_action_steps
    policy = get_policy_class(config.type).from_pretrained(address, config=config)
    preprocessor, postprocessor = make_pre_post_processors(
        config, pretrained_path=address, preprocessor_overrides={"device_processor": {"device": device}}
    )
    return LeRobotBase(policy, preprocessor, postprocessor)
