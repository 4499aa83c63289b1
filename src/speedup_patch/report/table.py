"""The tables of a run: one row per scheduler, intervals under the figures, the best of each column marked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from speedup_patch.evaluation.compare import Interval, SchedulerSummary
from speedup_patch.evaluation.seconds import LatencySummary
from speedup_patch.evaluation.table import STRESS, latency_title, stress_figures
from speedup_patch.report.figures import TIMES
from speedup_patch.report.labels import Style

DASH = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Cell:
    """One figure as it is written, and exactly."""

    key: str
    """The figure's name in results.json."""
    value: float | None
    text: str
    detail: str = ""
    """Written small below: the 95% interval."""
    best: bool = False


@dataclass(frozen=True)
class Row:
    """One scheduler."""

    spec: str
    style: Style
    cells: tuple[Cell, ...]


COLUMNS: Mapping[str, str] = {
    "success_rate": "Success",
    "speedup": "Speedup",
    "steps_mean": "Steps",
    "success_difference": "Success against base",
    "rate_mean": "Mean rate",
    "policy_calls": "Policy calls",
    "fallbacks": "Fallbacks",
}
"""The figure in each column, and its title."""

BEST: Mapping[str, Callable[[Sequence[float]], float]] = {
    "success_rate": max,
    "steps_mean": min,
    "speedup": max,
    "policy_calls": min,
}
"""Columns in which one end is better; of equal bests, all are marked."""


def table_rows(summaries: Mapping[str, SchedulerSummary], styles: Mapping[str, Style]) -> list[Row]:
    """The rows under COLUMNS."""
    rows = [Row(spec, styles[spec], _cells(summary)) for spec, summary in summaries.items()]
    best = {key: _best(rows, key) for key in BEST} if len(rows) > 1 else {}
    return [replace(row, cells=tuple(_mark(cell, best.get(cell.key)) for cell in row.cells)) for row in rows]


@dataclass(frozen=True)
class FurtherTable:
    """What people get besides steps."""

    title: str
    caption: str
    columns: tuple[str, ...]
    rows: list[Row]


def further_tables(summaries: Mapping[str, SchedulerSummary], styles: Mapping[str, Style]) -> list[FurtherTable]:
    """Seconds by latency, and stress, as far as the run tells them."""
    tables = [_seconds_table(summaries, styles), _stress_table(summaries, styles)]
    return [table for table in tables if len(table.columns) > 0]


def _seconds_table(summaries: Mapping[str, SchedulerSummary], styles: Mapping[str, Style]) -> FurtherTable:
    keys = list(dict.fromkeys(key for summary in summaries.values() for key in summary.latency))
    rows = [
        Row(spec, styles[spec], tuple(_latency_cell(key, summary.latency.get(key)) for key in keys))
        for spec, summary in summaries.items()
    ]
    return FurtherTable(
        "Seconds",
        "Speedup in seconds against the unpatched policy, by how long every call of the policy takes while the robot "
        "holds still; below, its 95% interval, the seconds of a success, and successes per hour of trying, a failure "
        "taking the whole time limit. Reckoned: from steps and calls, not simulated.",
        tuple(latency_title(key, summaries) for key in keys),
        rows,
    )


def _latency_cell(key: str, summary: LatencySummary | None) -> Cell:
    name = f"speedup_seconds {key}"
    if summary is None:
        return Cell(name, None, "")
    seconds = _number(summary.seconds_mean, "{:.1f} s")
    details = (_interval(summary.interval), seconds, f"{summary.throughput_per_hour:.0f} per hour")
    return Cell(
        name,
        summary.speedup_seconds,
        _number(summary.speedup_seconds, "{:.2f}" + TIMES),
        ", ".join(part for part in details if part),
    )


def _stress_table(summaries: Mapping[str, SchedulerSummary], styles: Mapping[str, Style]) -> FurtherTable:
    figures = {spec: stress_figures(summary.stress) for spec, summary in summaries.items()}
    measured = [key for key in STRESS if any(found[key] is not None for found in figures.values())]
    rows = [
        Row(
            spec,
            styles[spec],
            tuple(Cell(key, found[key], _number(found[key], STRESS[key][1].replace("x", TIMES))) for key in measured),
        )
        for spec, found in figures.items()
    ]
    return FurtherTable(
        "Stress",
        "What an episode does to the joints of the arms, mean over episodes; ratios to base are on the same seeds.",
        tuple(STRESS[key][0] for key in measured),
        rows,
    )


def _best(rows: Sequence[Row], key: str) -> float | None:
    values = [cell.value for row in rows for cell in row.cells if cell.key == key and cell.value is not None]
    return BEST[key](values) if values and min(values) != max(values) else None


def _mark(cell: Cell, best: float | None) -> Cell:
    return replace(cell, best=True) if best is not None and cell.value == best else cell


def _cells(summary: SchedulerSummary) -> tuple[Cell, ...]:
    difference, intervals = summary.success_difference, summary.intervals
    fallbacks = sum(summary.fallbacks.values())
    return (
        Cell(
            "success_rate",
            summary.success_rate,
            f"{summary.successes}/{summary.episodes}",
            _interval(intervals.success),
        ),
        Cell(
            "speedup",
            summary.speedup,
            _number(summary.speedup, "{:.2f}" + TIMES),
            _interval(intervals.speedup),
        ),
        Cell("steps_mean", summary.steps_mean, _number(summary.steps_mean, "{:.0f}")),
        Cell(
            "success_difference",
            difference,
            "" if difference is None else signed(difference),
            _signed_interval(intervals.success_difference),
        ),
        Cell("rate_mean", summary.rate_mean, f"{summary.rate_mean:.2f}"),
        Cell("policy_calls", summary.policy_calls, f"{summary.policy_calls:.1f}"),
        Cell("fallbacks", float(fallbacks), str(fallbacks)),
    )


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _interval(ends: Interval | None) -> str:
    return "" if ends is None else f"{ends[0]:.2f} {DASH} {ends[1]:.2f}"


def _signed_interval(ends: Interval | None) -> str:
    return "" if ends is None else f"{signed(ends[0])} {DASH} {signed(ends[1])}"


def signed(value: float) -> str:
    """With its sign, except for what rounds to nothing."""
    rounded = round(value, 2)
    return "0" if rounded == 0 else f"{'+' if rounded > 0 else MINUS}{abs(rounded):.2f}"
