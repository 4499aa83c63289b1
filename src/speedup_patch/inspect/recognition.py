"""Which known robot a data set looks like, and why."""

import re
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from speedup_patch.data import Demonstrations
from speedup_patch.errors import InputError
from speedup_patch.inspect.frames import Frames
from speedup_patch.inspect.report import Likeness
from speedup_patch.inspect.tracking import find_tracking, judge_episodes
from speedup_patch.inspect.wording import list_few
from speedup_patch.robots import ROBOTS, Gripper, Robot, StatePose

Evidence = tuple[float, str]
"""Points for a robot, or against it when negative, and the reason."""

ENOUGH = 3.0
"""Points from which a data set is taken to be of a robot."""
NAMED = 20.0
"""A data set that names a known robot is believed, whatever its values say; where they disagree is shown."""
ALIKE = 0.1
"""Robots whose points differ by less are not told apart."""
SLACK = 0.05
"""Share of its limits by which a value may leave them: sensors overshoot, and calibrations differ."""
LONGEST_TURN = 2 * np.pi + 0.1
"""Axis-angle vectors that robosuite writes are up to a full turn long."""


def rank_robots(
    demonstrations: Demonstrations, frames: Frames, state_names: Sequence[str], action_names: Sequence[str]
) -> tuple[Likeness, ...]:
    """The known robots with these dimensions, the likeliest first."""
    sizes = (demonstrations.state_size, demonstrations.action_size)
    alike = [robot for robot in ROBOTS.values() if (robot.state_size, robot.action_size) == sizes]
    found = [judge_robot(robot, demonstrations, frames, state_names, action_names) for robot in alike]
    return tuple(sorted(found, key=lambda likeness: -likeness.score))


def judge_robot(
    robot: Robot,
    demonstrations: Demonstrations,
    frames: Frames,
    state_names: Sequence[str],
    action_names: Sequence[str],
) -> Likeness:
    """What speaks for a robot of these sizes, and against it."""
    evidence = [
        *_robot_name(robot, demonstrations.robot_name),
        *_dimension_names(robot, state_names, action_names),
        *_limits(robot, frames),
        *_rotations(robot, frames),
        *_fingers(robot, frames),
        *_behaviour(robot, frames),
    ]
    if abs(demonstrations.control_hz / robot.control_hz - 1) < 0.01:
        evidence.append((0.5, f"it runs at {robot.control_hz:g} Hz"))
    ordered = sorted(evidence, key=lambda item: -abs(item[0]))
    return Likeness(
        robot.name,
        sum(points for points, _ in evidence),
        tuple(reason for points, reason in ordered if points > 0),
        tuple(reason for points, reason in ordered if points < 0),
    )


def recognise(ranking: Sequence[Likeness]) -> Robot | None:
    """The likeliest robot, if enough speaks for it."""
    return ROBOTS[ranking[0].robot] if ranking and ranking[0].score >= ENOUGH else None


def tied_robots(ranking: Sequence[Likeness]) -> tuple[str, ...]:
    """Robots that nothing in the data tells from the likeliest one."""
    return tuple(other.robot for other in ranking[1:] if other.score > ranking[0].score - ALIKE)


def _robot_name(robot: Robot, name: str) -> Iterator[Evidence]:
    """Names such as ``so101_follower`` are only like a robot's; a name of its own is another robot's."""
    family = robot.name.split("_")[0]
    if name == robot.name:
        yield NAMED, f"the data set says its robot is {name}"
    elif name in ROBOTS:
        yield -2.0, f"the data set says its robot is {name}"
    elif family in re.split("[^a-z0-9]+", name.lower()):
        yield 2.0, f"the data set calls its robot {name!r}"
    elif name and name != "unknown":
        yield -1.5, f"the data set calls its robot {name!r}"


def _dimension_names(robot: Robot, state_names: Sequence[str], action_names: Sequence[str]) -> Iterator[Evidence]:
    known, names = _plain(robot.state_names), _plain(state_names)
    if names and names == known:
        yield 4.0, "the state dimensions have its names"
    elif names and len(set(names) & set(known)) > len(known) / 2:
        yield 2.0, "most state dimensions have its names"
    if action_names and _plain(action_names) == _plain(robot.action_names):
        yield 1.0, "the action dimensions have its names"


def _plain(names: Sequence[str]) -> list[str]:
    """Names without what LeRobot has put around them over the years: ``main_shoulder_pan``, ``shoulder_pan.pos``."""
    return [name.lower().removeprefix("main_").removesuffix(".pos") for name in names]


