"""The arms of strangers: their geometry, and where a hand is for given joints."""

from dataclasses import dataclass
from functools import cached_property
from math import cos, sin

import numpy as np
from jaxtyping import Float

from speedup_patch.envs.strangers.spec import Stranger
from speedup_patch.robots import KinematicChain, Link

BETWEEN_BASES = 0.6
"""Distance of two arms' bases, in units of the robot's size."""
HOME = (0.34, 0.0, 0.2)
"""Where the hand starts, from the arm's base, in units of the robot's size."""
DAMPING = 1e-3
"""Of the inverse kinematics, in units of the robot's size squared."""

_Hinge = tuple[int, tuple[float, float, float]]
"""The axis (0 x, 1 y, 2 z) that a joint turns about, and where it sits on the link before it."""

YAW: tuple[_Hinge, ...] = ((2, (0.0, 0.0, 0.1)), (1, (0.0, 0.0, 0.1)))
HINGES: dict[tuple[int, bool], tuple[tuple[_Hinge, ...], float]] = {
    (2, True): (((2, (0.0, 0.0, 0.0)), (2, (0.38, 0.0, 0.0))), 0.36),
    (3, True): (((2, (0.0, 0.0, 0.0)), (2, (0.3, 0.0, 0.0)), (2, (0.28, 0.0, 0.0))), 0.18),
    (3, False): ((*YAW, (1, (0.38, 0.0, 0.0))), 0.38),
    (4, False): ((*YAW, (1, (0.32, 0.0, 0.0)), (1, (0.3, 0.0, 0.0))), 0.15),
    (5, False): ((*YAW, (1, (0.32, 0.0, 0.0)), (1, (0.3, 0.0, 0.0)), (0, (0.08, 0.0, 0.0))), 0.07),
    (6, False): (
        (*YAW, (1, (0.32, 0.0, 0.0)), (0, (0.15, 0.0, 0.0)), (1, (0.15, 0.0, 0.0)), (0, (0.08, 0.0, 0.0))),
        0.07,
    ),
    (7, False): (
        (
            *YAW,
            (0, (0.16, 0.0, 0.0)),
            (1, (0.16, 0.0, 0.0)),
            (0, (0.15, 0.0, 0.0)),
            (1, (0.15, 0.0, 0.0)),
            (0, (0.08, 0.0, 0.0)),
        ),
        0.07,
    ),
}
"""Joints from the base outwards, and the length from the last one to the hand, in units of the robot's size."""

REST: dict[tuple[int, bool], tuple[float, ...]] = {
    (2, True): (-1.0, 2.0),
    (3, True): (-1.0, 1.4, 0.9),
    (3, False): (0.0, -0.9, 1.7),
    (4, False): (0.0, -0.9, 1.5, 0.6),
    (5, False): (0.0, -0.9, 1.5, 0.6, 0.0),
    (6, False): (0.0, -0.9, 1.5, 0.0, 0.6, 0.0),
    (7, False): (0.0, -0.9, 0.0, 1.5, 0.0, 0.6, 0.0),
}
"""The posture that the operator likes, radians."""


