"""Demonstrations + world model -> counterfactual transitions: what every option would have done at every state."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from speedup_patch.candidates import Candidates, Options, shorten_all
from speedup_patch.data import Demonstrations, Transitions
from speedup_patch.interfaces import WorldModel
from speedup_patch.keeping_up import find_keeping_up
from speedup_patch.limits import Limits
from speedup_patch.maths.cmdp import penalised_reward
from speedup_patch.maths.deviation import cross_track_deviation, in_step_deviation, time_aligned_deviation
from speedup_patch.observations import feature_poses, features, no_commands, split_observation
from speedup_patch.retiming import finger_opening, paths_at_rate_one
from speedup_patch.robots import Robot
from speedup_patch.starts import Starts, choose_stride, chunks_at, find_starts, nearest_moments

Measure = Literal["in_step", "cross_track", "time_aligned"]
"""What counts as deviation: leaving the original path, with the gripper as one more axis or without; or (as in the
paper) also being late or early on it."""

NoSafeRate = Literal["original", "slowest"]
"""What runs when every rate violates: the policy's own chunk, or the slowest rate as in the paper."""


@dataclass(frozen=True)
class Counterfactuals:
    """What the world model says each of R options would do from each of N starts."""

    options: Options
    deviations: Float[np.ndarray, "N R"]
    next_observations: Float[np.ndarray, "N R O"]
    next_before: Float[np.ndarray, "N R M A"]
    """The last commands sent by then."""


ROWS_TOGETHER = 64
"""So few cost less in one go, the shorter chunks padded, than option by option."""


class _Outcomes(NamedTuple):
    """What K chunks do: as in ``Counterfactuals``, one option each."""

    deviations: Float[np.ndarray, " K"]
    next_observations: Float[np.ndarray, "K O"]
    next_before: Float[np.ndarray, "K M A"]


def predict_counterfactuals(
    world_model: WorldModel,
    observations: Float[np.ndarray, "N O"],
    chunks: Float[np.ndarray, "N n A"],
    candidates: Candidates,
    measure: Measure,
    limits: Limits,
    before: Float[np.ndarray, "N M A"] | None = None,
) -> Counterfactuals:
    """Runs every chunk in every way in the world model and measures how far the robot strays."""
    robot = world_model.robot
    sent = no_commands(len(chunks), world_model.memory, chunks.shape[-1]) if before is None else before
    paths = paths_at_rate_one(world_model, observations, chunks, sent)
    options = shorten_all(robot, candidates, paths, chunks)
    track = follow(robot, limits, paths[:, 1:], measure)
    count, ways = options.lengths.shape
    keep_up = find_keeping_up(world_model, limits, candidates.choices)

    def run(rows: Int[np.ndarray, " K"], option: Int[np.ndarray, " K"] | int) -> _Outcomes:
        lengths = options.lengths[rows, option]
        longest = int(lengths.max(initial=1))
        commands, positions = options.chunks[rows, option, :longest], options.positions[rows, option, :longest]
        if keep_up is not None:
            commands = keep_up.pull_all(paths[rows], positions, commands)
        predicted = world_model.rollout(observations[rows], commands, sent[rows])
        moved, deviate = follow(robot, limits, predicted, measure), find_deviation(robot, limits, measure)
        whole, last = np.concatenate([paths[rows, 1:2], predicted], axis=1), np.arange(len(rows))
        x, x_before = whole[last, lengths], whole[last, lengths - 1]
        told = lengths[:, None] + np.arange(sent.shape[1])
        return _Outcomes(
            deviate(track[rows, 0], track[rows, 1:], moved, positions),
            np.concatenate([x, x - x_before], axis=-1),
            np.concatenate([sent[rows], commands], axis=1)[last[:, None], told],
        )

    rows = np.arange(count)
    if count * ways <= ROWS_TOGETHER:
        together = run(np.repeat(rows, ways), np.tile(np.arange(ways), count))
        return Counterfactuals(options, *(part.reshape(count, ways, *part.shape[1:]) for part in together))
    each = [run(rows, option) for option in range(ways)]
    return Counterfactuals(options, *(np.stack(parts, axis=1) for parts in zip(*each, strict=True)))


def find_deviation(robot: Robot, limits: Limits, measure: Measure) -> Callable[..., Float[np.ndarray, "*B"]]:
    """The deviation of this name, of what ``follow`` gives: (start, reference, accelerated, positions) -> E."""
    match measure:
        case "in_step":
            tuning = limits.tuning.deviation
            stroke = tuning.stroke_tolerances * limits.tolerance(robot.control_hz)
            return partial(in_step_deviation, stroke=stroke, reach=tuning.stroke_reach)
        case "cross_track":
            return cross_track_deviation
        case "time_aligned":
            return time_aligned_deviation


