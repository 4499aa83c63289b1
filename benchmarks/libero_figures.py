"""Draws the figures of docs/libero.md from the tables that `sup bench libero` wrote.

    python benchmarks/libero_figures.py

Nothing is measured here: every number is read from benchmarks/results/libero.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from matplotlib import rc_context
from matplotlib.figure import Figure

from figure_style import GREY, INK, style
from speedup_patch.artefacts import read_json
from speedup_patch.evaluation.phases import PHASES

OURS = "#d55e00"
NAMES = {
    "base": "base",
    "fixed:2": "fixed 2",
    "fixed:3": "fixed 3",
    "speedcap:PATCH": "speed cap",
    "dwell+fixed:3": "dwell 3",
    "dwell+fixed:4": "dwell 4",
    "mpc:PATCH": "MPC",
    "mpc:PAPER_PATCH": "paper's MPC",
    "PAPER_PATCH": "paper",
    "PATCH": "ours",
}
"""The schedulers of the main table, as the figures call them."""

Row = dict[str, Any]
Rows = dict[str, list[Row]]


@dataclass(frozen=True)
class Settings:
    """Draw LIBERO's figures."""

    results: Path = Path("benchmarks/results/libero")
    out: Path = Path("docs/pictures")


def read_rows(results: Path, part: str) -> Rows:
    """A part's rows, suite by suite."""
    return {suite: found["rows"] for suite, found in read_json(results / f"{part}.json")["suites"].items()}


def colour(scheduler: str) -> str:
    """Ours stands out."""
    return OURS if scheduler == "PATCH" else INK


def draw_trade(rows: Rows) -> Figure:
    """Success against speedup, one panel per suite, and the floor as the line that none can cross."""
    figure = Figure(figsize=(9.0, 5.6), layout="constrained")
    panels = figure.subplots(2, (len(rows) + 1) // 2, sharex=True, sharey=True, squeeze=False).ravel()
    for panel, (suite, found) in zip(panels, rows.items(), strict=False):
        panel.axvline(found[0]["floor_speedup"], color=GREY, linestyle=":", linewidth=1)
        shown = [row for row in found if row["scheduler"] in NAMES and row["speedup"] is not None]
        for rank, row in enumerate(sorted(shown, key=lambda row: row["speedup"])):
            below, above = row["success"] - row["success_low"], row["success_high"] - row["success"]
            panel.errorbar(
                row["speedup"], row["success"], [[below], [above]], fmt="o", color=colour(row["scheduler"]),
                markersize=4, linewidth=0.8,
            )  # fmt: skip
            panel.annotate(
                NAMES[row["scheduler"]], (row["speedup"], row["success_low"]), (0, -9 - 12 * (rank % 3)),
                textcoords="offset points", ha="center", fontsize=7, color=colour(row["scheduler"]),
            )  # fmt: skip
        panel.set_title(suite, loc="left", fontsize=9)
        panel.set_ylim(0.0, 1.04)
    figure.supxlabel("realized speedup (dotted: the physical floor)", fontsize=9)
    figure.supylabel("success, 95% interval", fontsize=9)
    return figure


def draw_phases(rows: Rows) -> Figure:
    """Control steps per successful episode by phase, averaged over the suites."""
    schedulers = [name for name in NAMES if all(any(row["scheduler"] == name for row in f) for f in rows.values())]
    figure = Figure(figsize=(9.0, 2.8), layout="constrained")
    panel = figure.subplots()
    left = np.zeros(len(schedulers))
    shades = ("#c6dbef", "#9ecae1", "#d55e00", "#6baed6", "#e69f00")
    for phase, shade in zip(PHASES, shades, strict=True):
        steps = np.array([
            np.mean([row[f"{phase}_steps"] for found in rows.values() for row in found if row["scheduler"] == name])
            for name in schedulers
        ])  # fmt: skip
        panel.barh([NAMES[name] for name in schedulers], steps, left=left, color=shade, label=phase, height=0.7)
        left += steps
    panel.invert_yaxis()
    panel.set_xlabel("control steps of a successful episode, mean over the suites")
    panel.legend(ncols=len(PHASES), frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


FIGURES: dict[str, tuple[str, Callable[[Rows], Figure]]] = {
    "libero_trade": ("main", draw_trade),
    "libero_phases": ("phases", draw_phases),
}


def main(settings: Settings) -> None:
    for name, (part, draw) in FIGURES.items():
        with rc_context(style("libero")):
            path = settings.out / f"{name}.svg"
            draw(read_rows(settings.results, part)).savefig(path, metadata={"Date": None})
            print(path)


if __name__ == "__main__":
    main(tyro.cli(Settings))
