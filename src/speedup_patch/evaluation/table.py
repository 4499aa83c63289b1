"""The evaluation's tables, as rows of text for the terminal and for Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import fields

from speedup_patch.evaluation.compare import SchedulerSummary
from speedup_patch.evaluation.intervals import Interval
from speedup_patch.evaluation.seconds import LatencySummary
from speedup_patch.evaluation.stress import StressSummary

COLUMNS = ("scheduler", "success", "95% interval", "steps", "speedup", "95% interval", "mean rate")

Summaries = Mapping[str, SchedulerSummary]
Rows = list[tuple[str, ...]]
Table = tuple[str, tuple[str, ...], Rows]
"""Title, columns and rows."""

STRESS: Mapping[str, tuple[str, str]] = {
    "peak_joint_speed": ("peak joint speed", "{:.2f} rad/s"),
    "peak_joint_speed_ratio": ("to base", "{:.2f}x"),
    "peak_joint_speed_rating_ratio": ("to rating", "{:.2f}x"),
    "acceleration_99": ("99% of accelerations", "{:.0f} rad/s2"),
    "acceleration_99_ratio": ("to base", "{:.2f}x"),
    "jerk_ratio": ("99% of jerks to base", "{:.2f}x"),
    "peak_force_ratio": ("peak force to base", "{:.2f}x"),
    "peak_force_rating_ratio": ("to rating", "{:.2f}x"),
}
"""The figures of stress: title and form."""


def summary_rows(schedulers: Summaries) -> Rows:
    """One row per scheduler, under COLUMNS."""
    return [(name, *_cells(summary)) for name, summary in schedulers.items()]


def further_tables(schedulers: Summaries) -> list[Table]:
    """What people get besides steps: speed in seconds, successes per hour, stress; what nobody measured is left out."""
    return [*seconds_tables(schedulers), *_stress_tables(schedulers)]


def seconds_tables(schedulers: Summaries) -> list[Table]:
    """(speedup in seconds, seconds and throughput) by latency."""
    keys = list(dict.fromkeys(key for summary in schedulers.values() for key in summary.latency))
    if not keys:
        return []
    columns = tuple(latency_title(key, schedulers) for key in keys)
    speedups: Rows = []
    seconds: Rows = []
    for name, summary in schedulers.items():
        found = [summary.latency.get(key) for key in keys]
        speedups.append((name, *map(_speedup_cell, found)))
        seconds.append((name, f"{summary.policy_calls:.1f}", *map(_seconds_cell, found)))
    return [
        ("speedup in seconds while every call of the policy takes so long", ("scheduler", *columns), speedups),
        (
            "seconds of a success, and successes per hour of trying (a failure takes the whole time limit)",
            ("scheduler", "calls", *columns),
            seconds,
        ),
    ]


def latency_title(key: str, schedulers: Summaries) -> str:
    """The head of a latency's column: milliseconds, and whether anything in it is reckoned."""
    reckoned = any(summary.latency[key].reckoned for summary in schedulers.values() if key in summary.latency)
    return f"{1000 * float(key):g} ms{', reckoned' if reckoned else ''}"


def tasks_note(schedulers: Summaries) -> str:
    """What the intervals of the first two tables draw anew, where it is more than seeds; otherwise nothing."""
    tasks = max((summary.over_tasks.tasks for summary in schedulers.values() if summary.over_tasks), default=0)
    return f"intervals draw the {tasks} tasks anew, and seeds within them" if tasks else ""


def markdown(schedulers: Summaries) -> str:
    """The tables in Markdown."""
    note = tasks_note(schedulers)
    parts = [_markdown_table(COLUMNS, summary_rows(schedulers)), *([f"{_sentence(note)}\n"] if note else [])]
    for title, columns, rows in further_tables(schedulers):
        parts.append(f"{_sentence(title)}\n\n{_markdown_table(columns, rows)}")
    return "\n".join(parts)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _markdown_table(columns: Sequence[str], rows: Rows) -> str:
    lines = [columns, ("---", *["---:"] * (len(columns) - 1)), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _cells(summary: SchedulerSummary) -> tuple[str, ...]:
    return (
        f"{summary.successes}/{summary.episodes}",
        _interval(summary.intervals.success),
        f"{summary.steps_mean:.0f}" if summary.steps_mean is not None else "-",
        f"{summary.speedup:.2f}x" if summary.speedup is not None else "-",
        _interval(summary.intervals.speedup),
        f"{summary.rate_mean:.2f}",
    )


def _interval(ends: Interval | None) -> str:
    return f"{ends[0]:.2f} .. {ends[1]:.2f}" if ends else "-"


def _speedup_cell(summary: LatencySummary | None) -> str:
    if summary is None or summary.speedup_seconds is None:
        return "-"
    return f"{summary.speedup_seconds:.2f}x" + (f" ({_interval(summary.interval)})" if summary.interval else "")


def _seconds_cell(summary: LatencySummary | None) -> str:
    if summary is None:
        return "-"
    seconds = "-" if summary.seconds_mean is None else f"{summary.seconds_mean:.1f} s"
    return f"{seconds}, {summary.throughput_per_hour:.0f}/h"


def _stress_tables(schedulers: Summaries) -> list[Table]:
    figures = {name: stress_figures(summary.stress) for name, summary in schedulers.items()}
    measured = [key for key in STRESS if any(found[key] is not None for found in figures.values())]
    if not measured:
        return []
    rows = [
        (name, *("-" if found[key] is None else STRESS[key][1].format(found[key]) for key in measured))
        for name, found in figures.items()
    ]
    return [("stress on the joints, mean over episodes", ("scheduler", *(STRESS[key][0] for key in measured)), rows)]


def stress_figures(stress: StressSummary) -> dict[str, float | None]:
    """The figures by name."""
    return {field.name: getattr(stress, field.name) for field in fields(stress)}
