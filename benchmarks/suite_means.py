"""Means over LIBERO's suites from the committed episodes, in seconds, with intervals that draw tasks anew."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from speedup_patch.bench.config import LIBERO_SUITES
from speedup_patch.envs.libero_tasks import MAX_STEPS
from speedup_patch.evaluation.seconds import LATENCIES, Clock
from speedup_patch.maths.seconds import reckoned_seconds, throughput_per_hour
from speedup_patch.maths.statistics import Estimate, mean_ratio_over_groups, wider, wilson_interval
from speedup_patch.robots import PANDA_LIBERO


@dataclass(frozen=True)
class Episodes:
    """The episodes of one scheduler in one suite, by seed."""

    clock: Clock
    seeds: np.ndarray
    tasks: np.ndarray
    solved: np.ndarray
    steps: np.ndarray
    calls: np.ndarray

    def seconds(self, latency: float) -> np.ndarray:
        """How long each takes where the robot waits for every call."""
        return reckoned_seconds(self.steps, self.calls, 1.0 / self.clock.control_hz, latency)

    def in_time(self, latency: float) -> np.ndarray:
        """Which of them are then solved within the limit."""
        return self.solved & (self.seconds(latency) <= self.clock.limit + 1e-9)

    def per_hour(self, latency: float) -> float:
        """Successes per hour of trying."""
        return throughput_per_hour(self.seconds(latency), self.in_time(latency), self.clock.limit)

    def by_task(self, values: np.ndarray, chosen: np.ndarray) -> list[np.ndarray]:
        """The values of the chosen episodes, task by task."""
        return [values[chosen & (self.tasks == task)] for task in np.unique(self.tasks)]


@dataclass(frozen=True)
class SuiteMeans:
    """One scheduler over all suites."""

    success: Estimate
    speedups: tuple[Estimate, ...]
    """In seconds, at each of LATENCIES; the first is the speedup in steps."""
    calls: float
    per_hour: tuple[float, ...]


def read_episodes(folder: Path) -> dict[str, list[Episodes]]:
    """Scheduler -> its episodes in every suite, for the schedulers that all suites have."""
    suites = [_read_suite(folder / f"episodes_{suite}.csv", suite) for suite in LIBERO_SUITES]
    return {name: [suite[name] for suite in suites] for name in suites[0] if all(name in suite for suite in suites)}


def _read_suite(path: Path, suite: str) -> dict[str, Episodes]:
    clock = Clock(PANDA_LIBERO.control_hz, MAX_STEPS[suite])
    with path.open(newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["seed"]))

    def numbers(name: str, scheduler: str) -> np.ndarray:
        return np.array([int(row[name]) for row in rows if row["scheduler"] == scheduler])

    return {
        name: Episodes(
            clock,
            numbers("seed", name),
            numbers("task", name),
            numbers("success", name).astype(bool),
            numbers("steps", name),
            numbers("decisions", name),
        )
        for name in dict.fromkeys(row["scheduler"] for row in rows)
    }


def suite_means(base: Sequence[Episodes], episodes: Sequence[Episodes]) -> SuiteMeans:
    """The means of one scheduler against base on the same seeds."""
    for before, after in zip(base, episodes, strict=True):
        if not np.array_equal(before.seeds, after.seeds):
            raise ValueError("base and scheduler must have run the same seeds")
    rng = np.random.default_rng(0)
    return SuiteMeans(
        success=_success(episodes, rng),
        speedups=tuple(_speedup(base, episodes, latency, rng) for latency in LATENCIES),
        calls=_mean(episodes, lambda suite: float(suite.calls.mean())),
        per_hour=tuple(_mean(episodes, partial(Episodes.per_hour, latency=latency)) for latency in LATENCIES),
    )


def _success(episodes: Sequence[Episodes], rng: np.random.Generator) -> Estimate:
    solved = [suite.solved.astype(float) for suite in episodes]
    strata = [
        (suite.by_task(values, np.ones(len(values), dtype=bool)), suite.by_task(np.ones(len(values)), values >= 0))
        for suite, values in zip(episodes, solved, strict=True)
    ]
    pooled = wilson_interval(int(sum(values.sum() for values in solved)), sum(map(len, solved)))
    low, high = wider(pooled, mean_ratio_over_groups(strata, rng))
    return float(np.mean([values.mean() for values in solved])), low, high


def _speedup(
    base: Sequence[Episodes], episodes: Sequence[Episodes], latency: float, rng: np.random.Generator
) -> Estimate:
    strata: list[tuple[list[np.ndarray], list[np.ndarray]]] = []
    for before, after in zip(base, episodes, strict=True):
        both = before.in_time(latency) & after.in_time(latency)
        strata.append((after.by_task(before.seconds(latency), both), after.by_task(after.seconds(latency), both)))
    ratios = [np.concatenate(before).sum() / np.concatenate(after).sum() for before, after in strata]
    return float(np.mean(ratios)), *mean_ratio_over_groups(strata, rng)


def _mean(episodes: Sequence[Episodes], figure: Callable[[Episodes], float]) -> float:
    return float(np.mean([figure(suite) for suite in episodes]))
