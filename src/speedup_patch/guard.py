"""Tells when a state or a chunk is unlike anything in the demonstrations.

A moment is familiar when one of the remembered demonstrated moments lies near it. How near is not typed in: every
demonstration is measured against the others, as if it were new, and the limit is the distance that all but a small
share of whole demonstrations stay within (cross-conformal calibration over episodes).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from speedup_patch.array_files import Arrays
from speedup_patch.data import Demonstrations
from speedup_patch.errors import InputError
from speedup_patch.observations import command_matrix, feature_size, features
from speedup_patch.robots import Robot

SURPRISE = 0.01
"""The share of unseen demonstrations that may hold an unfamiliar moment."""
REMEMBERED = 1024
"""Moments that are kept to compare with."""
MEASURED = 4000
"""Demonstrated moments that are looked at, spread evenly."""
FOLDS = 5
LOOKS = 4
"""Commands of a chunk that are compared one by one, spread evenly from its first to its last."""
LEAST_SPREAD = 0.1
"""A dimension counts as if it spread by at least this share of the average one: what hardly moves is not yardstick."""


@dataclass(frozen=True, eq=False)
class Memory:
    """Remembered rows in units of the usual spread of each dimension, and how far from all of them is too far."""

    rows: Float[np.ndarray, "M D"]
    spread: Float[np.ndarray, " D"]
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
        return bool((self.distance(values) <= self.limit).all())


@dataclass(frozen=True, eq=False)
class Guard:
    """What was demonstrated: the states (features x), and the chunks that were sent from them."""

    states: Memory
    chunks: Memory
    origin: Float[np.ndarray, "X A"]
    """See ``command_matrix``."""

    def reason(self, x: Float[np.ndarray, " X"], chunk: Float[np.ndarray, "n A"]) -> str | None:
        """Why the original chunk should run unchanged, or None when all is familiar."""
        if not self.states.knows(x[None]):
            return "unfamiliar state"
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


def fit_guard(robot: Robot, demonstrations: Demonstrations, chunk_length: int, rng: np.random.Generator) -> Guard:
    """Remembers demonstrated moments, and calibrates how far from them is still familiar."""
    origin = command_matrix(robot)
    stride = max(1, demonstrations.frames // MEASURED)
    xs: list[np.ndarray] = []
    chunks: list[np.ndarray] = []
    for episode in demonstrations:
        times = np.arange(0, len(episode) - chunk_length + 1, stride)
        windows = np.lib.stride_tricks.sliding_window_view(episode.actions, chunk_length, axis=0)
        x = features(robot, episode.states[times]).astype(np.float64)
        xs.append(x)
        chunks.append(describe_chunks(x, np.swapaxes(windows[times], 1, 2).astype(np.float64), origin))
    episode_of = np.repeat(np.arange(len(xs)), [len(x) for x in xs])
    folds = rng.permutation(len(xs)) % min(FOLDS, len(xs))
    states, described = (remember(np.concatenate(parts), episode_of, folds, rng) for parts in (xs, chunks))
    return Guard(states, described, origin)


def remember(
    values: Float[np.ndarray, "N D"],
    episode_of: Int[np.ndarray, " N"],
    folds: Int[np.ndarray, " E"],
    rng: np.random.Generator,
) -> Memory:
    """Rows that cover the values, and the distance that unseen episodes stay within; ``folds`` groups the episodes."""
    std = values.std(axis=0)
    usual = float(np.sqrt(np.square(std).mean())) or 1.0
    spread = np.maximum(std, LEAST_SPREAD * usual)
    scaled = values / spread
    farthest = np.zeros(len(folds))
    for fold in range(int(folds.max()) + 1):
        unseen = folds[episode_of] == fold
        if unseen.all():
            continue
        memory = Memory(_cover(scaled[~unseen], rng), spread, np.inf)
        np.maximum.at(farthest, episode_of[unseen], memory.distance(values[unseen]))
    return Memory(_cover(scaled, rng).astype(np.float32), spread, _conformal_quantile(farthest))


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


def _conformal_quantile(farthest: Float[np.ndarray, " E"]) -> float:
    """The distance that an unseen episode exceeds with a chance of SURPRISE, or the largest where data are few."""
    rank = math.ceil((len(farthest) + 1) * (1 - SURPRISE))
    return float(np.sort(farthest)[min(rank, len(farthest)) - 1])


def guard_to_arrays(guard: Guard) -> dict[str, np.ndarray]:
    """The guard as named arrays."""
    return {
        f"{name}.{key}": array
        for name, memory in (("states", guard.states), ("chunks", guard.chunks))
        for key, array in (("rows", memory.rows), ("spread", memory.spread), ("limit", np.array([memory.limit])))
    }


def guard_from_arrays(arrays: Arrays, robot: Robot, what: str) -> Guard:
    """Reads what ``guard_to_arrays`` gave; ``what`` is named when it does not fit the robot."""
    return Guard(
        _memory_from_arrays(arrays, "states", feature_size(robot), what),
        _memory_from_arrays(arrays, "chunks", (LOOKS + 1) * robot.action_size, what),
        command_matrix(robot),
    )


def _memory_from_arrays(arrays: Arrays, name: str, width: int, what: str) -> Memory:
    try:
        rows, spread, limit = (arrays[f"{name}.{key}"] for key in ("rows", "spread", "limit"))
    except KeyError as error:
        raise InputError(f"{what} lacks {error}: the guard is damaged; train the patch again") from error
    if rows.ndim != 2 or rows.shape[1] != width or spread.shape != (width,) or limit.shape != (1,):
        raise InputError(f"{what}: the guard's {name} should have {width} numbers each, not {rows.shape}")
    if not (np.isfinite(rows).all() and (spread > 0).all() and limit[0] >= 0):
        raise InputError(f"{what}: the guard's {name} hold numbers that are none; train the patch again")
    return Memory(rows, spread, float(limit[0]))
