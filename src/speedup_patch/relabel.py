"""Demonstrations + world model -> counterfactual transitions: what every rate would have done at every state."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from speedup_patch.acceleration import RotationMerge, accelerate
from speedup_patch.data import Demonstrations, Transitions
from speedup_patch.errors import InputError
from speedup_patch.interfaces import WorldModel
from speedup_patch.maths.cmdp import penalised_reward
from speedup_patch.maths.deviation import cross_track_deviation, time_aligned_deviation
from speedup_patch.observations import feature_poses, observe_episode, split_observation
from speedup_patch.robots import Robot
from speedup_patch.warp import Tail, Warp, uniform_warp

Measure = Literal["cross_track", "time_aligned"]
"""What counts as deviation: leaving the original path, or (as in the paper) also being late or early on it."""
MEASURES = {"cross_track": cross_track_deviation, "time_aligned": time_aligned_deviation}

NoSafeRate = Literal["original", "slowest"]
"""What runs when every rate violates: the policy's own chunk, or the slowest rate as in the paper."""


@dataclass(frozen=True)
class Rates:
    """The rates a scheduler may choose from, slowest first, and how a chunk is read at each."""

    values: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0)
    tail: Tail = "keep"
    rotations: RotationMerge = "exact"

    def __post_init__(self) -> None:
        if not self.values or list(self.values) != sorted(set(self.values)) or self.values[0] < 1:
            raise InputError(f"rates must be increasing numbers, each at least 1, not {list(self.values)}")

    def warps(self, chunk_length: int) -> list[Warp]:
        """One warp per rate for a chunk of this length."""
        if self.values[-1] > chunk_length:
            raise InputError(f"rate {self.values[-1]:g} is larger than the chunk of {chunk_length} actions")
        return list(_uniform_warps(self, chunk_length))


@lru_cache(maxsize=64)
def _uniform_warps(rates: Rates, chunk_length: int) -> tuple[Warp, ...]:
    """Kept, because a robot asks for the same few at every decision."""
    return tuple(uniform_warp(chunk_length, rate, rates.tail) for rate in rates.values)


@dataclass(frozen=True)
class Starts:
    """N moments to decide at: the observation o and the chunk A that the demonstrator ran from there."""

    observations: Float[np.ndarray, "N O"]
    chunks: Float[np.ndarray, "N n A"]
    earlier: Int[np.ndarray, " N"]
    """Index of the start one whole chunk earlier in the same episode, or -1."""


@dataclass(frozen=True)
class Counterfactuals:
    """What the world model says each of R rates would do from each of N starts."""

    chunks: Float[np.ndarray, "N R l A"]
    lengths: Int[np.ndarray, " R"]
    deviations: Float[np.ndarray, "N R"]
    next_observations: Float[np.ndarray, "N R O"]


def refuse_short_episodes(demonstrations: Demonstrations, chunk_length: int) -> None:
    """Raises an error that names the first episode in which no whole chunk fits."""
    for index, episode in enumerate(demonstrations):
        if len(episode) < chunk_length:
            raise InputError(
                f"episode {index} has {len(episode)} steps, fewer than a chunk of {chunk_length}; "
                "leave it out or choose a shorter chunk"
            )


def find_starts(robot: Robot, demonstrations: Demonstrations, chunk_length: int, stride: int = 1) -> Starts:
    """Every ``stride``-th moment of every episode that still has a whole chunk ahead of it."""
    observations: list[np.ndarray] = []
    chunks: list[np.ndarray] = []
    earlier: list[np.ndarray] = []
    count = 0
    refuse_short_episodes(demonstrations, chunk_length)
    for episode in demonstrations:
        times = np.arange(0, len(episode) - chunk_length + 1, stride)
        windows = np.lib.stride_tricks.sliding_window_view(episode.actions, chunk_length, axis=0)
        observations.append(observe_episode(robot, episode)[times])
        chunks.append(np.swapaxes(windows[times], 1, 2))
        back = np.searchsorted(times, times - chunk_length)
        found = (times >= chunk_length) & (times[np.minimum(back, len(times) - 1)] == times - chunk_length)
        earlier.append(np.where(found, back + count, -1))
        count += len(times)
    return Starts(np.concatenate(observations), np.concatenate(chunks), np.concatenate(earlier))


