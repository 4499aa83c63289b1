"""Joints as servos: each follows its own command like a damped spring with friction; kinematics does the rest.

Everything is in units of one control step, so that the velocity of a joint is what it moved since the last step.
A joint at q, with velocity v and command u, is pulled by

    pull = stiffness * (u + offset - q)
    friction = clip(share * (pull + grip * v), -limit, limit)
    acceleration = pull - friction - damping * v

so friction eats a share of whatever pulls and brakes what moves, but never more than ``limit``: a slow joint creeps
behind its command, a fast one breaks away and follows at a constant distance. Demonstrations at 1x show a joint mostly
below that limit, commands at 2-4x drive it beyond; a law that knows the limit is what makes the fit carry over.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from speedup_patch.array_files import Arrays, check_same_shapes, save_arrays
from speedup_patch.artefacts import write_json
from speedup_patch.errors import InputError
from speedup_patch.observations import feature_size, features, split_observation
from speedup_patch.robots import KinematicChain, Robot

SUBSTEPS = 5
"""Integration steps per control step."""

MAX_STIFFNESS = 0.8 * SUBSTEPS**2
"""Above this the integration would not be stable; such a joint is where it is told to be within one control step."""

HELD_SPEED, HELD_GAP, HELD_OPENING = 0.002, 0.25, 0.9
"""A gripper holds something when it moves less than the first per step, although it is told to close by more than the
second, and is open by less than the third; all as shares of its stroke."""

ROWS_AT_ONCE = 4096
"""Rollouts computed together: what fits in a processor's cache is fastest."""


class Servo(NamedTuple):
    """The law of one joint, or of many as arrays of the same shape."""

    stiffness: Float[np.ndarray, "*P"]
    damping: Float[np.ndarray, "*P"]
    share: Float[np.ndarray, "*P"]
    grip: Float[np.ndarray, "*P"]
    limit: Float[np.ndarray, "*P"]
    offset: Float[np.ndarray, "*P"]


class Stops(NamedTuple):
    """The lowest and the highest position that joints can reach."""

    low: Float[np.ndarray, "*P"]
    high: Float[np.ndarray, "*P"]


class Law(NamedTuple):
    """What a servo law comes to in one integration step; ``of`` sees to shapes of this rank."""

    sums: Float[np.ndarray, "2 2 *P"]
    """What of the gap to the target, and what of the motion, makes the friction and the motion without it."""
    friction: Float[np.ndarray, "*P"]
    offset: Float[np.ndarray, "*P"]

    @classmethod
    def of(cls, servo: Servo, rank: int) -> "Law":
        """The coefficients, ready to be spread over arrays of so many dimensions."""
        step = 1.0 / SUBSTEPS
        servo = Servo(*(np.reshape(part, (1,) * (rank - np.ndim(part)) + np.shape(part)) for part in servo))
        gain, hold, kept = step**2 * servo.stiffness, step * servo.grip, 1.0 / (1.0 + step * servo.damping)
        sums = np.stack([servo.share * gain, servo.share * hold, gain, np.ones_like(gain)])
        friction = np.asarray(kept * step**2 * servo.limit)
        return cls(kept * sums.reshape(2, 2, *friction.shape), friction, servo.offset)


