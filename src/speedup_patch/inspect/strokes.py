"""When a gripper is told to flip, and how long its fingers take."""

from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int
from numpy.lib.stride_tricks import sliding_window_view

from speedup_patch.inspect.frames import Frames
from speedup_patch.inspect.report import GripperUse, StrokeTime
from speedup_patch.robots import Gripper, Robot

WATCHED_SECONDS = 2.0
"""How long a gripper's fingers are watched after a flip."""
MOVED = 0.05
"""Share of their range that fingers must travel for a stroke to have begun."""
STILL, REST_STEPS = 0.02, 5
"""Fingers are at rest when they travel less than this share of their range in this many steps. Fingers that creep on
later, because what they hold gives way, are not waited for."""


def measure_grippers(frames: Frames, robot: Robot, control_hz: float) -> tuple[GripperUse, ...]:
    """How the gripper of every arm that has one is used."""
    return tuple(_measure(frames, arm.name, arm.gripper, control_hz) for arm in robot.arms if arm.gripper is not None)


def _measure(frames: Frames, arm: str, gripper: Gripper, control_hz: float) -> GripperUse:
    fingers = frames.states[:, list(gripper.state)]
    ranges, horizon = np.ptp(fingers, axis=0), round(WATCHED_SECONDS * control_hz)
    strokes: dict[bool, list[int]] = {True: [], False: []}
    flips = 0
    for _, rows in frames.stretches:
        commands = frames.actions[rows, gripper.action]
        found = find_flips(commands, middle(gripper))
        flips += len(found)
        for flip, steps in stroke_steps(fingers[rows], found, ranges, horizon):
            strokes[opens(gripper, float(commands[flip]))].append(steps)
    opening, closing = (_stroke_time(strokes[side], control_hz) for side in (True, False))
    return GripperUse(arm, flips / frames.sampled, opening, closing, gripper.stroke_steps)


def _stroke_time(strokes: list[int], control_hz: float) -> StrokeTime:
    if not strokes:
        return StrokeTime(0, None, None, None, None)
    p50, p90 = np.quantile(strokes, [0.5, 0.9]).tolist()
    return StrokeTime(len(strokes), p50, p90, p50 / control_hz, p90 / control_hz)


def middle(gripper: Gripper) -> float:
    """The command between closed and open."""
    return (gripper.closed + gripper.open) / 2


def opens(gripper: Gripper, command: float) -> bool:
    """Whether a command opens the gripper rather than closes it."""
    return (command > middle(gripper)) == (gripper.open > gripper.closed)


def find_flips(commands: Float[np.ndarray, " T"], middle: float) -> Int[np.ndarray, " F"]:
    """The steps at which the command is on the other side of the middle than one step before."""
    above = commands > middle
    return np.flatnonzero(above[1:] != above[:-1]) + 1


def stroke_steps(
    fingers: Float[np.ndarray, "T D"], flips: Int[np.ndarray, " F"], ranges: Float[np.ndarray, " D"], horizon: int
) -> list[tuple[int, int]]:
    """(flip, steps until the fingers have moved and come to rest) of every stroke that can be timed.

    A stroke is watched for ``horizon`` steps, or until the next flip or the episode's end; it is left out when the
    fingers do not move, or do not come to rest in that time. ``ranges`` is each finger's range over the data set.
    """
    steps: list[tuple[int, int]] = []
    for flip, following in pairwise((*flips.tolist(), len(fingers))):
        watched = fingers[flip : min(following, flip + horizon)]
        if len(watched) <= REST_STEPS:
            continue
        travel = np.ptp(sliding_window_view(watched, REST_STEPS + 1, axis=0), axis=-1)
        moved = (np.abs(watched - watched[0]) > MOVED * ranges).any(axis=1)[: len(travel)]
        over = np.flatnonzero(moved & (travel <= STILL * ranges).all(axis=1))
        steps += [(flip, int(step)) for step in over[:1]]
    return steps
