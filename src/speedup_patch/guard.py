"""Tells when a state or a chunk is unlike anything in the demonstrations.

A moment is familiar when one of the remembered demonstrated moments lies near it, and no single dimension is beyond
what was demonstrated. How near, and how far beyond, is not typed in: every demonstration is measured against the
others, as if it were new, and the limits are what all but a small share of whole demonstrations stay within
(cross-conformal calibration over episodes).
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from speedup_patch.array_files import Arrays
from speedup_patch.data import Demonstrations
from speedup_patch.errors import InputError
from speedup_patch.observations import command_matrix, feature_size, features, split_observation
from speedup_patch.robots import Robot

SURPRISE = 0.01
"""The share of unseen demonstrations that may hold an unfamiliar moment."""
REMEMBERED = 1024
"""Moments that are kept to compare with."""
MEASURED = 4000
"""Demonstrated moments that are looked at, spread evenly."""
FOLDS = 5
MEMORY = ("rows", "spread", "low", "high", "limit")
LOOKS = 4
"""Commands of a chunk that are compared one by one, spread evenly from its first to its last."""
LEAST_SPREAD = 0.1
"""A dimension counts as if it spread by at least this share of the average one: what hardly moves is not yardstick."""


@dataclass(frozen=True, eq=False)
class Memory:
    """Remembered rows in units of the usual spread of each dimension, and how far from all of them is too far."""

    rows: Float[np.ndarray, "M D"]
    spread: Float[np.ndarray, " D"]
    low: Float[np.ndarray, " D"]
    high: Float[np.ndarray, " D"]
    """Per dimension the demonstrated range, widened by what unseen demonstrations need."""
    limit: float

    def distance(self, values: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " N"]:
        """How far each row is from the nearest remembered one; infinite for what is not finite."""
        scaled = values / self.spread
        squared = _squared_distances(scaled, self.rows, self._lengths).min(axis=1)
        return np.sqrt(np.where(np.isfinite(squared), np.maximum(squared, 0.0), np.inf))

    @cached_property
    def _lengths(self) -> Float[np.ndarray, " M"]:
        return np.square(self.rows).sum(axis=1)

    def knows(self, values: Float[np.ndarray, "N D"]) -> bool:
        """Whether every row is familiar."""
        inside = (values >= self.low) & (values <= self.high)
        return bool(inside.all() and (self.distance(values) <= self.limit).all())


@dataclass(frozen=True, eq=False)
class Guard:
    """What was demonstrated: the states (features x), and the chunks that were sent from them."""

    states: Memory
    chunks: Memory
    velocity: Float[np.ndarray, " X"]
    """The most that each feature may change in one control step: as demonstrated, at the fastest rate."""
    origin: Float[np.ndarray, "X A"]
    """See ``command_matrix``."""

    def reason(self, observation: Float[np.ndarray, " O"], chunk: Float[np.ndarray, "n A"]) -> str | None:
        """Why the original chunk should run unchanged, or None when all is familiar."""
        x, velocity = split_observation(observation)
        if not self.states.knows(x[None]):
            return "unfamiliar state"
        if not (np.abs(velocity) <= self.velocity).all():
            return "unfamiliar velocity"
        if not self.chunks.knows(describe_chunks(x[None], chunk[None], self.origin)):
            return "unfamiliar chunk"
        return None


def describe_chunks(
    x: Float[np.ndarray, "N X"], chunks: Float[np.ndarray, "N n A"], origin: Float[np.ndarray, "X A"]
) -> Float[np.ndarray, "N D"]:
    """A chunk in few numbers: some commands, relative to where the robot is, and the largest step of each dimension."""
    looks = np.linspace(0, chunks.shape[1] - 1, LOOKS).round().astype(int)
    relative = chunks[:, looks] - (x @ origin)[:, None]
    steps = np.abs(np.diff(chunks, axis=1)).max(axis=1, initial=0.0)
    return np.concatenate([relative.reshape(len(chunks), -1), steps], axis=-1)


def fit_guard(
    robot: Robot, demonstrations: Demonstrations, chunk_length: int, fastest: float, rng: np.random.Generator
) -> Guard:
    """Remembers demonstrated moments, and calibrates how far from them is still familiar; ``fastest`` is the largest
    rate, at which everything may move that many times as fast."""
    if len(demonstrations) < 2:
        raise InputError("a guard needs at least two episodes: it is calibrated by measuring one against the others")
    origin = command_matrix(robot)
    stride = max(1, demonstrations.frames // MEASURED)
    xs: list[np.ndarray] = []
    chunks: list[np.ndarray] = []
    speeds: list[np.ndarray] = []
    for episode in demonstrations:
        times = np.arange(0, len(episode) - chunk_length + 1, stride)
        windows = np.lib.stride_tricks.sliding_window_view(episode.actions, chunk_length, axis=0)
        every = features(robot, episode.states).astype(np.float64)
        speeds.append(np.abs(np.diff(every, axis=0)).max(axis=0, initial=0.0))
        x = every[times]
        xs.append(x)
        chunks.append(describe_chunks(x, np.swapaxes(windows[times], 1, 2).astype(np.float64), origin))
    episode_of = np.repeat(np.arange(len(xs)), [len(x) for x in xs])
    folds = rng.permutation(len(xs)) % min(FOLDS, len(xs))
    states, described = (remember(np.concatenate(parts), episode_of, folds, rng) for parts in (xs, chunks))
    # A robot that moves k times as fast is k times as far behind its targets, and changes k times as much in a step.
    lagging = np.tile(np.abs(origin).sum(axis=0) > 0, LOOKS + 1) & (
        np.arange(described.low.size) < LOOKS * len(origin.T)
    )
    wider = np.where(lagging, fastest, 1.0)
    described = replace(
        described,
        low=np.minimum(described.low, wider * described.low),
        high=np.maximum(described.high, wider * described.high),
    )
    top = np.max(speeds, axis=0)
    velocity = fastest * np.maximum(top, LEAST_SPREAD * _root_mean_square(top))
    return Guard(states, described, velocity, origin)


def remember(
    values: Float[np.ndarray, "N D"],
    episode_of: Int[np.ndarray, " N"],
    folds: Int[np.ndarray, " E"],
    rng: np.random.Generator,
) -> Memory:
    """Rows that cover the values, and the distance that unseen episodes stay within; ``folds`` groups the episodes."""
    std = values.std(axis=0)
    spread = np.maximum(std, LEAST_SPREAD * _root_mean_square(std))
    scaled = values / spread
    farthest, beyond = np.zeros(len(folds)), np.zeros((len(folds), values.shape[1]))
    for fold in range(int(folds.max()) + 1):
        unseen = folds[episode_of] == fold
        if unseen.all():
            continue
        seen, new = values[~unseen], values[unseen]
        low, high = seen.min(axis=0), seen.max(axis=0)
        memory = Memory(_cover(scaled[~unseen], rng), spread, low, high, np.inf)
        np.maximum.at(farthest, episode_of[unseen], memory.distance(new))
        np.maximum.at(beyond, episode_of[unseen], np.maximum(np.maximum(low - new, new - high), 0.0))
    # One usual spread more than unseen demonstrations need: a policy is not as exact as a demonstrator.
    margin = np.array([_conformal_quantile(column) for column in beyond.T]) + spread
    return Memory(
        rows=_cover(scaled, rng).astype(np.float32),
        spread=spread,
        low=values.min(axis=0) - margin,
        high=values.max(axis=0) + margin,
        limit=_conformal_quantile(farthest),
    )


def _cover(rows: Float[np.ndarray, "N D"], rng: np.random.Generator) -> Float[np.ndarray, "M D"]:
    """At most REMEMBERED rows, each as far as can be from those before it, so that no row is far from all."""
    if len(rows) <= REMEMBERED:
        return rows
    lengths = np.square(rows).sum(axis=1)
    chosen = [int(rng.integers(len(rows)))]
    gap = np.full(len(rows), np.inf)
    while len(chosen) < REMEMBERED:
        np.minimum(gap, _squared_distances(rows[chosen[-1:]], rows, lengths)[0], out=gap)
        chosen.append(int(gap.argmax()))
    return rows[chosen]


def _squared_distances(
    values: Float[np.ndarray, "N D"], rows: Float[np.ndarray, "M D"], lengths: Float[np.ndarray, " M"]
) -> Float[np.ndarray, "N M"]:
    """Between every value and every row; ``lengths`` are the rows' own squared lengths. May be a hair below zero."""
    return np.square(values).sum(axis=1, keepdims=True) + lengths - 2.0 * (values @ rows.T)


