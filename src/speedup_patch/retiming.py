"""Retiming inside the chunk: every moment runs as fast as the demonstrated limits allow, grippers in step."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from speedup_patch.errors import InputError
from speedup_patch.interfaces import WorldModel
from speedup_patch.limits import GripperLimits, Limits
from speedup_patch.maths.poses import rotation_distance
from speedup_patch.maths.retiming import rates_within, smooth_rates, warp_positions
from speedup_patch.observations import feature_poses, plain_state_indices, split_observation
from speedup_patch.robots import Gripper, Robot
from speedup_patch.warp import GripperDelays, Warp


@dataclass(frozen=True)
class RetimingConfig:
    """How far a chunk is pushed."""

    fastest: float = 4.0
    """The largest rate of any moment."""
    scale: float = 1.0
    """End-effector limits are taken this many times as large as demonstrated."""
    overdrive: float = 1.33
    """How far past its limits a summed motion may be commanded; what is beyond is cut off (a quarter, here)."""
    change: float = 1.0
    """How much the rate may change from one executed command to the next."""
    gripper_limit: bool = True
    """Strokes are not compressed beyond the gripper's own speed."""
    gripper_lead: bool = True
    """Gripper commands are read ahead, so that fingers and arm keep their phase."""

    def __post_init__(self) -> None:
        if not (self.fastest >= 1 and self.scale > 0 and self.overdrive >= 1 and self.change > 0):
            raise InputError(f"retiming needs fastest and overdrive >= 1, scale and change > 0, not {self}")


class Retiming:
    """A Scheduler: the warp along which no demonstrated limit is exceeded."""

    def __init__(self, world_model: WorldModel, limits: Limits, config: RetimingConfig) -> None:
        self.world_model = world_model
        self.robot: Robot = world_model.robot
        self.limits = limits
        self.config = config
        self._delays = gripper_delays(self.robot, limits) if config.gripper_lead else {}

    def schedule(self, observation: Float[np.ndarray, " O"], chunk: Float[np.ndarray, "n A"]) -> Warp:
        """The fastest warp within the limits, from what the world model says the chunk does at rate 1."""
        x, _ = split_observation(observation)
        path = np.concatenate([x[None], self.world_model.rollout(observation[None], chunk[None])[0]])
        return self.along(path.astype(np.float64), chunk)

    def along(self, path: Float[np.ndarray, "_ X"], chunk: Float[np.ndarray, "n A"]) -> Warp:
        """The same for a path (features x, the present first) that is already known."""
        speeds, limits = self._speeds(path)
        rates = rates_within(speeds, limits, self.config.fastest)
        rates = np.minimum(rates, self._merging_rates(chunk))
        positions = warp_positions(smooth_rates(rates, self.config.change))
        return Warp(positions, len(chunk), self._delays)

    def reset(self) -> None:
        pass

    def _speeds(self, path: Float[np.ndarray, "_ X"]) -> tuple[Float[np.ndarray, "n D"], Float[np.ndarray, " D"]]:
        """What every step moves at rate 1, and how much it may."""
        poses = feature_poses(self.robot, path)
        metres = np.linalg.norm(np.diff(poses[..., :3], axis=0), axis=-1)
        radians = 2.0 * rotation_distance(poses[1:, :, 3:], poses[:-1, :, 3:])
        columns = [*metres.T, *radians.T]
        scale = self.config.scale
        limits = [scale * arm.speed for arm in self.limits.arms] + [scale * arm.turn for arm in self.limits.arms]
        if self.config.gripper_limit:
            for gripper, limit in zip(self.robot.grippers, self.limits.grippers, strict=True):
                change = np.diff(finger_opening(self.robot, gripper, limit, path))
                columns += [np.maximum(change, 0.0), np.maximum(-change, 0.0)]
                limits += [limit.opening.speed, limit.closing.speed]
        return np.stack(columns, axis=1), np.array(limits)

    def _merging_rates(self, chunk: Float[np.ndarray, "n A"]) -> Float[np.ndarray, " n"]:
        """How far motions may be summed before too much of them is cut off at the action limits."""
        rates = np.full(len(chunk), np.inf)
        for group, part in zip(self.robot.actions, self.robot.action_slices, strict=True):
            if group.mode == "delta":
                span = np.where(chunk[:, part] >= 0, self.robot.action_high[part], -self.robot.action_low[part])
                share = (np.abs(chunk[:, part]) / np.maximum(span, 1e-9)).max(axis=1)
                rates = np.minimum(rates, self.config.overdrive / np.maximum(share, 1e-9))
        return np.maximum(rates, 1.0)


def finger_opening(
    robot: Robot, gripper: Gripper, limits: GripperLimits, path: Float[np.ndarray, "T X"]
) -> Float[np.ndarray, " T"]:
    """How far a gripper is open along a path of features: 0 closed, 1 open."""
    place = {state: position for position, state in enumerate(plain_state_indices(robot))}
    return limits.scale.shown(path[:, [place[state] for state in gripper.state]])


def gripper_delays(robot: Robot, limits: Limits) -> dict[int, GripperDelays]:
    """Per gripper action, how much later than its arm the gripper answers; one that answers sooner is not led."""
    arms = [limit for arm, limit in zip(robot.arms, limits.arms, strict=True) if arm.gripper is not None]
    return {
        gripper.action: GripperDelays(
            max(limit.opening.delay - arm.lag, 0.0), max(limit.closing.delay - arm.lag, 0.0), gripper.closed
        )
        for gripper, limit, arm in zip(robot.grippers, limits.grippers, arms, strict=True)
    }