def follow(
    robot: Robot, limits: Limits, x: Float[np.ndarray, "*B X"], measure: Measure
) -> Float[np.ndarray, "*B arms P"]:
    """What has to stay on its path: every end-effector's pose, and with ``in_step`` how far its fingers are open, times
    what that counts."""
    poses = feature_poses(robot, x)
    if measure != "in_step":
        return poses
    openings = np.zeros(poses.shape[:-1])
    held = [arm for arm, part in enumerate(robot.arms) if part.gripper is not None]
    for arm, gripper, limit in zip(held, robot.grippers, limits.grippers, strict=True):
        weight = limits.tuning.deviation.jumping if limit.opening.jumps and limit.closing.jumps else 1.0
        openings[..., arm] = weight * finger_opening(robot, gripper, limit, x)
    return np.concatenate([poses, openings[..., None].astype(poses.dtype)], axis=-1)


def find_violations(deviations: Float[np.ndarray, "*B"], epsilon: float) -> Bool[np.ndarray, "*B"]:
    """h = E > epsilon; a deviation that is not a number is a violation too."""
    return ~(deviations <= epsilon)


def relabel(
    world_model: WorldModel,
    demonstrations: Demonstrations,
    candidates: Candidates,
    *,
    limits: Limits,
    chunk_length: int,
    epsilon: float,
    penalty: float,
    measure: Measure,
    rng: np.random.Generator,
    accelerated_starts: bool = True,
    states: int | None = None,
) -> Transitions:
    """Transitions (o, A', r', o') for every demonstrated state and option, or for about ``states`` of the states.

    With ``accelerated_starts`` the state to which a random option leads from each of them is another one. A patched
    robot lives in the second kind, whose velocities no demonstration holds; without them Q and V would be asked about
    states they never saw. What the demonstrator did next from where the robot then is, is its chunk; a state further
    than epsilon from everywhere that the demonstrator was is left out.
    """
    stride = 1 if states is None else choose_stride(demonstrations.frames / states, chunk_length)
    starts = find_starts(world_model.robot, demonstrations, chunk_length, stride, world_model.memory)
    judge = partial(predict_counterfactuals, world_model, candidates=candidates, measure=measure, limits=limits)
    parts = [(starts.observations, judge(starts.observations, starts.chunks, before=starts.before))]
    count = len(candidates.choices.labels)
    if accelerated_starts and count > 1:
        option = rng.integers(count, size=len(starts.chunks))
        reached = reached_starts(world_model.robot, limits, demonstrations, starts, parts[0][1], option, epsilon)
        if len(reached.chunks):
            parts.append((reached.observations, judge(reached.observations, reached.chunks, before=reached.before)))
    found = [part for _, part in parts]
    deviations = np.concatenate([part.deviations for part in found])
    violations = find_violations(deviations, epsilon)
    rates = np.concatenate([part.options.rates(chunk_length) for part in found])
    return Transitions(
        observations=np.concatenate([observations for observations, _ in parts]),
        chunks=_stack_padded([part.options.chunks for part in found]),
        lengths=np.concatenate([part.options.lengths for part in found]),
        rates=rates,
        deviations=deviations,
        violations=violations,
        rewards=penalised_reward(rates, violations, penalty),
        next_observations=np.concatenate([part.next_observations for part in found]),
        accelerated=_flags([len(observations) for observations, _ in parts]),
    )


def reached_starts(
    robot: Robot,
    limits: Limits,
    demonstrations: Demonstrations,
    starts: Starts,
    found: Counterfactuals,
    option: Int[np.ndarray, " N"],
    epsilon: float,
) -> Starts:
    """Where one option of every start leads, with the demonstrator's chunk from the moment at which the demonstrated
    end-effectors were nearest; only those nearer than epsilon."""
    each = np.arange(len(option))
    observations, before = found.next_observations[each, option], found.next_before[each, option]
    places = [follow(robot, limits, features(robot, episode.states), "in_step") for episode in demonstrations]
    here = follow(robot, limits, split_observation(observations)[0], "in_step")
    done = found.options.positions[each, option, -1]
    reach = limits.tuning.deviation.stroke_reach  # fingers say which of the places that are hardly apart it is
    moments, distances = nearest_moments(demonstrations, starts, places, here, done, reach)
    near = np.flatnonzero(distances <= epsilon)
    episodes, moments = starts.episodes[near], moments[near]
    chunks = chunks_at(demonstrations, episodes, moments, starts.chunks.shape[1])
    return Starts(observations[near], chunks, before[near], episodes, moments)


def _stack_padded(parts: list[Float[np.ndarray, "_ R _l A"]]) -> Float[np.ndarray, "N R l A"]:
    """All chunks, the shorter ones padded with zeros to the longest."""
    longest = max(part.shape[2] for part in parts)
    return np.concatenate([np.pad(part, ((0, 0), (0, 0), (0, longest - part.shape[2]), (0, 0))) for part in parts])


def _flags(sizes: list[int]) -> Bool[np.ndarray, " N"]:
    """False for the first part (as demonstrated), True for the second (reached under acceleration)."""
    return np.repeat(np.arange(len(sizes)) > 0, sizes)
