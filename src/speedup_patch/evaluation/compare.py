"""Turns episodes into the table: success with an interval, steps, and speedup paired with the base policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from speedup_patch.data import EpisodeResult
from speedup_patch.maths.statistics import paired_speedup, paired_success_difference, wilson_interval

Interval = tuple[float, float]


@dataclass(frozen=True)
class SchedulerSummary:
    """How one scheduler did; paired figures are None without a base run on the same seeds."""

    episodes: int
    successes: int
    success_rate: float
    success_interval: Interval
    steps_mean: float | None
    """Over successes only, as in the paper."""
    speedup: float | None
    """Base steps / steps over the seeds where both succeed."""
    speedup_interval: Interval | None
    """None also when only one seed succeeded with both: one pair has no spread."""
    success_difference: float | None
    success_difference_interval: Interval | None
    rate_mean: float
    policy_calls: float
    """Mean per episode."""
    fallbacks: dict[str, int]
    """How often the guard ran a chunk unchanged, by reason."""


def summarise(
    results: Mapping[str, Sequence[EpisodeResult]], rng: np.random.Generator, reference: str = "base"
) -> dict[str, SchedulerSummary]:
    """One summary per scheduler; ``reference`` names the one that all are paired with."""
    base = {result.seed: result for result in results.get(reference, ())}
    return {name: _summarise(episodes, base, rng) for name, episodes in results.items()}


def _summarise(
    episodes: Sequence[EpisodeResult], base: Mapping[int, EpisodeResult], rng: np.random.Generator
) -> SchedulerSummary:
    successes = [result for result in episodes if result.success]
    pairs = [(base[result.seed], result) for result in episodes if result.seed in base]
    both = [(before.steps, after.steps) for before, after in pairs if before.success and after.success]
    speedup = difference = None
    if both:
        before_steps, after_steps = np.array(both, dtype=float).T
        speedup = paired_speedup(before_steps, after_steps, rng)
    if pairs:
        outcomes = np.array([(before.success, after.success) for before, after in pairs])
        difference = paired_success_difference(outcomes[:, 0], outcomes[:, 1])
    reasons = [decision.reason for result in episodes for decision in result.decisions if decision.reason]
    return SchedulerSummary(
        episodes=len(episodes),
        successes=len(successes),
        success_rate=len(successes) / len(episodes),
        success_interval=wilson_interval(len(successes), len(episodes)),
        steps_mean=float(np.mean([result.steps for result in successes])) if successes else None,
        speedup=speedup[0] if speedup else None,
        speedup_interval=speedup[1:] if speedup and len(both) > 1 else None,
        success_difference=difference[0] if difference else None,
        success_difference_interval=difference[1:] if difference else None,
        rate_mean=float(np.mean([result.rate_mean for result in episodes])),
        policy_calls=float(np.mean([len(result.decisions) for result in episodes])),
        fallbacks={reason: reasons.count(reason) for reason in sorted(set(reasons))},
    )
