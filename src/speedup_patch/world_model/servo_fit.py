"""Fits one servo per driven joint to demonstrations, by least squares on simulated stretches.

Three things make the fit hold beyond the speeds it has seen. The simulation runs for a while before its errors count,
so a start that was measured while something pushed the robot does not bias it. Errors are whitened (each is compared
with what the two before it foretell), so slow disturbances that no command explains, such as gravity, contact or noise
that was sent but not recorded, weigh little against how the joint answers changes of its command. And the search
starts from the best of a coarse grid, because the friction limit makes the cost bumpy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares

from speedup_patch.data import Demonstrations, sent_actions
from speedup_patch.reporting import Report, silent
from speedup_patch.robots import Robot
from speedup_patch.world_model.servo import (
    MAX_STIFFNESS,
    Servo,
    ServoWorldModel,
    Stroke,
    driven_strokes,
    is_held,
    refuse_without_servos,
)
from speedup_patch.world_model.stretches import JointMotion, Stretches, cut_stretches

Unpack = Callable[[Float[np.ndarray, "Z *P"]], Servo]
WHITENING_ORDER = 2
"""How many earlier errors foretell the next."""

DERIVATIVE_STEP = 1e-4
TOLERANCE = 1e-4
"""Relative gain or change below which a search stops."""

STARTS = 2
"""Points of the grid from which the search starts."""

STRETCHES = 400
"""Stretches per joint that the fit looks at."""

NEARLY_ALL_HELD = 0.1
"""Of what is held, this share is thinner than what fingers are expected to stop at."""

OUTLIER = 3.0
"""Errors this many times the usual size begin to count less than their square."""

FRICTION_MUST_GAIN = 0.95
"""Friction is believed when it brings the cost below this share of the cost without it."""


def unpack_spring(z: Float[np.ndarray, "3 *P"]) -> Servo:
    """A servo without friction from (log stiffness, log damping, offset)."""
    stiffness = np.minimum(np.exp(z[0]), MAX_STIFFNESS)
    nothing = np.zeros_like(stiffness)
    return Servo(stiffness, np.exp(z[1]), nothing, nothing, nothing, z[2])


def unpack_friction(z: Float[np.ndarray, "5 *P"]) -> Servo:
    """A servo with friction from (log stiffness, log damping, offset, logit share, log limit).

    Stiffness and damping are those of slow motion, where friction is within its limit; data at 1x tell them best.
    """
    share = 1.0 / (1.0 + np.exp(-z[3]))
    stiffness = np.minimum(np.exp(z[0]) / (1.0 - share), MAX_STIFFNESS)
    damping = np.full_like(stiffness, 0.02)
    return Servo(stiffness, damping, share, np.exp(z[1]) / share, np.exp(z[4]), z[2])


STIFFNESSES, DAMPING_RATIOS = np.log([0.003, 0.03, 0.1, 0.3, 1.0, 3.0]), np.log([0.3, 1.0, 2.0, 4.0])
LIMITS = np.log([0.01, 0.03, 0.1, 0.3, 1.0])
SPRING_GRID = np.array([[k, ratio + k / 2, 0.0] for k, ratio in product(STIFFNESSES, DAMPING_RATIOS)])
FRICTION_GRID = np.array(
    [[k, ratio + k / 2, 0.0, 2.2, limit] for k, ratio, limit in product(STIFFNESSES[1:], DAMPING_RATIOS, LIMITS)]
)
LOW = np.array([-7.0, -5.0, -1.0, -2.0, -8.0])
HIGH = np.array([4.0, 4.0, 1.0, 5.0, 4.0])


@dataclass(frozen=True)
class Solution:
    """A law as the numbers that were searched for, what it costs, and its errors."""

    z: Float[np.ndarray, " Z"]
    servo: Servo
    cost: float
    errors: Float[np.ndarray, "K W"]


def fit_servo(stretches: Stretches) -> Servo:
    """The law that explains the stretches best."""
    plain = Search(stretches, np.zeros(WHITENING_ORDER), evaluations=12)
    spring = plain.solve(unpack_spring, SPRING_GRID)
    friction = plain.solve(unpack_friction, FRICTION_GRID)
    whitened = Search(stretches, foretell(min(spring, friction, key=_cost).errors), evaluations=30)
    spring = whitened.solve(unpack_spring, SPRING_GRID, spring.z)
    friction = whitened.solve(unpack_friction, FRICTION_GRID, friction.z)
    best = friction if friction.cost < FRICTION_MUST_GAIN * spring.cost else spring
    # Whitening hides constant errors, so the offset at rest is read from what is left.
    return best.servo._replace(offset=best.servo.offset - np.median(best.errors))


def _cost(solution: Solution) -> float:
    return solution.cost


def foretell(errors: Float[np.ndarray, "L W"]) -> Float[np.ndarray, " order"]:
    """The weights with which earlier errors best foretell the next one."""
    order = WHITENING_ORDER
    earlier = np.stack([errors[order - 1 - i : len(errors) - 1 - i].ravel() for i in range(order)], axis=1)
    return np.linalg.lstsq(earlier, errors[order:].ravel(), rcond=None)[0]


def whiten(errors: Float[np.ndarray, "L *P W"], weights: Float[np.ndarray, " order"]) -> Float[np.ndarray, "M *P W"]:
    """What is left of each error after subtracting what the ones before it foretell."""
    order = len(weights)
    left = errors[order:].copy()
    for i, weight in enumerate(weights):
        left -= weight * errors[order - 1 - i : len(errors) - 1 - i]
    return left


class Search:
    """Looks for the law with the smallest whitened errors."""

    def __init__(self, stretches: Stretches, whitening: Float[np.ndarray, " order"], evaluations: int) -> None:
        self.stretches = stretches
        self.whitening = whitening
        self.evaluations = evaluations
        coarse = self._whitened(unpack_spring, SPRING_GRID)
        least = np.abs(coarse).mean(axis=(0, 2)).argmin()
        self.usual = max(float(np.quantile(np.abs(coarse[:, least]), 0.9)), 1e-9)
        """The size that errors usually have with the best spring of the grid."""

    def solve(
        self, unpack: Unpack, grid: Float[np.ndarray, "G Z"], known: Float[np.ndarray, " Z"] | None = None
    ) -> Solution:
        """The best of several searches: from what is known to be good, and from the grid's best points."""
        order = np.abs(self._whitened(unpack, grid)).mean(axis=(0, 2)).argsort()
        starts = [*grid[order[:STARTS]], *([] if known is None else [known])]
        z, cost = min((self._descend(unpack, start) for start in starts), key=lambda found: found[1])
        return Solution(z, unpack(z), cost, self.stretches.errors(unpack(z[:, None])))

    def _descend(self, unpack: Unpack, start: Float[np.ndarray, " Z"]) -> tuple[Float[np.ndarray, " Z"], float]:
        size = len(start)

        def residuals(z: np.ndarray) -> np.ndarray:
            return self._whitened(unpack, z[None])[:, 0].ravel() / self.usual

        def jacobian(z: np.ndarray) -> np.ndarray:
            nudged = self._whitened(unpack, z + DERIVATIVE_STEP * np.eye(size + 1, size, k=-1)) / self.usual
            slopes = (nudged[:, 1:] - nudged[:, :1]) / DERIVATIVE_STEP
            return slopes.transpose(0, 2, 1).reshape(-1, size)

        found = least_squares(
            residuals,
            start,
            cast(Any, jacobian),
            bounds=(LOW[:size], HIGH[:size]),
            x_scale="jac",
            loss="soft_l1",
            f_scale=OUTLIER,
            max_nfev=self.evaluations,
            ftol=TOLERANCE,
            xtol=TOLERANCE,
        )
        return found.x, float(found.cost)

    def _whitened(self, unpack: Unpack, laws: Float[np.ndarray, "P Z"]) -> Float[np.ndarray, "M P W"]:
        return whiten(self.stretches.errors(unpack(laws.T[:, :, None])), self.whitening)


