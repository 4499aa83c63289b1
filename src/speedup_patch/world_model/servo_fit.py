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

import numpy as np
from jaxtyping import Float
from scipy.optimize import OptimizeResult, least_squares

from speedup_patch.data import Demonstrations
from speedup_patch.robots import Robot
from speedup_patch.training import Report, silent
from speedup_patch.world_model.servo import (
    MAX_STIFFNESS,
    Servo,
    ServoWorldModel,
    Stroke,
    driven_strokes,
    refuse_without_servos,
)
from speedup_patch.world_model.stretches import JointMotion, Stretches, cut_stretches
from speedup_patch.world_model.windows import sent_actions

Unpack = Callable[[Float[np.ndarray, "Z *P"]], Servo]
WHITENING_ORDER = 2
"""How many earlier errors foretell the next."""

DERIVATIVE_STEP = 1e-4
STARTS = 2
"""Points of the grid from which the search starts."""

STRETCHES = 400
"""Stretches per joint that the fit looks at."""

OUTLIER = 3.0
"""Errors this many times the usual size begin to count less than their square."""

FRICTION_MUST_GAIN = 0.95
"""Friction is believed when it brings the cost below this share of the cost without it."""


def unpack_spring(z: Float[np.ndarray, "3 *P"]) -> Servo:
    """A servo without friction from (log stiffness, log damping, offset)."""
    stiffness = np.minimum(np.exp(z[0]), MAX_STIFFNESS)
    nothing = np.zeros_like(stiffness)
    return Servo(stiffness, np.exp(z[1]), nothing, nothing, nothing, z[2] * stiffness)


def unpack_friction(z: Float[np.ndarray, "5 *P"]) -> Servo:
    """A servo with friction from (log stiffness, log damping, offset, logit share, log limit).

    Stiffness and damping are those of slow motion, where friction is within its limit; data at 1x tell them best.
    """
    share = 1.0 / (1.0 + np.exp(-z[3]))
    stiffness = np.minimum(np.exp(z[0]) / (1.0 - share), MAX_STIFFNESS)
    damping = np.full_like(stiffness, 0.02)
    return Servo(stiffness, damping, share, np.exp(z[1]) / share, np.exp(z[4]), z[2] * stiffness)


STIFFNESSES, DAMPING_RATIOS = np.log([0.003, 0.03, 0.1, 0.3, 1.0, 3.0]), np.log([0.3, 1.0, 2.0, 4.0])
LIMITS = np.log([0.01, 0.03, 0.1, 0.3, 1.0])
SPRING_GRID = np.array([[k, ratio + k / 2, 0.0] for k, ratio in product(STIFFNESSES, DAMPING_RATIOS)])
FRICTION_GRID = np.array(
    [[k, ratio + k / 2, 0.0, 2.2, limit] for k, ratio, limit in product(STIFFNESSES[1:], DAMPING_RATIOS, LIMITS)]
)
LOW = np.array([-7.0, -4.0, -1.0, -2.0, -8.0])
HIGH = np.array([4.0, 4.0, 1.0, 5.0, 4.0])


@dataclass(frozen=True)
class Solution:
    """A fitted law, its whitened cost and its errors."""

    z: Float[np.ndarray, " Z"]
    servo: Servo
    cost: float
    errors: Float[np.ndarray, "L W"]


def fit_servo(stretches: Stretches) -> Servo:
    """The law that explains the stretches best."""
    plainly = np.zeros(WHITENING_ORDER)
    spring = _fit(unpack_spring, SPRING_GRID, [], stretches, plainly)
    friction = _fit(unpack_friction, FRICTION_GRID, [], stretches, plainly)
    whitening = foretell(min(spring, friction, key=lambda solution: solution.cost).errors)
    spring = _fit(unpack_spring, SPRING_GRID, [spring.z], stretches, whitening)
    friction = _fit(unpack_friction, FRICTION_GRID, [friction.z], stretches, whitening)
    best = friction if friction.cost < FRICTION_MUST_GAIN * spring.cost else spring
    # Whitening hides constant errors, so the resting offset is read from what is left.
    offset = -float(np.median(best.errors))
    return best.servo._replace(bias=best.servo.bias + offset * best.servo.stiffness)


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


def _fit(
    unpack: Unpack,
    grid: Float[np.ndarray, "G Z"],
    known: list[Float[np.ndarray, " Z"]],
    stretches: Stretches,
    whitening: Float[np.ndarray, " order"],
) -> Solution:
    """The best of least-squares searches: from what is ``known`` to be good, and from the grid's best points."""
    size = grid.shape[1]
    coarse = whiten(stretches.errors(unpack(grid.T[:, :, None])), whitening)
    costs = np.abs(coarse).mean(axis=(0, 2))
    spread = max(float(np.quantile(np.abs(coarse[:, np.argmin(costs)]), 0.9)), 1e-9)

    def residuals(z: np.ndarray) -> np.ndarray:
        return whiten(stretches.errors(unpack(z[:, None])), whitening).ravel() / spread

    def jacobian(z: np.ndarray) -> np.ndarray:
        nudged = z[:, None] + DERIVATIVE_STEP * np.concatenate([np.zeros((size, 1)), np.eye(size)], axis=1)
        errors = whiten(stretches.errors(unpack(nudged[:, :, None])), whitening) / spread
        slopes = (errors[:, 1:] - errors[:, :1]) / DERIVATIVE_STEP
        return slopes.transpose(0, 2, 1).reshape(-1, size)

    def search(start: np.ndarray) -> OptimizeResult:
        bounds = (LOW[:size], HIGH[:size])
        return least_squares(
            residuals, start, jacobian, bounds=bounds, x_scale="jac", loss="soft_l1", f_scale=OUTLIER, max_nfev=30
        )

    searches = [search(start) for start in [*known, *grid[np.argsort(costs)[:STARTS]]]]
    best = min(searches, key=lambda result: result.cost)
    return Solution(best.x, unpack(best.x), float(best.cost) * spread**2, stretches.errors(unpack(best.x[:, None])))


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
    for index, action in enumerate(robot.drives):
        motion = JointMotion(reached[:, index], np.clip(actions[:, action], low[index], high[index]), lengths)
        stroke = Stroke(strokes.closed[index], strokes.open[index])
        servos.append(fit_servo(cut_stretches(motion, horizon, STRETCHES, stroke)))
        report("world model", index + 1, len(robot.drives), {})
    return ServoWorldModel(robot, Servo(*(np.array(column) for column in zip(*servos, strict=True))), low, high)
