"""Keeps joints that are servos on their path when a chunk is hurried.

Joints answer their targets with different lags, at rate 1 too, and a policy has learned to live with that. A chunk that
is only read faster is another matter: at rate k every joint is k times as far behind, the slow ones most, and the hand
leaves its path. The servo law says which targets bring every joint where it is at rate 1.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from speedup_patch.candidates import Choices, Retimings
from speedup_patch.interfaces import WorldModel
from speedup_patch.limits import Limits
from speedup_patch.maths.retiming import warp_lengths
from speedup_patch.retiming import RetimingConfig
from speedup_patch.warp import Warp
from speedup_patch.world_model.servo import Law, MovingJoints, Servo, ServoWorldModel

COMMANDS_TRIED = 17
"""Commands among which the one that brings a joint to its place is interpolated."""
TRIED = np.linspace(-1.0, 1.0, COMMANDS_TRIED)[:, None]
"""These commands, as shares of the longest pull."""
CHUNKS_TOGETHER = 512
"""So many at once stay in a processor's cache."""


def find_keeping_up(world_model: WorldModel, limits: Limits, choices: Choices) -> "KeepingUp | None":
    """What keeps joints on their path; None where these choices, or what was demonstrated, have none."""
    if not isinstance(choices, Retimings) or not isinstance(world_model, ServoWorldModel):
        return None
    config = choices.common
    return KeepingUp(world_model, limits.pulls, config) if config.keep_up and limits.pulls else None


class KeepingUp:
    """What makes the joints of a hurried chunk keep up.

    ``pulls`` is how far targets were seen to run ahead of what they drive (see ``Limits.pulls``).
    """

    def __init__(
        self, world_model: ServoWorldModel, pulls: tuple[float, ...], config: RetimingConfig | None = None
    ) -> None:
        robot, config = world_model.robot, config or RetimingConfig()
        self._settled, self._least = config.joint_settled, config.least_joint
        fingers = {gripper.action for gripper in robot.grippers}
        joints = [number for number, action in enumerate(robot.drives) if action not in fingers]
        actions, states = (np.array(list(part))[joints] for part in (robot.drives.keys(), robot.drives.values()))
        self._actions, self._states = actions, states
        self._servo = Servo(*(parameter[joints] for parameter in world_model.servo))
        self._pulls = np.array(pulls)[joints]
        self._low, self._high = robot.action_low[actions], robot.action_high[actions]

    def pull(self, warp: Warp, actions: Float[np.ndarray, "l A"]) -> Float[np.ndarray, "l A"]:
        """The commands with every joint sent what brings it to its place on the path when held for ``joint_settled``
        steps (see ``RetimingConfig``).

        Nothing is pulled further than the chunk would, or at rate k than k times as far as demonstrated: where the path
        jumps, as it does where a chunk begins, all joints come late together rather than being thrown. Grippers are
        left as they are, and so is a chunk that is not shortened, or whose path nobody foresaw.
        """
        if warp.path is None or len(warp) == warp.original:
            return actions
        return self._pull_together(warp.path[None], warp.positions[None], actions[None], self._one_robot)[0]

    def pull_all(
        self,
        paths: Float[np.ndarray, "K m X"],
        positions: Float[np.ndarray, "K l"],
        commands: Float[np.ndarray, "K l A"],
    ) -> Float[np.ndarray, "K l A"]:
        """As ``pull`` for many chunks, each of as many actions as its path has steps ahead; ``positions`` are padded by
        repeating their last, and what is made of padding means nothing."""
        shortened = np.flatnonzero(warp_lengths(positions) < paths.shape[1] - 2)
        kept = commands.copy()
        for first in range(0, len(shortened), CHUNKS_TOGETHER):
            rows = shortened[first : first + CHUNKS_TOGETHER]
            robots = _Robots.of(self._servo, self._low, self._high, len(rows))
            kept[rows] = self._pull_together(paths[rows], positions[rows], commands[rows], robots)
        return kept

    @cached_property
    def _one_robot(self) -> "_Robots":
        """What every decision needs, found once."""
        return _Robots.of(self._servo, self._low, self._high, 1)

    def _pull_together(
        self,
        paths: Float[np.ndarray, "K m X"],
        positions: Float[np.ndarray, "K l"],
        commands: Float[np.ndarray, "K l A"],
        robots: "_Robots",
    ) -> Float[np.ndarray, "K l A"]:
        # Features begin with the whole state where joints are servos (see ``why_no_servo``).
        path = paths[..., self._states].astype(np.float64)
        windows = np.diff(positions, prepend=0.0)
        goals = _read_paths(path[:, 1:], _ahead(positions, windows, self._settled - 1))
        furthest = np.maximum(windows, 1.0)[..., None] * self._pulls
        told = commands[..., self._actions]
        joints = _Joints(robots, path[:, 1], path[:, 1] - path[:, 0], self._settled, self._least)
        for row in range(told.shape[1]):
            told[:, row] = joints.towards(goals[:, row], furthest[:, row], told[:, row])
        kept = commands.copy()
        kept[..., self._actions] = told
        return kept


