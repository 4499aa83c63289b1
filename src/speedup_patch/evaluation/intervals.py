"""Intervals for a run that pools several tasks: what other tasks of the same kind would give, not only other seeds."""

from collections.abc import Sequence
from math import isnan

import numpy as np
from jaxtyping import Float

from speedup_patch.maths.statistics import ratio_over_groups

Interval = tuple[float, float]


def known(interval: Interval) -> Interval | None:
    """The interval, or None where the data cannot tell it."""
    return None if isnan(interval[0]) else interval


def interval_over_tasks(
    tasks: Sequence[str], above: Float[np.ndarray, " n"], below: Float[np.ndarray, " n"], rng: np.random.Generator
) -> Interval | None:
    """The interval of sum(above) / sum(below), one pair per episode, drawing tasks and then episodes within tasks; None
    where the episodes are of fewer than two tasks, or the task of one is not known."""
    if "" in tasks:
        return None
    groups = [[i for i, task in enumerate(tasks) if task == name] for name in dict.fromkeys(tasks)]
    return known(ratio_over_groups([above[group] for group in groups], [below[group] for group in groups], rng))
