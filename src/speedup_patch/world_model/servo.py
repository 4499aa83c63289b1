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


class MovingJoints:
    """Joints of this shape on their way: ``place``, and ``motion`` per integration step."""

    def __init__(
        self,
        servo: Servo,
        position: Float[np.ndarray, "*#P"],
        velocity: Float[np.ndarray, "*#P"],
        shape: tuple[int, ...],
    ) -> None:
        step = 1.0 / SUBSTEPS
        self.place = np.broadcast_to(position, shape).astype(np.float64)
        self.motion = np.broadcast_to(step * velocity, shape).astype(np.float64)
        self._servo = servo
        self._gain, self._hold = step**2 * servo.stiffness, step * servo.grip
        self._most, self._least = step**2 * servo.limit, -(step**2) * servo.limit
        self._kept = 1.0 / (1.0 + step * servo.damping)
        self._pull, self._friction = np.empty(shape), np.empty(shape)

    def put(self, other: "MovingJoints") -> None:
        """Puts them where others are, moving as they do; shapes broadcast."""
        self.place[...], self.motion[...] = other.place, other.motion

    def push(self, command: Float[np.ndarray, "*#P"], stops: Stops | None = None) -> None:
        """Moves them on by one control step."""
        place, motion, pull, friction = self.place, self.motion, self._pull, self._friction
        target = command + self._servo.offset
        # All in place: these few lines take nearly all the time that fitting and predicting take.
        for _ in range(SUBSTEPS):
            np.subtract(target, place, out=pull)
            pull *= self._gain
            np.multiply(motion, self._hold, out=friction)
            friction += pull
            friction *= self._servo.share
            np.maximum(friction, self._least, out=friction)
            np.minimum(friction, self._most, out=friction)
            motion += pull
            motion -= friction
            motion *= self._kept
            place += motion
            if stops is not None:
                np.maximum(place, stops.low, out=place)
                np.minimum(place, stops.high, out=place)


def simulate(
    servo: Servo,
    position: Float[np.ndarray, "*#P"],
    velocity: Float[np.ndarray, "*#P"],
    commands: Float[np.ndarray, "L *#P"],
    stops: Stops | None = None,
) -> Float[np.ndarray, "L *P"]:
    """Where the joint is after each of L commands; shapes broadcast, so one call runs many joints, starts or laws."""
    shape = np.broadcast_shapes(position.shape, commands.shape[1:], servo.stiffness.shape)
    joints, trajectory = MovingJoints(servo, position, velocity, shape), np.empty((len(commands), *shape))
    for index in range(len(commands)):
        joints.push(commands[index, ...], stops)
        trajectory[index] = joints.place
    return trajectory


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
