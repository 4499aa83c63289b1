"""The hand of a LIBERO expert: what it sees, and how it moves towards a goal at a person's pace."""

from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from speedup_patch.envs.libero_simulator import TaskSimulator

OPEN, CLOSED = -1.0, 1.0
REACH = 0.05
"""Metres that a command of 1.0 asks for, and so the distance at which the hand starts to slow down."""

TURN = 0.5
"""Radians that a command of 1.0 asks for."""

TOP_SPEED, CAREFUL = 0.45, 0.18
"""Largest commands on the way and near things: about 6 and 2.4 mm a step."""

TOP_TURN = 0.4
DOWN = np.diag([1.0, -1.0, -1.0])
"""The hand's rotation with its fingers pointing down and opening along the world's y axis."""


@dataclass(frozen=True)
class Pose:
    """A frame in the world: position in metres and rotation matrix."""

    position: Float[np.ndarray, "3"]
    rotation: Float[np.ndarray, "3 3"]


@dataclass(frozen=True)
class Goal:
    """Where the hand should be next, and how it may get there."""

    pose: Pose
    gripper: float
    speed: float = TOP_SPEED
    freedom: float = 1.0
    """How far the hand may be disturbed: 0 never .. 1 in free space."""
    shove: float = 1.0
    """How hard the hand may be shoved: 0 not at all .. 1 in free space."""


Motion = Generator[Goal, None, None]
"""A skill: gives the next goal at every control step until it is done."""

Target = Callable[[], Pose]
"""Where the hand should be, looked up anew at every step because things move."""


def turned(yaw: float, tilt: float = 0.0, pitch: float = 0.0) -> Float[np.ndarray, "3 3"]:
    """The hand pointing down, turned (radians) about the world's x axis, its y axis and then the vertical."""
    return Rotation.from_euler("xyz", [tilt, pitch, yaw]).as_matrix() @ DOWN


def above(height: float) -> Float[np.ndarray, "3"]:
    """Straight up by ``height`` metres."""
    return np.array([0.0, 0.0, height])


def freedom_at(distance: float) -> float:
    """How far the hand may be disturbed when it is ``distance`` metres from something it could knock."""
    return float(np.clip((distance - 0.02) / 0.10, 0.15, 1.0))


def shove_at(distance: float) -> float:
    """How hard the hand may be shoved when it is ``distance`` metres from something that it is to meet."""
    return float(np.clip(distance / 0.06, 0.4, 1.0))


class Hand:
    """The gripper as measured, the things around it, and the habits of one person."""

    def __init__(self, simulator: TaskSimulator, rng: np.random.Generator) -> None:
        self.rng = rng
        self.pace = float(rng.uniform(0.85, 1.15))
        self._simulator = simulator

    @property
    def position(self) -> Float[np.ndarray, "3"]:
        return self._simulator.state()[:3]

    @property
    def rotation(self) -> Float[np.ndarray, "3 3"]:
        return Rotation.from_rotvec(self._simulator.state()[3:6]).as_matrix()

    @property
    def opening(self) -> float:
        """Metres between the fingers: 0 closed .. 0.08."""
        left, right = self._simulator.state()[6:]
        return float(left - right)

    def see(self, name: str) -> Pose:
        """Where a thing, a piece of furniture or a region is."""
        pose = self._simulator.pose(name)
        return Pose(pose[:3], Rotation.from_quat(pose[3:]).as_matrix())

    def joint(self, name: str) -> float:
        """How far a drawer (metres), door or knob (radians) is."""
        return float(self._simulator.fixture_joints()[self._simulator.fixture_joint_names.index(name)])

    def achieved(self) -> tuple[bool, ...]:
        """Which of the task's goals hold."""
        return self._simulator.achieved()

    def distance(self, goal: Pose) -> float:
        """Metres from the hand to a goal, where a tenth of a radian counts as a centimetre."""
        turn = Rotation.from_matrix(goal.rotation @ self.rotation.T).magnitude()
        return float(np.linalg.norm(goal.position - self.position) + 0.1 * max(0.0, turn - 0.05))

    def command(self, goal: Goal) -> Float[np.ndarray, "7"]:
        """The action that takes the hand one step towards the goal."""
        move = (goal.pose.position - self.position) / REACH
        turn = Rotation.from_matrix(goal.pose.rotation @ self.rotation.T).as_rotvec() / TURN
        move *= min(1.0, goal.speed * self.pace / max(float(np.linalg.norm(move)), 1e-9))
        turn *= min(1.0, TOP_TURN * self.pace / max(float(np.linalg.norm(turn)), 1e-9))
        return np.concatenate([move, turn, [goal.gripper]])

    def move(
        self,
        target: Target,
        gripper: float,
        within: float = 0.015,
        speed: float = TOP_SPEED,
        freedom: float = 1.0,
        patience: int = 150,
    ) -> Motion:
        """Goes to a target until it is ``within`` so many metres, or for ``patience`` steps."""
        for _ in range(patience):
            goal = target()
            distance = self.distance(goal)
            if distance < within:
                return
            yield Goal(goal, gripper, speed, freedom, shove_at(distance))

    def wait(self, gripper: float, steps: int, freedom: float = 0.15) -> Motion:
        """Holds still where it is."""
        place = Pose(self.position, self.rotation)
        for _ in range(steps):
            yield Goal(place, gripper, CAREFUL, freedom, shove=0.0)
