"""Time warps: from how fast every moment of a chunk may run to the positions at which commands are taken.

A chunk of n actions is n steps of its own time. Where step i may run at rate r_i, it takes 1 / r_i of the robot's
control steps; adding these up gives the warp.
"""

import numpy as np
from jaxtyping import Float, Int


def rates_within(
    speeds: Float[np.ndarray, "*#B n D"], limits: Float[np.ndarray, "*#B D"], fastest: Float[np.ndarray, "*#B"] | float
) -> Float[np.ndarray, "*B n"]:
    """The rate of every step at which no quantity exceeds its limit: between 1 and ``fastest``.

    ``speeds`` is what each step moves at rate 1. A step that is beyond a limit already runs at rate 1.
    """
    limits, fastest = limits[..., None, :], np.asarray(fastest)[..., None]
    possible = np.where(speeds <= 0, np.inf, limits / np.maximum(speeds, 1e-300))
    possible = np.where(np.isnan(possible), 1.0, possible)  # what is not known is not hurried
    return np.clip(possible.min(axis=-1, initial=np.inf), 1.0, fastest)


def smooth_rates(rates: Float[np.ndarray, "*B n"], change: float) -> Float[np.ndarray, "*B n"]:
    """The largest rates below the given ones that rise and fall by at most ``change`` per executed command.

    A backward and a forward pass, as in path-velocity planning: a slow moment is approached and left gradually.
    """
    smooth = np.moveaxis(rates, -1, 0).copy()
    for i in range(len(smooth) - 2, -1, -1):
        smooth[i] = np.minimum(smooth[i], smooth[i + 1] + change / smooth[i + 1])
    for i in range(1, len(smooth)):
        smooth[i] = np.minimum(smooth[i], smooth[i - 1] + change / smooth[i - 1])
    return np.moveaxis(smooth, 0, -1)


def warp_positions(
    rates: Float[np.ndarray, "*B n"], slack: float = 0.0, needed: Float[np.ndarray, "*#B"] | None = None
) -> Float[np.ndarray, "*B l"]:
    """Positions 0 < s_1 < s_2 < ... <= n after each executed command, in as few commands as the rates allow.

    The rates seldom fill a whole number of commands. Sped up by at most the share ``slack``, or slowed down by no more
    than that, they often do: then s ends at n. Otherwise the last command that would be short is left to the next
    chunk, unless it is ``needed``: before that position (n when not told) no warp ends, and all commands are slowed
    down alike until the last of them reaches n. A constant rate k that divides n gives k, 2k, ..., n. Warps that need
    fewer commands than the longest of the batch repeat their end.
    """
    ends, n = executed_time(rates), rates.shape[-1]
    total = ends[..., -1:]
    whole = np.maximum(np.floor(total + 1e-9), 1.0)
    count = np.where(total <= (1.0 + slack) * whole + 1e-9, whole, whole + 1.0)
    count = np.where(total > n - 1e-9, float(n), count)  # what is hurried nowhere stays as it is
    least = np.broadcast_to(float(n) if needed is None else np.asarray(needed)[..., None], total.shape)
    left = (total < (1.0 - slack) * count) & (count > 1) & (_position_at(ends, rates, whole) >= least)
    count = np.where(left, whole, count)
    pace = np.where(left, 1.0, total / count)
    commands = np.arange(1, int(count.max()) + 1)
    positions = _position_at(ends, rates, np.minimum(commands, count) * pace)
    rounded = np.rint(positions)
    positions = np.where(np.abs(positions - rounded) < 1e-9, rounded, positions)
    return np.where((commands >= count) & ~left, float(n), np.minimum(positions, n))


def _position_at(
    ends: Float[np.ndarray, "*B m"], rates: Float[np.ndarray, "*B n"], times: Float[np.ndarray, "*B l"]
) -> Float[np.ndarray, "*B l"]:
    """Where in the chunk a warp without pauses is after so many control steps."""
    step = np.clip((ends[..., None, :] <= times[..., :, None]).sum(axis=-1), 1, rates.shape[-1])
    before = np.take_along_axis(ends, step - 1, axis=-1)
    return step - 1 + (times - before) * np.take_along_axis(rates, step - 1, axis=-1)


def warp_lengths(positions: Float[np.ndarray, "*B l"]) -> Int[np.ndarray, "*B"]:
    """How many commands each warp of a padded batch has."""
    return np.asarray((positions < positions[..., -1:]).sum(axis=-1) + 1)


def read_ahead(
    positions: Float[np.ndarray, "*B l"], delay: Float[np.ndarray, "*D"] | float, n: int
) -> Float[np.ndarray, "... l"]:
    """Where an actuator that answers ``delay`` control steps late reads its command, along a warp over n actions; for
    several delays their dimensions come before the last.

    At rate 1 the answer to the command of step c comes when the chunk is at c + delay. Sent along the warp, the command
    of the j-th control step is answered when the chunk is at s(j + delay): it is the command of s(j + delay) - delay.
    Beyond the chunk's end the pace goes on as it was, and the last command is held.
    """
    delay = np.asarray(delay)[..., None]
    lead, longest = positions.shape[:-1], positions.shape[-1]
    knots = np.concatenate([np.zeros((*lead, 1)), positions], axis=-1)
    windows, count = np.diff(knots, axis=-1), warp_lengths(positions)[..., None]
    # The last window may be a short rest: the pace is that of the quicker of the last two.
    pace = np.where(np.arange(longest) >= count - 2, windows, 0.0).max(axis=-1)
    each = (*lead, *(1,) * delay.ndim)  # one number for every warp, whatever the delay
    times = np.arange(1, longest + 1) + delay
    before = np.minimum(times.astype(np.int64), longest - 1)
    inside = knots[..., before] + np.minimum(times - before, 1.0) * windows[..., before]
    count = count.reshape(each)
    beyond = positions[..., -1].reshape(each) + (times - count) * pace.reshape(each)
    return np.minimum(np.where(times > count, beyond, inside) - delay, float(n))


def executed_time(rates: Float[np.ndarray, "*B n"]) -> Float[np.ndarray, "*B m"]:
    """Control steps until the start of each step of the chunk, and until its end."""
    return np.concatenate([np.zeros_like(rates[..., :1]), np.cumsum(1.0 / rates, axis=-1)], axis=-1)
