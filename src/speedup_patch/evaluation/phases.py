"""What a robot was doing at each step of an episode, from its own states and actions alone: reach, grasp, carry, ..."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from speedup_patch.data import Demonstrations, Episode
from speedup_patch.evaluation.traces import Trace
from speedup_patch.inspect.strokes import stroke_steps
from speedup_patch.limits import GripperLimits, Limits, read_limits, told_opening
from speedup_patch.robots import Gripper, Robot

PHASES = ("reach", "approach", "grasp", "carry", "place")
REACH, APPROACH, GRASP, CARRY, PLACE = range(len(PHASES))

DELICACY = (REACH, CARRY, APPROACH, GRASP, PLACE)
"""Rising: of two arms that do different things, the more delicate one names the phase."""

NEAR = 0.05
"""Metres from where a grasp or a place happens: the approach."""
UNDECIDED = 0.1
"""A gripper's command has changed sides when it is further than this from the middle of its range."""
MOVING = 1e-3
"""A command moves when it changes by more than this share of its range in one step."""


def find_phases(robot: Robot, limits: Limits, trace: Trace) -> Int[np.ndarray, " T"]:
    """The phase at every step, as an index into ``PHASES``; of two arms, the more delicate one counts."""
    delicacy = np.argsort(DELICACY)[find_arm_phases(robot, limits, trace)]
    return np.array(DELICACY)[delicacy.max(axis=1)]


def find_arm_phases(robot: Robot, limits: Limits, trace: Trace) -> Int[np.ndarray, "T arms"]:
    """The phase of every arm at every step; an arm without gripper only reaches."""
    phases = np.full((len(trace), len(robot.arms)), REACH)
    positions = robot.poses(trace.states.astype(np.float64))[..., :3]
    grippers = iter(limits.grippers)
    for index, arm in enumerate(robot.arms):
        if arm.gripper:
            events = _find_events(arm.gripper, next(grippers), trace, robot.control_hz)
            _fill(phases[:, index], positions[:, index], events)
    return phases


def trace_limits(robot: Robot, traces: Sequence[Trace]) -> Limits:
    """Limits as these episodes show them, for phases where no patch says what the demonstrations showed."""
    episodes = [
        Episode(trace.states[:-1].astype(np.float64), trace.actions.astype(np.float64), times, "")
        for trace in traces
        for times in [np.arange(len(trace)) / robot.control_hz]
    ]
    return read_limits(robot, Demonstrations(tuple(episodes), robot.control_hz, robot.name))


@dataclass(frozen=True)
class _Event:
    """A gripper's stroke: from the step at which its command starts to move until its fingers are at rest."""

    begin: int
    end: int
    phase: int


def _find_events(gripper: Gripper, limits: GripperLimits, trace: Trace, control_hz: float) -> list[_Event]:
    """Grasps, and the places that follow them; opening without having grasped is part of the reach."""
    told = told_opening(gripper, trace.actions)
    shown = limits.scale.shown(trace.states[:, list(gripper.state)])
    flips = _find_flips(told)
    rested = dict(stroke_steps(shown[: len(told), None], np.array(flips, dtype=int), np.ones(1), round(2 * control_hz)))
    events: list[_Event] = []
    for flip, following in pairwise([*flips, len(told)]):
        closing = told[flip] < 0.5
        stroke = limits.closing if closing else limits.opening
        usual = round(stroke.delay + 1.0 / max(stroke.speed, 1e-6)) if stroke.strokes else gripper.stroke_steps
        end = min(flip + rested.get(flip, usual), following)
        holding = bool(events) and events[-1].phase == GRASP
        if closing or holding:
            events.append(_Event(_onset(told, flip, events[-1].end if events else 0), end, GRASP if closing else PLACE))
    return events


def _find_flips(told: Float[np.ndarray, " T"]) -> list[int]:
    """The steps at which a command is clearly on the other side of the middle than it clearly was before."""
    decided = np.flatnonzero(np.abs(told - 0.5) > UNDECIDED)
    sides = told[decided] > 0.5
    return decided[1:][sides[1:] != sides[:-1]].tolist()


def _onset(told: Float[np.ndarray, " T"], flip: int, earliest: int) -> int:
    """Back from a flip to the first command of the same movement."""
    moving = np.sign(told[flip] - 0.5) * np.diff(told[earliest:flip], prepend=told[earliest]) > MOVING
    still = np.flatnonzero(~moving)
    return earliest + int(still[-1]) + 1 if len(still) else flip


def _fill(phases: Int[np.ndarray, " T"], positions: Float[np.ndarray, "_ 3"], events: list[_Event]) -> None:
    """Writes one arm's phases: strokes, what lies between them, and the last stretch before each."""
    done = 0
    for event in events:
        away = np.linalg.norm(positions[done : event.begin] - positions[event.begin], axis=1) > NEAR
        far = np.flatnonzero(away)
        phases[done + (int(far[-1]) + 1 if len(far) else 0) : event.begin] = APPROACH
        phases[event.begin : event.end] = event.phase
        phases[event.end :] = CARRY if event.phase == GRASP else REACH
        done = event.end
