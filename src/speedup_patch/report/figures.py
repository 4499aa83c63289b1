"""The plots that compare schedulers, as data for Plotly: success against speedup, speedup per task, every episode."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from speedup_patch.data import EpisodeResult
from speedup_patch.evaluation.compare import SchedulerSummary, summarise
from speedup_patch.report.labels import Style, plot_text
from speedup_patch.report.reading import Run
from speedup_patch.report.tasks import instruction_of, task_of

Json = dict[str, Any]
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class Figure:
    """A plot with its words; ``traces`` and ``layout`` are Plotly's, colours beginning with @ are the style sheet's."""

    name: str
    title: str
    caption: str
    traces: Sequence[Json] = ()
    layout: Json | None = None
    height: int = 380
    """Pixels, without the legend."""
    absent: str = ""
    """Why there is nothing to draw; empty when there is."""


def marker(style: Style, **more: Any) -> Json:
    """A scheduler's marker."""
    return {"color": style.color, "symbol": style.symbol, "size": 11, "line": {"width": 0}, **more}


def percent_axis(title: str, **more: Any) -> Json:
    """An axis of shares, written in percent."""
    return {"title": {"text": title}, "tickformat": ",.0%", **more}


def error_bar(value: float, interval: tuple[float, float] | None, color: str) -> Json:
    """An interval as Plotly wants it: distances to either side."""
    if interval is None:
        return {"visible": False}
    low, high = max(value - interval[0], 0.0), max(interval[1] - value, 0.0)
    return {
        "type": "data",
        "symmetric": False,
        "array": [high],
        "arrayminus": [low],
        "color": color,
        "thickness": 1.5,
        "width": 4,
    }


def pareto_figure(name: str, run: Run, styles: Mapping[str, Style]) -> Figure:
    """Success against speedup, with the line that no scheduler lies beyond."""
    shown = {spec: summary for spec, summary in run.summaries.items() if summary.speedup is not None}
    title = "Success against speedup"
    if not shown:
        return Figure(name, title, "", absent="No scheduler has a speedup: it takes base on the same seeds.")
    points = [(summary.speedup or 0.0, summary.success_rate) for summary in shown.values()]
    traces = [_front(points), *(_pareto_point(spec, summary, styles[spec]) for spec, summary in shown.items())]
    left_out = [styles[spec].label for spec in run.summaries if spec not in shown]
    caption = "Up and to the right is better. Bars are 95% intervals; the dotted line joins what nothing else beats."
    if left_out:
        caption += f" Without a speedup, and so not drawn: {', '.join(left_out)}."
    layout = {
        "xaxis": {"title": {"text": "speedup over the unpatched policy"}, "ticksuffix": TIMES},
        "yaxis": percent_axis("success"),
    }
    return Figure(name, title, caption, traces, layout)


def _front(points: Sequence[tuple[float, float]]) -> Json:
    ahead = sorted((x, y) for x, y in points if not any(a >= x and b >= y and (a, b) != (x, y) for a, b in points))
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [x for x, _ in ahead],
        "y": [y for _, y in ahead],
        "line": {"color": "@muted", "dash": "dot", "width": 1.5, "shape": "vh"},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _pareto_point(spec: str, summary: SchedulerSummary, style: Style) -> Json:
    assert summary.speedup is not None
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plot_text(style.label),
        "x": [summary.speedup],
        "y": [summary.success_rate],
        "error_x": error_bar(summary.speedup, summary.intervals.speedup, style.color),
        "error_y": error_bar(summary.success_rate, summary.intervals.success, style.color),
        "marker": marker(style),
        "hovertemplate": f"<b>{plot_text(spec)}</b><br>%{{x:.2f}}{TIMES} as fast<br>%{{y:.1%}} solved "
        f"({summary.successes} of {summary.episodes})<extra></extra>",
    }


