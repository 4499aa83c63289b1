"""What the page draws of one episode: rate, phases, gripper and deviation over time, in few bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from speedup_patch.data import EpisodeResult
from speedup_patch.errors import InputError
from speedup_patch.evaluation.deviations import patch_judge, predict_deviations
from speedup_patch.evaluation.phases import PHASES, find_phases, trace_limits
from speedup_patch.evaluation.traces import Trace, read_trace
from speedup_patch.limits import Limits, told_opening
from speedup_patch.report.patches import FoundPatch
from speedup_patch.report.reading import Run
from speedup_patch.report.tasks import robot_of
from speedup_patch.robots import Robot
from speedup_patch.runtime.patch_folder import LoadedPatch


@dataclass(frozen=True, eq=False)
class Traces:
    """The readable traces of a run by (scheduler, seed), with what can be said of them."""

    traces: Mapping[tuple[str, int], Trace]
    deviations: Mapping[tuple[str, int], Float[np.ndarray, " D"]]
    """Predicted by the judge at every decision; empty without one."""
    robot: Robot | None
    limits: Limits | None
    unreadable: tuple[str, ...]


def read_traces(run: Run, judge: FoundPatch | None) -> Traces:
    """Reads every trace of a run, and has a patch that certainly ran in it predict the deviation of each decision."""
    traces: dict[tuple[str, int], Trace] = {}
    unreadable: list[str] = []
    for spec in run.schedulers:
        for seed, path in run.traces(spec).items():
            try:
                traces[spec, seed] = read_trace(path)
            except InputError as error:
                unreadable.append(str(error))
    patch = judge.loaded if judge else None
    robot = patch.robot if patch else robot_of(run.env)
    if robot is not None:
        fitting = {key: trace for key, trace in traces.items() if _fits(robot, trace)}
        others = [key for key in traces if key not in fitting]
        unreadable += [f"The trace of {spec}, seed {seed}, is of another robot." for spec, seed in others]
        traces = fitting
    return Traces(traces, _judge(patch, traces), robot, _limits(patch, robot, traces), tuple(unreadable))


def _fits(robot: Robot, trace: Trace) -> bool:
    return (trace.states.shape[1], trace.actions.shape[1]) == (robot.state_size, robot.action_size)


def _judge(
    patch: LoadedPatch | None, traces: Mapping[tuple[str, int], Trace]
) -> dict[tuple[str, int], Float[np.ndarray, " _"]]:
    if patch is None:
        return {}
    return dict(zip(traces, predict_deviations(patch_judge(patch), list(traces.values())), strict=True))


def _limits(patch: LoadedPatch | None, robot: Robot | None, traces: Mapping[tuple[str, int], Trace]) -> Limits | None:
    """The demonstrated limits where a patch tells them, otherwise those that the unpatched episodes show."""
    if patch is not None or robot is None or not traces:
        return patch.limits if patch else None
    calm = [trace for (spec, _), trace in traces.items() if spec == "base"]
    try:
        return trace_limits(robot, calm or list(traces.values()))
    except InputError:  # every episode is too short to tell
        return None


def decision_record(result: EpisodeResult) -> dict[str, Any]:
    """An episode by its decisions alone: commands sent and original actions done per chunk, and the fallbacks."""
    return {
        "steps": result.steps,
        "success": result.success,
        "executed": [decision.executed for decision in result.decisions],
        "done": [decision.done for decision in result.decisions],
        "fallbacks": {
            str(number): decision.reason for number, decision in enumerate(result.decisions) if decision.reason
        },
    }


def trace_record(found: Traces, spec: str, seed: int) -> dict[str, Any]:
    """What a trace adds to that: the rate at each step, phases, grippers, and the predicted deviations."""
    trace = found.traces[spec, seed]
    record: dict[str, Any] = {"rates": _runs(np.round(trace.step_rates, 2).tolist())}
    if found.robot and found.limits:
        record["phases"] = _runs(_phase_names(find_phases(found.robot, found.limits, trace)))
        record["grippers"] = _grippers(found.robot, found.limits, trace)
    if (spec, seed) in found.deviations:
        record["deviations"] = [_finite(value) for value in found.deviations[spec, seed]]
    return record


def _finite(value: float) -> float | None:
    return round(float(value), 4) if np.isfinite(value) else None


def _phase_names(phases: Int[np.ndarray, " T"]) -> list[str]:
    return [PHASES[phase] for phase in phases]


def _runs(values: Sequence[float | str]) -> list[tuple[float | str, int]]:
    """Run lengths: (value, for how many steps)."""
    return [(value, len(list(alike))) for value, alike in groupby(values)]


def _grippers(robot: Robot, limits: Limits, trace: Trace) -> list[dict[str, Any]]:
    """Per gripper, how far it is told to be open and how far it is, in percent at each step."""
    arms = [arm for arm in robot.arms if arm.gripper]
    found: list[dict[str, Any]] = []
    for arm, gripper, limit in zip(arms, robot.grippers, limits.grippers, strict=True):
        shown = limit.scale.shown(trace.states[:-1, list(gripper.state)])
        found.append(
            {
                "name": arm.name,
                "command": _percent(told_opening(gripper, trace.actions)),
                "opening": _percent(shown),
            }
        )
    return found


def _percent(share: Float[np.ndarray, " T"]) -> list[int]:
    return np.round(100.0 * np.clip(share, -0.2, 1.2)).astype(int).tolist()
