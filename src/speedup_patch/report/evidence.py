"""The plots that ask why: violations, fallbacks, true against predicted deviation, training."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from speedup_patch.relabel import find_violations
from speedup_patch.report.figures import Figure, Json, error_bar, marker, percent_axis
from speedup_patch.report.labels import Style, plot_text
from speedup_patch.report.patches import FoundPatch, training_curves
from speedup_patch.report.reading import Run
from speedup_patch.report.timelines import Traces

SERIES = tuple(f"@hue-{hue}" for hue in range(8))
GROUP_SYMBOLS = ("circle", "diamond", "square", "cross", "triangle-up", "star")
STAGES = {"world_model": "World model", "scheduler": "Scheduler"}


def violation_figure(
    name: str, run: Run, found: Traces, judge: FoundPatch | None, styles: Mapping[str, Style]
) -> Figure:
    """Success against the share of decisions that a patch's world model puts beyond its tolerance."""
    title = "Success against predicted violations"
    if not found.traces:
        return Figure(name, title, "", absent="This takes traces, and the run has none.")
    if judge is None or judge.loaded is None:
        return Figure(name, title, "", absent="This takes a patch that certainly is the one that ran; there is none.")
    traces: list[Json] = []
    for spec, summary in run.summaries.items():
        judged = [deviations for (other, _), deviations in found.deviations.items() if other == spec]
        if not judged:
            continue
        share = float(find_violations(np.concatenate(judged), judge.loaded.epsilon).mean())
        decisions = sum(map(len, judged))
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": plot_text(styles[spec].label),
                "x": [share],
                "y": [summary.success_rate],
                "error_y": error_bar(summary.success_rate, summary.success_interval, styles[spec].color),
                "marker": marker(styles[spec]),
                "hovertemplate": f"<b>{plot_text(spec)}</b><br>%{{x:.1%}} of {decisions} decisions beyond the "
                "tolerance<br>%{y:.1%} solved<extra></extra>",
            }
        )
    caption = (
        f"Violations: decisions whose executed chunk strays more than {judge.loaded.epsilon:g} "
        f"({judge.loaded.measure.replace('_', ' ')}) from the policy's own, as predicted by the world model of "
        f"{judge.named}."
    )
    widest = max([0.01, *(trace["x"][0] for trace in traces)])
    layout = {
        "xaxis": percent_axis(
            "decisions beyond the tolerance", range=[-0.05 * widest, 1.1 * widest], tickformat=",.1~%"
        ),
        "yaxis": percent_axis("success"),
    }
    return Figure(name, title, caption, traces, layout)


def fallback_figure(name: str, run: Run, styles: Mapping[str, Style]) -> Figure:
    """How often each scheduler ran the policy's own chunk, by reason."""
    title = "Fallbacks by reason"
    reasons = sorted({reason for summary in run.summaries.values() for reason in summary.fallbacks})
    if not run.summaries:
        return Figure(name, title, "", absent="Nothing has been run yet.")
    if not reasons:
        return Figure(name, title, "", absent="No scheduler ever fell back to the policy's own chunk.")
    specs = [spec for spec, summary in run.summaries.items() if summary.fallbacks]
    decisions = {spec: run.summaries[spec].policy_calls * run.summaries[spec].episodes for spec in specs}
    traces: list[Json] = []
    for number, reason in enumerate(reasons):
        counts = [run.summaries[spec].fallbacks.get(reason, 0) for spec in specs]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": plot_text(reason),
                "y": [plot_text(styles[spec].label) for spec in specs],
                "x": [count / max(decisions[spec], 1.0) for count, spec in zip(counts, specs, strict=True)],
                "text": [f"{count} of {decisions[spec]:.0f}" for count, spec in zip(counts, specs, strict=True)],
                "textposition": "none",
                "marker": {"color": SERIES[number % len(SERIES)]},
                "hovertemplate": f"%{{y}}<br>{plot_text(reason)}: %{{text}} decisions (%{{x:.1%}})<extra></extra>",
            }
        )
    layout = {
        "barmode": "stack",
        "bargap": 0.45,
        "showlegend": True,
        "xaxis": percent_axis("share of decisions", rangemode="tozero", tickformat=",.2~%"),
        "yaxis": {"type": "category", "automargin": True, "autorange": "reversed"},
    }
    caption = "The guard runs the policy's own chunk, unchanged, when a state or chunk is unlike the demonstrations."
    return Figure(name, title, caption, traces, layout, height=150 + 46 * len(specs))


