"""When a gripper is told to flip, and how long its fingers take."""

from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int
from numpy.lib.stride_tricks import sliding_window_view

MOVED = 0.05
"""Share of their range that fingers must travel for a stroke to have begun."""
STILL, REST_STEPS = 0.02, 5
"""Fingers are at rest when they travel less than this share of their range in this many steps. Fingers that creep on
later, because what they hold gives way, are not waited for."""


def find_flips(commands: Float[np.ndarray, " T"], middle: float) -> Int[np.ndarray, " F"]:
    """The steps at which the command is on the other side of the middle than one step before."""
    above = commands > middle
    return np.flatnonzero(above[1:] != above[:-1]) + 1


def stroke_steps(
    fingers: Float[np.ndarray, "T D"], flips: Int[np.ndarray, " F"], ranges: Float[np.ndarray, " D"], horizon: int
) -> list[int]:
    """Steps from each flip until the fingers have moved and come to rest, for the strokes that can be timed.

    A stroke is watched for ``horizon`` steps, or until the next flip or the episode's end; it is left out when the
    fingers do not move, or do not come to rest in that time. ``ranges`` is each finger's range over the data set.
    """
    steps: list[int] = []
    for flip, following in pairwise((*flips, len(fingers))):
        watched = fingers[flip : min(following, flip + horizon)]
        if len(watched) <= REST_STEPS:
            continue
        travel = np.ptp(sliding_window_view(watched, REST_STEPS + 1, axis=0), axis=-1)
        moved = (np.abs(watched - watched[0]) > MOVED * ranges).any(axis=1)[: len(travel)]
        over = np.flatnonzero(moved & (travel <= STILL * ranges).all(axis=1))
        steps += [int(step) for step in over[:1]]
    return steps
