"""Time warps: from how fast every moment of a chunk may run to the positions at which commands are taken.

A chunk of n actions is n steps of its own time. Where step i may run at rate r_i, it takes 1 / r_i of the robot's
control steps; adding these up gives the warp.
"""

import numpy as np
from jaxtyping import Float


def rates_within(
    speeds: Float[np.ndarray, "n D"], limits: Float[np.ndarray, " D"], fastest: float
) -> Float[np.ndarray, " n"]:
    """The rate of every step at which no quantity exceeds its limit: between 1 and ``fastest``.

    ``speeds`` is what each step moves at rate 1. A step that is beyond a limit already runs at rate 1.
    """
    possible = np.where(speeds <= 0, np.inf, limits / np.maximum(speeds, 1e-300))
    possible = np.where(np.isnan(possible), 1.0, possible)  # what is not known is not hurried
    return np.clip(possible.min(axis=1, initial=np.inf), 1.0, fastest)


def smooth_rates(rates: Float[np.ndarray, " n"], change: float) -> Float[np.ndarray, " n"]:
    """The largest rates below the given ones that rise and fall by at most ``change`` per executed command.

    A backward and a forward pass, as in path-velocity planning: a slow moment is approached and left gradually.
    """
    smooth = rates.copy()
    for i in range(len(smooth) - 2, -1, -1):
        smooth[i] = min(smooth[i], smooth[i + 1] + change / smooth[i + 1])
    for i in range(1, len(smooth)):
        smooth[i] = min(smooth[i], smooth[i - 1] + change / smooth[i - 1])
    return smooth


def warp_positions(rates: Float[np.ndarray, " n"]) -> Float[np.ndarray, " l"]:
    """Positions 0 < s_1 < ... = n after each executed command; a constant rate k gives k, 2k, ... and the end n."""
    ends = executed_time(rates)
    times = np.arange(1, int(np.ceil(ends[-1] - 1e-9)) + 1, dtype=np.float64)
    positions = np.interp(times, ends, np.arange(len(ends), dtype=np.float64))
    whole = np.rint(positions)
    positions = np.where(np.abs(positions - whole) < 1e-9, whole, positions)
    positions[-1] = len(rates)
    return positions


def read_ahead(positions: Float[np.ndarray, " l"], delay: float, n: int) -> Float[np.ndarray, " l"]:
    """Where an actuator that answers ``delay`` control steps late reads its command, along a warp over n actions.

    At rate 1 the answer to the command of step c comes when the chunk is at c + delay. Sent along the warp, the command
    of the j-th control step is answered when the chunk is at s(j + delay): it is the command of s(j + delay) - delay.
    Beyond the chunk's end the pace goes on as it was, and the last command is held.
    """
    count = len(positions)
    knots = np.concatenate([np.zeros(1), positions])
    times = np.arange(1, count + 1, dtype=np.float64) + delay
    inside = np.interp(times, np.arange(count + 1, dtype=np.float64), knots)
    pace = float(np.diff(knots)[-2:].max())  # the last window may be a short rest
    beyond = positions[-1] + (times - count) * pace
    return np.minimum(np.where(times > count, beyond, inside) - delay, float(n))


def executed_time(rates: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n+1"]:
    """Control steps until the start of each step of the chunk, and until its end."""
    return np.concatenate([np.zeros(1), np.cumsum(1.0 / rates)])
