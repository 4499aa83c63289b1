"""The ways of running a chunk that a scheduler chooses from: constant rates, or retimings of different boldness."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from speedup_patch.acceleration import Merging, RotationMerge, accelerate_along
from speedup_patch.errors import InputError
from speedup_patch.limits import Limits
from speedup_patch.maths.retiming import warp_lengths
from speedup_patch.retiming import Boldness, Retiming, RetimingConfig, gripper_delays
from speedup_patch.robots import Robot
from speedup_patch.warp import Delays, Tail, Warp, uniform_warp


@dataclass(frozen=True)
class Rates:
    """Constant rates, slowest first, and how a chunk is read at each: the paper's choice."""

    values: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0)
    tail: Tail = "keep"
    rotations: RotationMerge = "exact"

    def __post_init__(self) -> None:
        if not self.values or list(self.values) != sorted(set(self.values)) or self.values[0] < 1:
            raise InputError(f"rates must be increasing numbers, each at least 1, not {list(self.values)}")

    @property
    def fastest(self) -> float:
        """The largest rate that any moment of a chunk may run at."""
        return self.values[-1]

    @property
    def merging(self) -> Merging:
        """How motions are added up."""
        return Merging(self.rotations)

    @property
    def labels(self) -> tuple[str, ...]:
        """What each choice is called."""
        return tuple(f"{value:g}x" for value in self.values)

    def check_fits(self, chunk_length: int) -> None:
        """Raises an error when a chunk is too short for the largest rate."""
        if self.fastest > chunk_length:
            raise InputError(f"rate {self.fastest:g} is larger than the chunk of {chunk_length} actions")

    def warps(self, chunk_length: int) -> list[Warp]:
        """One warp per rate for a chunk of this length."""
        self.check_fits(chunk_length)
        return [uniform_warp(chunk_length, rate, self.tail) for rate in self.values]


@dataclass(frozen=True)
class Retimings:
    """Retimings inside the chunk (see retiming.py), from the chunk as it is to the boldest, and what they share."""

    levels: tuple[Boldness, ...] = (
        Boldness(1.0),
        Boldness(2.0, scale=1.0),
        Boldness(4.0, scale=2.0),
        Boldness(6.0, scale=4.0),
        Boldness(4.0, scale=2.0, stroke=2.0),
        Boldness(6.0, scale=4.0, stroke=2.0),
        Boldness(6.0, scale=4.0, stroke=4.0),
    )
    """The choices."""
    common: RetimingConfig = field(default_factory=RetimingConfig)
    merging: ClassVar[Merging] = Merging(straight=True)
    """How motions are added up."""

    def __post_init__(self) -> None:
        if not self.levels or len(set(self.levels)) != len(self.levels):
            raise InputError(f"retimings need one level or more, none twice, not {list(self.levels)}")

    @property
    def fastest(self) -> float:
        """The largest rate that any moment of a chunk may run at."""
        return max(level.fastest for level in self.levels)

    @property
    def labels(self) -> tuple[str, ...]:
        """What each choice is called."""
        return tuple(level.label for level in self.levels)

    def check_fits(self, chunk_length: int) -> None:
        """Any chunk can be retimed."""


Choices = Rates | Retimings
"""What a scheduler may be configured to choose from."""


class Options(NamedTuple):
    """N chunks, each shortened in R ways; rows of a chunk from its length on are padding."""

    chunks: Float[np.ndarray, "N R l A"]
    positions: Float[np.ndarray, "N R l"]
    """Where in the original chunk each command is taken, padded by repeating the last."""
    lengths: Int[np.ndarray, "N R"]
    carried: Float[np.ndarray, "N A"] | None = None
    """What was taken off every chunk for its arm's momentum."""
    paths: Float[np.ndarray, "N m X"] | None = None
    """What every chunk does at rate 1, the moment before it and the present first, where that was asked."""

    def rates(self, original: int) -> Float[np.ndarray, "N R"]:
        """Original actions done per command sent; a tail that is dropped is not counted as gained."""
        return np.minimum(self.positions[..., -1], original) / self.lengths


