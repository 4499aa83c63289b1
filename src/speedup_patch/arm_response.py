"""How arms and joints answer what they are told, as demonstrations show: how late, and how far motions move an arm."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from speedup_patch.data import Episode, sent_actions
from speedup_patch.maths.momentum import USUAL, impulse_response, response_lag
from speedup_patch.maths.poses import turns_between
from speedup_patch.robots import KinematicChain, Robot

LONGEST_LAG_SECONDS = 0.5
EXPLAINED = 0.5
"""Motion commands are taken to move an arm as they say when they explain this share of its motion."""


class Response(NamedTuple):
    """What ``ArmLimits`` keeps of it, under the same names; as it is, the answer of an arm that nothing is known of."""

    lag: float = 0.0
    gain: float = 0.0
    axis_lags: tuple[float, ...] = ()
    axis_gains: tuple[float, ...] = ()


def read_response(robot: Robot, arm: int, episodes: list[Episode], skip: int) -> Response:
    """How an arm answers targets, or motions; the first ``skip`` steps of every episode are left out."""
    columns = robot.translations[arm]
    if columns is None:
        return Response(_target_lag(robot, arm, episodes, skip))
    commands, poses = _told_and_reached(robot, arm, columns, episodes, skip)
    motions = [np.diff(pose[:, :3], axis=0) for pose in poses]
    horizon = _horizon(robot)
    response, explained = impulse_response(commands, motions, horizon)
    lag, gain = response_lag(response)
    if explained < EXPLAINED or gain <= 0:
        return Response()
    axes = [
        impulse_response(
            [command[:, [axis]] for command in commands], [motion[:, [axis]] for motion in motions], horizon, USUAL
        )
        for axis in range(3)
    ]
    lags, gains = zip(*(response_lag(response) for response, _ in axes), strict=True)
    if any(explained < EXPLAINED for _, explained in axes) or min(gains) <= 0:
        return Response(lag, gain)
    return Response(lag, gain, lags, gains)


def turn_gain(robot: Robot, arm: int, episodes: list[Episode], skip: int) -> float:
    """Radians a step that an arm turns once it follows a turn command of 1; 0 where turns are not told as motions, or
    do not turn it as they say."""
    columns = robot.turns[arm]
    if columns is None:
        return 0.0
    commands, poses = _told_and_reached(robot, arm, columns, episodes, skip)
    motions = [turns_between(pose[:-1, 3:], pose[1:, 3:]) for pose in poses]
    response, explained = impulse_response(commands, motions, _horizon(robot), USUAL)
    return response_lag(response)[1] if explained >= EXPLAINED else 0.0


def joint_lags(robot: Robot, episodes: list[Episode], skip: int) -> tuple[float, ...]:
    """By how many control steps each state dimension in ``Robot.drives`` comes after its target, beyond the one in
    which the target is sent; 0 where targets do not tell how it moves."""
    horizon, actions, states = _horizon(robot), list(robot.drives.keys()), list(robot.drives.values())
    some = [episode for episode in _some(episodes) if len(episode) > skip + 2 * horizon]
    told = [np.diff(sent_actions(episode)[skip:-1, actions].astype(np.float64), axis=0) for episode in some]
    moved = [np.diff(episode.states[skip + 1 :, states].astype(np.float64), axis=0) for episode in some]
    if not some:
        return (0.0,) * len(actions)
    early = np.concatenate([each[: len(each) - horizon] for each in told])
    errors = np.array(
        [
            np.square(np.concatenate([each[lag : len(each) - horizon + lag] for each in moved]) - early).mean(axis=0)
            for lag in range(horizon)
        ]
    )
    follows = errors.min(axis=0) < (1.0 - EXPLAINED) * np.square(early).mean(axis=0)
    return tuple(_lowest(error) if tells else 0.0 for error, tells in zip(errors.T, follows, strict=True))


def _lowest(values: Float[np.ndarray, " K"]) -> float:
    """Where the parabola through the smallest value and its neighbours is lowest; at the ends, the smallest itself."""
    best = int(values.argmin())
    if best in (0, len(values) - 1):
        return float(best)
    before, here, after = values[best - 1 : best + 2]
    bend = before - 2.0 * here + after
    return best + float(0.5 * (before - after) / bend if bend > 0 else 0.0)


def _some(episodes: list[Episode]) -> list[Episode]:
    """About fifty, which is enough."""
    return episodes[:: max(1, len(episodes) // 50)]


def _horizon(robot: Robot) -> int:
    return round(LONGEST_LAG_SECONDS * robot.control_hz)


def _told_and_reached(
    robot: Robot, arm: int, columns: tuple[int, ...], episodes: list[Episode], skip: int
) -> tuple[list[Float[np.ndarray, "_ D"]], list[Float[np.ndarray, "_ 7"]]]:
    """What was sent in about fifty episodes, and the poses before and after each command."""
    some = _some(episodes)
    commands = [sent_actions(episode)[skip:-1, columns].astype(np.float64) for episode in some]
    return commands, [robot.poses(episode.states[skip:].astype(np.float64))[:, arm] for episode in some]


def _target_lag(robot: Robot, arm: int, episodes: list[Episode], skip: int) -> float:
    """By how many steps commanded end-effector positions must be put off to lie nearest to the reached ones."""
    chain = robot.arms[arm].pose
    commanded = {state: action for action, state in robot.drives.items()}
    if not isinstance(chain, KinematicChain) or any(joint not in commanded for joint in chain.joints):
        return 0.0
    horizon = _horizon(robot)
    errors = np.zeros(horizon)
    for episode in episodes[:: max(1, len(episodes) // 20)]:
        if len(episode) <= skip + horizon + 1:
            continue
        targets = episode.states.astype(np.float64)
        for joint in chain.joints:
            targets[:, joint] = sent_actions(episode)[:, commanded[joint]]
        told, reached = (chain.pose(states)[skip:, :3] for states in (targets, episode.states.astype(np.float64)))
        rows = len(told) - horizon
        errors += [np.linalg.norm(told[:rows] - reached[lag : lag + rows], axis=1).mean() for lag in range(horizon)]
    return float(errors.argmin())
