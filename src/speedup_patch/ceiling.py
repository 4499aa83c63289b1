"""The ceiling of any acceleration: in how few control steps the motion of an episode could be done at all."""

import numpy as np
from jaxtyping import Bool, Float, Int

from speedup_patch.errors import InputError
from speedup_patch.inspect.limits import delta_shares
from speedup_patch.inspect.strokes import find_flips, stroke_steps
from speedup_patch.limits import JUMP, GripperLimits, Limits, StrokeLimits, told_opening
from speedup_patch.maths.poses import rotation_distance
from speedup_patch.robots import Gripper, Robot

WATCHED_SECONDS = 2.0
"""How long fingers are watched after a flip of their command."""
SMALLEST_LIMIT = 1e-9
"""What was never seen to move has no speed to be measured against: any motion of it is at its limit."""


def floor_steps(
    robot: Robot, limits: Limits, actions: Float[np.ndarray, "T A"], states: Float[np.ndarray, "T1 S"]
) -> float:
    """The least control steps in which an episode of T unpatched steps could be done: its path with every move at
    saturation and every stroke of a gripper uncompressed.

    ``states`` holds one row more than ``actions``: the last was seen after the last action. For motions (delta actions)
    saturation is the action limit. For absolute targets it is the speed that demonstrations reach, so there the floor
    is an estimate from demonstrations: a robot that can move faster than it was shown to can come in below it.
    """
    if len(states) != len(actions) + 1:
        raise InputError(f"an episode of {len(actions)} actions needs one more state, not {len(states)}")
    robot.check_sizes(states.shape[1], actions.shape[1], "the episode")
    actions, states = actions.astype(np.float64), states.astype(np.float64)
    columns = [delta_shares(robot, actions), _target_shares(robot, limits, states)]
    for gripper, limit in zip(robot.grippers, limits.grippers, strict=True):
        columns.append(_stroke_shares(robot, gripper, limit, actions, states)[:, None])
    return float(np.minimum(np.concatenate(columns, axis=1).max(axis=1, initial=0.0), 1.0).sum())


def _target_shares(robot: Robot, limits: Limits, states: Float[np.ndarray, "T1 S"]) -> Float[np.ndarray, "T D"]:
    """How much of its demonstrated speed everything that follows absolute targets moves at, step by step.

    End-effectors are measured as such; joints only where no end-effector shows them, because an arm's joints were
    rarely seen at the speeds that they can reach.
    """
    if all(group.mode != "absolute" for group in robot.actions):
        return np.zeros((len(states) - 1, 0))
    poses = robot.poses(states)
    metres = np.linalg.norm(np.diff(poses[..., :3], axis=0), axis=-1)
    radians = 2.0 * rotation_distance(poses[1:, :, 3:], poses[:-1, :, 3:])
    joints = np.abs(np.diff(states[:, list(robot.drives.values())], axis=0))
    alone = _seen_alone(robot)
    moved = np.concatenate([metres, radians, joints[:, alone]], axis=1)
    fastest = [arm.speed for arm in limits.arms] + [arm.turn for arm in limits.arms]
    fastest += np.array(limits.joints, dtype=np.float64)[alone].tolist()
    return moved / np.maximum(fastest, SMALLEST_LIMIT)


def _seen_alone(robot: Robot) -> Bool[np.ndarray, " joints"]:
    """Which driven state dimensions are part of no end-effector's pose and of no gripper."""
    shown = {index for arm in robot.arms for index in arm.pose.state_indices}
    grippers = {gripper.action for gripper in robot.grippers}
    return np.array([action not in grippers and state not in shown for action, state in robot.drives.items()], bool)


def _stroke_shares(
    robot: Robot,
    gripper: Gripper,
    limits: GripperLimits,
    actions: Float[np.ndarray, "T A"],
    states: Float[np.ndarray, "T1 S"],
) -> Float[np.ndarray, " T"]:
    """How much of their demonstrated speed the fingers move at; whole steps from a flip until they are at rest."""
    told, shown = told_opening(gripper, actions), limits.scale.shown(states[:, list(gripper.state)])
    change = np.diff(shown)
    opening, closing = (_speed(gripper, stroke) for stroke in (limits.opening, limits.closing))
    shares = np.maximum(change / opening, -change / closing)
    flips = _jumps(told, max(opening, closing))
    rested = dict(stroke_steps(shown[:, None], flips, np.ones(1), round(WATCHED_SECONDS * robot.control_hz)))
    for flip in flips.tolist():
        stroke, speed = (limits.opening, opening) if told[flip] > 0.5 else (limits.closing, closing)
        shares[flip : flip + rested.get(flip, round(stroke.delay + 1.0 / speed))] = 1.0
    return shares


def _speed(gripper: Gripper, stroke: StrokeLimits) -> float:
    """Share of its range that a gripper covers in a step; without a stroke in the data, as the robot's maker says."""
    return max(stroke.speed, SMALLEST_LIMIT) if stroke.strokes else 1.0 / gripper.stroke_steps


def _jumps(told: Float[np.ndarray, " T"], speed: float) -> Int[np.ndarray, " F"]:
    """The steps at which a command flips in one step, faster than fingers follow: no retiming shortens what comes."""
    flips = find_flips(told, 0.5)
    return flips[np.abs(told[flips] - told[flips - 1]) > max(speed, JUMP)]
