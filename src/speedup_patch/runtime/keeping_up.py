"""Keeps joints that are servos on their path when a chunk is hurried.

Joints answer their targets with different lags, at rate 1 too, and a policy has learned to live with that. A chunk that
is only read faster is another matter: at rate k every joint is k times as far behind, the slow ones most, and the hand
leaves its path. The servo law says which targets bring every joint where it is at rate 1.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from jaxtyping import Float

from speedup_patch.warp import GripperDelays, Warp
from speedup_patch.world_model.servo import Law, MovingJoints, Servo, ServoWorldModel

SETTLED = 2
"""Control steps after which a joint has to be in its place. Chosen on development seeds: brought there in one it is on
its path more exactly in the world model, but episodes took longer, and at rates beyond 4 more insertions failed."""
COMMANDS_TRIED = 17
"""Commands among which the one that brings a joint to its place is interpolated."""
LEAST_WAY = 0.02
"""A joint that has less than this share of its longest pull to go does not hold the others up."""


class KeepingUp:
    """What makes the joints of a hurried chunk keep up.

    ``pulls`` is how far targets were seen to run ahead of what they drive (see ``Limits.pulls``), ``delays`` how late
    the grippers of an arm are that is kept up.
    """

    def __init__(
        self,
        world_model: ServoWorldModel,
        pulls: tuple[float, ...],
        delays: Mapping[int, GripperDelays] = MappingProxyType({}),
    ) -> None:
        robot = world_model.robot
        fingers = {gripper.action for gripper in robot.grippers}
        joints = [number for number, action in enumerate(robot.drives) if action not in fingers]
        actions, states = (np.array(list(part))[joints] for part in (robot.drives.keys(), robot.drives.values()))
        self._delays = delays
        self._actions, self._states = actions, states
        servo = Servo(*(parameter[joints] for parameter in world_model.servo))
        self._law = Law.of(servo, 1)
        # Written out: what need not be broadcast is faster.
        self._law_often = Law.of(Servo(*(np.tile(parameter, (COMMANDS_TRIED, 1)) for parameter in servo)), 2)
        self._pulls = np.array(pulls)[joints]
        self._low, self._high = robot.action_low[actions], robot.action_high[actions]
        self._tried = np.linspace(-1.0, 1.0, COMMANDS_TRIED)[:, None]

    def lead(self, warp: Warp) -> Warp:
        """The warp with its grippers in step with an arm that is kept up."""
        return warp if warp.path is None else replace(warp, delays=self._delays)

    def pull(self, warp: Warp, actions: Float[np.ndarray, "l A"]) -> Float[np.ndarray, "l A"]:
        """The commands with every joint told what, held for ``SETTLED`` steps, brings it to its place on the path then.

        Nothing is pulled further than the chunk would, or at rate k than k times as far as demonstrated: where the path
        jumps, as it does where a chunk begins, all joints come late together rather than being thrown. Grippers are
        left as they are, and so is a chunk that is not shortened, or whose path nobody foresaw.
        """
        if warp.path is None or len(warp) == warp.original:
            return actions
        # Features begin with the whole state where joints are servos (see ``why_no_servo``).
        path = warp.path[:, self._states].astype(np.float64)
        windows = np.diff(warp.positions, prepend=0.0)
        beyond = warp.positions[-1] + windows[-1] * np.arange(1, SETTLED)
        goals = _read_path(path[1:], np.concatenate([warp.positions, beyond])[SETTLED - 1 :])
        furthest = np.maximum(windows, 1.0)[:, None] * self._pulls
        count, start = len(self._actions), (path[1], path[1] - path[0])
        joints = MovingJoints(self._law, *start, (count,))
        tried = MovingJoints(self._law_often, *start, (COMMANDS_TRIED, count))
        told = actions[:, self._actions]
        for row, goal in enumerate(goals):
            pull = np.maximum(furthest[row], np.abs(told[row] - joints.place))
            told[row] = self._towards(goal, pull, joints, tried)
            joints.push(told[row])
        kept = actions.copy()
        kept[:, self._actions] = told
        return kept

    def _towards(
        self, goal: Float[np.ndarray, " J"], pull: Float[np.ndarray, " J"], joints: MovingJoints, tried: MovingJoints
    ) -> Float[np.ndarray, " J"]:
        """The commands no further away than ``pull`` that bring all joints the same share of the way to their goal."""
        commands = np.minimum(np.maximum(joints.place + self._tried * pull, self._low), self._high)
        tried.put(joints)
        for _ in range(SETTLED):
            tried.push(commands)
        way = goal - joints.place
        furthest = np.where(way > 0, tried.place[-1], tried.place[0]) - joints.place
        counts = np.abs(way) > np.maximum(LEAST_WAY * pull, 1e-9)
        share = (furthest[counts] / way[counts]).min(initial=1.0)
        return _command_for(joints.place + max(share, 0.0) * way, commands, tried.place)


def _command_for(
    goal: Float[np.ndarray, " J"], commands: Float[np.ndarray, "C J"], reached: Float[np.ndarray, "C J"]
) -> Float[np.ndarray, " J"]:
    """For each joint the command that reaches its goal, or comes nearest, between those that were tried."""
    joint = np.arange(len(goal))
    above = np.minimum(np.maximum((reached < goal).sum(axis=0), 1), len(reached) - 1)
    low, high = reached[above - 1, joint], reached[above, joint]
    between = np.minimum(np.maximum((goal - low) / np.maximum(high - low, 1e-12), 0.0), 1.0)
    return (1.0 - between) * commands[above - 1, joint] + between * commands[above, joint]


def _read_path(path: Float[np.ndarray, "m J"], at: Float[np.ndarray, " l"]) -> Float[np.ndarray, "l J"]:
    """A path at these times, the present being 0; beyond its end it goes on as it went in its last two steps."""
    end = len(path) - 1
    last = min(2, end)
    before = np.minimum(at.astype(np.int64), end - 1)
    inside = path[before] + (np.minimum(at, end) - before)[:, None] * (path[before + 1] - path[before])
    return inside + np.maximum(at - end, 0.0)[:, None] * (path[end] - path[end - last]) / last
