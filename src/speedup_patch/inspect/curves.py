"""The curves of an inspection's picture, computed from the frames."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from speedup_patch.inspect.frames import Frames, View
from speedup_patch.inspect.motion import find_moving, find_pauses, step_speeds
from speedup_patch.inspect.strokes import find_flips, middle, opens
from speedup_patch.robots import Gripper

POINTS = 50
"""Places along an episode."""
BEFORE_FLIP, AFTER_FLIP = 0.3, 1.2
"""Seconds around a flip that are shown."""


@dataclass(frozen=True, eq=False)
class Band:
    """Median, 10% and 90% quantile of a quantity along x."""

    x: Float[np.ndarray, " P"]
    low: Float[np.ndarray, " P"]
    median: Float[np.ndarray, " P"]
    high: Float[np.ndarray, " P"]


@dataclass(frozen=True, eq=False)
class FlipCurves:
    """A gripper's command and fingers around flips of one direction, both from 0 closed to 1 open."""

    flips: int
    command: Band
    fingers: Band


def band(x: Float[np.ndarray, " P"], rows: Float[np.ndarray, "R P"]) -> Band:
    """The band of curves that share their x, where at least half of them are known; NaN is not counted."""
    seen = np.isfinite(rows).mean(axis=0) > 0.5
    return Band(x[seen], *np.nanquantile(rows[:, seen], [0.1, 0.5, 0.9], axis=0))


def speed_along_episodes(view: View) -> list[Band]:
    """Speed of every arm in m/s over the share of the episode that has passed."""
    metres, _ = step_speeds(view)
    episode, row = view.frames.episode[1:][view.frames.joined], view.frames.row[1:][view.frames.joined]
    passed = row / (view.frames.lengths[episode] - 1)
    edges = np.linspace(0.0, 1.0, POINTS + 1)
    place = np.clip(np.searchsorted(edges, passed, side="left") - 1, 0, POINTS - 1)
    full = [i for i in range(POINTS) if (place == i).any()]
    x = (edges[:-1] + edges[1:])[full] / 2
    bands: list[Band] = []
    for arm in range(metres.shape[1]):
        quantiles = np.array([np.quantile(metres[place == i, arm], [0.1, 0.5, 0.9]) for i in full])
        bands.append(Band(x, *quantiles.T))
    return bands


def pauses_along_episodes(view: View) -> tuple[Float[np.ndarray, " P"], Float[np.ndarray, " P"]]:
    """(share of the episode that has passed, share of the frames there that belong to a pause)."""
    frames = view.frames
    still = np.zeros(len(frames), dtype=bool)
    for pause in find_pauses(frames, find_moving(frames, view.robot), view.control_hz):
        still[pause.first : pause.first + pause.steps] = True
    place = np.minimum((frames.row / frames.lengths[frames.episode] * POINTS).astype(int), POINTS - 1)
    counts = np.bincount(place, minlength=POINTS)
    shares = np.bincount(place, weights=still, minlength=POINTS) / np.maximum(counts, 1)
    return (np.arange(POINTS) + 0.5) / POINTS, shares


def curves_around_flips(view: View) -> dict[str, FlipCurves]:
    """What all grippers do from one flip to the next, by the direction of the flip, where there are any."""
    before, after = round(BEFORE_FLIP * view.control_hz), round(AFTER_FLIP * view.control_hz)
    commands: dict[str, list[Float[np.ndarray, " T"]]] = {"opening": [], "closing": []}
    fingers: dict[str, list[Float[np.ndarray, " T"]]] = {"opening": [], "closing": []}
    for gripper in view.robot.grippers if view.robot else ():
        command, opening = _opening(view.frames, gripper)
        for _, rows in view.frames.stretches:
            sent = view.frames.actions[rows, gripper.action]
            flips = find_flips(sent, middle(gripper)).tolist()
            for last, flip, following in zip([0, *flips], flips, [*flips[1:], len(sent)], strict=False):
                side = "opening" if opens(gripper, float(sent[flip])) else "closing"
                shown = slice(max(last, flip - before), min(following, flip + after))
                for found, curve in ((commands, command[rows]), (fingers, opening[rows])):
                    window = np.full(before + after, np.nan)
                    window[shown.start - flip + before : shown.stop - flip + before] = curve[shown]
                    found[side].append(window)
    seconds = np.arange(-before, after) / view.control_hz
    return {
        side: FlipCurves(len(rows), band(seconds, np.array(rows)), band(seconds, np.array(fingers[side])))
        for side, rows in commands.items()
        if rows
    }


def _opening(frames: Frames, gripper: Gripper) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """(command, fingers), each as a share of the way from closed to open; fingers of the range they use."""
    command = (frames.actions[:, gripper.action] - gripper.closed) / (gripper.open - gripper.closed)
    if not gripper.state:
        return command, np.full(len(frames), np.nan)
    fingers = frames.states[:, gripper.state[0]]
    share = (fingers - fingers.min()) / max(float(np.ptp(fingers)), 1e-9)
    agrees = np.std(command) < 1e-9 or np.std(share) < 1e-9 or np.corrcoef(command, share)[0, 1] >= 0
    return command, share if agrees else 1.0 - share
