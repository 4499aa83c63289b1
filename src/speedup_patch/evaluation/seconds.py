"""Speed in seconds: what an episode takes when every call of the policy takes its time, simulated or reckoned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from speedup_patch.data import EpisodeResult
from speedup_patch.errors import InputError
from speedup_patch.evaluation.intervals import Interval, interval_over_tasks, known
from speedup_patch.maths.seconds import reckoned_seconds, throughput_per_hour
from speedup_patch.maths.statistics import paired_speedup

LATENCIES = (0.0, 0.05, 0.1, 0.2)
"""Seconds per call of the policy at which every table tells the speed: at once, a large policy on a good GPU, a common
one, over a network or with diffusion."""


@dataclass(frozen=True)
class Clock:
    """What turns an environment's control steps into seconds."""

    control_hz: float
    max_steps: int
    """The time limit in control steps."""

    @property
    def limit(self) -> float:
        """The time limit in seconds."""
        return self.max_steps / self.control_hz


@dataclass(frozen=True)
class LatencySummary:
    """What people get of one scheduler when every call of the policy takes so long and the robot waits for it."""

    successes: int
    seconds_mean: float | None
    """Over successes only."""
    speedup_seconds: float | None
    """Base's seconds / seconds over the seeds that both solve, both waiting with the same latency."""
    speedup_seconds_interval: Interval | None
    """Over seeds, paired; None for fewer than two pairs."""
    speedup_seconds_interval_over_tasks: Interval | None
    """The same with tasks drawn anew as well; None for fewer than two tasks."""
    policy_calls: float
    """Mean per episode."""
    throughput_per_hour: float
    """Successes per hour of trying, every failure charged with the whole time limit."""
    stalled_share: float
    """How much of the time the robot stood still because the policy was thinking."""
    reckoned: bool
    """True where the seconds follow from the steps and calls of episodes without latency; False where simulated."""

    @property
    def interval(self) -> Interval | None:
        """What tables show of the speedup: over tasks where there are several, otherwise over seeds."""
        return self.speedup_seconds_interval_over_tasks or self.speedup_seconds_interval


@dataclass(frozen=True, eq=False)
class _Timing:
    """Episodes in seconds, one number each."""

    seconds: Float[np.ndarray, " n"]
    stalled: Float[np.ndarray, " n"]
    solved: Bool[np.ndarray, " n"]


def latency_key(latency: float) -> str:
    """A latency in seconds as tables and files write it: 0, 0.05, 0.1."""
    return f"{latency:g}"


def check_latencies(latencies: Sequence[float]) -> None:
    """Raises an error for what is no latency."""
    for latency in latencies:
        if not 0 <= latency < np.inf:
            raise InputError(f"a latency is a number of seconds, such as 0.1, not {latency:g}")


def summarise_latency(
    episodes: Sequence[EpisodeResult],
    base: Mapping[int, EpisodeResult],
    clock: Clock,
    latency: float,
    rng: np.random.Generator,
) -> LatencySummary:
    """The figures at one latency from episodes that were all run with it, or, reckoned, without any.

    Reckoned episodes are those in which holding still changes nothing: steps * dt + calls * L seconds, and what then
    exceeds the time limit has failed.
    """
    time = _timing(episodes, clock, latency)
    paired = [result for result in episodes if result.seed in base]
    after = _timing(paired, clock, latency)
    before = _timing([base[result.seed] for result in paired], clock, latency)
    both = before.solved & after.solved
    tasks = [result.task for result, solved in zip(paired, both, strict=True) if solved]
    speedup, *ends = paired_speedup(before.seconds[both], after.seconds[both], rng)
    return LatencySummary(
        successes=int(time.solved.sum()),
        seconds_mean=float(time.seconds[time.solved].mean()) if time.solved.any() else None,
        speedup_seconds=speedup if both.any() else None,
        speedup_seconds_interval=known((ends[0], ends[1])),
        speedup_seconds_interval_over_tasks=interval_over_tasks(tasks, before.seconds[both], after.seconds[both], rng),
        policy_calls=float(np.mean([len(result.decisions) for result in episodes])),
        throughput_per_hour=throughput_per_hour(time.seconds, time.solved, clock.limit),
        stalled_share=float(time.stalled.sum() / time.seconds.sum()),
        reckoned=any(result.latency != latency for result in episodes),
    )


def _timing(episodes: Sequence[EpisodeResult], clock: Clock, latency: float) -> _Timing:
    dt = 1.0 / clock.control_hz
    steps = np.array([result.steps for result in episodes], dtype=int)
    solved = np.array([result.success for result in episodes], dtype=bool)
    if all(result.latency == latency for result in episodes):
        stalled = np.array([result.stalled for result in episodes], dtype=float)
        return _Timing(steps * dt, stalled * dt, solved)
    calls = np.array([len(result.decisions) for result in episodes], dtype=int)
    seconds = reckoned_seconds(steps, calls, dt, latency)
    return _Timing(seconds, calls * latency, solved & (seconds <= clock.limit + 1e-9))