class MovingJoints:
    """Joints of this shape, of one dimension or more, on their way."""

    def __init__(
        self,
        law: Law,
        position: Float[np.ndarray, "*#P"],
        velocity: Float[np.ndarray, "*#P"],
        shape: tuple[int, ...],
    ) -> None:
        self._law, self._least = law, -law.friction
        self._gap_and_motion, self._products, self._sums = (np.empty((*two, *shape)) for two in ((2,), (2, 2), (2,)))
        self.place = np.empty(shape)
        self.place[...] = position
        self.motion[...] = velocity / SUBSTEPS

    @property
    def motion(self) -> Float[np.ndarray, "*P"]:
        """How far they go in an integration step."""
        return self._gap_and_motion[1]

    def put(self, other: "MovingJoints") -> None:
        """Puts them where others are, moving as they do; shapes broadcast."""
        self.place[...] = other.place
        self.motion[...] = other.motion

    def push(self, command: Float[np.ndarray, "*#P"], stops: Stops | None = None) -> None:
        """Moves them on by one control step."""
        law, most, least = self._law.sums, self._law.friction, self._least
        state, products, sums = self._gap_and_motion, self._products, self._sums
        gap, motion = state
        (by_gap, by_motion), (friction, pushed) = np.swapaxes(products, 0, 1), sums
        target = command + self._law.offset
        bounds = None if stops is None else (target - stops.high, target - stops.low)
        np.subtract(target, self.place, out=gap)
        # Both sums at once and all in place: these few lines take nearly all the time of fitting and predicting.
        for _ in range(SUBSTEPS):
            np.multiply(law, state, out=products)
            np.add(by_gap, by_motion, out=sums)
            np.maximum(friction, least, out=friction)
            np.minimum(friction, most, out=friction)
            np.subtract(pushed, friction, out=motion)
            gap -= motion
            if bounds is not None:
                np.maximum(gap, bounds[0], out=gap)
                np.minimum(gap, bounds[1], out=gap)
        np.subtract(target, gap, out=self.place)


def simulate(
    servo: Servo,
    position: Float[np.ndarray, "*#P"],
    velocity: Float[np.ndarray, "*#P"],
    commands: Float[np.ndarray, "L *#P"],
    stops: Stops | None = None,
) -> Float[np.ndarray, "L *P"]:
    """Where the joint is after each of L commands; shapes broadcast, so one call runs many joints, starts or laws."""
    shape = np.broadcast_shapes(position.shape, commands.shape[1:], servo.stiffness.shape)
    inside = shape or (1,)  # a single joint would be a number, which nothing can be written into
    joints = MovingJoints(Law.of(servo, len(inside)), position, velocity, inside)
    trajectory = np.empty((len(commands), *inside))
    for index in range(len(commands)):
        joints.push(commands[index, ...], stops)
        trajectory[index] = joints.place
    return trajectory.reshape(len(commands), *shape)


class Stroke(NamedTuple):
    """Where a gripper is closed and open; NaN for a joint, which never holds anything."""

    closed: Float[np.ndarray, "*P"]
    open: Float[np.ndarray, "*P"]


def is_held(
    position: Float[np.ndarray, "*P"],
    velocity: Float[np.ndarray, "*P"],
    command: Float[np.ndarray, "*P"],
    stroke: Stroke,
) -> Bool[np.ndarray, "*P"]:
    """Whether a gripper has something between its fingers: told to close, it stands still."""
    span = stroke.open - stroke.closed
    still = np.abs(velocity / span) < HELD_SPEED
    return still & ((position - stroke.closed) / span < HELD_OPENING) & ((position - command) / span > HELD_GAP)


def why_no_servo(robot: Robot) -> str | None:
    """Why this robot's joints cannot be modelled as servos, or None when they can."""
    driven = set(robot.drives.values())
    for arm in robot.arms:
        if not isinstance(arm.pose, KinematicChain):
            return f"the pose of arm {arm.name!r} is read from the state, not computed from its joints"
        undriven = [robot.state_names[joint] for joint in arm.pose.joints if joint not in driven]
        if undriven:
            return f"no action is the target of {', '.join(undriven)}"
    return None


def refuse_without_servos(robot: Robot) -> None:
    """Raises an error when this robot's joints cannot be modelled as servos."""
    reason = why_no_servo(robot)
    if reason:
        raise InputError(f"robot {robot.name!r} cannot have a servo world model: {reason}; use kind 'gru'")