@runtime_checkable
class Candidates(Protocol):
    """The ways of running a chunk, bound to a robot."""

    needs_path: ClassVar[bool]
    """Whether ``positions`` has to be told what the chunk does at rate 1."""

    @property
    def choices(self) -> Choices: ...

    @property
    def labels(self) -> tuple[str, ...]:
        """What each choice is called on this robot."""
        ...

    @property
    def delays(self) -> Delays:
        """Actions that are read ahead."""
        ...

    def positions(
        self, paths: Float[np.ndarray, "N m X"] | None, chunks: Float[np.ndarray, "N n A"]
    ) -> Float[np.ndarray, "N R l"]:
        """The warps of every chunk, padded by repeating their last position; ``paths`` are features, the moment
        before and the present first."""
        ...

    def carried(
        self, paths: Float[np.ndarray, "N m X"] | None, chunks: Float[np.ndarray, "N n A"]
    ) -> Float[np.ndarray, "N A"] | None:
        """The motion beside every chunk's path that its arm's momentum makes; None where that is left alone."""
        ...


@dataclass(frozen=True, eq=False)
class ConstantRates:
    """Candidates that run a whole chunk at one rate."""

    choices: Rates
    delays: Delays
    needs_path: ClassVar[bool] = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The rates."""
        return self.choices.labels

    def positions(
        self, paths: Float[np.ndarray, "N m X"] | None, chunks: Float[np.ndarray, "N n A"]
    ) -> Float[np.ndarray, "N R l"]:
        """The same warps for every chunk."""
        shared = _padded_positions(self.choices, chunks.shape[1])
        return np.broadcast_to(shared, (len(chunks), *shared.shape))

    def carried(self, paths: Float[np.ndarray, "N m X"] | None, chunks: Float[np.ndarray, "N n A"]) -> None:
        """Left alone, as in the paper."""


@lru_cache(maxsize=64)
def _padded_positions(rates: Rates, chunk_length: int) -> Float[np.ndarray, "R l"]:
    """Kept, because a robot asks for the same few at every decision."""
    warps = rates.warps(chunk_length)
    longest = max(len(warp) for warp in warps)
    return np.stack([np.pad(warp.positions, (0, longest - len(warp)), mode="edge") for warp in warps])


@dataclass(frozen=True, eq=False)
class RetimedChunks:
    """Candidates that retime each chunk inside, within limits of different boldness."""

    choices: Retimings
    retiming: Retiming
    needs_path: ClassVar[bool] = True

    @property
    def labels(self) -> tuple[str, ...]:
        """The levels, with the largest rates that this robot is run at."""
        return tuple(level._replace(fastest=self.retiming.fastest(level)).label for level in self.choices.levels)

    @property
    def delays(self) -> Delays:
        """Actions that are read ahead."""
        return self.retiming.delays

    def positions(
        self, paths: Float[np.ndarray, "N m X"] | None, chunks: Float[np.ndarray, "N n A"]
    ) -> Float[np.ndarray, "N R l"]:
        """The warps of every chunk at every level."""
        assert paths is not None
        return self.retiming.positions(paths, chunks, self.choices.levels)

    def carried(
        self, paths: Float[np.ndarray, "N m X"] | None, chunks: Float[np.ndarray, "N n A"]
    ) -> Float[np.ndarray, "N A"] | None:
        """See ``Retiming.carried``."""
        assert paths is not None
        return self.retiming.carried(paths, chunks)


def bind(choices: Choices, robot: Robot, limits: Limits, lead: bool = False) -> Candidates:
    """The candidates for one robot whose demonstrations showed these limits; ``lead`` reads grippers ahead at constant
    rates, too."""
    if isinstance(choices, Rates):
        return ConstantRates(choices, gripper_delays(robot, limits) if lead else {})
    return RetimedChunks(choices, Retiming(robot, limits, choices.common))


def shorten_all(
    robot: Robot,
    candidates: Candidates,
    paths: Float[np.ndarray, "N m X"] | None,
    chunks: Float[np.ndarray, "N n A"],
) -> Options:
    """Every chunk run in every way."""
    positions = candidates.positions(paths, chunks)
    repeated = np.broadcast_to(chunks[:, None], (len(chunks), positions.shape[1], *chunks.shape[1:]))
    carried = candidates.carried(paths, chunks)
    off = None if carried is None else carried[:, None]
    actions = accelerate_along(robot, repeated, positions, candidates.delays, candidates.choices.merging, off).actions
    return Options(actions, positions, warp_lengths(positions), carried, paths)
