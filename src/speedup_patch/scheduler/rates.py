"""The trained scheduler: argmax over rates of Q(o, A^k), whatever computes Q."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from speedup_patch.acceleration import accelerate
from speedup_patch.relabel import Rates
from speedup_patch.scheduler.inputs import CriticInputs

QFunction = Callable[
    [Float[np.ndarray, "N O"], Float[np.ndarray, "N l A"], Int[np.ndarray, " N"]], Float[np.ndarray, " N"]
]
"""Q of N normalised observations and chunks, float32; chunks are padded with zeros to the longest, int32 lengths."""

ROWS_AT_ONCE = 4096


class LearnedRates:
    """A RateChooser: the rate with the largest Q."""

    def __init__(self, q: QFunction, inputs: CriticInputs, rates: Rates, longest: int) -> None:
        self.q = q
        self.inputs = inputs
        self.rates = rates
        self.longest = longest

    def q_values(
        self, observations: Float[np.ndarray, "B O"], chunks: Float[np.ndarray, "B n A"]
    ) -> Float[np.ndarray, "B R"]:
        """Q of every rate for every chunk."""
        warps = self.rates.warps(chunks.shape[1])
        shortened = [accelerate(self.inputs.robot, chunks, warp, self.rates.rotations).actions for warp in warps]
        return self.q_of_shortened(observations, shortened)

    def q_of_shortened(
        self, observations: Float[np.ndarray, "B O"], shortened: list[Float[np.ndarray, "B _ A"]]
    ) -> Float[np.ndarray, "B R"]:
        """Q(o, A^k) of chunks that are already shortened, one entry per rate; all rates go through Q together."""
        count, size = len(observations), shortened[0].shape[2]
        lengths = np.array([part.shape[1] for part in shortened], dtype=np.int32)
        padded = np.zeros((count, len(shortened), self.longest, size))
        for r, part in enumerate(shortened):
            padded[:, r, : lengths[r]] = part
        rows = self.inputs.encode_chunks(observations, padded)
        rows *= (np.arange(self.longest) < lengths[:, None])[..., None]
        rows = rows.reshape(-1, self.longest, size)
        encoded = np.repeat(self.inputs.encode_observations(observations), len(shortened), axis=0)
        every = np.tile(lengths, count)
        parts = [slice(first, first + ROWS_AT_ONCE) for first in range(0, len(rows), ROWS_AT_ONCE)]
        values = [self.q(encoded[part], rows[part], every[part]) for part in parts]
        return np.concatenate(values).reshape(count, len(shortened)).astype(np.float64)

    def choose(
        self, observations: Float[np.ndarray, "B O"], chunks: Float[np.ndarray, "B n A"]
    ) -> Float[np.ndarray, " B"]:
        """The rate of the largest Q for every chunk; a Q that is not a number is an error, never a choice."""
        values = self.q_values(observations, chunks)
        if not np.isfinite(values).all():
            raise ValueError(f"Q is not finite: {values[~np.isfinite(values).all(axis=1)][0]}")
        return np.array(self.rates.values)[values.argmax(axis=1)]
