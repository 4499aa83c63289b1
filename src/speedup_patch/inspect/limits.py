"""What the demonstrations show the robot to do: the limits that a patch is made with, in seconds."""

import numpy as np
from jaxtyping import Float

from speedup_patch.data import Demonstrations, Episode
from speedup_patch.errors import InputError
from speedup_patch.inspect.frames import View
from speedup_patch.inspect.report import ArmLimit, GripperLimit, JointLimit, RobotLimits, Saturation, StrokeLimit
from speedup_patch.limits import Limits, StrokeLimits, read_limits
from speedup_patch.robots import Robot

AT_LIMIT = 0.99
"""A command is at its limit from this share of it on."""
SMALLEST_SPAN = 1e-9
"""What may not be commanded at all is past its limit as soon as it is."""


def find_limits(view: View) -> tuple[RobotLimits | None, str | None]:
    """(limits, None), or (None, why there are none)."""
    if view.robot is None:
        return None, "the robot is not known"
    try:
        limits = read_limits(view.robot, _sampled(view))
    except InputError as error:
        return None, str(error)
    hz = view.control_hz
    arms = zip(view.robot.arms, limits.arms, strict=True)
    named = [arm.name for arm in view.robot.arms if arm.gripper is not None]
    return RobotLimits(
        arms=tuple(
            ArmLimit(
                arm.name,
                hz * limit.speed,
                hz * limit.turn,
                limit.lag,
                limit.lag / hz,
                limit.gain or None,
                limit.axis_lags,
            )
            for arm, limit in arms
        ),
        joints=_joints(view.robot, limits, hz),
        grippers=tuple(
            GripperLimit(
                name,
                _stroke(limit.opening, hz),
                _stroke(limit.closing, hz),
                limit.letting_go or None,
                limit.letting_go / hz or None,
            )
            for name, limit in zip(named, limits.grippers, strict=True)
        ),
        saturation=_saturation(view),
    ), None


def _joints(robot: Robot, limits: Limits, hz: float) -> tuple[JointLimit, ...]:
    """What is sent targets, grippers apart."""
    grippers = {gripper.action for gripper in robot.grippers}
    found = zip(robot.drives.items(), limits.joints, limits.pulls, limits.lags, strict=True)
    return tuple(
        JointLimit(robot.state_names[state], hz * speed, pull, lag)
        for (action, state), speed, pull, lag in found
        if action not in grippers
    )


def _sampled(view: View) -> Demonstrations:
    """What was sampled, as demonstrations: every stretch without a gap is an episode."""
    if len(view.frames) == view.demonstrations.frames:
        return view.demonstrations
    return Demonstrations(
        tuple(
            _cut(view.demonstrations.episodes[number], slice(first, first + rows.stop - rows.start))
            for number, rows in view.frames.stretches
            for first in [int(view.frames.row[rows.start])]
        ),
        view.demonstrations.control_hz,
        view.demonstrations.robot_name,
    )


def _cut(episode: Episode, rows: slice) -> Episode:
    extras = {name: column[rows] for name, column in episode.extras.items()}
    return Episode(episode.states[rows], episode.actions[rows], episode.timestamps[rows], episode.task, extras)


def _stroke(limit: StrokeLimits, hz: float) -> StrokeLimit:
    approach = None if limit.approach is None else hz * limit.approach
    if not limit.strokes or limit.speed <= 0:
        return StrokeLimit(limit.strokes, None, None, None, None, limit.jumps, approach)
    steps = 1.0 / limit.speed
    return StrokeLimit(limit.strokes, limit.delay, limit.delay / hz, steps, steps / hz, limit.jumps, approach)


def _saturation(view: View) -> tuple[Saturation, ...]:
    if view.robot is None:
        return ()
    groups = [group for group in view.robot.actions if group.mode == "delta"]
    at_limit = (delta_shares(view.robot, view.frames.actions) >= AT_LIMIT).mean(axis=0, dtype=np.float64)
    return tuple(Saturation(group.names, float(share)) for group, share in zip(groups, at_limit, strict=True))


def delta_shares(robot: Robot, actions: Float[np.ndarray, "T A"]) -> Float[np.ndarray, "T groups"]:
    """How much of its limit each group of delta actions commands at every step, the largest of its dimensions."""
    shares: list[Float[np.ndarray, " T"]] = []
    for group, part in zip(robot.actions, robot.action_slices, strict=True):
        if group.mode == "delta":
            span = np.where(actions[:, part] >= 0, robot.action_high[part], -robot.action_low[part])
            shares.append((np.abs(actions[:, part]) / np.maximum(span, SMALLEST_SPAN)).max(axis=1))
    return np.stack(shares, axis=1) if shares else np.zeros((len(actions), 0))
