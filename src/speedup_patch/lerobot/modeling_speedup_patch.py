"""A LeRobot policy around a LeRobot policy: asks for chunks, shortens them, and hands out one action at a time."""

# LeRobot is not in the type checker's environment. The name of this file is LeRobot's convention for policies.
# pyright: reportMissingImports=false, reportUnknownParameterType=false, reportUntypedBaseClass=false

import atexit
import logging
from collections import Counter, deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.processor import PolicyProcessorPipeline
from torch import Tensor

from speedup_patch.errors import InputError
from speedup_patch.lerobot.base_policies import BasePolicy, Batch, LeRobotBase
from speedup_patch.lerobot.configuration_speedup_patch import SpeedupPatchConfig
from speedup_patch.lerobot.loading import load_base, load_patch_engine
from speedup_patch.lerobot.processor_speedup_patch import make_speedup_patch_pre_post_processors
from speedup_patch.runtime.accelerator import ChunkAccelerator
from speedup_patch.runtime.decision_log import DecisionLog
from speedup_patch.runtime.engine import Engine

LOGGER = logging.getLogger("speedup_patch")


class RobotQueue:
    """What one robot of the batch has still to execute, and what it was like one control step ago."""

    def __init__(self, accelerator: ChunkAccelerator) -> None:
        self.accelerator = accelerator
        self.actions: deque[tuple[Tensor, float]] = deque()
        """Each with the number of original actions that it does."""
        self.previous: Float[np.ndarray, " S"] | None = None

    def fill(self, chunk: Float[Tensor, "n A"], state: Float[np.ndarray, " S"]) -> None:
        """Takes in a chunk, shortened."""
        original = chunk.to(torch.float64).numpy()
        previous = state if self.previous is None else self.previous
        shortened = self.accelerator.shorten(original, state, previous)
        actions = torch.from_numpy(shortened.actions).to(chunk.dtype)
        self.actions.extend(zip(actions, np.diff(shortened.positions, prepend=0.0), strict=True))

    def reset(self) -> None:
        """A new episode begins."""
        self.accelerator.reset()
        self.actions.clear()
        self.previous = None


