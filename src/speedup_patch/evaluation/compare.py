"""Turns episodes into the table: success with an interval, steps, seconds, stress, and speedup paired with the base
policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from speedup_patch.data import EpisodeResult
from speedup_patch.evaluation.intervals import Interval as Interval
from speedup_patch.evaluation.intervals import interval_over_tasks, known
from speedup_patch.evaluation.seconds import LATENCIES, Clock, LatencySummary, latency_key, summarise_latency
from speedup_patch.evaluation.stress import StressSummary, summarise_stress
from speedup_patch.maths.statistics import paired_speedup, paired_success_difference, wider, wilson_interval

Results = Mapping[str, Sequence[EpisodeResult]]
"""The episodes of every scheduler."""


@dataclass(frozen=True)
class TaskIntervals:
    """Intervals that draw tasks anew and then seeds within tasks, where a run pools several tasks.

    For successes they are never narrower than the pooled ones: where every episode goes alike, drawing anew shows no
    spread.
    """

    tasks: int
    success: Interval
    success_difference: Interval | None
    speedup: Interval | None


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
    over_tasks: TaskIntervals | None = None
    """None where all seeds have the same task, or it is not known."""
    latency: dict[str, LatencySummary] = field(default_factory=dict[str, LatencySummary])
    """What people get at each latency of the policy; keys are seconds per call, such as 0.05. Empty where the length of
    a control step is not known."""
    stress: StressSummary = field(default_factory=StressSummary)

    @property
    def intervals(self) -> TaskIntervals:
        """What tables and plots show: over tasks where there are several, otherwise over seeds."""
        pooled = TaskIntervals(1, self.success_interval, self.success_difference_interval, self.speedup_interval)
        return self.over_tasks or pooled


def summarise(
    results: Results,
    rng: np.random.Generator,
    clock: Clock | None = None,
    delayed: Mapping[float, Results] | None = None,
    reference: str = "base",
) -> dict[str, SchedulerSummary]:
    """One summary per scheduler; ``reference`` names the one that all are paired with.

    With a ``clock`` each tells what it is in seconds at the latencies of our tables, and at those of ``delayed``, the
    episodes that were run with a latency.
    """
    paired_with = _by_seed(results.get(reference, ()))
    summaries = {name: _summarise(episodes, paired_with, rng) for name, episodes in results.items()}
    if clock is None:
        return summaries
    in_seconds = partial(_in_seconds, results=results, delayed=delayed or {}, reference=reference, clock=clock, rng=rng)
    return {name: replace(summary, latency=in_seconds(name)) for name, summary in summaries.items()}


def _by_seed(episodes: Sequence[EpisodeResult]) -> dict[int, EpisodeResult]:
    return {result.seed: result for result in episodes}


def _in_seconds(
    name: str,
    results: Results,
    delayed: Mapping[float, Results],
    reference: str,
    clock: Clock,
    rng: np.random.Generator,
) -> dict[str, LatencySummary]:
    """One scheduler at every latency: simulated where it was run with it, otherwise reckoned."""
    found: dict[str, LatencySummary] = {}
    for latency in sorted({*LATENCIES, *delayed}):
        simulated = delayed.get(latency, {})
        source = simulated if name in simulated else results
        paired_with = _by_seed(source.get(reference, ()))
        found[latency_key(latency)] = summarise_latency(source[name], paired_with, clock, latency, rng)
    return found


def _summarise(
    episodes: Sequence[EpisodeResult], base: Mapping[int, EpisodeResult], rng: np.random.Generator
) -> SchedulerSummary:
    successes = [result for result in episodes if result.success]
    pairs = [(base[result.seed], result) for result in episodes if result.seed in base]
    both = [(before, after) for before, after in pairs if before.success and after.success]
    before_steps, after_steps = (np.array([pair[side].steps for pair in both], dtype=float) for side in (0, 1))
    speedup, *ends = paired_speedup(before_steps, after_steps, rng)
    outcomes = np.array([(before.success, after.success) for before, after in pairs], dtype=bool).reshape(-1, 2)
    difference, *difference_ends = paired_success_difference(outcomes[:, 0], outcomes[:, 1])
    reasons = [decision.reason for result in episodes for decision in result.decisions if decision.reason]
    pooled = wilson_interval(len(successes), len(episodes))
    pooled_difference = (difference_ends[0], difference_ends[1]) if pairs else None
    return SchedulerSummary(
        episodes=len(episodes),
        successes=len(successes),
        success_rate=len(successes) / len(episodes),
        success_interval=pooled,
        steps_mean=float(np.mean([result.steps for result in successes])) if successes else None,
        speedup=speedup if both else None,
        speedup_interval=known((ends[0], ends[1])),
        success_difference=difference if pairs else None,
        success_difference_interval=pooled_difference,
        rate_mean=float(np.mean([result.rate_mean for result in episodes])),
        policy_calls=float(np.mean([len(result.decisions) for result in episodes])),
        fallbacks={reason: reasons.count(reason) for reason in sorted(set(reasons))},
        over_tasks=_over_tasks(episodes, pairs, pooled, pooled_difference, rng),
        stress=summarise_stress(episodes, base),
    )


def _over_tasks(
    episodes: Sequence[EpisodeResult],
    pairs: Sequence[tuple[EpisodeResult, EpisodeResult]],
    pooled: Interval,
    pooled_difference: Interval | None,
    rng: np.random.Generator,
) -> TaskIntervals | None:
    solved = np.array([result.success for result in episodes], dtype=float)
    success = interval_over_tasks([result.task for result in episodes], solved, np.ones(len(solved)), rng)
    if success is None:
        return None
    change = np.array([float(after.success) - float(before.success) for before, after in pairs])
    difference = interval_over_tasks([after.task for _, after in pairs], change, np.ones(len(change)), rng)
    both = [(before, after) for before, after in pairs if before.success and after.success]
    before_steps, after_steps = (np.array([pair[side].steps for pair in both], dtype=float) for side in (0, 1))
    return TaskIntervals(
        tasks=len({result.task for result in episodes}),
        success=wider(pooled, success),
        success_difference=wider(pooled_difference, difference) if pooled_difference and difference else None,
        speedup=interval_over_tasks([after.task for _, after in both], before_steps, after_steps, rng),
    )
