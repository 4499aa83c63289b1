"""What a world model says of the decisions that were taken in an episode."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from speedup_patch.acceleration import accelerate_along
from speedup_patch.evaluation.run import named_path
from speedup_patch.evaluation.traces import Trace
from speedup_patch.interfaces import WorldModel
from speedup_patch.limits import Limits
from speedup_patch.observations import commands_before, observe
from speedup_patch.relabel import Measure, find_deviation, find_violations, follow
from speedup_patch.retiming import paths_at_rate_one
from speedup_patch.robots import Robot
from speedup_patch.runtime.patch_folder import DESCRIPTION, LoadedPatch, load_patch

ROWS_AT_ONCE = 1024

Place = tuple[int, int]
"""(number of the trace, number of the decision in it)."""


class Judge(NamedTuple):
    """What a patch judges decisions by."""

    world_model: WorldModel
    limits: Limits
    measure: Measure
    epsilon: float


def patch_judge(patch: LoadedPatch) -> Judge:
    """What this patch judges by."""
    return Judge(patch.world_model, patch.limits, patch.measure, patch.epsilon)


def find_judge(spec: str, robot: Robot) -> Judge | None:
    """The judge of the patch that a scheduler is or names; None when it names none."""
    path = named_path(spec)
    if path is None or not (path / DESCRIPTION).is_file():
        return None
    return patch_judge(load_patch(path, robot))


class JudgedDecisions(NamedTuple):
    """Every decision of an episode."""

    deviations: Float[np.ndarray, " D"]
    violations: Bool[np.ndarray, " D"]


def judge_decisions(judge: Judge, trace: Trace) -> JudgedDecisions:
    """How far each chunk is predicted to stray, and whether that is more than the patch allows."""
    (deviations,) = predict_deviations(judge, [trace])
    return JudgedDecisions(deviations, find_violations(deviations, judge.epsilon))


def predict_deviations(judge: Judge, traces: Sequence[Trace]) -> list[Float[np.ndarray, " _"]]:
    """Per trace, the predicted deviation at each of its decisions: zero where the policy's own chunk ran. A chunk that
    the end of the episode cut short is judged as a whole."""
    answers = [np.zeros(len(trace.decision_steps)) for trace in traces]
    shortened: dict[int, list[Place]] = {}
    for number, trace in enumerate(traces):
        lengths = np.isfinite(trace.chunks).all(axis=-1).sum(axis=1)
        executed = np.isfinite(trace.positions).sum(axis=1)
        for decision in np.flatnonzero(executed < lengths):
            shortened.setdefault(int(lengths[decision]), []).append((number, int(decision)))
    for length, places in shortened.items():
        for first in range(0, len(places), ROWS_AT_ONCE):
            some = places[first : first + ROWS_AT_ONCE]
            for (number, decision), deviation in zip(some, _predict(judge, traces, some, length), strict=True):
                answers[number][decision] = deviation
    return answers


def _predict(judge: Judge, traces: Sequence[Trace], places: Sequence[Place], length: int) -> Float[np.ndarray, " N"]:
    world_model, limits, measure, _ = judge
    robot = world_model.robot
    steps = [int(traces[number].decision_steps[decision]) for number, decision in places]
    states, previous = (
        np.stack([traces[number].states[max(step - back, 0)] for (number, _), step in zip(places, steps, strict=True)])
        for back in (0, 1)  # at the very start the robot is at rest
    )
    observations = observe(robot, states.astype(np.float64), previous.astype(np.float64))
    before = np.concatenate(
        [
            commands_before(traces[number].actions, np.array([step]), world_model.memory)
            for (number, _), step in zip(places, steps, strict=True)
        ]
    )
    chunks = np.stack([traces[number].chunks[decision, :length] for number, decision in places]).astype(np.float64)
    positions = _positions(traces, places)
    actions = accelerate_along(robot, chunks, positions, {}).actions
    for row, (number, decision) in enumerate(places):
        sent = _sent(traces[number], decision)  # less than the whole chunk where the episode ended in it
        actions[row, : len(sent)] = sent
    track = follow(robot, limits, paths_at_rate_one(world_model, observations, chunks, before)[:, 1:], measure)
    predicted = follow(robot, limits, world_model.rollout(observations, actions, before), measure)
    return find_deviation(robot, limits, measure)(track[:, 0], track[:, 1:], predicted, positions)


def _positions(traces: Sequence[Trace], places: Sequence[Place]) -> Float[np.ndarray, "N l"]:
    """Original actions done after each executed action, padded by repeating the last."""
    rows = [traces[number].positions[decision].astype(np.float64) for number, decision in places]
    finite = [row[np.isfinite(row)] for row in rows]
    longest = max(map(len, finite))
    return np.stack([np.pad(row, (0, longest - len(row)), mode="edge") for row in finite])


def _sent(trace: Trace, decision: int) -> Float[np.ndarray, "_ A"]:
    begin, end = list(pairwise([*trace.decision_steps, len(trace)]))[decision]
    return trace.actions[begin:end]
