"""From control steps and calls of the policy to seconds, and from seconds to what an owner gets."""

from math import ceil

import numpy as np
from jaxtyping import Bool, Float, Int

SECONDS_PER_HOUR = 3600.0


def waiting_steps(latency: float, dt: float) -> int:
    """ceil(L / dt): the control steps of ``dt`` seconds that go by while the policy thinks for ``latency`` seconds."""
    return ceil(round(latency / dt, 9))  # 0.3 / 0.1 is a little more than 3


def reckoned_seconds(
    steps: Int[np.ndarray, " n"], calls: Int[np.ndarray, " n"], dt: float, latency: float
) -> Float[np.ndarray, " n"]:
    """How long episodes take in which the robot holds still during every call, the first one too:
    steps * dt + calls * L."""
    return steps * dt + calls * latency


def throughput_per_hour(seconds: Float[np.ndarray, " n"], solved: Bool[np.ndarray, " n"], limit: float) -> float:
    """Successes per hour of trying, every failure charged with the whole time limit (seconds); 0 without a success."""
    charged = float(np.where(solved, seconds, limit).sum())
    return SECONDS_PER_HOUR * int(solved.sum()) / charged if solved.any() else 0.0
