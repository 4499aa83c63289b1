"""What a world model says of the decisions that were taken in an episode."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from speedup_patch.evaluation.run import named_path
from speedup_patch.evaluation.traces import Trace
from speedup_patch.interfaces import WorldModel
from speedup_patch.limits import Limits
from speedup_patch.observations import observe
from speedup_patch.relabel import MEASURES, Measure, find_violations, follow
from speedup_patch.retiming import paths_at_rate_one
from speedup_patch.robots import Robot
from speedup_patch.runtime.patch_folder import DESCRIPTION, load_patch


class Judge(NamedTuple):
    """What a patch judges decisions by."""

    world_model: WorldModel
    limits: Limits
    measure: Measure
    epsilon: float


def find_judge(spec: str, robot: Robot) -> Judge | None:
    """The judge of the patch that a scheduler is or names; None when it names none."""
    path = named_path(spec)
    if path is None or not (path / DESCRIPTION).is_file():
        return None
    patch = load_patch(path, robot)
    return Judge(patch.world_model, patch.limits, patch.measure, patch.epsilon)


class JudgedDecisions(NamedTuple):
    """Every decision of an episode."""

    deviations: Float[np.ndarray, " D"]
    violations: Bool[np.ndarray, " D"]


def judge_decisions(judge: Judge, trace: Trace) -> JudgedDecisions:
    """How far each chunk is predicted to stray, and whether that is more than the patch allows."""
    deviations = predict_deviations(judge, trace)
    return JudgedDecisions(deviations, find_violations(deviations, judge.epsilon))


def predict_deviations(judge: Judge, trace: Trace) -> Float[np.ndarray, " D"]:
    """How far each chunk, run as it was, strays from itself run at rate 1; the last one as far as it was run."""
    world_model, limits, measure, _ = judge
    robot = world_model.robot
    ends = np.append(trace.decision_steps[1:], len(trace))
    deviations = np.zeros(len(ends))
    for row, (begin, end) in enumerate(zip(trace.decision_steps, ends, strict=True)):
        now, before = trace.states[[begin, max(begin - 1, 0)]].astype(np.float64)
        observation = observe(robot, now, before)[None]
        positions = trace.positions[row, : end - begin].astype(np.float64)
        reference = trace.chunks[row, : int(np.ceil(positions[-1] - 1e-6))].astype(np.float64)
        paths = paths_at_rate_one(world_model, observation, reference[None])
        predicted = world_model.rollout(observation, trace.actions[None, begin:end].astype(np.float64))
        track = follow(robot, limits, paths, measure)
        accelerated = follow(robot, limits, predicted, measure)
        deviations[row] = MEASURES[measure](track[:, 0], track[:, 1:], accelerated, positions[None])[0]
    return deviations
