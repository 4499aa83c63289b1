"""Retiming inside the chunk: every moment runs as fast as the demonstrated limits allow, grippers in step."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.lib.stride_tricks import sliding_window_view

from speedup_patch.errors import DecisionError, InputError
from speedup_patch.interfaces import WorldModel
from speedup_patch.limits import GripperLimits, Limits
from speedup_patch.maths.momentum import carried_motion
from speedup_patch.maths.poses import six_d_angles
from speedup_patch.maths.retiming import rates_within, smooth_rates, warp_lengths, warp_positions
from speedup_patch.observations import batch_of_one, encoded_poses, plain_state_indices, split_observation
from speedup_patch.robots import Gripper, Robot
from speedup_patch.warp import Delays, GripperDelays, Warp


class Boldness(NamedTuple):
    """How far a chunk is pushed."""

    fastest: float
    """The largest rate of any moment."""
    scale: float = 1.0
    """End-effectors may move and turn this many times as fast as demonstrated."""
    stroke: float = 1.0
    """Fingers may move this many times as fast as demonstrated, where they were not as fast as they can be."""

    @property
    def label(self) -> str:
        """What it is called."""
        if self.fastest == 1:
            return "as it is"
        return f"to {self.fastest:g}x, arm x{self.scale:g}, fingers x{self.stroke:g}"


@dataclass(frozen=True)
class RetimingConfig:
    """What all retimings of a robot share."""

    overdrive: float = 2.0
    """How far past the action limits a summed motion may be commanded. What is beyond is cut off (half of it, here), so
    that the arm stays at its limit and the policy is asked again sooner."""
    change: float = 1.0
    """How much the rate may change from one executed command to the next."""
    slack: float = 0.1
    """By which share a chunk may run beyond its limits, or stay below them, where that makes whole commands of it."""
    leave_rest: bool = True
    """Where it does not, a last command that would be short is left to the next chunk, unless a gripper moves in it."""
    gripper_limit: bool = True
    """Strokes are not compressed beyond the gripper's own speed."""
    settle: float = 1.0
    """How long fingers that close as fast as they can are given to grip once they have stopped, in their delays."""
    gripper_lead: bool = True
    """Gripper commands are read ahead, so that fingers and arm keep their phase."""
    turn: float = 1.25
    """How many times as fast as demonstrated turns may be where they are commanded as motions: a fast turn drags the
    arm off its path, and nothing in such commands brings it back."""
    momentum: float = 0.5
    """Where motions are commanded, which share of what the arm's momentum makes beside the chunk's path is taken off:
    the policy, which is asked again while the arm is still running on, makes up for the rest itself."""
    keep_up: bool = True
    """Joints that are servos are told what keeps them on their path at speed (see keeping_up.py)."""
    joint_lead: bool = False
    """Targets that are not grippers' are read ahead, too, each by what it is measured to be late; for robots whose
    joints are not kept up, which is the better remedy where they are servos."""
    straight: bool = True
    """What summed motions exceed the action limits by is cut off all axes by one share, which keeps their direction;
    else each axis is cut by itself, as robots do."""
    constant: bool = False
    """A whole chunk runs at its level's largest rate, or at what ``overdrive`` allows the chunk's largest motion: the
    demonstrated limits are not kept, and no moment is slower than another. For comparisons."""
    joint_rate: float = 4.0
    """The largest rate of any moment where joints are servos whose pulls are known (``Limits.pulls``). Chosen on
    development seeds: at 5 and 6 more insertions failed."""
    joint_settled: int = 2
    """Control steps after which a joint that is a servo has to be in its place. Chosen on development seeds: brought
    there in one it is on its path more exactly in the world model, but episodes took longer, and at rates beyond 4 more
    insertions failed."""
    least_joint: float = 0.02
    """A joint that has less than this share of its longest pull to go does not hold the others up. No evidence yet."""
    new_command: float = 0.1
    """A gripper is commanded something new when its command changes by more than this share of its range. No evidence
    yet."""

    def __post_init__(self) -> None:
        at_least_one = self.overdrive >= 1 and self.turn >= 1 and self.joint_rate >= 1
        if not (at_least_one and self.change > 0 and self.slack >= 0 and self.settle >= 0 and 0 <= self.momentum <= 1):
            raise InputError(
                "retiming needs overdrive, turn and joint_rate >= 1, change > 0, slack and settle >= 0, and momentum "
                f"between 0 and 1, not {self}"
            )
        if not (self.joint_settled >= 1 and self.least_joint > 0 and 0 < self.new_command < 1):
            raise InputError(
                "retiming needs joint_settled >= 1, least_joint > 0, and new_command between 0 and 1, not "
                f"{self.joint_settled}, {self.least_joint} and {self.new_command}"
            )


