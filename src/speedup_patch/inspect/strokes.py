"""When a gripper is told to flip, and how long its fingers take."""

import numpy as np
from jaxtyping import Float, Int

SETTLED = 0.05
"""Share of the fingers' range within which they count as still."""
REST = 3
"""Steps the fingers must stay still for a stroke to be over."""


def find_flips(commands: Float[np.ndarray, " T"], middle: float) -> Int[np.ndarray, " F"]:
    """The steps at which the command is on the other side of the middle than one step before."""
    above = commands > middle
    return np.flatnonzero(above[1:] != above[:-1]) + 1


def stroke_steps(
    fingers: Float[np.ndarray, "T D"], flips: Int[np.ndarray, " F"], ranges: Float[np.ndarray, " D"], horizon: int
) -> list[int]:
    """Steps from each flip until the fingers stay where they will be, for the strokes that can be timed.

    A stroke is watched for ``horizon`` steps, or until the next flip or the episode's end; it is left out when the
    fingers do not move, or do not come to rest before that. ``ranges`` is each finger's range over the data set.
    """
    steps: list[int] = []
    for flip, following in zip(flips, (*flips[1:], len(fingers)), strict=True):
        watched = fingers[flip : min(following, flip + horizon)]
        moving = (np.abs(watched - watched[-1]) > SETTLED * ranges).any(axis=1)
        settled = int(np.flatnonzero(moving)[-1]) + 1 if moving.any() else 0
        if 0 < settled <= len(watched) - REST:
            steps.append(settled)
    return steps
