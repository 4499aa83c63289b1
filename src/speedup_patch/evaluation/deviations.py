"""What a world model says of the decisions that were taken in an episode."""

from collections.abc import Sequence
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
    """Per trace, the predicted deviation at each of its decisions: zero where the policy's own pace was kept. A chunk
    that the end of the episode cut short is judged as a whole."""
    return [deviations_of(judge, taken_decisions(judge.world_model, trace)) for trace in traces]


class TakenDecision(NamedTuple):
    """What a decision was taken from, and what was sent."""

    observation: Float[np.ndarray, " O"]
    chunk: Float[np.ndarray, "n A"]
    before: Float[np.ndarray, "M A"]
    """The commands sent last before it."""
    positions: Float[np.ndarray, " l"]
    """Original actions done after each command."""
    commands: Float[np.ndarray, "m A"]
    """As sent; fewer than ``positions`` where the episode ended first."""

    @property
    def shortened(self) -> bool:
        """Whether a command stands for more than one original action: a chunk of which only the beginning was sent, at
        the policy's own pace, is not shortened."""
        return bool(self.positions[-1] > len(self.positions) + 1e-3)


def taken_decisions(world_model: WorldModel, trace: Trace) -> list[TakenDecision]:
    """Every decision of an episode."""
    steps, states = trace.decision_steps, trace.states.astype(np.float64)
    observations = observe(world_model.robot, states[steps], states[np.maximum(steps - 1, 0)])  # it starts at rest
    before = commands_before(trace.actions, steps, world_model.memory)
    commands = np.split(trace.actions, steps[1:])
    rows = zip(observations, trace.chunks.astype(np.float64), before, trace.positions, commands, strict=True)
    return [
        TakenDecision(
            o, chunk[np.isfinite(chunk).all(axis=1)], sent, places[np.isfinite(places)].astype(np.float64), own
        )
        for o, chunk, sent, places, own in rows
    ]


def deviations_of(judge: Judge, decisions: Sequence[TakenDecision]) -> Float[np.ndarray, " D"]:
    """The predicted deviation of each decision: zero where the chunk was not shortened."""
    answers = np.zeros(len(decisions))
    by_length: dict[int, list[int]] = {}
    for number, decision in enumerate(decisions):
        if decision.shortened:
            by_length.setdefault(len(decision.chunk), []).append(number)
    for numbers in by_length.values():
        for first in range(0, len(numbers), ROWS_AT_ONCE):
            some = numbers[first : first + ROWS_AT_ONCE]
            answers[some] = _predict(judge, [decisions[number] for number in some])
    return answers


def _predict(judge: Judge, decisions: Sequence[TakenDecision]) -> Float[np.ndarray, " N"]:
    """The deviations of decisions on chunks of one length."""
    world_model, limits, measure, _ = judge
    robot = world_model.robot
    observations = np.stack([decision.observation for decision in decisions])
    chunks = np.stack([decision.chunk for decision in decisions])
    before = np.stack([decision.before for decision in decisions])
    positions = _padded([decision.positions for decision in decisions])
    actions = accelerate_along(robot, chunks, positions, {}).actions
    for row, decision in zip(actions, decisions, strict=True):
        row[: len(decision.commands)] = decision.commands
    track = follow(robot, limits, paths_at_rate_one(world_model, observations, chunks, before)[:, 1:], measure)
    predicted = follow(robot, limits, world_model.rollout(observations, actions, before), measure)
    return find_deviation(robot, limits, measure)(track[:, 0], track[:, 1:], predicted, positions)


def _padded(positions: Sequence[Float[np.ndarray, " _"]]) -> Float[np.ndarray, "N l"]:
    """Positions of different lengths as one array, padded by repeating the last."""
    longest = max(map(len, positions))
    return np.stack([np.pad(row, (0, longest - len(row)), mode="edge") for row in positions])