def _limits(robot: Robot, frames: Frames) -> Iterator[Evidence]:
    low, high = robot.action_low, robot.action_high
    outside = _outside(frames.actions, low, high)
    if outside.max() < 0.01:
        yield 1.0, "its actions are within the limits"
    else:
        worst = int(outside.argmax())
        yield -3.0 * _some(outside), f"action {robot.action_names[worst]} leaves the limits in {outside[worst]:.0%}"
    actions, states = list(robot.drives), list(robot.drives.values())
    if not actions:
        return
    outside = _outside(frames.states[:, states], low[actions], high[actions])
    if outside.max() < 0.01:
        yield 1.0, "its states are within the limits"
    else:
        worst = int(outside.argmax())
        yield (
            -3.0 * _some(outside),
            f"state {robot.state_names[states[worst]]} leaves the limits in {outside[worst]:.0%} of the frames",
        )
    yield from _saturation(robot, frames)


def _some(shares: Float[np.ndarray, " D"]) -> float:
    """0.5 when a little is outside of the limits, up to 1 when much is."""
    return 0.5 + 0.5 * min(1.0, float(shares.max()) / 0.2)


def _outside(
    table: Float[np.ndarray, "N D"], low: Float[np.ndarray, " D"], high: Float[np.ndarray, " D"]
) -> Float[np.ndarray, " D"]:
    """Share of frames in which each dimension is clearly beyond its limits."""
    slack = SLACK * (high - low)
    return ((table < low - slack) | (table > high + slack)).mean(axis=0)


def _saturation(robot: Robot, frames: Frames) -> Iterator[Evidence]:
    """Joints that stop exactly where a robot's do are its own: SO-101 in -100 .. 100 and in degrees differ so."""
    joints = [(action, state) for action, state in robot.drives.items() if action not in _gripper_actions(robot)]
    if not joints:
        return
    actions, states = (list(indices) for indices in zip(*joints, strict=True))
    low, high = robot.action_low[actions], robot.action_high[actions]
    table = np.concatenate([frames.states[:, states], frames.actions[:, actions]])
    close = 1e-3 * (high - low)
    stops = (np.abs(table.min(axis=0) - low) < close) | (np.abs(table.max(axis=0) - high) < close)
    if stops.any():
        yield (
            float(stops.mean()),
            f"{list_few([robot.action_names[actions[i]] for i in np.flatnonzero(stops)])} end exactly at a limit",
        )


def _gripper_actions(robot: Robot) -> set[int]:
    return {gripper.action for gripper in robot.grippers}


def _rotations(robot: Robot, frames: Frames) -> Iterator[Evidence]:
    for arm in robot.arms:
        if not isinstance(arm.pose, StatePose):
            continue
        values = frames.states[:, list(arm.pose.rotation)]
        norms = np.linalg.norm(values, axis=1)
        if arm.pose.representation.startswith("quaternion"):
            if (np.abs(norms - 1) < 0.02).mean() > 0.8:
                yield 2.0, "its quaternions have length one"
            else:
                yield -4.0, f"its quaternions would have lengths {norms.min():.2g} .. {norms.max():.2g}, not one"
        elif arm.pose.representation == "axis_angle" and norms.max() > LONGEST_TURN:
            yield -3.0, f"its axis-angle would turn by {norms.max():.2g} rad"


def _fingers(robot: Robot, frames: Frames) -> Iterator[Evidence]:
    for gripper in robot.grippers:
        yield from _gripper_range(robot, gripper, frames)
        fingers = frames.states[:, list(gripper.state)]
        reach = np.abs(fingers).max()
        if fingers.shape[1] != 2 or reach == 0:
            continue
        if np.abs(fingers.sum(axis=1)).mean() < 0.2 * reach and reach < 0.1:
            yield 1.5, "its two fingers mirror each other"
        else:
            yield -3.0, "its two fingers would not mirror each other"


def _gripper_range(robot: Robot, gripper: Gripper, frames: Frames) -> Iterator[Evidence]:
    """A gripper that uses a small part of its range is likely to be written in another unit."""
    used = np.ptp(frames.actions[:, gripper.action]) / abs(gripper.open - gripper.closed)
    if 0 < used < 0.2:
        yield -1.5, f"action {robot.action_names[gripper.action]} would use only {used:.0%} of its range"


def _behaviour(robot: Robot, frames: Frames) -> Iterator[Evidence]:
    try:
        trackings = find_tracking(frames, robot)
    except InputError:  # a state that holds no rotation has no pose to follow
        return
    for tracking in trackings:
        verdicts = list(judge_episodes(frames, tracking).values())
        right = verdicts.count("absolute" if tracking.mode == "absolute" else "delta")
        wrong = len(verdicts) - verdicts.count("unclear") - right
        if right > wrong and right > len(verdicts) / 2:
            absolute = "the state follows its actions"
            yield (
                1.0,
                absolute if tracking.mode == "absolute" else "the state moves as its actions say",
            )
        elif wrong > right:
            yield -2.5, f"its actions do not behave like {tracking.mode} ones"
