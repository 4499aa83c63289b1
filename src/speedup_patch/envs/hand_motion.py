"""How a person's hand moves a tool: smooth, no faster than it likes, waiting for an arm that was pushed away."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from speedup_patch.envs.inverse_kinematics import Pose, rotation_vector, turn


@dataclass(frozen=True)
class ToolGoal:
    """Where a tool should go next, and how carefully."""

    pose: Pose
    gripper: float
    """0 closed .. 1 open."""
    speed: float = 0.003
    """Metres per control step at most."""
    patience: float = 0.08
    """Metres that the arm may be away from its target before the target waits for it."""


@dataclass
class ToolTarget:
    """The moving target of one tool; each ``advance`` takes it one control step nearer to a goal."""

    pose: Pose
    gripper: float
    velocity: Float[np.ndarray, "3"] = field(default_factory=lambda: np.zeros(3))
    spin: float = 0.0
    acceleration: float = 0.0002
    turn_speed: float = 0.016
    turn_acceleration: float = 0.0008
    closeness_gain: float = 0.06
    gripper_speed: float = 0.06

    def advance(self, goal: ToolGoal, measured: Pose, pace: float) -> None:
        """Moves on by one control step at ``pace`` times the usual speed."""
        strayed = float(np.linalg.norm(measured.position - self.pose.position))
        waiting = float(np.clip(2.0 - 2.0 * strayed / goal.patience, 0.0, 1.0))
        position = self._advance_position(goal, pace * waiting)
        rotation = self._advance_rotation(goal, pace * waiting)
        self.pose = Pose(position, rotation)
        change = float(np.clip(goal.gripper - self.gripper, -self.gripper_speed * pace, self.gripper_speed * pace))
        self.gripper += change

    def _advance_position(self, goal: ToolGoal, pace: float) -> Float[np.ndarray, "3"]:
        gap = goal.pose.position - self.pose.position
        distance = float(np.linalg.norm(gap))
        speed = min(goal.speed * pace, self.closeness_gain * distance)
        wanted = gap / max(distance, 1e-9) * speed
        change = wanted - self.velocity
        self.velocity = self.velocity + change * min(1.0, self.acceleration / max(float(np.linalg.norm(change)), 1e-12))
        return self.pose.position + self.velocity

    def _advance_rotation(self, goal: ToolGoal, pace: float) -> Float[np.ndarray, "3 3"]:
        gap = rotation_vector(goal.pose.rotation @ self.pose.rotation.T)
        angle = float(np.linalg.norm(gap))
        wanted = min(self.turn_speed * pace, self.closeness_gain * angle)
        self.spin += float(np.clip(wanted - self.spin, -self.turn_acceleration, self.turn_acceleration))
        return turn(gap / max(angle, 1e-9) * min(self.spin, angle)) @ self.pose.rotation


class SmoothNoise:
    """Zero-mean noise that wanders smoothly: two cascaded leaky averages of white noise, scaled to unit deviation."""

    def __init__(self, size: int, memory_steps: float, rng: np.random.Generator) -> None:
        self._keep = float(np.exp(-1.0 / memory_steps))
        keep = self._keep
        # Stationary deviation of the second stage when the first is driven by unit white noise.
        variance = (1 + keep**2) / (1 - keep**2) ** 3
        self._scale = 1.0 / np.sqrt(variance)
        self._rng = rng
        self._fast, self._slow = np.zeros(size), np.zeros(size)

    def sample(self) -> Float[np.ndarray, " N"]:
        """The next value; starts at zero."""
        self._fast = self._keep * self._fast + self._rng.standard_normal(len(self._fast))
        self._slow = self._keep * self._slow + self._fast
        return self._slow * self._scale


class Shoves:
    """Now and then a push in one direction that lasts for some steps; zero in between."""

    def __init__(self, size: int, mean_gap: float, steps: tuple[int, int], rng: np.random.Generator) -> None:
        self._size, self._mean_gap, self._steps, self._rng = size, mean_gap, steps, rng
        self._push, self._left = np.zeros(size), 0

    def sample(self) -> Float[np.ndarray, " N"]:
        """The push of this step, no longer than 1."""
        if self._left > 0:
            self._left -= 1
        elif self._rng.random() * self._mean_gap < 1.0:
            direction = self._rng.standard_normal(self._size)
            self._push = direction / np.linalg.norm(direction) * self._rng.random()
            self._left = int(self._rng.integers(self._steps[0], self._steps[1] + 1)) - 1
        else:
            self._push = np.zeros(self._size)
        return self._push
