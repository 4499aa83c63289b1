"""Stretches of one joint's motion, cut from demonstrations for fitting."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from speedup_patch.errors import InputError
from speedup_patch.world_model.servo import Servo, Stroke, is_held, simulate

SHORTEST = 8
"""Steps that a stretch must have for a law to be fitted to it."""


@dataclass(frozen=True)
class Stretches:
    """W stretches of one joint: its position and velocity at the start, L commands, and the L positions reached."""

    position: Float[np.ndarray, " W"]
    velocity: Float[np.ndarray, " W"]
    commands: Float[np.ndarray, "L W"]
    reached: Float[np.ndarray, "L W"]
    settle: int
    """Steps at the start whose errors do not count."""

    def errors(self, servo: Servo) -> Float[np.ndarray, "K *P W"]:
        """Simulated minus reached, once settled; laws of shape (P, 1) give the errors of each of P laws."""
        widen = (slice(None), *[None] * (servo.stiffness.ndim - 1))
        simulated = simulate(servo, self.position, self.velocity, self.commands[widen])
        return (simulated - self.reached[widen])[self.settle :]


@dataclass(frozen=True)
class JointMotion:
    """One joint over all demonstrations: rows of one episode after the other, and how many rows each has."""

    positions: Float[np.ndarray, " T"]
    commands: Float[np.ndarray, " T"]
    lengths: Int[np.ndarray, " E"]

    def velocities(self) -> Float[np.ndarray, " T"]:
        """Motion since the step before; an episode starts at rest."""
        velocities = np.diff(self.positions, prepend=self.positions[0])
        velocities[np.cumsum(self.lengths)[:-1]] = 0.0
        return velocities

    def starts(self, steps: int) -> Int[np.ndarray, " N"]:
        """The rows that have ``steps`` rows after them in the same episode."""
        left = np.repeat(np.cumsum(self.lengths), self.lengths) - 1 - np.arange(len(self.positions))
        return np.flatnonzero(left >= steps)


def cut_stretches(motion: JointMotion, horizon: int, count: int, stroke: Stroke) -> Stretches:
    """At most ``count`` stretches: half spread evenly over the demonstrations, half from where the command moves most.

    They are half as long again as ``horizon``: the first third is for settling. Grippers that hold something are left
    out, for they do not follow their command.
    """
    length = min(horizon + horizon // 2, int(motion.lengths.max()) - 1)
    if length < SHORTEST:
        raise InputError(
            f"a servo world model needs episodes of more than {SHORTEST} steps and a horizon of at least "
            f"{SHORTEST}; the longest episode has {motion.lengths.max()}, the horizon is {horizon}"
        )
    velocities = motion.velocities()
    held = is_held(motion.positions, velocities, motion.commands, stroke)
    starts = motion.starts(length)
    # Fingers that are about to hold something already touch it, so the steps after a stretch matter too.
    holds = np.concatenate([[0], np.cumsum(held)])
    starts = _prefer(starts, holds[np.minimum(starts + 2 * length, len(held))] == holds[starts])
    windows = np.lib.stride_tricks.sliding_window_view(motion.commands, length)
    span = windows.max(axis=1)[starts] - windows.min(axis=1)[starts]
    liveliest = starts[np.argsort(-span, kind="stable")[: max(len(starts) // 5, 1)]]
    count = min(count, len(starts))
    chosen = np.concatenate([_evenly(starts, count - count // 2), _evenly(liveliest, count // 2)])
    rows = chosen + np.arange(length)[:, None]
    return Stretches(
        position=motion.positions[chosen],
        velocity=velocities[chosen],
        commands=motion.commands[rows],
        reached=motion.positions[rows + 1],
        settle=length // 3,
    )


def _prefer(rows: Int[np.ndarray, " N"], good: Bool[np.ndarray, " N"]) -> Int[np.ndarray, " M"]:
    return rows[good] if good.any() else rows


def _evenly(rows: Int[np.ndarray, " N"], count: int) -> Int[np.ndarray, " M"]:
    return rows[np.linspace(0, len(rows) - 1, count).astype(int)]
