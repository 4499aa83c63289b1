"""What speed is read against: the steps that the unpatched policy's own successes would take at the robot's limits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from speedup_patch.ceiling import floor_steps
from speedup_patch.errors import InputError
from speedup_patch.evaluation.phases import trace_limits
from speedup_patch.evaluation.traces import Trace, read_trace, trace_file
from speedup_patch.limits import Limits
from speedup_patch.robots import Robot
from speedup_patch.runtime.patch_folder import DESCRIPTION, read_description


@dataclass(frozen=True)
class Floor:
    """The least control steps of an episode, on average, and the speedup that this would be."""

    steps: float
    speedup: float
    estimated: bool
    """True where targets are absolute: the limits are then the speeds that were shown, and may be exceeded."""


def run_floor(run: Path, robot: Robot, successes: Iterable[int], patches: Iterable[Path]) -> Floor | None:
    """The floor of base's successes, given by their seeds; None when there are none or one left no trace.

    Limits come from the first of ``patches`` that is one, otherwise from the successes themselves.
    """
    files = [trace_file(run, "base", seed) for seed in successes]
    if not files or not all(file.is_file() for file in files):
        return None
    traces = [read_trace(file) for file in files]
    patch = next((path for path in patches if (path / DESCRIPTION).is_file()), None)
    if patch:
        return measure_floor(robot, read_description(patch, robot).limits, traces)
    try:
        limits = trace_limits(robot, traces)
    except InputError:  # every episode is shorter than the start that is left out: nothing tells how fast it can be
        return None
    return measure_floor(robot, limits, traces)


def measure_floor(robot: Robot, limits: Limits, traces: Sequence[Trace]) -> Floor | None:
    """The floor of unpatched episodes; None when there are none, or nothing moves in any of them."""
    floors = [floor_steps(robot, limits, trace.actions, trace.states) for trace in traces]
    if sum(floors) == 0:
        return None
    estimated = any(group.mode == "absolute" for group in robot.actions)
    return Floor(float(np.mean(floors)), sum(map(len, traces)) / sum(floors), estimated)


def floor_line(floor: Floor) -> str:
    """The floor in words, for under a table."""
    line = f"floor: base's successes take {floor.steps:.0f} steps ({floor.speedup:.2f}x) with every move at its limit"
    if floor.estimated:
        return f"{line}; the limits are speeds that were seen, so a robot that can go faster comes in below it"
    return line
