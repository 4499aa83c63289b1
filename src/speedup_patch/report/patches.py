"""The patches that a run names: found again, checked to be those that ran, and loaded."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from speedup_patch.errors import InputError
from speedup_patch.evaluation.run import content_digest
from speedup_patch.report.labels import is_patch, split_spec
from speedup_patch.report.reading import Run
from speedup_patch.runtime.patch_folder import DESCRIPTION, LoadedPatch, load_patch

State = Literal["verified", "unverified", "changed", "gone", "unreadable"]

NOTES: dict[State, str] = {
    "unverified": "run.json holds no digest of it, so it may not be the one that ran: its settings are shown, but no "
    "deviation is predicted with it",
    "changed": "it has changed since it ran, so nothing is read from it",
    "gone": "its folder is not where it was, so its settings and predicted deviations are missing",
}


@dataclass(frozen=True, eq=False)
class FoundPatch:
    """A patch that a run names, and what could be read of it."""

    named: str
    """Its path as the run names it."""
    state: State
    note: str
    """What is wrong with it; empty when nothing is."""
    digest: str
    """As it was when it ran; empty when the run does not say."""
    loaded: LoadedPatch | None = None
    training: dict[str, Any] | None = None
    """Curves and figures from its training, where it keeps them."""


def find_patches(run: Run) -> list[FoundPatch]:
    """Every patch that a run's schedulers name, once each; those that run themselves come first."""
    specs = sorted(run.schedulers, key=lambda spec: not is_patch(spec))
    named: dict[str, str] = {}
    for spec in specs:
        path = split_spec(spec)[1]
        if path is not None:
            named[path] = named.get(path) or run.contents.get(spec, "")
    return [_find(run, path, digest) for path, digest in named.items()]


def judge_of(patches: list[FoundPatch]) -> FoundPatch | None:
    """The patch whose world model judges every scheduler of a run: the first that certainly is the one that ran."""
    return next((patch for patch in patches if patch.state == "verified" and patch.loaded), None)


def _find(run: Run, named: str, digest: str) -> FoundPatch:
    folders = [folder for folder in _places(run, named) if (folder / DESCRIPTION).is_file()]
    if not folders:
        return FoundPatch(named, "gone", NOTES["gone"], digest)
    same = [folder for folder in folders if content_digest(str(folder)) == digest]
    if digest and not same:
        return FoundPatch(named, "changed", NOTES["changed"], digest)
    folder = (same or folders)[0]
    state: State = "verified" if digest else "unverified"
    try:
        loaded = load_patch(folder)
    except InputError as error:
        return FoundPatch(named, "unreadable", str(error), digest)
    return FoundPatch(named, state, NOTES.get(state, ""), digest, loaded, read_training(folder / "training.json"))


def _places(run: Run, named: str) -> Iterator[Path]:
    """Where a path may lead: from the working folder, or from any folder above the run."""
    yield Path(named)
    if not Path(named).is_absolute():
        for parent in run.folder.resolve().parents:
            yield parent / named


def read_training(path: Path) -> dict[str, Any] | None:
    """What the training left behind; None when there is nothing that can be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def training_curves(training: dict[str, Any], stage: str) -> dict[str, list[tuple[float, float]]]:
    """The (step, loss) points of a stage by name, such as ``train`` and ``held_out``; what is no curve is left out."""
    found = training.get(stage)
    if not isinstance(found, dict):
        return {}
    curves = {str(name): _points(values) for name, values in found.items() if isinstance(values, list)}
    return {name: points for name, points in curves.items() if points}


def _points(values: list[Any]) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for value in values:
        if isinstance(value, list) and len(value) == 2 and all(isinstance(part, int | float) for part in value):
            points.append((float(value[0]), float(value[1])))
    return points
