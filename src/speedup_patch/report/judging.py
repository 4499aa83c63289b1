"""What a patch's world model says of every decision in a trace: how far the executed chunk strays from the policy's."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from speedup_patch.acceleration import accelerate_along
from speedup_patch.evaluation.traces import Trace
from speedup_patch.observations import observe
from speedup_patch.relabel import MEASURES, follow
from speedup_patch.retiming import paths_at_rate_one
from speedup_patch.runtime.patch_folder import LoadedPatch

ROWS_AT_ONCE = 1024

Place = tuple[int, int]
"""(number of the trace, number of the decision in it)."""


def predict_deviations(patch: LoadedPatch, traces: Sequence[Trace]) -> list[Float[np.ndarray, " _"]]:
    """Per trace, the predicted deviation at each of its decisions, measured as the patch measures it; zero where the
    policy's own chunk ran."""
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
            for (number, decision), deviation in zip(some, _predict(patch, traces, some, length), strict=True):
                answers[number][decision] = deviation
    return answers


def _predict(
    patch: LoadedPatch, traces: Sequence[Trace], places: Sequence[Place], length: int
) -> Float[np.ndarray, " N"]:
    robot, world_model, limits, measure = patch.robot, patch.world_model, patch.limits, patch.measure
    steps = [int(traces[number].decision_steps[decision]) for number, decision in places]
    states, before = (
        np.stack([traces[number].states[max(step - back, 0)] for (number, _), step in zip(places, steps, strict=True)])
        for back in (0, 1)  # at the very start the robot is at rest
    )
    observations = observe(robot, states.astype(np.float64), before.astype(np.float64))
    chunks = np.stack([traces[number].chunks[decision, :length] for number, decision in places]).astype(np.float64)
    positions = _positions(traces, places)
    actions = accelerate_along(robot, chunks, positions, {}, patch.choices.rotations).actions
    for row, (number, decision) in enumerate(places):
        sent = _sent(traces[number], decision)  # less than the whole chunk where the episode ended in it
        actions[row, : len(sent)] = sent
    track = follow(robot, limits, paths_at_rate_one(world_model, observations, chunks), measure)
    predicted = follow(robot, limits, world_model.rollout(observations, actions), measure)
    return MEASURES[measure](track[:, 0], track[:, 1:], predicted, positions)


def _positions(traces: Sequence[Trace], places: Sequence[Place]) -> Float[np.ndarray, "N l"]:
    """Original actions done after each executed action, padded by repeating the last."""
    rows = [traces[number].positions[decision].astype(np.float64) for number, decision in places]
    finite = [row[np.isfinite(row)] for row in rows]
    longest = max(map(len, finite))
    return np.stack([np.pad(row, (0, longest - len(row)), mode="edge") for row in finite])


def _sent(trace: Trace, decision: int) -> Float[np.ndarray, "_ A"]:
    begin, end = list(pairwise([*trace.decision_steps, len(trace)]))[decision]
    return trace.actions[begin:end]
