"""A warp: the positions in a chunk at which commands are taken."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from speedup_patch.errors import InputError

Tail = Literal["keep", "drop"]
"""What happens to the n mod k actions left over: kept as a short last group, or dropped as in the paper."""


class GripperDelays(NamedTuple):
    """How many control steps a gripper's answer comes later than the arm's, when it opens and when it closes, and the
    command that closes it."""

    opening: float
    closing: float
    closed: float


Delays = Mapping[int, GripperDelays | float]
"""Per action that is read ahead, how much later it is answered: a gripper's; or, for a target, how many control steps
what it drives is behind it."""


@dataclass(frozen=True, eq=False)
class Warp:
    """Positions 0 < s_1 < s_2 < ... <= n: the j-th executed command stands for the original motion up to s_j.

    Position i means "after the i-th original action", so position n is the end of the chunk.
    """

    positions: Float[np.ndarray, " l"]
    original: int
    """n, the number of actions in the chunk this warp is for."""
    delays: Delays = field(default_factory=lambda: MappingProxyType({}))
    """Actions that are read ahead, so that what they drive keeps the phase with the chunk that it has at rate 1."""
    carried: Float[np.ndarray, " A"] | None = None
    """Commanded motion that the arm's momentum makes beside the chunk's path: taken off the executed commands."""
    path: Float[np.ndarray, "m X"] | None = None
    """The features that were foreseen for the chunk at rate 1, the moment before it and the present first; None where
    nobody asked."""

    def __post_init__(self) -> None:
        steps = np.diff(self.positions, prepend=0.0)
        if len(self.positions) == 0 or (steps <= 0).any() or self.positions[-1] > self.original + 1e-9:
            raise InputError(
                f"a warp over {self.original} actions needs increasing positions in (0, {self.original}], "
                f"got {self.positions}"
            )

    def __len__(self) -> int:
        return len(self.positions)

    @cached_property
    def rate(self) -> float:
        """Original actions done per command sent."""
        return float(self.positions[-1]) / len(self.positions)


def uniform_warp(original: int, rate: float, tail: Tail = "keep") -> Warp:
    """One rate for the whole chunk: s_j = j * rate, and with ``tail="keep"`` a last group that reaches the end."""
    if not 1.0 <= rate <= original:
        raise InputError(f"a rate must lie between 1 and the chunk length {original}, not {rate}")
    whole = int(np.floor(original / rate + 1e-9))
    positions = np.arange(1, whole + 1) * float(rate)
    if original - positions[-1] < 1e-6:
        positions[-1] = original
    elif tail == "keep":
        positions = np.append(positions, float(original))
    return Warp(positions, original)


def cap_rate(warp: Warp, fastest: float) -> Warp:
    """The same motion with no moment faster than ``fastest``; windows that are slower already keep their pace."""
    windows = np.diff(warp.positions, prepend=0.0)
    if (windows <= fastest + 1e-9).all():
        return warp
    ends = np.cumsum(np.maximum(windows / fastest, 1.0))
    times = np.arange(1, int(np.ceil(ends[-1] - 1e-9)) + 1)
    if len(times) >= warp.original:  # a short last window counts as a whole step: nothing is left to gain
        return replace(warp, positions=np.arange(1.0, warp.original + 1))
    positions = np.interp(times, np.concatenate([[0.0], ends]), np.concatenate([[0.0], warp.positions]))
    return replace(warp, positions=positions)