@dataclass(frozen=True)
class JointArm:
    """A serial arm of hinges."""

    hinges: tuple[_Hinge, ...]
    tool: float
    """Metres from the last hinge to the hand."""
    base: tuple[float, float, float]
    rest: tuple[float, ...]
    size: float

    @property
    def axes(self) -> int:
        return len(self.hinges)

    def locate(self, q: Float[np.ndarray, " J"]) -> tuple[float, float, float]:
        """Where the hand is, in metres."""
        return self._walk(q)[0]

    def jacobian(self, q: Float[np.ndarray, " J"]) -> tuple[Float[np.ndarray, " 3"], Float[np.ndarray, "3 J"]]:
        """Where the hand is, and how it moves with each joint."""
        hand, origins, directions = self._walk(q)
        place = np.array(hand)
        return place, np.cross(np.array(directions), place - np.array(origins)).T

    def chain(self, columns: tuple[int, ...], scale: float) -> KinematicChain:
        """The same for the package: joints in these state dimensions, times ``scale`` in radians."""
        directions = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
        links = tuple(Link(offset, directions[axis], scale=scale) for axis, offset in self.hinges)
        return KinematicChain(columns, (*self.base, 0.0, 0.0, 0.0, 1.0), links, (self.tool, *(0.0,) * 5, 1.0))

    @cached_property
    def home(self) -> Float[np.ndarray, " J"]:
        """Joints with the hand at its start, near the posture that the operator likes."""
        q = np.array(self.rest)
        goal = np.array(self.base) + self.size * np.array(HOME)
        for _ in range(200):
            hand, jacobian = self.jacobian(q)
            q = q + follow_hand(jacobian, goal - hand, self.size)
        return q

    def _walk(
        self, q: Float[np.ndarray, " J"]
    ) -> tuple[tuple[float, float, float], list[list[float]], list[list[float]]]:
        """(hand, where each hinge is, the direction of its axis), in the world; plain floats, which are faster here."""
        x, y, z = self.base
        frame = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        origins: list[list[float]] = []
        directions: list[list[float]] = []
        for (axis, (a, b, c)), angle in zip(self.hinges, q.tolist(), strict=True):
            u, v, w = frame
            x += a * u[0] + b * v[0] + c * w[0]
            y += a * u[1] + b * v[1] + c * w[1]
            z += a * u[2] + b * v[2] + c * w[2]
            origins.append([x, y, z])
            directions.append(frame[axis])
            first, second = frame[(axis + 1) % 3], frame[(axis + 2) % 3]
            cosine, sine = cos(angle), sin(angle)
            turned = list(frame)
            turned[(axis + 1) % 3] = [cosine * f + sine * s for f, s in zip(first, second, strict=True)]
            turned[(axis + 2) % 3] = [cosine * s - sine * f for f, s in zip(first, second, strict=True)]
            frame = turned
        u, reach = frame[0], self.tool
        return (x + reach * u[0], y + reach * u[1], z + reach * u[2]), origins, directions


@dataclass(frozen=True)
class FreeHand:
    """An end-effector that something else moves: three axes of position (metres), three of a turn (radians)."""

    home: Float[np.ndarray, " 6"]

    @property
    def axes(self) -> int:
        return 6

    def locate(self, q: Float[np.ndarray, " 6"]) -> tuple[float, float, float]:
        """Where the hand is, in metres."""
        x, y, z = q[:3].tolist()
        return x, y, z


def follow_hand(
    jacobian: Float[np.ndarray, "3 J"], move: Float[np.ndarray, " 3"], size: float
) -> Float[np.ndarray, " J"]:
    """The joints' part in a small move of the hand, damped least squares."""
    square = jacobian @ jacobian.T + DAMPING * size * size * np.eye(3)
    return jacobian.T @ np.linalg.solve(square, move)


def find_arms(stranger: Stranger) -> tuple[JointArm | FreeHand, ...]:
    """The arms of a stranger, from right (negative y) to left."""
    size = stranger.size
    sides = (0.0,) if stranger.arms == 1 else (-0.5 * BETWEEN_BASES, 0.5 * BETWEEN_BASES)
    if stranger.joints == 0:
        starts = [size * np.array([HOME[0], side + HOME[1], HOME[2]]) for side in sides]
        return tuple(FreeHand(np.concatenate([start, np.zeros(3)])) for start in starts)
    body = (stranger.joints, stranger.planar)
    hinges, tool = HINGES[body]
    scaled = tuple((axis, tuple(size * part for part in offset)) for axis, offset in hinges)
    return tuple(JointArm(scaled, size * tool, (0.0, size * side, 0.0), REST[body], size) for side in sides)  # pyright: ignore