def fit_servo_world_model(
    demonstrations: Demonstrations, robot: Robot, horizon: int, report: Report = silent
) -> ServoWorldModel:
    """A servo for every driven state dimension, fitted to stretches that count for ``horizon`` steps."""
    refuse_without_servos(robot)
    states = np.concatenate([episode.states for episode in demonstrations]).astype(np.float64)
    actions = np.concatenate([sent_actions(episode) for episode in demonstrations]).astype(np.float64)
    lengths = np.array([len(episode) for episode in demonstrations])
    reached = states[:, list(robot.drives.values())]
    strokes = driven_strokes(robot)
    # A gripper's command may lie beyond where its fingers end; a joint reaches what it is told to.
    low = np.where(np.isnan(strokes.closed), -np.inf, reached.min(axis=0))
    high = np.where(np.isnan(strokes.closed), np.inf, reached.max(axis=0))
    servos: list[Servo] = []
    held: list[float] = []
    for index, action in enumerate(robot.drives):
        motion = JointMotion(reached[:, index], np.clip(actions[:, action], low[index], high[index]), lengths)
        stroke = Stroke(strokes.closed[index], strokes.open[index])
        servos.append(fit_servo(cut_stretches(motion, horizon, STRETCHES, stroke)))
        held.append(usually_held(motion, stroke))
        report("world model", index + 1, len(robot.drives), {})
    law = Servo(*(np.array(column) for column in zip(*servos, strict=True)))
    return ServoWorldModel(robot, law, low, high, np.array(held))


def usually_held(motion: JointMotion, stroke: Stroke) -> float:
    """Where fingers that close come to a stop because they hold something: as far closed as they do with nearly all of
    what they hold. NaN where they hold nothing in most episodes."""
    holding = is_held(motion.positions, motion.velocities(), motion.commands, stroke)
    episode = np.repeat(np.arange(len(motion.lengths)), motion.lengths)
    if len(np.unique(episode[holding])) <= len(motion.lengths) / 2:
        return float("nan")
    opening = (motion.positions[holding] - stroke.closed) / (stroke.open - stroke.closed)
    return float(stroke.closed + np.quantile(opening, NEARLY_ALL_HELD) * (stroke.open - stroke.closed))