class _Robots(NamedTuple):
    """The laws and limits of all joints of so many robots, side by side; threads may share them."""

    law: Law
    law_often: Law
    """For all commands that are tried; written out, because what need not be broadcast is faster."""
    low: Float[np.ndarray, " P"]
    high: Float[np.ndarray, " P"]

    @classmethod
    def of(cls, servo: Servo, low: Float[np.ndarray, " J"], high: Float[np.ndarray, " J"], count: int) -> "_Robots":
        """So many of one robot."""
        each = Servo(*(np.tile(parameter, count) for parameter in servo))
        often = Servo(*(np.tile(parameter, (COMMANDS_TRIED, 1)) for parameter in each))
        return cls(Law.of(each, 1), Law.of(often, 2), np.tile(low, count), np.tile(high, count))


class _Joints:
    """The joints of some robots on their way, and what becomes of each at different commands."""

    def __init__(
        self,
        robots: _Robots,
        places: Float[np.ndarray, "K J"],
        velocities: Float[np.ndarray, "K J"],
        settled: int,
        least: float,
    ) -> None:
        self._settled, self._least = settled, least
        moving, self._shape = (places.reshape(-1), velocities.reshape(-1)), places.shape
        self._robots = robots
        self._joints = MovingJoints(robots.law, *moving, (places.size,))
        self._trying = MovingJoints(robots.law_often, *moving, (COMMANDS_TRIED, places.size))

    def towards(
        self, goals: Float[np.ndarray, "K J"], furthest: Float[np.ndarray, "K J"], told: Float[np.ndarray, "K J"]
    ) -> Float[np.ndarray, "K J"]:
        """Sends, and returns, the commands no further away than ``furthest``, or than what was told, that bring all
        joints of a robot the same share of the way to their goals."""
        joints, trying, goal = self._joints, self._trying, goals.reshape(-1)
        pull = np.maximum(furthest.reshape(-1), np.abs(told.reshape(-1) - joints.place))
        commands = np.minimum(np.maximum(joints.place + TRIED * pull, self._robots.low), self._robots.high)
        trying.put(joints)
        for _ in range(self._settled):
            trying.push(commands)
        way = goal - joints.place
        reach = np.where(way > 0, trying.place[-1], trying.place[0]) - joints.place
        counts = np.abs(way) > np.maximum(self._least * pull, 1e-9)
        shares = np.divide(reach, way, out=np.ones_like(way), where=counts).reshape(self._shape).min(axis=1)
        done = np.minimum(np.maximum(shares, 0.0), 1.0)[:, None] * way.reshape(self._shape)
        chosen = _command_for(joints.place + done.reshape(-1), commands, trying.place)
        joints.push(chosen)
        return chosen.reshape(self._shape)


def _command_for(
    goal: Float[np.ndarray, " J"], commands: Float[np.ndarray, "C J"], reached: Float[np.ndarray, "C J"]
) -> Float[np.ndarray, " J"]:
    """For each joint the command that reaches its goal, or comes nearest, between those that were tried."""
    joint = np.arange(len(goal))
    above = np.minimum(np.maximum((reached < goal).sum(axis=0), 1), len(reached) - 1)
    low, high = reached[above - 1, joint], reached[above, joint]
    between = np.minimum(np.maximum((goal - low) / np.maximum(high - low, 1e-12), 0.0), 1.0)
    return (1.0 - between) * commands[above - 1, joint] + between * commands[above, joint]


def _ahead(
    positions: Float[np.ndarray, "K l"], windows: Float[np.ndarray, "K l"], commands: int
) -> Float[np.ndarray, "K l"]:
    """Where every warp is so many commands later, or would be if it went on as it ends."""
    later, last = np.arange(positions.shape[1]) + commands, warp_lengths(positions)[:, None] - 1
    beyond = np.maximum(later - last, 0) * np.take_along_axis(windows, last, axis=1)
    return positions[:, np.minimum(later, positions.shape[1] - 1)] + beyond


def _read_paths(path: Float[np.ndarray, "K m J"], at: Float[np.ndarray, "K l"]) -> Float[np.ndarray, "K l J"]:
    """Paths at these times, the present being 0; beyond its end each goes on as it went in its last two steps."""
    end = path.shape[1] - 1
    last = min(2, end)
    each, before = np.arange(len(path))[:, None], np.minimum(at.astype(np.int64), end - 1)
    begin = path[each, before]
    inside = begin + (np.minimum(at, end) - before)[..., None] * (path[each, before + 1] - begin)
    beyond = np.maximum(at - end, 0.0)[..., None]
    return inside + beyond * (path[:, end] - path[:, end - last])[:, None] / last
