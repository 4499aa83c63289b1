"""What a motion does to the machine: speeds, accelerations and jerks of joints, by differences."""

import numpy as np
from jaxtyping import Float


def joint_speeds(joints: Float[np.ndarray, "T J"], dt: float) -> Float[np.ndarray, "_ J"]:
    """Joint positions (rad or m) every ``dt`` seconds -> the T - 1 velocities between them, per second."""
    return np.diff(joints, axis=0) / dt


def joint_accelerations(joints: Float[np.ndarray, "T J"], dt: float) -> Float[np.ndarray, "_ J"]:
    """The T - 2 second differences over dt^2, per second squared; none for fewer than three moments."""
    return np.diff(joints, n=2, axis=0) / dt**2


def joint_jerks(joints: Float[np.ndarray, "T J"], dt: float) -> Float[np.ndarray, "_ J"]:
    """The T - 3 third differences over dt^3, per second cubed; none for fewer than four moments."""
    return np.diff(joints, n=3, axis=0) / dt**3


def magnitude_quantile(values: Float[np.ndarray, "*any"], share: float = 0.99) -> float | None:
    """The magnitude that this share of all values stays below; None where there are none."""
    return float(np.quantile(np.abs(values), share)) if values.size else None


def peak_ratio(values: Float[np.ndarray, "T J"], ratings: Float[np.ndarray, " J"]) -> float:
    """The largest magnitude of any joint, as a ratio to that joint's rating."""
    return float((np.abs(values) / ratings).max())