class Retiming:
    """The warps along which no limit is exceeded."""

    def __init__(self, robot: Robot, limits: Limits, config: RetimingConfig) -> None:
        self.robot = robot
        self.limits = limits
        self.config = config

    @cached_property
    def delays(self) -> Delays:
        """What is read ahead: grippers, and joints if that is wanted."""
        kept_up = self.config.keep_up and bool(self.limits.pulls)
        joints = joint_delays(self.robot, self.limits) if self.config.joint_lead and not kept_up else {}
        in_time = kept_up or bool(joints)
        return joints | (gripper_delays(self.robot, self.limits, in_time) if self.config.gripper_lead else {})

    def fastest(self, level: Boldness) -> float:
        """The largest rate of any moment on this robot."""
        return min(level.fastest, self.config.joint_rate) if self.limits.pulls else level.fastest

    def distinct(self, levels: Sequence[Boldness]) -> tuple[Boldness, ...]:
        """The levels that differ on this robot, the first of those that share every speed limit: fingers whose commands
        jump, say, are hurried at none, and turns no further than ``RetimingConfig.turn``."""
        found: dict[tuple[float, ...], Boldness] = {}
        for level in levels:
            fastest = self.fastest(level)
            limited = fastest > 1 and not self.config.constant  # nothing limits the original
            limits = (fastest, *self._speed_limits(level)) if limited else (fastest,)
            found.setdefault(limits, level)
        return tuple(found.values())

    def positions(
        self, paths: Float[np.ndarray, "N m X"], chunks: Float[np.ndarray, "N n A"], levels: Sequence[Boldness]
    ) -> Float[np.ndarray, "N R l"]:
        """The fastest warp of every chunk at every level, padded by repeating the end; ``paths`` are the features along
        which the chunk runs at rate 1, the moment before it and the present first."""
        merging, needed = self._merging_rates(chunks), self._needed(chunks)[:, None]
        fastest = np.array([self.fastest(level) for level in levels])
        if self.config.constant:
            rates = np.minimum(merging.min(axis=-1)[:, None], fastest)
            same = np.repeat(rates[..., None], chunks.shape[1], axis=-1)
            return warp_positions(same, self.config.slack, needed)
        speeds = [self._arm_speeds(paths)]
        if self.config.gripper_limit:
            speeds.append(self._finger_speeds(paths))
        limits = np.array([self._speed_limits(level) for level in levels])
        rates = rates_within(np.concatenate(speeds, axis=-1)[:, None], limits, fastest)
        rates = smooth_rates(np.minimum(rates, merging[:, None]), self.config.change)
        return warp_positions(rates, self.config.slack, needed)

    def carried(
        self, paths: Float[np.ndarray, "N m X"], chunks: Float[np.ndarray, "N n A"]
    ) -> Float[np.ndarray, "N A"] | None:
        """What is taken off every chunk for its arm's momentum; None where no arm is told motions."""
        told = [
            (number, columns, arm)
            for number, (columns, arm) in enumerate(zip(self.robot.translations, self.limits.arms, strict=True))
            if columns is not None and arm.gain > 0
        ]
        if not told or not self.config.momentum:
            return None
        beyond = self.limits.tuning.deviation.tolerated_seconds * self.robot.control_hz
        moved = np.diff(encoded_poses(self.robot, paths[:, :2])[..., :3], axis=1)[:, 0]
        carried = np.zeros((len(chunks), chunks.shape[-1]), dtype=chunks.dtype)
        for number, columns, arm in told:
            part = list(columns)
            carried[:, part] = carried_motion(chunks[..., part], moved[:, number], arm.lag, arm.gain, beyond)
        return self.config.momentum * carried

    def _speed_limits(self, level: Boldness) -> list[float]:
        """How fast arms may move, arms may turn, and fingers may open and close."""
        arms, grippers = self.limits.arms, self.limits.grippers if self.config.gripper_limit else ()
        drags = any(group.mode == "delta" and group.rotation for group in self.robot.actions)
        turn = min(level.scale, self.config.turn) if drags else level.scale
        strokes = [stroke for gripper in grippers for stroke in (gripper.opening, gripper.closing)]
        return [
            *(level.scale * arm.speed for arm in arms),
            *(turn * arm.turn for arm in arms),
            *(stroke.speed * (1.0 if stroke.jumps else level.stroke) for stroke in strokes),
        ]

    def _arm_speeds(self, paths: Float[np.ndarray, "N m X"]) -> Float[np.ndarray, "N n D"]:
        """Metres and radians that every end-effector covers in each step at rate 1."""
        poses = np.moveaxis(encoded_poses(self.robot, paths[:, 1:]), -2, 1)
        metres = np.linalg.norm(np.diff(poses[..., :3], axis=-2), axis=-1)
        return np.moveaxis(np.concatenate([metres, six_d_angles(poses[..., 3:])], axis=1), 1, -1)

    def _finger_speeds(self, paths: Float[np.ndarray, "N m X"]) -> Float[np.ndarray, "N n G"]:
        """How much of its range every gripper opens, and closes, in each step at rate 1.

        Fingers that close as fast as they can are taken to go on for a while after they stop: until then they only
        touch what they are to hold.
        """
        columns: list[Float[np.ndarray, "N n"]] = []
        for gripper, limit in zip(self.robot.grippers, self.limits.grippers, strict=True):
            change = np.diff(finger_opening(self.robot, gripper, limit, paths), axis=1)
            closing = np.maximum(-change, 0.0)
            if limit.closing.jumps:
                closing = _held_on(closing, round(self.config.settle * limit.closing.delay))
            columns += [np.maximum(change, 0.0)[:, 1:], closing[:, 1:]]
        return np.stack(columns, axis=-1) if columns else np.zeros((len(paths), paths.shape[1] - 2, 0))

    def _merging_rates(self, chunks: Float[np.ndarray, "N n A"]) -> Float[np.ndarray, "N n"]:
        """How far motions may be summed before too much of them is cut off at the action limits."""
        rates = np.full(chunks.shape[:-1], np.inf)
        for group, part in zip(self.robot.actions, self.robot.action_slices, strict=True):
            if group.mode == "delta":
                span = np.where(chunks[..., part] >= 0, self.robot.action_high[part], -self.robot.action_low[part])
                share = (np.abs(chunks[..., part]) / np.maximum(span, 1e-9)).max(axis=-1)
                rates = np.minimum(rates, self.config.overdrive / np.maximum(share, 1e-9))
        return np.maximum(rates, 1.0)

    def _needed(self, chunks: Float[np.ndarray, "N n A"]) -> Float[np.ndarray, " N"]:
        """The position up to which every chunk has to be run: from there on its grippers are told nothing new.

        A policy that is asked again before it closes its gripper might put that off for ever.
        """
        n = chunks.shape[1]
        if not self.config.leave_rest:
            return np.full(len(chunks), float(n))
        needed = np.zeros(len(chunks))
        for gripper in self.robot.grippers:
            commands = chunks[..., gripper.action]
            differs = np.abs(commands - commands[:, -1:]) > self.config.new_command * abs(gripper.open - gripper.closed)
            needed = np.maximum(needed, np.where(differs, np.arange(n) + 2.0, 0.0).max(axis=1))
        return needed