def task_figure(runs: Sequence[Run], styles: Mapping[str, Style]) -> Figure:
    """The realized speedup of every scheduler in every task of every run."""
    title = "Realized speedup by task"
    repeated = Counter(run.env for run in runs)
    rows = [
        (f"{task} ({run.folder.name})" if repeated[run.env] > 1 else task, spec, summary)
        for run in runs
        for task, spec, summary in _task_rows(run)
    ]
    if not rows:
        return Figure("tasks", title, "", absent="No task has been solved both by base and by another scheduler yet.")
    tasks = list(dict.fromkeys(task for task, _, _ in rows))
    traces = [
        _task_trace(spec, [(task, summary) for task, other, summary in rows if other == spec], styles[spec])
        for spec in dict.fromkeys(spec for _, spec, _ in rows)
    ]
    caption = "Base steps over steps, on the seeds that both solved, with 95% intervals over seeds."
    layout = {
        "xaxis": {"title": {"text": "speedup over the unpatched policy"}, "ticksuffix": TIMES},
        "yaxis": {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [plot_text(task) for task in reversed(tasks)],
            "range": [-0.6, len(tasks) - 0.4],
        },
    }
    return Figure("tasks", title, caption, traces, layout, height=150 + 46 * len(tasks))


def _task_rows(run: Run) -> Iterable[tuple[str, str, SchedulerSummary]]:
    """(task, scheduler, summary over the task's seeds) for every pair that has a speedup."""
    tasks: dict[str, dict[str, list[EpisodeResult]]] = {}
    for spec, results in run.episodes.items():
        for seed, result in results.items():
            tasks.setdefault(task_of(run.env, seed), {}).setdefault(spec, []).append(result)
    for task in sorted(tasks, key=_natural):
        for spec, summary in summarise(tasks[task], np.random.default_rng(0)).items():
            if spec != "base" and summary.speedup is not None:
                yield task, spec, summary


def _natural(task: str) -> list[tuple[int, str]]:
    """Sorts task 10 after task 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in task.split("/")]


def _task_trace(spec: str, rows: Sequence[tuple[str, SchedulerSummary]], style: Style) -> Json:
    speedups = [summary.speedup or 0.0 for _, summary in rows]
    intervals = [summary.speedup_interval or (value, value) for value, (_, summary) in zip(speedups, rows, strict=True)]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plot_text(style.label),
        "x": speedups,
        "y": [plot_text(task) for task, _ in rows],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [max(high - value, 0.0) for value, (_, high) in zip(speedups, intervals, strict=True)],
            "arrayminus": [max(value - low, 0.0) for value, (low, _) in zip(speedups, intervals, strict=True)],
            "color": style.color,
            "thickness": 1.5,
            "width": 3,
        },
        "marker": marker(style, size=10),
        "text": [plot_text(instruction_of(task)) for task, _ in rows],
        "hovertemplate": f"<b>{plot_text(spec)}</b><br>%{{y}} %{{text}}<br>%{{x:.2f}}{TIMES} as fast<extra></extra>",
    }


def episode_figure(name: str, run: Run, styles: Mapping[str, Style]) -> Figure:
    """Steps of every episode by seed; a click on one shows its timeline."""
    title = "Every episode"
    if not run.episodes:
        return Figure(name, title, "", absent="There are no episodes to show.")
    traces = [
        _episode_trace(run.env, spec, list(run.episodes[spec].values()), styles[spec])
        for spec in run.schedulers
        if spec in run.episodes
    ]
    caption = "Control steps until the task was solved; a cross is an attempt that ran out of time."
    layout = {
        "xaxis": {"title": {"text": "seed"}, "zeroline": False, **({"dtick": 1} if len(run.seeds) <= 12 else {})},
        "yaxis": {"title": {"text": "control steps"}, "rangemode": "tozero"},
        "hovermode": "closest",
    }
    return Figure(name, title, caption, traces, layout, height=400)


def _episode_trace(env: str, spec: str, results: Sequence[EpisodeResult], style: Style) -> Json:
    symbols = [style.symbol if result.success else "x-thin-open" for result in results]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plot_text(style.label),
        "x": [result.seed for result in results],
        "y": [result.steps for result in results],
        "customdata": [spec] * len(results),
        "text": [_episode_words(env, result) for result in results],
        "marker": {
            **marker(style, size=8, symbol=symbols, opacity=0.85),
            "line": {"width": [0 if result.success else 2 for result in results], "color": style.color},
        },
        "hovertemplate": f"<b>{plot_text(spec)}</b><br>%{{text}}<extra></extra>",
    }


def _episode_words(env: str, result: EpisodeResult) -> str:
    task = task_of(env, result.seed)
    fallbacks = sum(decision.reason is not None for decision in result.decisions)
    where = f"seed {result.seed}" + (f", {task}" if task != env else "")
    outcome = "solved" if result.success else "not solved"
    return plot_text(
        f"{where}: {outcome} in {result.steps} steps, mean rate {result.rate_mean:.2f}, {fallbacks} fallbacks"
    )
