"""Intervals and scores for the reports; each says what it answers when the data cannot tell."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from scipy import stats
from scipy.optimize import root_scalar

Interval = tuple[float, float]
Estimate = tuple[float, float, float]
"""(estimate, lower end, upper end)."""

RESAMPLES = 2000
"""Of a bootstrap."""


def wilson_interval(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a success rate; (0, 1) for n = 0."""
    if n == 0:
        return 0.0, 1.0
    interval = stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def paired_speedup(
    base_steps: Float[np.ndarray, " n"],
    steps: Float[np.ndarray, " n"],
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> Estimate:
    """sum(base_steps) / sum(steps) over seeds that both solved, with a bootstrap interval over seeds; steps or seconds.

    No seeds: all three are NaN. One seed: the interval is NaN, it would be a guess.
    """
    if len(base_steps) != len(steps):
        raise ValueError(f"one pair per seed is needed, got {len(base_steps)} and {len(steps)} step counts")
    if len(steps) == 0:
        return math.nan, math.nan, math.nan
    speedup = float(base_steps.sum() / steps.sum())
    if len(steps) == 1:
        return speedup, math.nan, math.nan
    drawn = rng.integers(len(steps), size=(resamples, len(steps)))
    return speedup, *_ends(base_steps[drawn].sum(axis=1) / steps[drawn].sum(axis=1), confidence)


def ratio_over_groups(
    above: Sequence[Float[np.ndarray, " _"]],
    below: Sequence[Float[np.ndarray, " _"]],
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval:
    """Interval of sum(above) / sum(below) where values come in groups: groups are drawn anew, and in every drawn group
    its values. It says what other groups of the same kind would give, not only other seeds of these.

    A mean is the ratio to an array of ones. Fewer than two groups with values: both ends are NaN.
    """
    return _ends(_resampled_ratios(above, below, rng, resamples), confidence)


def mean_ratio_over_groups(
    strata: Sequence[tuple[Sequence[Float[np.ndarray, " _"]], Sequence[Float[np.ndarray, " _"]]]],
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval:
    """The same for the mean over several (above, below), such as suites: in each its groups are drawn anew."""
    ratios = [_resampled_ratios(above, below, rng, resamples) for above, below in strata]
    if not ratios or any(len(drawn) == 0 for drawn in ratios):
        return math.nan, math.nan
    return _ends(np.mean(ratios, axis=0), confidence)


def _resampled_ratios(
    above: Sequence[Float[np.ndarray, " _"]],
    below: Sequence[Float[np.ndarray, " _"]],
    rng: np.random.Generator,
    resamples: int,
) -> Float[np.ndarray, " R"]:
    """The ratio in each resample; empty where there are fewer than two groups with values."""
    groups = [(a, b) for a, b in zip(above, below, strict=True) if len(a)]
    if any(len(a) != len(b) for a, b in groups):
        raise ValueError("one pair of values per member of a group is needed")
    if len(groups) < 2:
        return np.zeros(0)
    # times[r, g]: how often resample r draws group g; each time, the group's own members are drawn anew.
    times = rng.multinomial(len(groups), np.full(len(groups), 1 / len(groups)), size=resamples)
    totals = np.zeros((2, resamples))
    for (a, b), often in zip(groups, times.T, strict=True):
        counts = rng.multinomial(often * len(a), np.full(len(a), 1 / len(a)))
        totals += counts @ a, counts @ b
    return totals[0] / totals[1]


def _ends(values: Float[np.ndarray, " R"], confidence: float) -> Interval:
    if len(values) == 0:
        return math.nan, math.nan
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def wider(first: Interval, second: Interval) -> Interval:
    """The interval that covers both."""
    return min(first[0], second[0]), max(first[1], second[1])


def paired_success_difference(
    base_success: Bool[np.ndarray, " n"], success: Bool[np.ndarray, " n"], confidence: float = 0.95
) -> Estimate:
    """The change in success rate on the same seeds, with Tango's (1998) score interval for paired proportions.

    Where all seeds agree the interval is z^2 / (n + z^2) wide to either side, never empty. n = 0: (NaN, -1, 1).
    """
    if len(base_success) != len(success):
        raise ValueError(f"one pair per seed is needed, got {len(base_success)} and {len(success)} outcomes")
    n = len(success)
    if n == 0:
        return math.nan, -1.0, 1.0
    gained, lost = int((success & ~base_success).sum()), int((base_success & ~success).sum())
    difference = (gained - lost) / n
    z = float(stats.norm.ppf((1 + confidence) / 2))
    high = _tango_upper_end(gained, lost, n, z)
    low = -_tango_upper_end(lost, gained, n, z)  # the same question with the two policies exchanged
    return difference, low, high


def _tango_upper_end(gained: int, lost: int, n: int, z: float) -> float:
    """The difference above (gained - lost) / n at which Tango's score statistic has fallen to -z."""

    def excess(difference: float) -> float:
        # The lost share that is likeliest if the true difference is this: the larger root of Tango's quadratic.
        linear = -gained - lost + (2 * n - gained + lost) * difference
        constant = -lost * difference * (1 - difference)
        likely_lost = (math.sqrt(max(linear**2 - 8 * n * constant, 0.0)) - linear) / (4 * n)
        variance = n * (2 * likely_lost + difference * (1 - difference))
        return gained - lost - n * difference + z * math.sqrt(max(variance, 0.0))

    # Without disagreement the estimate itself is a second, meaningless root: start just above it.
    start = (gained - lost) / n + 1e-9
    return float(root_scalar(excess, bracket=(start, 1.0), xtol=1e-12).root) if start < 1.0 else 1.0


def spearman(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> float:
    """Spearman's rank correlation; NaN for fewer than two values or a constant side."""
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan
    return float(np.corrcoef(stats.rankdata(a), stats.rankdata(b))[0, 1])


def auroc(positive: Bool[np.ndarray, " n"], scores: Float[np.ndarray, " n"]) -> float:
    """The chance that a positive scores above a negative, ties counting half; NaN if either is missing."""
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if positives == 0 or negatives == 0:
        return math.nan
    rank_sum = float(stats.rankdata(scores)[positive].sum())  # the Mann-Whitney statistic, by ranks
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def missed_violation_share(true: Float[np.ndarray, " n"], predicted: Float[np.ndarray, " n"], epsilon: float) -> float:
    """The share of true violations (deviation > epsilon) that the prediction calls safe; NaN if there are none."""
    violated = true > epsilon
    if not violated.any():
        return math.nan
    return float((predicted[violated] <= epsilon).mean())