def _root_mean_square(values: Float[np.ndarray, " D"]) -> float:
    return float(np.sqrt(np.square(values).mean())) or 1.0


def _conformal_quantile(farthest: Float[np.ndarray, " E"]) -> float:
    """The distance that an unseen episode exceeds with a chance of SURPRISE, or the largest where data are few."""
    rank = math.ceil((len(farthest) + 1) * (1 - SURPRISE))
    return float(np.sort(farthest)[min(rank, len(farthest)) - 1])


def guard_to_arrays(guard: Guard) -> dict[str, np.ndarray]:
    """The guard as named arrays."""
    memories = {
        f"{name}.{key}": np.atleast_1d(np.asarray(getattr(memory, key)))
        for name, memory in (("states", guard.states), ("chunks", guard.chunks))
        for key in MEMORY
    }
    return {**memories, "velocity": guard.velocity}


def guard_from_arrays(arrays: Arrays, robot: Robot, what: str) -> Guard:
    """Reads what ``guard_to_arrays`` gave; ``what`` is named when it does not fit the robot."""
    size = feature_size(robot)
    velocity = arrays.get("velocity", np.zeros(0))
    if velocity.shape != (size,) or not (velocity >= 0).all():
        raise InputError(
            f"{what}: the guard should hold {size} velocities, not {velocity.shape}; train the patch again"
        )
    return Guard(
        _memory_from_arrays(arrays, "states", size, what),
        _memory_from_arrays(arrays, "chunks", (LOOKS + 1) * robot.action_size, what),
        velocity,
        command_matrix(robot),
    )


def _memory_from_arrays(arrays: Arrays, name: str, width: int, what: str) -> Memory:
    try:
        rows, spread, low, high, limit = (arrays[f"{name}.{key}"] for key in MEMORY)
    except KeyError as error:
        raise InputError(f"{what} lacks {error}: the guard is damaged; train the patch again") from error
    sizes = {spread.shape, low.shape, high.shape}
    if rows.ndim != 2 or rows.shape[1] != width or sizes != {(width,)} or limit.shape != (1,):
        raise InputError(f"{what}: the guard's {name} should have {width} numbers each, not {rows.shape}")
    if not (np.isfinite(rows).all() and (spread > 0).all() and (low <= high).all() and limit[0] >= 0):
        raise InputError(f"{what}: the guard's {name} hold numbers that are none; train the patch again")
    return Memory(rows, spread, low, high, float(limit[0]))