def choose_stride(wanted: float, chunk_length: int) -> int:
    """The smallest divisor of the chunk length that is at least ``wanted``: a start one chunk earlier then exists."""
    divisors = [step for step in range(1, chunk_length + 1) if chunk_length % step == 0]
    return next((step for step in divisors if step >= wanted), chunk_length)


def predict_counterfactuals(
    world_model: WorldModel,
    observations: Float[np.ndarray, "N O"],
    chunks: Float[np.ndarray, "N n A"],
    rates: Rates,
    measure: Measure = "time_aligned",
) -> Counterfactuals:
    """Runs every chunk at every rate in the world model and measures how far the end-effector strays."""
    robot = world_model.robot
    warps = rates.warps(chunks.shape[1])
    x, _ = split_observation(observations)
    start = feature_poses(robot, x)
    reference = feature_poses(robot, world_model.rollout(observations, chunks))
    longest = max(len(warp) for warp in warps)
    padded = np.zeros((len(chunks), len(warps), longest, chunks.shape[2]), dtype=chunks.dtype)
    deviations = np.zeros((len(chunks), len(warps)))
    next_observations = np.zeros((len(chunks), len(warps), observations.shape[1]))
    for r, warp in enumerate(warps):
        actions = accelerate(robot, chunks, warp, rates.rotations).actions
        predicted = world_model.rollout(observations, actions)
        before = predicted[:, -2] if len(warp) > 1 else x
        padded[:, r, : len(warp)] = actions
        deviations[:, r] = MEASURES[measure](start, reference, feature_poses(robot, predicted), warp.positions)
        next_observations[:, r] = np.concatenate([predicted[:, -1], predicted[:, -1] - before], axis=-1)
    return Counterfactuals(padded, np.array([len(warp) for warp in warps]), deviations, next_observations)


def find_violations(deviations: Float[np.ndarray, "*B"], epsilon: float) -> Bool[np.ndarray, "*B"]:
    """h = E > epsilon; a deviation that is not a number is a violation too."""
    return ~(deviations <= epsilon)


def relabel(
    world_model: WorldModel,
    demonstrations: Demonstrations,
    rates: Rates,
    *,
    chunk_length: int,
    epsilon: float,
    penalty: float,
    measure: Measure = "time_aligned",
    rng: np.random.Generator,
    accelerated_starts: bool = True,
    states: int | None = None,
) -> Transitions:
    """Transitions (o, A^k, r', o') for every demonstrated state and rate, or for about ``states`` of the states.

    With ``accelerated_starts`` every state is visited twice: as demonstrated, and as it would have been reached
    had the chunk before it run at a random rate. A patched robot lives in the second kind, whose velocities no
    demonstration holds; without them Q and V would be asked about states they never saw.
    """
    stride = 1 if states is None else choose_stride(demonstrations.frames / states, chunk_length)
    starts = find_starts(world_model.robot, demonstrations, chunk_length, stride)
    first = predict_counterfactuals(world_model, starts.observations, starts.chunks, rates, measure)
    parts = [(starts.observations, first)]
    followers = np.flatnonzero(starts.earlier >= 0)
    if accelerated_starts and len(followers) and len(rates.values) > 1:
        before = starts.earlier[followers]
        observations = first.next_observations[before, rng.integers(len(rates.values), size=len(before))]
        parts.append(
            (observations, predict_counterfactuals(world_model, observations, starts.chunks[followers], rates, measure))
        )
    deviations = np.concatenate([part.deviations for _, part in parts])
    violations = find_violations(deviations, epsilon)
    values = np.array(rates.values)
    return Transitions(
        observations=np.concatenate([observations for observations, _ in parts]),
        chunks=np.concatenate([part.chunks for _, part in parts]),
        lengths=first.lengths,
        rates=values,
        deviations=deviations,
        violations=violations,
        rewards=penalised_reward(values, violations, penalty),
        next_observations=np.concatenate([part.next_observations for _, part in parts]),
        accelerated=_flags([len(observations) for observations, _ in parts]),
    )


def _flags(sizes: list[int]) -> Bool[np.ndarray, " N"]:
    """False for the first part (as demonstrated), True for the second (reached under acceleration)."""
    return np.repeat(np.arange(len(sizes)) > 0, sizes)
