"""``--policy.type=speedup_patch``: what LeRobot's commands are told about a patched policy."""

# LeRobot is not in the type checker's environment. The name of this file is LeRobot's convention for policies.
# pyright: reportMissingImports=false, reportUnknownParameterType=false
# pyright: reportUntypedBaseClass=false, reportUntypedClassDecorator=false

from dataclasses import dataclass, field

from lerobot.configs.policies import PreTrainedConfig
from lerobot.optim.optimizers import OptimizerConfig
from lerobot.utils.constants import OBS_STATE

from speedup_patch.errors import InputError


@PreTrainedConfig.register_subclass("speedup_patch")
@dataclass
class SpeedupPatchConfig(PreTrainedConfig):
    """A policy and the patch that makes it faster."""

    base: str = ""
    """The policy: a LeRobot checkpoint (folder or name on the hub), ``onnx:FILE`` or ``bundled:aloha/insertion``."""
    patch: str = ""
    """Folder of the trained patch; with ``robot``, any scheduler that ``sup eval`` takes, such as fixed:2."""
    robot: str | None = None
    """Name of the robot, or its .toml file, for a ``patch`` that does not say itself which robot it is for."""
    max_rate: float | None = None
    """Never run faster than this many original actions per command sent; 1 runs the policy as it is."""
    deadline: float | None = None
    """Seconds a decision may take before the original chunk is executed instead."""
    log: str | None = None
    """Folder for a Parquet log of every decision, which ``sup check`` reads."""
    n_action_steps: int | None = None
    """How much of its chunk the policy executes, in place of the checkpoint's own setting."""
    state_key: str = OBS_STATE
    """The observation that holds the state the patch was trained on, un-normalised."""
    rename_map: dict[str, str] = field(default_factory=dict)
    """Names of observations to change before the policy sees them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_action_steps is not None and self.n_action_steps < 1:
            raise InputError(f"n_action_steps must be at least 1, not {self.n_action_steps}")

    @property
    def observation_delta_indices(self) -> None:
        return None

    @property
    def action_delta_indices(self) -> None:
        return None

    @property
    def reward_delta_indices(self) -> None:
        return None

    def get_optimizer_preset(self) -> OptimizerConfig:
        raise InputError(
            "a patched policy is not trained: train the policy with LeRobot and the patch with `sup train`"
        )

    def get_scheduler_preset(self) -> None:
        return None

    def validate_features(self) -> None:
        pass