def _held_on(speeds: Float[np.ndarray, "N m"], steps: int) -> Float[np.ndarray, "N m"]:
    """The largest speed of every step and the ``steps`` before it."""
    padded = np.concatenate([np.repeat(speeds[:, :1], steps, axis=1), speeds], axis=1)
    return sliding_window_view(padded, steps + 1, axis=1).max(axis=-1)


class PlainLimits:
    """A Scheduler that asks nothing but the limits: every chunk is retimed at one level of boldness."""

    def __init__(self, world_model: WorldModel, retiming: Retiming, level: Boldness) -> None:
        self.world_model = world_model
        self.retiming = retiming
        self.level = level

    def schedule(
        self,
        observation: Float[np.ndarray, " O"],
        chunk: Float[np.ndarray, "n A"],
        before: Float[np.ndarray, "M A"] | None = None,
    ) -> Warp:
        """The fastest warp within the limits, from what the world model says the chunk does at rate 1."""
        paths = paths_at_rate_one(self.world_model, observation[None], chunk[None], batch_of_one(before))
        positions = self.retiming.positions(paths, chunk[None], [self.level])[0, 0]
        carried = self.retiming.carried(paths, chunk[None])
        return Warp(
            positions[: warp_lengths(positions)],
            len(chunk),
            self.retiming.delays,
            None if carried is None else carried[0],
            paths[0],
        )

    def reset(self) -> None:
        pass


