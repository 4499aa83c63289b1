"""An inspection as one picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from speedup_patch.errors import InputError
from speedup_patch.inspect.curves import Band, curves_around_flips, pauses_along_episodes, speed_along_episodes
from speedup_patch.inspect.frames import View
from speedup_patch.inspect.motion import step_speeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".pdf", ".svg")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
"""Okabe and Ito's, which colour-blind people tell apart."""
DASHES = ("-", "--", ":", "-.")
GREY, INK = "#d9d9d9", "#333333"
STYLE = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 9,
}
MANY_DIMENSIONS = 24


def refuse_other_formats(file: Path) -> None:
    """Raises an error when a picture cannot be written to this file."""
    if file.suffix.lower() not in FORMATS:
        raise InputError(f"--plot {file}: a picture ends in {', '.join(FORMATS)}, not {file.suffix or 'nothing'!r}")
    if not file.parent.is_dir():
        raise InputError(f"--plot {file}: there is no folder {file.parent}")
    try:
        import matplotlib  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise InputError("a picture needs matplotlib: pip install 'speedup-patch[plot]'") from error


def plot_view(view: View, title: str, file: Path) -> None:
    """Writes the picture; its format follows from the file's name."""
    refuse_other_formats(file)
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(STYLE):  # pyright: ignore[reportArgumentType]
        figure = Figure(figsize=(11, 9.4), layout="constrained")
        FigureCanvasAgg(figure)
        panels: list[Axes] = figure.subplots(3, 2, gridspec_kw={"height_ratios": (1, 1, 1.25)}).flatten().tolist()
        robot = view.robot.name if view.robot else "robot not known"
        episodes, frames = len(view.demonstrations), view.demonstrations.frames
        figure.suptitle(
            f"{title}: {episodes} episodes, {frames} frames at {view.control_hz:g} Hz ({robot})", x=0.01, ha="left"
        )
        _draw_lengths(panels[0], view)
        _draw_speed_along_episodes(panels[1], view)
        _draw_speed_histogram(panels[2], view)
        _draw_pauses(panels[3], view)
        _draw_grippers(panels[4], view)
        _draw_ranges(panels[5], view)
        figure.savefig(file, dpi=90)


