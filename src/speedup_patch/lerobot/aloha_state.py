"""``--env.type=aloha_state``: gym-aloha's physics and tasks without cameras, for LeRobot's evaluation.

The stock environment has no observation of the objects but pictures; this one reports their poses as
``observation.environment_state`` and draws none.
"""

# LeRobot is not in the type checker's environment.
# pyright: reportMissingImports=false, reportUnknownParameterType=false
# pyright: reportUntypedBaseClass=false, reportUntypedClassDecorator=false

from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import Float, UInt8
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.envs.configs import EnvConfig
from lerobot.utils.constants import ACTION, OBS_ENV_STATE, OBS_STATE

from speedup_patch.envs import make_env
from speedup_patch.errors import InputError

OBJECT_NUMBERS = {"insertion": 14, "transfer": 7}
"""Pose numbers of the objects, by task."""


@EnvConfig.register_subclass("aloha_state")
@dataclass
class AlohaStateConfig(EnvConfig):
    """What ``lerobot-eval`` can be told about it."""

    task: str | None = "insertion"
    """insertion or transfer."""
    fps: int = 50
    episode_length: int = 900
    """Control steps before an attempt counts as failed."""
    features: dict[str, PolicyFeature] = field(default_factory=dict)
    features_map: dict[str, str] = field(
        default_factory=lambda: {ACTION: ACTION, "agent_pos": OBS_STATE, "environment_state": OBS_ENV_STATE}
    )

    def __post_init__(self) -> None:
        if self.task not in OBJECT_NUMBERS:
            raise InputError(f"unknown task {self.task!r}; tasks: {', '.join(OBJECT_NUMBERS)}")
        self.features = {
            ACTION: PolicyFeature(FeatureType.ACTION, (14,)),
            "agent_pos": PolicyFeature(FeatureType.STATE, (14,)),
            "environment_state": PolicyFeature(FeatureType.ENV, (OBJECT_NUMBERS[self.task],)),
        }

    @property
    def package_name(self) -> str:
        return "speedup_patch.lerobot.aloha_state"

    @property
    def gym_id(self) -> str:
        return f"speedup_patch/aloha_{self.task}-v0"

    @property
    def gym_kwargs(self) -> dict[str, Any]:
        return {"max_episode_steps": self.episode_length}


class AlohaStateEnv(gymnasium.Env[Any, Any]):
    """A gymnasium environment; the reward is gym-aloha's 4 at success, else 0, and success ends the episode."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, task: str) -> None:
        self._env = make_env(f"aloha/{task}")
        size = self._env.robot.action_size
        self.action_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.observation_space = spaces.Dict(
            {
                "agent_pos": spaces.Box(-np.inf, np.inf, (self._env.robot.state_size,), np.float64),
                "environment_state": spaces.Box(-np.inf, np.inf, (OBJECT_NUMBERS[task],), np.float64),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        super().reset(seed=seed)
        start = int(self.np_random.integers(2**31)) if seed is None else seed
        return _observation(self._env.reset(start)), {"is_success": False}

    def step(self, action: Float[np.ndarray, " A"]) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        seen, solved = self._env.step(action.astype(np.float64))
        return _observation(seen), 4.0 if solved else 0.0, solved, False, {"is_success": solved}

    def render(self) -> UInt8[np.ndarray, "16 16 3"]:
        """A black frame: there is no camera, but lerobot-eval films every episode."""
        return np.zeros((16, 16, 3), dtype=np.uint8)


def _observation(seen: Any) -> dict[str, np.ndarray]:
    return {"agent_pos": seen["state"], "environment_state": seen["environment_state"]}


for _task in OBJECT_NUMBERS:
    gymnasium.register(
        id=f"speedup_patch/aloha_{_task}-v0",
        entry_point=f"{__name__}:AlohaStateEnv",
        max_episode_steps=900,
        kwargs={"task": _task},
    )
