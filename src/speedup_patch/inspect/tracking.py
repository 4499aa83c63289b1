"""Whether commands behave like targets that the state follows, or like motions that are added to it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Shaped

from speedup_patch.inspect.frames import Frames
from speedup_patch.robots import KinematicChain, Robot

Behaviour = Literal["absolute", "delta", "unclear"]
FOLLOWS, MOVES = 0.8, 0.4
"""Correlations from which a command counts as a target, or as a motion: targets are followed more closely."""
FEWEST_STEPS = 10


@dataclass(frozen=True, eq=False)
class Tracking:
    """Commands beside what they move; all of them are meant in one way."""

    mode: Literal["absolute", "delta", "unknown"]
    commands: Float[np.ndarray, "N P"]
    places: Float[np.ndarray, "N P"]


def find_tracking(
    frames: Frames, robot: Robot | None, poses: Float[np.ndarray, "N arms 7"] | None = None
) -> tuple[Tracking, ...]:
    """The commands whose effect the state shows; without a robot, those of states and actions of one size.

    ``poses`` are the robot's, where they were computed before.
    """
    if robot is None:
        same = frames.states.shape == frames.actions.shape
        return (Tracking("unknown", frames.actions, frames.states),) if same else ()
    grippers = {gripper.action for gripper in robot.grippers}
    driven = {action: state for action, state in robot.drives.items() if action not in grippers}
    found: list[Tracking] = []
    if driven:
        found.append(Tracking("absolute", frames.actions[:, list(driven)], frames.states[:, list(driven.values())]))
    for group, part in zip(robot.actions, robot.action_slices, strict=True):
        if group.mode != "delta" or group.rotation:
            continue
        places = _moved_by(len(group.names), frames, robot, poses)
        if places is not None:
            found.append(Tracking("delta", frames.actions[:, part], places))
    return tuple(found)


def _moved_by(
    size: int, frames: Frames, robot: Robot, poses: Float[np.ndarray, "N arms 7"] | None
) -> Float[np.ndarray, "N P"] | None:
    """What a motion of this size moves, where that is clear: the joints, or the position, of the only arm."""
    if len(robot.arms) != 1:
        return None
    pose = robot.arms[0].pose
    if isinstance(pose, KinematicChain) and size == len(pose.joints):
        return frames.states[:, list(pose.joints)]
    if size != 3:
        return None
    return (robot.poses(frames.states) if poses is None else poses)[:, 0, :3]


def judge_episodes(frames: Frames, tracking: Tracking) -> dict[int, Behaviour]:
    """How the commands of every sampled episode behave."""
    verdicts: dict[int, Behaviour] = {}
    for episode, rows in frames.stretches:
        verdict = judge(tracking.commands[rows], tracking.places[rows])
        if verdict != "unclear" or episode not in verdicts:
            verdicts[episode] = verdict
    return verdicts


def judge(commands: Float[np.ndarray, "T P"], places: Float[np.ndarray, "T P"]) -> Behaviour:
    """How the commands of one episode behave."""
    before, after, sent = places[:-1], places[1:], commands[:-1]
    if len(sent) < FEWEST_STEPS:
        return "unclear"
    deviation = after.std(axis=0)
    used = (deviation > 1e-6) & (sent.std(axis=0) > 1e-6)
    if not used.any():
        return "unclear"
    follows = float(np.median(_correlations(sent, after)[used]))
    moves = float(np.median(_correlations(sent, after - before)[used]))
    offset = float(np.median(np.abs(sent.mean(axis=0) - after.mean(axis=0))[used] / deviation[used]))
    if follows > FOLLOWS and follows > moves and offset < 2.0:
        return "absolute"
    return "delta" if moves > MOVES and moves > follows else "unclear"


def _correlations(left: Float[np.ndarray, "T P"], right: Float[np.ndarray, "T P"]) -> Float[np.ndarray, " P"]:
    """The correlation of each column with its counterpart; 0 where one of them is constant."""
    left, right = left - left.mean(axis=0), right - right.mean(axis=0)
    scale = np.sqrt(np.square(left).sum(axis=0) * np.square(right).sum(axis=0))
    product: Shaped[np.ndarray, " P"] = (left * right).sum(axis=0)
    return np.divide(product, scale, out=np.zeros(len(scale)), where=scale > 1e-12)
