"""The figures of results.json as the evaluation had them; files written before it counted seconds have fewer."""

from collections.abc import Mapping
from typing import Any

from speedup_patch.evaluation.compare import SchedulerSummary, TaskIntervals
from speedup_patch.evaluation.intervals import Interval
from speedup_patch.evaluation.seconds import LatencySummary
from speedup_patch.evaluation.stress import StressSummary

Figures = Mapping[str, Any]


def summary_from_json(figures: Figures) -> SchedulerSummary:
    """One scheduler of results.json."""
    over = figures.get("over_tasks")
    return SchedulerSummary(
        episodes=int(figures["episodes"]),
        successes=int(figures["successes"]),
        success_rate=float(figures["success_rate"]),
        success_interval=_interval(figures, "success_interval") or (0.0, 1.0),
        steps_mean=_number(figures, "steps_mean"),
        speedup=_number(figures, "speedup"),
        speedup_interval=_interval(figures, "speedup_interval"),
        success_difference=_number(figures, "success_difference"),
        success_difference_interval=_interval(figures, "success_difference_interval"),
        rate_mean=float(figures["rate_mean"]),
        policy_calls=float(figures["policy_calls"]),
        fallbacks={str(reason): int(count) for reason, count in figures.get("fallbacks", {}).items()},
        over_tasks=_task_intervals(over) if over else None,
        latency={str(key): _latency(found) for key, found in figures.get("latency", {}).items()},
        stress=StressSummary(**{key: _number(figures["stress"], key) for key in figures.get("stress", {})}),
    )


def _task_intervals(figures: Figures) -> TaskIntervals:
    return TaskIntervals(
        tasks=int(figures["tasks"]),
        success=_interval(figures, "success") or (0.0, 1.0),
        success_difference=_interval(figures, "success_difference"),
        speedup=_interval(figures, "speedup"),
    )


def _latency(figures: Figures) -> LatencySummary:
    return LatencySummary(
        successes=int(figures["successes"]),
        seconds_mean=_number(figures, "seconds_mean"),
        speedup_seconds=_number(figures, "speedup_seconds"),
        speedup_seconds_interval=_interval(figures, "speedup_seconds_interval"),
        speedup_seconds_interval_over_tasks=_interval(figures, "speedup_seconds_interval_over_tasks"),
        policy_calls=float(figures["policy_calls"]),
        throughput_per_hour=float(figures["throughput_per_hour"]),
        stalled_share=float(figures["stalled_share"]),
        reckoned=bool(figures["reckoned"]),
    )


def _number(figures: Figures, key: str) -> float | None:
    return None if figures.get(key) is None else float(figures[key])


def _interval(figures: Figures, key: str) -> Interval | None:
    ends = figures.get(key)
    return None if ends is None else (float(ends[0]), float(ends[1]))