def _draw_lengths(axes: "Axes", view: View) -> None:
    seconds = view.frames.lengths / view.control_hz
    axes.hist(seconds, bins=min(30, max(5, len(seconds) // 5)), color=COLOURS[0])
    median = float(np.median(seconds))
    axes.axvline(median, ymax=0.75, color=INK, linestyle="--", label=f"median {median:.1f} s")
    axes.set(title="Episode lengths", xlabel="seconds", ylabel="episodes")
    _legend_above(axes)


def _draw_speed_along_episodes(axes: "Axes", view: View) -> None:
    axes.set(title="End-effector speed, median and 10-90%", xlabel="share of the episode", ylabel="m/s")
    if not _has_speeds(axes, view):
        return
    for i, (name, curve) in enumerate(zip(_arm_names(view), speed_along_episodes(view), strict=True)):
        _draw_band(axes, curve, i, name)
    axes.set_xlim(0, 1)
    _legend_above(axes)


def _draw_speed_histogram(axes: "Axes", view: View) -> None:
    axes.set(
        title="How fast, how often (upright lines: p99)", xlabel="end-effector speed, m/s", ylabel="share of the steps"
    )
    if not _has_speeds(axes, view):
        return
    metres, _ = step_speeds(view)
    tops = np.quantile(metres, 0.99, axis=0)
    edges = np.linspace(0.0, max(1.25 * float(tops.max()), 1e-6), 50).tolist()
    for i, name in enumerate(_arm_names(view)):
        weights = np.full(len(metres), 1 / len(metres))
        colour, dash = COLOURS[i % 4], DASHES[i % 4]
        axes.hist(metres[:, i], edges, weights=weights, histtype="step", color=colour, linestyle=dash, linewidth=1.6)
        label = f"{name}: p99 {tops[i]:.2f} m/s"
        axes.axvline(tops[i], ymax=0.75, color=colour, linestyle=dash, linewidth=1, label=label)
    limit = _commanded_limit(view)
    if limit is not None and limit < 3 * edges[-1]:
        axes.axvline(limit, ymax=0.75, color=INK, linewidth=2, label=f"largest command {limit:.2f}")
    axes.set_xlim(left=0)
    _legend_above(axes)


def _commanded_limit(view: View) -> float | None:
    """Metres per second of the largest motion that can be commanded, for a robot moved by small steps of its hand."""
    for group in view.robot.actions if view.robot else ():
        if group.mode == "delta" and group.unit == "m" and group.rotation is None:
            return group.scale * max(group.high) * view.control_hz
    return None


def _draw_pauses(axes: "Axes", view: View) -> None:
    x, shares = pauses_along_episodes(view)
    axes.bar(x, 100 * shares, width=1 / len(x), color=COLOURS[2])
    axes.set(title="Pauses", xlabel="share of the episode", ylabel="% of frames in a pause")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, max(1.0, 110 * float(shares.max())))
    if not shares.any():
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no pause of 0.2 s or longer", transform=axes.transAxes, ha="center")


def _draw_grippers(axes: "Axes", view: View) -> None:
    axes.set(title="Grippers around a flip", xlabel="seconds after the flip", ylabel="0 closed .. 1 open")
    curves = curves_around_flips(view)
    if not curves:
        axes.text(0.5, 0.5, "no gripper flips are known", transform=axes.transAxes, ha="center")
    for i, (side, found) in enumerate(curves.items()):
        axes.plot(found.command.x, found.command.median, color=COLOURS[i], linestyle="--", label=f"{side}: command")
        _draw_band(axes, found.fingers, i, f"fingers ({found.flips} flips)", solid=True)
    if curves:
        axes.axvline(0, ymax=0.75, color=INK, linewidth=0.8)
        _legend_above(axes)
        axes.set_yticks([0.0, 0.5, 1.0])


def _draw_ranges(axes: "Axes", view: View) -> None:
    """Each action dimension's range: within its limits where a robot gives them, otherwise as it is."""
    low, high = view.frames.actions.min(axis=0), view.frames.actions.max(axis=0)
    usual_low, usual_high = np.quantile(view.frames.actions, [0.01, 0.99], axis=0)
    title, label = "Action ranges", "value"
    rows = np.arange(min(len(low), MANY_DIMENSIONS))
    if view.robot:
        start, span = view.robot.action_low, np.maximum(view.robot.action_high - view.robot.action_low, 1e-9)
        low, high, usual_low, usual_high = ((part - start) / span for part in (low, high, usual_low, usual_high))
        title, label = "Action ranges within the robot's limits", "0 low limit .. 1 high limit"
        axes.barh(rows, 1.0, height=0.8, color=GREY, label="limits")
    beyond = [(low[i] < -1e-3 or high[i] > 1 + 1e-3) and view.robot is not None for i in rows]
    colours = [COLOURS[1] if outside else COLOURS[0] for outside in beyond]
    axes.barh(rows, (usual_high - usual_low)[rows], left=usual_low[rows], height=0.5, color=colours, label="1-99%")
    axes.hlines(rows, low[rows], high[rows], color=INK, linewidth=1.2, label="all")
    axes.set_yticks(rows, [view.action_names[i] for i in rows], fontsize=8)
    axes.invert_yaxis()
    more = len(low) - len(rows)
    axes.set(title=title + (f" ({more} more not shown)" if more else ""), xlabel=label)
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.2), ncols=3, borderaxespad=0.0)


def _legend_above(axes: "Axes") -> None:
    """The legend in a free quarter above the curves."""
    low, high = axes.get_ylim()
    low = min(0.0, low)
    axes.set_ylim(low, low + (high - low) / 0.75)
    axes.legend(loc="upper left", ncols=2, columnspacing=1.2, borderaxespad=0.0)


def _draw_band(axes: "Axes", curve: Band, number: int, label: str, *, solid: bool = False) -> None:
    colour = COLOURS[number % len(COLOURS)]
    axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
    dash = "-" if solid else DASHES[number % len(DASHES)]
    axes.plot(curve.x, curve.median, color=colour, linestyle=dash, linewidth=1.8, label=label)


def _arm_names(view: View) -> Sequence[str]:
    return [arm.name for arm in view.robot.arms] if view.robot else []


def _has_speeds(axes: "Axes", view: View) -> bool:
    known = view.robot is not None and bool(view.frames.joined.any())
    if not known:
        axes.text(0.5, 0.5, "not known without a robot", transform=axes.transAxes, ha="center")
    return known