class ServoWorldModel:
    """A ``WorldModel`` of one servo per driven state dimension; what no action drives stays as it is.

    ``servo``, ``low``, ``high`` and ``held`` hold one number per entry of ``robot.drives``. Commands beyond low..high
    are cut. Fingers that close stop at ``held``, where there is something between them; NaN where there never is.
    """

    kind = "servo"
    memory = 0
    """Where a servo is and how fast it moves says all of it."""

    def __init__(
        self,
        robot: Robot,
        servo: Servo,
        low: Float[np.ndarray, " J"],
        high: Float[np.ndarray, " J"],
        held: Float[np.ndarray, " J"] | None = None,
    ) -> None:
        refuse_without_servos(robot)
        self.robot = robot
        self.servo = servo
        self.low, self.high = low, high
        self.held = np.full(len(low), np.nan) if held is None else held
        self._actions, self._states = list(robot.drives.keys()), list(robot.drives.values())
        self._stroke = driven_strokes(robot)

    def rollout(
        self,
        observations: Float[np.ndarray, "B O"],
        actions: Float[np.ndarray, "B L A"],
        before: Float[np.ndarray, "B M A"] | None = None,
    ) -> Float[np.ndarray, "B L X"]:
        """Predicted features x (see observations.py) after each of L actions, un-normalised."""
        predictions = np.empty((*actions.shape[:2], feature_size(self.robot)), dtype=np.float32)
        for first in range(0, len(actions), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            predictions[rows] = self._rollout(observations[rows], actions[rows])
        return predictions

    def _rollout(
        self, observations: Float[np.ndarray, "B O"], actions: Float[np.ndarray, "B L A"]
    ) -> Float[np.ndarray, "B L X"]:
        x, change = split_observation(observations)
        # Every arm is a kinematic chain, so x begins with the whole state (see ``why_no_servo``).
        position, velocity = x[:, self._states], change[:, self._states]
        commands = np.clip(actions[..., self._actions], self.low, self.high).transpose(1, 0, 2)
        holding = is_held(position, velocity, commands[0], self._stroke)
        opens_upwards = self._stroke.open > self._stroke.closed
        low = np.where(opens_upwards & (position > self.held), self.held, -np.inf)
        low = np.where(opens_upwards & holding, position, low)
        high = np.where(~opens_upwards & (position < self.held), self.held, np.inf)
        high = np.where(~opens_upwards & holding, position, high)
        states = np.repeat(x[:, None, : self.robot.state_size], len(commands), axis=1)
        stops = Stops(low, high) if np.isfinite(low).any() or np.isfinite(high).any() else None
        states[..., self._states] = simulate(self.servo, position, velocity, commands, stops).transpose(1, 0, 2)
        return features(self.robot, states)

    def save(self, directory: Path) -> None:
        """Writes the fitted law."""
        arrays = self.servo._asdict() | {"low": self.low, "high": self.high, "held": self.held}
        save_arrays(directory / "world_model.safetensors", {n: a.astype(np.float64) for n, a in arrays.items()})
        write_json(directory / "world_model.json", {"kind": self.kind, "robot": self.robot.name})


def driven_strokes(robot: Robot) -> Stroke:
    """The strokes of all driven state dimensions."""
    grippers = {gripper.action: (gripper.closed, gripper.open) for gripper in robot.grippers}
    ends = np.array([grippers.get(action, (np.nan, np.nan)) for action in robot.drives])
    return Stroke(ends[:, 0], ends[:, 1])


def servo_from_arrays(robot: Robot, arrays: Arrays, what: str) -> ServoWorldModel:
    """The servo world model that ``save`` wrote; ``what`` is named when it does not fit the robot."""
    expected = {name: np.zeros(len(robot.drives)) for name in (*Servo._fields, "low", "high", "held")}
    check_same_shapes(arrays, expected, what)
    law = {name: array.astype(np.float64) for name, array in arrays.items()}
    low, high, held = (law.pop(name) for name in ("low", "high", "held"))
    return ServoWorldModel(robot, Servo(**law), low, high, held)