def paths_at_rate_one(
    world_model: WorldModel,
    observations: Float[np.ndarray, "N O"],
    chunks: Float[np.ndarray, "N n A"],
    before: Float[np.ndarray, "N M A"] | None = None,
) -> Float[np.ndarray, "N m X"]:
    """The moment before, the present, and the features that the world model predicts for the chunks as they are."""
    x, change = split_observation(observations)
    ahead = world_model.rollout(observations, chunks, before)
    if not np.isfinite(ahead).all():
        raise DecisionError("the world model predicts numbers that are not finite")
    return np.concatenate([np.stack([x - change, x], axis=1), ahead], axis=1)


def finger_opening(
    robot: Robot, gripper: Gripper, limits: GripperLimits, path: Float[np.ndarray, "*B X"]
) -> Float[np.ndarray, "*B"]:
    """How far a gripper is open at every moment of features: 0 closed, 1 open."""
    place = {state: position for position, state in enumerate(plain_state_indices(robot))}
    return limits.scale.shown(path[..., [place[state] for state in gripper.state]])


def joint_delays(robot: Robot, limits: Limits) -> dict[int, GripperDelays | float]:
    """Per action that is the target of something other than a gripper's fingers, how late that is; none in a patch from
    before this was read."""
    grippers = {gripper.action for gripper in robot.grippers}
    known = zip(robot.drives, limits.lags, strict=True) if limits.lags else ()
    return {action: lag for action, lag in known if action not in grippers and lag > 0}


def gripper_delays(robot: Robot, limits: Limits, in_time: bool = False) -> dict[int, GripperDelays]:
    """Per gripper action, how much later than its arm the gripper answers; one that answers sooner is not led.

    An arm that is kept up, or led, is no later at speed than at rate 1 (``in_time``), so its gripper has all of its own
    delay to make up for.
    """
    arms = [limit for arm, limit in zip(robot.arms, limits.arms, strict=True) if arm.gripper is not None]
    lags = [0.0 if in_time else arm.lag for arm in arms]
    return {
        gripper.action: GripperDelays(
            max(limit.opening.delay - lag, 0.0), max(limit.closing.delay - lag, 0.0), gripper.closed
        )
        for gripper, limit, lag in zip(robot.grippers, limits.grippers, lags, strict=True)
    }
