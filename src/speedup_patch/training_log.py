"""The curves of a training: kept while it runs, written into the patch folder as ``training.json``."""

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from speedup_patch.artefacts import read_json, write_json
from speedup_patch.reporting import HELD_OUT

TRAINING = "training.json"

MOST_POINTS = 300
"""Points of a curve in the document; a longer one is thinned evenly, its first and last point stay."""

Curve = list[tuple[int, float]]
"""(step, value) in the order of the steps."""


@dataclass
class TrainingLog:
    """A report that remembers every figure, and how long every stage took.

    With a ``file``, everything is written there at every new figure, so that a run that was killed goes on with the
    curves it had; steps that it takes again replace the old ones.
    """

    file: Path | None = None
    curves: dict[str, dict[str, Curve]] = field(default_factory=dict[str, dict[str, Curve]])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    _last: float = field(default_factory=time.monotonic)

    def __call__(self, stage: str, step: int, total: int, figures: Mapping[str, float]) -> None:
        key, now = stage.replace(" ", "_"), time.monotonic()
        self.seconds[key] = self.seconds.get(key, 0.0) + now - self._last
        self._last = now
        named = self.curves.setdefault(key, {})
        for name, value in with_total(figures).items():
            if math.isfinite(value):  # NaN and infinity are not JSON
                earlier = [point for point in named.get(name, []) if point[0] < step]
                named[name] = [*earlier, (step, value)]
        if figures and self.file is not None:
            write_json(self.file, {"curves": self.curves, "seconds": self.seconds})

    def document(self, figures: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
        """What ``training.json`` holds: the curves of every stage in ``figures``, which are its final ones."""
        stages = {stage: stage_document(self.curves.get(stage, {}), final) for stage, final in figures.items()}
        return {**stages, "seconds": {stage: round(seconds, 3) for stage, seconds in self.seconds.items()}}


def open_log(folder: Path | None, resume: bool) -> TrainingLog:
    """A log that is kept in ``folder`` if there is one; with ``resume`` it goes on with what it finds there."""
    if folder is None:
        return TrainingLog()
    file = folder / TRAINING
    if not (resume and file.is_file()):
        return TrainingLog(file)
    kept = read_json(file)
    curves = {
        stage: {name: [(step, value) for step, value in curve] for name, curve in named.items()}
        for stage, named in kept["curves"].items()
    }
    return TrainingLog(file, curves, kept["seconds"])


def with_total(figures: Mapping[str, float]) -> dict[str, float]:
    """The figures, and as ``loss`` the sum of the training losses when they come only in parts."""
    parts = [value for name, value in figures.items() if not name.startswith(HELD_OUT)]
    return {**({"loss": sum(parts)} if parts else {}), **figures}


def stage_document(named: Mapping[str, Curve], final: Mapping[str, float]) -> dict[str, Any]:
    """One stage: its two losses, every other curve by name, and the figures it ended with."""
    losses = {"train": "loss", "held_out": f"{HELD_OUT}loss"}
    return {
        **{key: thinned(named.get(name, [])) for key, name in losses.items()},
        "curves": {name: thinned(curve) for name, curve in named.items() if name not in losses.values()},
        "figures": {name: value for name, value in final.items() if math.isfinite(value)},
    }


def thinned(curve: Iterable[tuple[int, float]], most: int = MOST_POINTS) -> list[list[int | float]]:
    """At most ``most`` points of a curve, spread evenly over it."""
    points = [list(point) for point in curve]
    kept = np.unique(np.linspace(0, len(points) - 1, min(most, len(points))).round().astype(int))
    return [points[index] for index in kept]