class SpeedupPatchPolicy(PreTrainedPolicy):
    """A policy made faster, to be used wherever LeRobot uses a policy.

    It takes raw observations and gives un-normalised actions: the base policy's pre- and post-processor are inside.
    Every robot (environment) of a batch has its own queue, so that their chunks may differ in length. Call
    ``select_action`` at every control step, as LeRobot does: that is how it knows the velocity.
    """

    config_class = SpeedupPatchConfig
    name = "speedup_patch"

    def __init__(
        self,
        config: SpeedupPatchConfig,
        *,
        base: BasePolicy | None = None,
        engine: Engine | None = None,
        **_: object,  # LeRobot hands over the data set's statistics; the base policy brings its own
    ) -> None:
        super().__init__(config)
        self.config = config
        self.base = base or load_base(config.base, str(config.device), config.n_action_steps)
        self.engine = engine or load_patch_engine(config.patch, config.robot)
        _refuse_misfit(self.base, self.engine)
        self.log = DecisionLog(Path(config.log)) if config.log else None
        if self.log is not None:
            atexit.register(self.log.flush)
        self.original_actions, self.executed_actions = 0.0, 0
        self._max_rate = config.max_rate
        self._robots = [self._new_robot()]

    @property
    def max_rate(self) -> float | None:
        """The fastest that is allowed now; may be set at any time."""
        return self._max_rate

    @max_rate.setter
    def max_rate(self, rate: float | None) -> None:
        for robot in self._robots:
            robot.accelerator.max_rate = rate
        self._max_rate = rate

    @property
    def fallbacks(self) -> Counter[str]:
        """How often an original chunk ran unchanged, by reason."""
        return sum((robot.accelerator.fallbacks for robot in self._robots), Counter())

    @property
    def mean_rate(self) -> float:
        """Original actions done per command sent, over everything since the start."""
        return self.original_actions / self.executed_actions if self.executed_actions else 1.0

    @torch.no_grad()
    def select_action(self, batch: Batch, **options: Any) -> Float[Tensor, "B A"]:
        """The action that each robot executes now, un-normalised, on the CPU."""
        _refuse_options(options)
        states = self._read_states(batch)
        self._provide_robots(len(states))
        self.base.remember(batch)
        waiting = [row for row, robot in enumerate(self._robots) if not robot.actions]
        if waiting:
            for row, chunk in zip(waiting, self.base.chunks(batch, waiting), strict=True):
                self._robots[row].fill(chunk, states[row])
        for robot, state in zip(self._robots, states, strict=True):
            robot.previous = state
        actions, done = zip(*(robot.actions.popleft() for robot in self._robots), strict=True)
        self._count(sum(done), len(actions))
        return torch.stack(actions)

    @torch.no_grad()
    def predict_action_chunk(self, batch: Batch, **options: Any) -> Float[Tensor, "1 l A"]:
        """The shortened chunk of one robot, un-normalised; execute all of it, then ask again."""
        _refuse_options(options)
        states = self._read_states(batch)
        if len(states) != 1:
            raise InputError(f"chunks of {len(states)} robots differ in length: ask for one, or use select_action")
        self._provide_robots(1)
        self.base.remember(batch)
        chunk = self.base.chunks(batch, [0])[0]
        shortened = self._robots[0].accelerator.shorten(chunk.to(torch.float64).numpy(), states[0])
        self._count(shortened.done, len(shortened.actions))
        return torch.from_numpy(shortened.actions).to(chunk.dtype)[None]

    def reset(self) -> None:
        """A new episode begins, for every robot."""
        if self.executed_actions:
            fallbacks = dict(self.fallbacks) or "none"
            LOGGER.info("so far: mean rate %.2f, original chunks kept: %s", self.mean_rate, fallbacks)
        self.base.reset()
        for robot in self._robots:
            robot.reset()
        if self.log is not None:
            self.log.flush()

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Any] | None]:
        raise InputError(
            "a patched policy is not trained: train the policy with LeRobot and the patch with `sup train`"
        )

    def get_optim_params(self) -> dict[str, Any]:
        raise InputError(
            "a patched policy is not trained: train the policy with LeRobot and the patch with `sup train`"
        )

    @classmethod
    def from_pretrained(
        cls, pretrained_name_or_path: str | Path, *, config: PreTrainedConfig | None = None, **_: object
    ) -> "SpeedupPatchPolicy":
        """The patched policy that ``save_pretrained`` described: a configuration that names the base and the patch."""
        found = config or PreTrainedConfig.from_pretrained(pretrained_name_or_path)
        if not isinstance(found, SpeedupPatchConfig):
            raise InputError(f"{pretrained_name_or_path} holds a policy of another type: {found.type}")
        return cls(found).eval()

    def _save_pretrained(self, save_directory: Path) -> None:
        """What ``--policy.path`` needs: the configuration and the pipelines, no weights."""
        self.config._save_pretrained(save_directory)
        for pipeline in make_speedup_patch_pre_post_processors(self.config):
            pipeline.save_pretrained(save_directory)

    def _read_states(self, batch: Batch) -> Float[np.ndarray, "B S"]:
        key = self.config.state_key
        if key not in batch:
            known = sorted(name for name in batch if name.startswith("observation."))
            raise InputError(f"the patch needs the state, but there is no {key!r}; there is {known}: set state_key")
        return batch[key].to(device="cpu", dtype=torch.float64).numpy()

    def _provide_robots(self, count: int) -> None:
        if count == len(self._robots):
            return
        if any(robot.previous is not None for robot in self._robots):
            raise InputError(f"the batch grew from {len(self._robots)} robots to {count} in an episode: call reset()")
        self._robots = [*self._robots[:count], *(self._new_robot() for _ in range(count - len(self._robots)))]

    def _new_robot(self) -> RobotQueue:
        return RobotQueue(
            ChunkAccelerator(self.engine, max_rate=self._max_rate, deadline=self.config.deadline, log=self.log)
        )

    def _count(self, done: float, executed: int) -> None:
        self.original_actions += float(done)
        self.executed_actions += executed


def speed_up(
    policy: PreTrainedPolicy,
    preprocessor: PolicyProcessorPipeline,
    postprocessor: PolicyProcessorPipeline,
    patch: Engine | Path | str,
    **options: Any,
) -> SpeedupPatchPolicy:
    """A loaded policy with its pipelines made faster; ``options`` are those of ``SpeedupPatchConfig``."""
    engine = patch if isinstance(patch, Engine) else load_patch_engine(str(patch), options.get("robot"))
    config = SpeedupPatchConfig(device=policy.config.device, **options)
    return SpeedupPatchPolicy(config, base=LeRobotBase(policy, preprocessor, postprocessor), engine=engine).eval()


def _refuse_options(options: Iterable[str]) -> None:
    names = sorted(options)
    if names:
        raise InputError(f"a patched policy takes only the observation, not {names}; real-time chunking is not for it")


def _refuse_misfit(base: BasePolicy, engine: Engine) -> None:
    length, robot = engine.chunk_length, engine.robot
    if length is not None and base.chunk_length is not None and length != base.chunk_length:
        raise InputError(
            f"the policy executes {base.chunk_length} actions of a chunk (n_action_steps), but the patch was trained "
            f"for chunks of {length}: train it with --chunk {base.chunk_length}, or set n_action_steps to {length}"
        )
    if base.action_size is not None and base.action_size != robot.action_size:
        raise InputError(
            f"the policy's actions have {base.action_size} dimensions, but the patch is for robot {robot.name!r} "
            f"with {robot.action_size}"
        )