def counterfactual_figure(name: str, scores: Mapping[str, Any], env: str, epsilon: float | None) -> Figure:
    """Mean predicted against mean true deviation for every world model, kind of state and rate."""
    groups = list(dict.fromkeys(group for model in scores.values() for group in model))
    symbols = dict(zip(groups, cycle(GROUP_SYMBOLS), strict=False))
    traces: list[Json] = []
    top = 0.0
    for number, (model, by_group) in enumerate(scores.items()):
        color = SERIES[number % len(SERIES)] if number else "@accent"
        for group, by_rate in by_group.items():
            rows = [(rate, figures) for rate, figures in by_rate.items() if rate != "pooled"]
            true = [float(figures["true_mean"]) for _, figures in rows]
            predicted = [float(figures["true_mean"] + figures["bias"]) for _, figures in rows]
            top = max([top, *true, *predicted])
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "name": plot_text(f"{model}, {group}"),
                    "x": true,
                    "y": predicted,
                    "text": [_score_words(rate, figures) for rate, figures in rows],
                    "line": {"color": color, "width": 1},
                    "marker": {"color": color, "symbol": symbols[group], "size": 9},
                    "hovertemplate": f"<b>{plot_text(model)}</b>, {plot_text(group)}<br>%{{text}}<extra></extra>",
                }
            )
    ends = [0.0, top * 1.05]
    diagonal = {
        "type": "scatter",
        "mode": "lines",
        "x": ends,
        "y": ends,
        "line": {"color": "@muted", "dash": "dot", "width": 1.5},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    tolerance = f" Tolerance {epsilon:g}." if epsilon is not None else ""
    caption = (
        f"{env}: each point is the mean over decisions at one rate, the chunk executed in the simulator against "
        f"what the world model foretold. On the dotted line, prediction is true on average.{tolerance}"
    )
    layout = {
        "xaxis": {"title": {"text": "true deviation"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "predicted deviation"}, "rangemode": "tozero"},
    }
    return Figure(name, "True against predicted deviation", caption, [diagonal, *traces], layout, height=420)


def _score_words(rate: str, figures: Mapping[str, Any]) -> str:
    words = [f"rate {rate}, {figures.get('decisions', 0):.0f} decisions"]
    for key, title in (("spearman", "rank correlation"), ("mean_absolute_error", "mean absolute error")):
        if isinstance(figures.get(key), int | float):
            words.append(f"{title} {figures[key]:.3g}")
    return "<br>".join(plot_text(word) for word in words)


def training_figures(name: str, patch: FoundPatch) -> list[Figure]:
    """The loss of each stage of a patch's training, where the patch keeps it."""
    figures: list[Figure] = []
    for stage, title in STAGES.items():
        curves = training_curves(patch.training or {}, stage)
        if curves:
            positive = all(loss > 0 for points in curves.values() for _, loss in points)
            layout = {
                "xaxis": {"title": {"text": "training step"}},
                "yaxis": {"title": {"text": "loss"}, "type": "log" if positive else "linear"},
                "showlegend": True,
            }
            figures.append(
                Figure(
                    f"{name}-{stage}",
                    f"{title}: loss",
                    f"Training of {patch.named}.",
                    _curve_traces(curves),
                    layout,
                    height=300,
                )
            )
    return figures


def _curve_traces(curves: Mapping[str, Sequence[tuple[float, float]]]) -> list[Json]:
    colors = {"train": "@muted", "held_out": "@accent"}
    return [
        {
            "type": "scatter",
            "mode": "lines+markers" if len(points) < 30 else "lines",
            "name": plot_text(curve.replace("_", " ")),
            "x": [step for step, _ in points],
            "y": [loss for _, loss in points],
            "line": {"color": colors.get(curve, SERIES[number % len(SERIES)]), "width": 2},
            "marker": {"color": colors.get(curve, SERIES[number % len(SERIES)]), "size": 5},
        }
        for number, (curve, points) in enumerate(curves.items())
    ]
